"""A lease that one process holds at a time, in the bucket `leases`: who may commit to the lake.

The holder renews it; whoever has watched it stand still for its whole life may take it by compare-and-swap.
Clocks are never compared between machines: standing still is measured by the watcher's own boottime. A
holder that was taken over is refused by Delta as well (`commit.committer`). A holder of the same home that is known to
have ended need not be watched (`Predecessor`).
"""

import asyncio
import fcntl
from pathlib import Path
from typing import Self

from crawl_platform.clock import Clock
from crawl_platform.errors import OwnershipLostError
from crawl_platform.fleet.exchange import Exchange


class Predecessor:
    """Who held the lease last from this home. Its lock on `path` goes with its process, however that ends: whoever
    gets the lock knows that it is dead, and its lease free."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+")
        self.ended = ""
        """The holder, empty if it may be alive."""
        self._ours = self._lock()
        if self._ours:
            self._file.seek(0)
            self.ended = self._file.read()

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def succeeded_by(self, holder: str) -> None:
        """`holder`, of this process, has the lease now."""
        if self._ours:
            self._file.truncate(0)
            self._file.write(holder)
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Lease:
    def __init__(self, exchange: Exchange, key: str, holder: str, clock: Clock, life: float = 10.0) -> None:
        self._exchange = exchange
        self._key = key
        self._holder = holder
        self._clock = clock
        self._life = life
        self._revision = 0
        self._renewed_at = 0.0

    async def acquire(self, ended: str = "") -> None:
        """Wait until the lease is ours. What the holder `ended` had is free: it is known to be dead."""
        seen, since = -1, self._clock.boottime()
        while True:
            entry = await self._exchange.get("leases", self._key)
            revision = entry[1] if entry is not None else 0
            if revision != seen:
                seen, since = revision, self._clock.boottime()
            released = entry is None or entry[0] in (b"", ended.encode())
            if released or self._clock.boottime() - since >= self._life:
                try:
                    await self._write(revision)
                    return
                except OwnershipLostError:
                    seen = -1
            await asyncio.sleep(min(0.5, self._life / 4))

    async def renew(self) -> None:
        """Renew if a third of its life has passed. Raises `OwnershipLostError` if it was taken."""
        if self._clock.boottime() - self._renewed_at >= self._life / 3:
            await self._write(self._revision)

    async def release(self) -> None:
        """Let the next holder in at once."""
        await self._exchange.swap("leases", self._key, b"", self._revision)

    async def _write(self, revision: int) -> None:
        at = self._clock.boottime()
        self._revision = await self._exchange.swap("leases", self._key, self._holder.encode(), revision)
        self._renewed_at = at
