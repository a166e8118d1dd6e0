"""Several cells in one virtual time that share addresses: a web for all of them, an exchange in memory between them.

async with virtual_cells(tmp_path, 2, {"a.test": "192.0.2.1", "b.test": "192.0.2.1"}) as cells:
    requests = await cells.run(60)
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from crawl_platform.clock import ManualClock
from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.addresses import LOOK
from crawl_platform.frontier.kv import MemoryKV
from crawl_platform.settings import Fleet, Identity, Settings
from crawl_platform.testing.builders import tiny_lake
from tests.fleet.worker_cell import Request, Script, VirtualCell, Wire, plain


class MemoryExchange:
    """Buckets with compare-and-swap, and bells: what `fleet.addresses` uses of NATS."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.entries: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.heard: defaultdict[str, list[Callable[[str, bytes], None]]] = defaultdict(list)
        self.alive: set[str] = set()
        """Cells whose heartbeat goes on."""
        self.connected = True
        self.revisions = 0
        self._rng = random.Random(7)
        self.calls = 0

    async def get(self, bucket: str, key: str) -> tuple[bytes, int] | None:
        await self._used()
        if bucket == "cells" and key in self.alive:
            return b"", int(self.clock.boottime() // 2)
        return self.entries.get((bucket, key))

    async def swap(self, bucket: str, key: str, value: bytes, revision: int) -> int:
        await self._used()
        if self.entries.get((bucket, key), (b"", 0))[1] != revision:
            raise OwnershipLostError(f"{bucket}/{key} was taken by somebody else")
        self.revisions += 1
        self.entries[bucket, key] = value, self.revisions
        return self.revisions

    async def ring(self, subject: str, data: bytes = b"") -> None:
        await self._used()
        for callback in self.heard[subject]:
            callback(subject, data)

    async def on_ring(self, subject: str, callback: Callable[[str, bytes], None]) -> None:
        self.heard[subject].append(callback)

    async def _used(self) -> None:
        self.calls += 1
        for _ in range(self._rng.randint(1, 4)):
            await asyncio.sleep(0)
        if not self.connected:
            raise ExchangeError("NATS is away")


class VirtualCells:
    def __init__(self, cells: list[VirtualCell], exchange: MemoryExchange, clock: ManualClock) -> None:
        self.cells = cells
        self.exchange = exchange
        self.clock = clock

    @property
    def requests(self) -> list[Request]:
        """What all servers saw, in the order of starts."""
        return sorted((r for cell in self.cells for r in cell.wire.requests), key=lambda r: r.start)

    async def run(self, seconds: float) -> list[Request]:
        """Crawl for that long; returns the requests that were written meanwhile."""
        begin = self.clock.boottime()
        until = begin + seconds
        await self._settle()
        while (now := self.clock.boottime()) < until:
            due = [until, now + LOOK]
            for cell in self.running:
                due += [at for at, _ in cell.wire.flying]
                due += [at] if (at := cell.frontier.agenda.next_at()) is not None else []
            self.clock.advance(max(min(due) - now, 0.001))
            for cell in self.running:
                cell.made._contact_at = self.clock.boottime()
                cell.wire.land()
            await self._settle()
        return [r for r in self.requests if r.start >= begin]

    @property
    def running(self) -> list[VirtualCell]:
        return [cell for cell in self.cells if cell.name in self.exchange.alive]

    async def _settle(self) -> None:
        for _ in range(8):
            for cell in self.running:
                await cell.turn()
        for cell in self.running:
            if cell.made._failure.done():
                cell.made._failure.result()

    async def die(self, number: int) -> None:
        """kill -9 of a cell that is not started again."""
        cell = self.cells[number]
        self.exchange.alive.discard(cell.name)
        self._unhear(cell.name)
        await cell.kill()

    async def restart(self, number: int) -> None:
        """kill -9 of a cell, and a new start on the same store."""
        await self.die(number)
        await self.cells[number].made._addresses.start()
        self.exchange.alive.add(self.cells[number].name)

    def _unhear(self, name: str) -> None:
        for subject in [subject for subject in self.exchange.heard if subject.endswith(f".{name}")]:
            del self.exchange.heard[subject]


@asynccontextmanager
async def virtual_cells(
    home: Path,
    number: int,
    addresses: dict[str, str],
    script: Script = plain,
    pages: int = 50,
    of_cell: Callable[[int, str], int] | None = None,
    **sections: Any,
) -> AsyncIterator[VirtualCells]:
    """`number` cells; the hosts of `addresses` are dealt out in turn, or as `of_cell` (index, host) says."""
    settings = Settings(home=str(home), identity=Identity(contact="me@example.org"))
    settings = msgspec.structs.replace(settings, **{"fleet": Fleet(cells=number)} | sections)
    settings.validate()
    tiny_lake(settings.lake_root)
    clock = ManualClock()
    exchange = MemoryExchange(clock)
    owner = of_cell or (lambda index, _: index % number)
    cells = []
    for n in range(number):
        seeds = [host for index, host in enumerate(addresses) if owner(index, host) == n]
        cell = VirtualCell(
            home, Wire(clock, addresses, script), settings, MemoryKV(), f"cell-{n}", exchange, seeds
        )
        cell.discover(*_urls(seeds, pages))
        await cell.made._addresses.start()
        exchange.alive.add(cell.name)
        cells.append(cell)
    try:
        yield VirtualCells(cells, exchange, clock)
    finally:
        for cell in cells:
            workers = list(cell.made._workers)
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await cell.close()


def _urls(hosts: Iterable[str], pages: int) -> list[str]:
    return [f"https://{host}/{n}" for n in range(pages) for host in hosts]
