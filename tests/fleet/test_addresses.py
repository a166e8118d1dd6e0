"""Addresses whose hosts live in several cells, in virtual time: what their servers see, whatever happens to us."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawl_platform.admission.politeness import Gates
from crawl_platform.fleet.addresses import AddressBook, AddressHolder
from crawl_platform.settings import Fetch, Fleet, Politeness
from tests.fleet.cells import MemoryExchange, VirtualCells, virtual_cells
from tests.fleet.worker_cell import TOOK, Answer, Request, gaps

ADDRESS = "192.0.2.1"
POLITE = Politeness(host_delay=1.0, address_delay=1.0)
SLACK = 1e-6
CAPACITY = 1.0 / (1.0 + TOOK)
"""Requests per second at an address."""


def tenants(number: int, addresses: int = 1) -> dict[str, str]:
    return {f"h{n}.test": f"192.0.2.{1 + n % addresses}" for n in range(number)}


def first(of_first: int) -> Callable[[int, str], int]:
    """The first so many hosts live in cell 0, the others in cell 1."""
    return lambda index, _: int(index >= of_first)


def of_cell(requests: list[Request], owner: Callable[[int, str], int]) -> Counter[int]:
    return Counter(owner(int(r.host.removeprefix("h").removesuffix(".test")), r.host) for r in requests)


def least_gap(requests: list[Request]) -> float:
    return min(gap for found in gaps(requests, "address").values() for gap in found)


# throughput and fairness


@pytest.mark.long
@pytest.mark.parametrize(
    ("here", "there"),
    [pytest.param(20, 20, marks=pytest.mark.long), pytest.param(24, 16, marks=pytest.mark.long), (30, 10)],
)
async def test_an_address_is_used_to_its_capacity_and_its_hosts_get_equal_shares(
    tmp_path: Path, here: int, there: int
) -> None:
    async with virtual_cells(
        tmp_path, 2, tenants(here + there), of_cell=first(here), politeness=POLITE
    ) as cells:
        await cells.run(10)
        requests = await cells.run(220)

    share = of_cell(requests, first(here))
    per_host = Counter(r.host for r in requests)
    assert least_gap(requests) >= 1.0 - SLACK
    assert len(requests) >= 0.97 * 220 * CAPACITY
    assert share[0] / here == pytest.approx(share[1] / there, rel=0.15)
    assert min(per_host.values()) >= 3  # of 5
    assert max(per_host.values()) <= 7


@pytest.mark.long
async def test_a_lonely_host_in_one_cell_has_its_turn_beside_many_in_another(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(41), of_cell=first(40), politeness=POLITE) as cells:
        requests = await cells.run(120)

    assert Counter(r.host for r in requests)["h40.test"] >= 8
    assert least_gap(requests) >= 1.0 - SLACK


@pytest.mark.long
async def test_five_cells_share_three_addresses(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 5, tenants(60, addresses=3), politeness=POLITE) as cells:
        await cells.run(10)
        requests = await cells.run(100)

    share = Counter(int(r.host.removeprefix("h").removesuffix(".test")) % 5 for r in requests)
    assert least_gap(requests) >= 1.0 - SLACK
    assert len(requests) >= 0.97 * 3 * 100 * CAPACITY
    assert max(share.values()) <= 1.5 * min(share.values())


@pytest.mark.long
async def test_an_address_that_one_cell_alone_uses_costs_nothing_after_the_first_request(
    tmp_path: Path,
) -> None:
    async with virtual_cells(tmp_path, 2, tenants(5), of_cell=first(5), politeness=POLITE) as cells:
        await cells.run(10)
        before = cells.exchange.calls
        await cells.run(60)

    assert cells.exchange.calls == before


@pytest.mark.long
async def test_a_cell_that_has_nothing_more_to_do_leaves_the_address_to_the_other(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(4), pages=3, of_cell=first(2), politeness=POLITE) as cells:
        cells.cells[1].discover(*(f"https://h2.test/more/{n}" for n in range(60)))
        await cells.run(25)
        requests = await cells.run(40)

    assert len(requests) >= 0.9 * 40 * CAPACITY, "turns of the cell that is done are no pauses"


# accidents


@pytest.mark.long
async def test_a_cell_that_is_started_again_owes_the_delay_and_the_others_go_on(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(20), politeness=POLITE) as cells:
        for turn in range(12):
            await cells.run(3.3)
            await cells.restart(turn % 2)
        requests = await cells.run(20)

    assert least_gap(cells.requests) >= 1.0 - SLACK
    assert min(of_cell(requests, lambda n, _: n % 2).values()) >= 5


@pytest.mark.long
async def test_a_restarted_cell_that_no_longer_needs_an_address_passes_it_on(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(2), of_cell=first(1), pages=2, politeness=POLITE) as cells:
        cells.cells[1].discover(*(f"https://h1.test/more/{n}" for n in range(40)))
        await cells.run(1.5)
        holder = holder_of(cells)
        await cells.run(12)
        await cells.restart(0)
        _give_to(cells.exchange, "cell-0")
        cells.cells[1].made._addresses._held.clear()
        requests = await cells.run(30)

    assert holder in ("cell-0", "cell-1")
    assert len(requests) >= 15
    assert least_gap(cells.requests) >= 1.0 - SLACK


async def test_the_addresses_of_a_dead_cell_are_taken_when_it_has_been_silent_for_t_dead(
    tmp_path: Path,
) -> None:
    sections: dict[str, Any] = {
        "fleet": Fleet(cells=2, silence_limit=100.0), "fetch": Fetch(total_timeout=10.0), "politeness": POLITE,
    }  # fmt: skip
    async with virtual_cells(tmp_path, 2, tenants(10), **sections) as cells:
        await cells.run(10)
        while holder_of(cells) != "cell-0":
            await cells.run(0.5)
        died = cells.clock.boottime()
        await cells.die(0)
        requests = await cells.run(140)

    assert requests != []
    assert requests[0].start - died >= 100.0, "not before it is certain"
    assert requests[0].start - died <= 110.0


@pytest.mark.long
async def test_without_nats_the_holder_goes_on_and_the_other_waits_its_turn(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(20), politeness=POLITE) as cells:
        await cells.run(10)
        cells.exchange.connected = False
        holder = int(holder_of(cells).removeprefix("cell-"))
        away = await cells.run(60)
        cells.exchange.connected = True
        back = await cells.run(40)

    assert set(of_cell(away, lambda n, _: n % 2)) == {holder}
    assert len(away) >= 0.95 * 60 * CAPACITY
    assert min(of_cell(back, lambda n, _: n % 2).values()) >= 10
    assert least_gap(cells.requests) >= 1.0 - SLACK


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_no_server_sees_two_cells_at_once_whatever_is_killed_and_whatever_gets_lost(
    tmp_path: Path, seed: int
) -> None:
    assert await stress(tmp_path, seed) == []


async def stress(home: Path, seed: int) -> list[str]:
    """Kills, lost bells and outages at random; returns what the addresses' servers have to complain of."""
    rng = random.Random(seed)

    def script(request: Request) -> Answer:
        return Answer(took=rng.choice([0.05, 0.4, 3.0]))

    async with virtual_cells(home, 3, tenants(24, addresses=2), script, politeness=POLITE) as cells:
        ring = cells.exchange.ring

        async def lossy(subject: str, data: bytes = b"") -> None:
            if rng.random() < 0.7:
                await ring(subject, data)

        cells.exchange.ring = lossy  # type: ignore[method-assign]
        for _ in range(25):
            await cells.run(rng.uniform(0.2, 5.0))
            match rng.choice(["kill", "kill", "nats", "nothing"]):
                case "kill":
                    await cells.restart(rng.randrange(3))
                case "nats":
                    cells.exchange.connected = not cells.exchange.connected
        cells.exchange.connected = True
        requests = await cells.run(60)
        found = [
            f"{gap:.3f} s"
            for gaps_ in gaps(cells.requests, "address").values()
            for gap in gaps_
            if gap < 1 - SLACK
        ]
        if len({r.host for r in requests}) < 20:
            found.append(f"only {len({r.host for r in requests})} hosts were asked in the end")
    return found


