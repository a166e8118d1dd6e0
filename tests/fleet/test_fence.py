"""A cell that NATS has not heard of for too long: what it owned may be another cell's by now."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crawl_platform.clock import ManualClock
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import OwnershipLostError
from crawl_platform.fleet.cell import FENCE_MARGIN, Cell
from crawl_platform.frontier.kv import MemoryKV
from crawl_platform.settings import Identity, Settings
from crawl_platform.testing.builders import tiny_lake
from tests.fleet.worker_cell import VirtualCell, virtual_cell


class Reachable:
    """An exchange that takes every heartbeat; nothing else is asked of it here."""

    async def put(self, bucket: str, key: str, value: bytes) -> int:
        return 1


@pytest_asyncio.fixture
async def cell(tmp_path: Path) -> AsyncIterator[tuple[Cell, ManualClock]]:
    settings = Settings(home=str(tmp_path), identity=Identity(contact="me@example.org"))
    tiny_lake(settings.lake_root)
    kv, clock = MemoryKV(), ManualClock()
    made = Cell(
        "cell-0",
        settings,
        shards=frozenset({0}),
        n_shards=1,
        kv=kv,
        outbox=Outbox(kv, "incarnation"),
        exchange=Reachable(),  # type: ignore[arg-type]
        clock=clock,
        faults=Faults(),
    )
    yield made, clock
    await made._client.close()
    await made._dns.close()


async def test_a_cell_out_of_contact_sends_no_request_after_the_limit(
    cell: tuple[Cell, ManualClock],
) -> None:
    made, clock = cell
    limit = Settings(home="").fleet.silence_limit - Settings(home="").fetch.total_timeout - FENCE_MARGIN

    clock.advance(limit)
    made._check_fence()
    clock.advance(1.0)

    with pytest.raises(OwnershipLostError):
        made._check_fence()


async def test_contact_that_comes_back_after_the_limit_does_not_open_the_fence_again(
    cell: tuple[Cell, ManualClock],
) -> None:
    made, clock = cell
    clock.advance(1_000.0)  # nothing was to be fetched meanwhile; another cell has taken its addresses

    with pytest.raises(OwnershipLostError):
        await asyncio.wait_for(made._beat(), 1.0)


# what the fence keeps in


async def out_of_contact(cell: VirtualCell) -> None:
    """It has stood still (SIGSTOP, a machine asleep) while pages were due, and goes on before it has beaten."""
    await cell.run(2.0)
    cell.wire.requests.clear()
    cell.clock.advance(10_000.0)
    cell.wire.land()


async def test_a_cell_that_stood_still_for_too_long_writes_no_request(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}) as cell:
        await out_of_contact(cell)

        with pytest.raises(OwnershipLostError):
            await cell.settle()
        assert cell.wire.requests == []


async def test_ablation_without_the_fence_it_asks_hosts_that_may_be_anothers(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}) as cell:
        cell.made._worker._p.fence = lambda: None
        await out_of_contact(cell)

        await cell.settle()

        assert cell.wire.requests != []
