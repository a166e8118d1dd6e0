"""What has come to a table between two of its versions: the data files that hold new rows, from the log alone.

Files that upkeep has written anew hold no news. Where rows have left, or the log doesn't reach back, nothing is told
of what has come: the table has to be read whole.
"""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from crawl_platform.errors import LakeError
from crawl_platform.lake.delta import log_entry
from crawl_platform.lake.history import oldest_readable
from crawl_platform.lake.lake import Lake


class Mark(NamedTuple):
    """A version of a table, and a digest of its log entry: another lake's version of that number isn't it."""

    version: int
    digest: str


class Changes(NamedTuple):
    """Data files to read, in the order in which they came. `reason`: why these are all files of the version; empty:
    they hold only what is new."""

    files: list[Path]
    reason: str = ""


def mark(lake: Lake, name: str, version: int) -> Mark:
    """The mark of a version; its digest is empty where the log entry is gone."""
    path = lake.path(name) / "_delta_log" / f"{version:020d}.json"
    try:
        return Mark(version, xxh3_64_hexdigest(path.read_bytes()))
    except FileNotFoundError:
        return Mark(version, "")


def changes(lake: Lake, name: str, since: Mark | None, until: int) -> Changes:
    """What version `until` has that `since` had not; None: nothing is known yet."""
    if since is None:
        return whole(lake, name, until, "there is no earlier state")
    if since.version > until or not since.digest or mark(lake, name, since.version) != since:
        return whole(lake, name, until, f"the log of {name} doesn't lead from version {since.version}")
    if since.version < until and since.version < oldest_readable(lake.root).get(name, 0):
        return whole(lake, name, until, f"{name} can't be read from version {since.version} on any more")
    files: list[Path] = []
    for version in range(since.version + 1, until + 1):
        try:
            actions = log_entry(lake.path(name), version)
        except LakeError:
            return whole(lake, name, until, f"the log of {name} has no version {version} any more")
        if any(action["remove"]["dataChange"] for action in actions if "remove" in action):
            return whole(lake, name, until, f"rows have left {name} with version {version}")
        added = (action["add"] for action in actions if "add" in action)
        files += [lake.path(name) / str(add["path"]) for add in added if add["dataChange"]]
    return Changes(files)


def whole(lake: Lake, name: str, version: int, reason: str) -> Changes:
    """All files of a version, in the order in which they were written."""
    files = pa.table(lake.delta(name, version).get_add_actions(flatten=True))
    named = zip(
        files["modification_time"].cast(pa.int64()).to_pylist(), files["path"].to_pylist(), strict=True
    )
    return Changes([lake.path(name) / path for _, path in sorted(named)], reason)