# ablations


@pytest.mark.parametrize(
    "what", ["whose it is", "what it still rests", "that others wait", "compare and swap"]
)
@pytest.mark.long
async def test_ablation_without_it_somebody_suffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def overwrite(self: MemoryExchange, bucket: str, key: str, value: bytes, revision: int) -> int:
        await self._used()
        self.entries[bucket, key] = value, 1
        return 1

    match what:
        case "whose it is":
            monkeypatch.setattr(AddressBook, "holds", lambda *_: True)
        case "what it still rests":
            monkeypatch.setattr(Gates, "hold_address", lambda *_: None)
            monkeypatch.setattr(Gates, "take_over_address", lambda *_: None)
        case "that others wait":
            monkeypatch.setattr(AddressBook, "_turn_is_over", lambda *_: False)
        case "compare and swap":
            monkeypatch.setattr(MemoryExchange, "swap", overwrite)

    assert await stress(tmp_path, 0) != []


# clocks with several slots


CDN = Politeness(host_delay=1.0, address_delay=1.0, front_ends="cdn.txt")


@pytest.mark.long
async def test_a_front_end_is_asked_at_its_rate_by_all_cells_together(tmp_path: Path) -> None:
    (tmp_path / "cdn.txt").write_text("192.0.2.0/24\n")
    hosts = tenants(60)
    async with virtual_cells(tmp_path, 2, hosts, politeness=CDN, script=lambda _: Answer(took=0.5)) as cells:
        await cells.run(10)
        before = cells.exchange.calls
        requests = await cells.run(60)

    begun = [r.start for r in requests]
    assert len(requests) >= 0.9 * 60 * 10.0
    assert all(later - earlier >= 1.6 - SLACK for earlier, later in zip(begun, begun[16:], strict=False))
    assert max(sum(r.start <= at < r.end for r in requests) for at in begun) <= 16
    assert min(gap for found in gaps(requests).values() for gap in found) >= 1.0 - SLACK, (
        "hosts have their own"
    )
    assert cells.exchange.calls == before, "each cell has a part of its own"


