"""How the tasks of a process are brought to their end."""

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN = 0.5
"""Seconds until a task that goes on is cancelled once more."""


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until all have ended, whatever they ended with.

    Before Python 3.12 `asyncio.wait_for` loses a cancellation that comes in the same turn as what it waits for. A loop
    around it then goes on for ever, and a cell that was to die would hang with its shards, looking alive.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN)
