"""Blocking work (DuckDB, Delta, the exchange's client) beside the event loop, in a bounded number of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crawl_platform.api.problems import Problem

T = TypeVar("T")


class Threads:
    def __init__(self, name: str, most: int, waiting: int) -> None:
        """`most` calls run at a time and `waiting` more may wait; what comes on top is turned away (503)."""
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._room = most + waiting
        self._held = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises `Problem` when too many wait already."""
        if self._held >= self._room:
            raise Problem(503, "busy", "Too many such calls are waiting: come back.", {"Retry-After": "2"})
        self._held += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._done)
        return await future

    def _done(self, _: object) -> None:
        self._held -= 1

    def close(self) -> None:
        """Wait for what runs; what waits is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
