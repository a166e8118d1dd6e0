"""Upkeep of the tables' logs.

A reader replays the log from its last checkpoint; 200 entries after it already triple the time to open a
table. Writers checkpoint by themselves every 100 commits; `checkpoint` does so earlier and from a process
that nobody waits for. Old log entries go with the history that they describe (`upkeep/vacuum.py`).
"""

import msgspec

from crawl_platform.lake.lake import Lake

CHECKPOINT_AFTER = 50
"""Log entries: half of what a writer lets pass, so that a writer's own checkpoint is the exception."""


def log_length(lake: Lake, name: str) -> int:
    """Log entries that a reader of the table replays after the last checkpoint."""
    pointer = lake.path(name) / "_delta_log" / "_last_checkpoint"
    version = lake.version(name)
    try:
        checkpoint = msgspec.json.decode(pointer.read_bytes())["version"]
    except FileNotFoundError:
        return version + 1
    return version - int(checkpoint)


def checkpoint(lake: Lake, name: str, after: int = CHECKPOINT_AFTER) -> bool:
    """Write a checkpoint if at least `after` log entries follow the last; returns whether it did.

    Safe beside a writer: a checkpoint only restates what the log says.
    """
    if log_length(lake, name) < after:
        return False
    lake.delta(name).create_checkpoint()
    return True
