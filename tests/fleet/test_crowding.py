"""Large, slow, dead and crowded hosts beside a hundred plain ones, in virtual time: they take nothing from these."""

from collections import Counter
from pathlib import Path

import pytest

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.frontier import frontier
from crawl_platform.frontier.frontier import HEADS_IN_LINE
from crawl_platform.frontier.hosts import HostState
from crawl_platform.settings import Fetch
from tests.fleet.worker_cell import Answer, Request, plain, virtual_cell

PLAIN = {f"plain{n}.test": f"198.51.100.{n + 1}" for n in range(100)}
BLACK_HOLES = {f"hole{n}.test": f"203.0.113.{n + 1}" for n in range(40)}
SLOW = {f"slow{n}.test": f"192.0.2.{n + 1}" for n in range(40)}
LARGE = "large.test"
SLOTS = Fetch(slots=40)
RATE = 1.0 / 1.1
"""Requests per second of a plain host: a second's delay, a tenth of a second's answer."""


def troubled(request: Request) -> Answer:
    """Black holes never accept a connection, slow hosts answer after 30 s."""
    if request.host in BLACK_HOLES:
        return Answer(None, took=10.0, outcome=Outcome.CONNECT_TIMEOUT)
    return Answer(took=30.0) if request.host in SLOW else plain(request)


async def beside_trouble(home: Path) -> list[Request]:
    """Requests of half a minute, once all hosts had their first turn, beside slow and dead hosts and a large one."""
    hosts = BLACK_HOLES | SLOW | PLAIN | {LARGE: "192.0.2.250"}
    async with virtual_cell(home, hosts, troubled, pages=60, fetch=SLOTS) as cell:
        cell.discover(*(f"https://{LARGE}/more/{n}" for n in range(10_000)))
        await cell.run(30)
        return await cell.run(30)


@pytest.mark.long
async def test_large_slow_and_dead_hosts_take_nothing_from_plain_ones(tmp_path: Path) -> None:
    requests = await beside_trouble(tmp_path)

    counts = Counter(r.host for r in requests)
    assert min(counts[host] for host in PLAIN) >= 0.9 * 30 * RATE
    assert 0.9 * 30 * RATE <= counts[LARGE] <= 30 * RATE + 1
    assert sum(counts[host] for host in SLOW) >= len(SLOW) / 2, "they are not forgotten either"


@pytest.mark.long
async def test_ablation_without_a_room_for_the_unproven_slow_and_dead_hosts_fill_the_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostState, "unproven", property(lambda _: False, lambda *_: None), raising=False)

    counts = Counter(r.host for r in await beside_trouble(tmp_path))

    assert min(counts[host] for host in PLAIN) < 0.9 * 30 * RATE


# thousands of hosts on one address

TENANTS = {f"t{n}.test": "192.0.2.9" for n in range(5_000)}


async def test_thousands_of_hosts_on_one_address_have_one_slot_and_little_memory_and_leave_others_their_rate(
    tmp_path: Path,
) -> None:
    async with virtual_cell(tmp_path, TENANTS | PLAIN, pages=1, fetch=SLOTS) as cell:
        cell.discover(*(f"https://{host}/more/{n}" for n in range(60) for host in PLAIN))
        await cell.run(20)
        requests = await cell.run(30)
        in_memory = sum(bool(cell.frontier.hosts[host].heads) for host in TENANTS)

    at_address = [r for r in requests if r.host in TENANTS]
    counts = Counter(r.host for r in requests)
    assert min(counts[host] for host in PLAIN) >= 0.9 * 30 * RATE
    assert len(at_address) >= 0.9 * 30 * RATE
    assert max(sum(r.start <= at.start < r.end for r in at_address) for at in at_address) == 1
    assert in_memory <= 2 * HEADS_IN_LINE, "of the others there is a record and a place in the line"


async def test_ablation_heads_of_all_who_wait_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "HEADS_IN_LINE", 10_000)
    few = dict(list(TENANTS.items())[:500])
    async with virtual_cell(tmp_path, few, pages=2, fetch=SLOTS) as cell:
        await cell.run(30)

        assert sum(bool(cell.frontier.hosts[host].heads) for host in few) > 400
