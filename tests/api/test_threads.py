"""Blocking work is bounded: what is too much is turned away at once, and the rest goes on."""

import asyncio
import threading

import pytest

from crawl_platform.api.problems import Problem
from crawl_platform.api.threads import Threads


async def test_only_so_many_run_at_a_time_and_so_many_wait() -> None:
    threads, gate = Threads("t", 2, 1), threading.Event()
    running = threading.Semaphore(0)

    def work() -> str:
        running.release()
        gate.wait(30)
        return "done"

    held = [asyncio.create_task(threads.run(work)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await threads.run(work)
    gate.set()

    assert (refused.value.status, refused.value.kind) == (503, "busy")
    assert await asyncio.gather(*held) == ["done"] * 3
    assert await threads.run(lambda: "again") == "again"
    threads.close()


async def test_work_that_fails_gives_its_place_back() -> None:
    threads = Threads("t", 1, 0)

    def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await threads.run(fail)
    threads.close()
