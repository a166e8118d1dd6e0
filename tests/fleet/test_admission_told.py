"""What is told of paces: to whoever asks about a host, to the heartbeat, and to the cell that takes an address over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawl_platform.admission.clocks import Clocks
from crawl_platform.admission.pace import Pace
from crawl_platform.admission.politeness import Gates
from crawl_platform.clock import ManualClock
from crawl_platform.fleet.addresses import AddressBook
from crawl_platform.fleet.explain import _pace
from crawl_platform.frontier.records import HostRecord
from crawl_platform.settings import HostRule, Politeness, Settings
from tests.fleet.cells import MemoryExchange
from tests.fleet.worker_cell import Answer, Request, plain, virtual_cell

ADDRESS = "192.0.2.1"


@pytest.mark.parametrize(
    ("record", "delay", "slowed_down"),
    [
        (HostRecord(), 2.0, None),
        (HostRecord(crawl_delay=5.0), 5.0, None),
        (HostRecord(pace=Pace(delay=6.0)), 6.0, 3.0),
        (HostRecord(pace=Pace(delay=1e9)), 60.0, 30.0),
    ],
)
def test_explain_tells_the_delay_in_force(
    record: HostRecord, delay: float, slowed_down: float | None
) -> None:
    settings = Settings(home="x", hosts=(HostRule("a.test", politeness={"host_delay": 2}),))

    told = _pace(cast(Any, SimpleNamespace(settings=settings)), "a.test", record)

    assert told == {"delay": delay, "slowed_down": slowed_down}


async def test_the_heartbeat_tells_how_many_hosts_are_slowed_and_by_how_much(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return Answer(429) if request.host == "b.test" else plain(request)

    hosts = {"a.test": "192.0.2.1", "b.test": "192.0.2.2"}
    async with virtual_cell(tmp_path, hosts, script, pages=5) as cell:
        await cell.run(3)
        cell.made._telemetry.report(cell.frontier, cell.made._outbox)
        told = cell.made._telemetry.summary(cell.frontier)

    assert (told["slowed_hosts"], told["slowed_addresses"], told["longest_delay"]) == (1, 0, 2.0)


async def test_an_address_that_is_handed_over_keeps_its_delay() -> None:
    clock, settings = ManualClock(), Politeness(address_delay=1.0)
    exchange = MemoryExchange(clock)
    books = []
    for n in range(2):
        gates = Gates(settings, clock.boottime(), clocks=Clocks(settings, cell=n, cells=2))
        book = AddressBook(f"cell-{n}", cast(Any, exchange), gates, clock, 900.0, lambda _: None)
        await book.start()
        books.append(book)
    one, two = books
    assert await one.ask(ADDRESS)
    one.gates.paces.recall(ADDRESS, Pace(delay=4.0))
    clock.advance(1.0)
    assert one.gates.take_address(ADDRESS, clock.boottime())
    one.gates.end("a.test", ADDRESS, clock.boottime(), 0.0)
    one.ended(ADDRESS)

    assert not await two.ask(ADDRESS)
    two.gates.wait_for_address(ADDRESS, "b.test")
    await one.look()
    await two.look()

    assert (one.holds(ADDRESS), two.holds(ADDRESS)) == (False, True)
    assert two.gates.paces.delay(ADDRESS) == 4.0
    assert two.gates.address_ready_at(ADDRESS) == clock.boottime() + 4.0
