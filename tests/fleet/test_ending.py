"""Tasks end when they are told to, also those that miss it once."""

import asyncio
import sys

import pytest

from crawl_platform.fleet import ending
from crawl_platform.fleet.ending import cancel_all


class Loop:
    """A task as the cell's are; `misses` cancellations are lost on it, as `wait_for` loses them."""

    def __init__(self, misses: int) -> None:
        self.misses = misses

    async def run(self) -> None:
        while True:
            try:
                await asyncio.sleep(60.0)
            except asyncio.CancelledError:
                if not self.misses:
                    raise
                self.misses -= 1


async def fails() -> None:
    raise ValueError("of its own")


async def test_all_end_however_often_they_have_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "AGAIN", 0.01)
    tasks = [asyncio.create_task(Loop(misses).run()) for misses in (0, 1, 3)]
    failing = asyncio.create_task(fails())
    await asyncio.sleep(0)

    async with asyncio.timeout(5.0):
        await cancel_all([*tasks, failing])

    assert all(task.cancelled() for task in tasks)
    assert isinstance(failing.exception(), ValueError)


async def test_ablation_told_once_a_task_that_misses_it_goes_on() -> None:
    task = asyncio.create_task(Loop(1).run())
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait({task}, timeout=0.1)

    assert not task.done()
    await cancel_all([task])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="mended in Python 3.12")
async def test_python_3_11_loses_a_cancellation_that_meets_what_was_waited_for() -> None:
    """The reason for all this."""
    event = asyncio.Event()

    async def wait() -> str:
        await asyncio.wait_for(event.wait(), 60.0)
        return "went on"

    task = asyncio.create_task(wait())
    await asyncio.sleep(0.01)
    event.set()
    await asyncio.sleep(0)  # the event's waiter ends in this turn, `wait_for` would hear of it in the next
    task.cancel()

    assert await task == "went on"