async def test_ablation_an_address_that_is_no_front_end_is_asked_one_by_one(tmp_path: Path) -> None:
    async with virtual_cells(tmp_path, 2, tenants(60), politeness=POLITE) as cells:
        requests = await cells.run(30)

    assert len(requests) <= 31


@pytest.mark.long
@pytest.mark.parametrize("cells_", [1, pytest.param(2, marks=pytest.mark.long), 5])
async def test_a_cap_holds_for_all_hosts_of_a_registrable_domain(tmp_path: Path, cells_: int) -> None:
    hosts = {f"w{n}.big.test": f"192.0.2.{1 + n}" for n in range(20)} | {"other.test": "192.0.2.200"}
    capped = Politeness(host_delay=1.0, address_delay=1.0, domain_rate=2.0, domain_in_flight=3)
    async with virtual_cells(tmp_path, cells_, hosts, pages=80, politeness=capped) as cells:
        await cells.run(10)
        requests = await cells.run(60)

    big = [r for r in requests if r.host != "other.test"]
    assert len(big) <= 60 * 2.0 + 3
    assert len(big) >= 0.85 * 60 * 2.0
    assert max(sum(r.start <= at.start < r.end for r in big) for at in big) <= 3
    # Of the 2 a second, its one cell has all, 4/3 (two of three slots) or 2/3: more than that its host has no use for.
    assert len(requests) - len(big) >= 60 * min(2.0 / 3, CAPACITY) - 3, "others have a cap of their own"
    assert max(Counter(r.host for r in big).values()) <= 12, (
        "of 6 each, where all cells have a part of the same size"
    )


async def test_ablation_without_the_cap_a_domain_is_asked_as_fast_as_its_hosts_allow(tmp_path: Path) -> None:
    hosts = {f"w{n}.big.test": f"192.0.2.{1 + n}" for n in range(30)}
    async with virtual_cells(tmp_path, 1, hosts, politeness=POLITE) as cells:
        requests = await cells.run(20)

    assert len(requests) >= 20 * 20


def holder_of(cells: VirtualCells) -> str:
    records = [v for (bucket, _), (v, _) in cells.exchange.entries.items() if bucket == "addresses"]
    return msgspec.json.decode(records[0], type=AddressHolder).cell


def _give_to(exchange: MemoryExchange, cell: str) -> None:
    for (bucket, key), (value, revision) in exchange.entries.items():
        if bucket == "addresses":
            record = msgspec.structs.replace(msgspec.json.decode(value, type=AddressHolder), cell=cell)
            exchange.entries[bucket, key] = msgspec.json.encode(record), revision
