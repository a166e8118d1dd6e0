"""A real cell in virtual time, without a wire: its client answers from a script, and what was asked is written down.

async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}, script) as cell:
    await cell.run(60)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from crawl_platform.admission.hosts import SEED
from crawl_platform.clock import ManualClock
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import SiteError
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome, of_status
from crawl_platform.fleet.cell import Cell
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.plan import Planner
from crawl_platform.settings import Identity, Settings
from crawl_platform.testing.builders import tiny_lake

TOOK = 0.1
"""Seconds that an answer takes unless the script says otherwise."""
TURNS = 8
"""Turns of the loop in which whatever can happen at one moment has happened."""


@dataclass
class Request:
    """One request as its server saw it: CLOCK_BOOTTIME seconds. `start` is that of its write."""

    url: str
    host: str
    address: str
    start: float
    end: float = float("inf")
    headers: dict[str, str] = field(default_factory=dict)
    proxy: str = ""


@dataclass
class Answer:
    status: int | None = 200
    took: float = TOOK
    headers: dict[str, str] = field(default_factory=dict)
    outcome: Outcome | None = None
    proxy_failed: bool = False
    body: bytes = b""


Script = Callable[[Request], Answer]


def plain(request: Request) -> Answer:
    """Everything is there, but no robots.txt."""
    return Answer(404 if request.url.endswith("/robots.txt") else 200)


@dataclass
class Wire:
    """The client and the resolver of a cell."""

    clock: ManualClock
    addresses: dict[str, str]
    script: Script
    requests: list[Request] = field(default_factory=list)
    flying: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    async def address(self, host: str) -> str:
        await asyncio.sleep(0)
        if host not in self.addresses:
            raise SiteError(Outcome.NO_SUCH_HOST, host)
        return self.addresses[host]

    async def get(
        self, url: str, host: str, address: str, *, on_write: Callable[[], None], headers: dict[str, str],
        cap: int, proxy: str = "", **_options: Any,
    ) -> Response:  # fmt: skip
        await asyncio.sleep(0)
        request = Request(url, host, address, self.clock.boottime(), headers=headers, proxy=proxy)
        answer = self.script(request)
        if not answer.proxy_failed:
            on_write()
            self.requests.append(request)
        at = self.clock.now()
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.flying.append((request.start + answer.took, landed))
        await landed
        request.end = self.clock.boottime()
        outcome = answer.outcome or of_status(answer.status or 0)
        return Response(
            outcome, status=answer.status, headers=answer.headers, started_at=at, duration=answer.took,
            sent=not answer.proxy_failed, address=address, proxy_failed=answer.proxy_failed,
            body=answer.body,
        )  # fmt: skip

    def pinned(self, host: str) -> str | None:
        return self.addresses.get(host)

    def expect(self, host: str, seconds: float | None) -> None:
        """The client hears when a host is asked again."""

    def failed(self, host: str, address: str) -> None:
        """The resolver hears that nobody was met there."""

    async def close(self) -> None:
        for _, landed in self.flying:
            landed.cancel()

    def land(self) -> None:
        now = self.clock.boottime()
        due = [one for one in self.flying if one[0] <= now]
        self.flying = [one for one in self.flying if one[0] > now]
        for _, landed in due:
            if not landed.done():
                landed.set_result(None)


class VirtualCell:
    def __init__(
        self,
        home: Path,
        wire: Wire,
        settings: Settings,
        kv: OrderedKV,
        name: str = "cell-0",
        exchange: Any = None,
        seeds: Sequence[str] | None = None,
    ) -> None:
        """`exchange`: one that is shared with other cells. `seeds`: its hosts; all that the wire knows if None."""
        self.wire = wire
        self.name = name
        self.exchange = exchange
        self.seeds = tuple(wire.addresses) if seeds is None else seeds
        self.clock = wire.clock
        self.settings = settings
        self.kv = kv
        self.home = home
        self.made = self._make()

    def _make(self) -> Cell:
        made = Cell(
            self.name,
            self.settings,
            shards=frozenset({0}),
            n_shards=1,
            kv=self.kv,
            outbox=Outbox(self.kv, "incarnation"),
            exchange=self.exchange,
            clock=self.clock,
            faults=Faults(),
        )
        parts = made._worker._p
        self._closed = [made._client, made._dns]
        parts.client = parts.dns = self.wire  # type: ignore[assignment]
        for host in self.seeds:
            made.frontier.book.set(host, SEED)
        made.frontier.load(self.clock.now(), self.clock.boottime())
        return made

    @property
    def frontier(self) -> Any:
        return self.made.frontier

    def discover(self, *urls: str) -> None:
        planner = Planner(self.frontier, self.clock.now())
        for url in urls:
            planner.discover(Found(url, 0, 0.5))
        plan = planner.finish()
        self.kv.write(plan.batch)
        absorb(self.frontier, plan, self.clock.now(), self.clock.boottime())

    async def settle(self) -> None:
        """Let everything happen that can happen at this moment."""
        for _ in range(TURNS):
            await self.turn()
        if self.made._failure.done():
            self.made._failure.result()

    async def turn(self) -> None:
        """One turn of the loop."""
        self.made._claim_all()
        await asyncio.sleep(0)
        if self.exchange is not None:
            await self.made._addresses.look()

    async def run(self, seconds: float) -> list[Request]:
        """Crawl for that long; returns the requests that were written meanwhile."""
        before, until = len(self.wire.requests), self.clock.boottime() + seconds
        await self.settle()
        while (now := self.clock.boottime()) < until:
            due = [at for at, _ in self.wire.flying]
            due += [at] if (at := self.frontier.agenda.next_at()) is not None else []
            self.clock.advance(max(min([until, *due]) - now, 0.001))
            self.made._contact_at = self.clock.boottime()  # NATS hears of us all the time
            self.wire.land()
            await self.settle()
        return self.wire.requests[before:]

    async def kill(self) -> None:
        """kill -9, and a new start on the same store."""
        workers = list(self.made._workers)
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for request in self.wire.requests:
            request.end = min(request.end, self.clock.boottime())
        self.wire.flying.clear()
        await self.close()
        self.made = self._make()

    async def close(self) -> None:
        for part in self._closed:
            await part.close()

    def rows(self, table: str, **values: object) -> list[dict[str, Any]]:
        """Rows of the open epoch that have these values."""
        buffered = self.made._bulk.open.rows
        taken = buffered.take()
        for name, rows in taken.items():
            for row in rows:
                buffered.add(name, row)
        return [r for r in taken.get(table, []) if all(r.get(k) == v for k, v in values.items())]


@asynccontextmanager
async def virtual_cell(
    home: Path, addresses: dict[str, str], script: Script = plain, pages: int = 50, **sections: Any
) -> AsyncIterator[VirtualCell]:
    """A cell whose seed hosts are those of `addresses`, with some pages each."""
    settings = Settings(home=str(home), identity=Identity(contact="me@example.org"))
    settings = msgspec.structs.replace(settings, **sections)
    settings.validate()
    tiny_lake(settings.lake_root)
    cell = VirtualCell(home, Wire(ManualClock(), addresses, script), settings, MemoryKV())
    cell.discover(*(f"https://{host}/{n}" for n in range(pages) for host in addresses))
    try:
        yield cell
    finally:
        workers = list(cell.made._workers)
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await cell.close()


def gaps(requests: list[Request], by: str = "host") -> dict[str, list[float]]:
    """Seconds from the end of each request to the start of the next, by host or by address."""
    found: dict[str, list[float]] = {}
    last: dict[str, float] = {}
    for request in sorted(requests, key=lambda r: r.start):
        key = getattr(request, by)
        if key in last:
            found.setdefault(key, []).append(request.start - last[key])
        last[key] = request.end
    return found
