"""Thousands of hosts of which nothing is known: how soon a cell asks them at its rate, in virtual time.

Each first needs robots.txt, on a new connection (0.6 s; 0.2 s from then on), and a pause; one in twenty is dead and
takes a slot until its connection times out.
"""

from collections import Counter
from pathlib import Path

import pytest

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.settings import Fetch
from tests.fleet.worker_cell import Answer, Request, virtual_cell

WITHIN = 15
"""Seconds in which four fifths of the steady rate have to be reached."""


async def requests_per_second(home: Path, number: int, slots: int, seconds: int) -> list[int]:
    """Of the hosts that live."""
    hosts = {f"n{n}.test": f"10.{n // 250}.0.{n % 250 + 1}" for n in range(number)}
    dead = set(list(hosts)[::20])
    met: set[str] = set()

    def script(request: Request) -> Answer:
        if request.host in dead:
            return Answer(None, took=10.0, outcome=Outcome.CONNECT_TIMEOUT)
        first = request.host not in met
        met.add(request.host)
        return Answer(404 if first else 200, took=0.6 if first else 0.2)

    async with virtual_cell(home, hosts, script, pages=seconds, fetch=Fetch(slots=slots)) as cell:
        begin = cell.clock.boottime()
        requests = await cell.run(seconds)
    counts = Counter(int(r.start - begin) for r in requests if r.host not in dead)
    return [counts[second] for second in range(seconds)]


def seconds_to_rate(counts: list[int]) -> int:
    """Until the rate over three seconds is four fifths of what it is in the last ten."""
    steady = sum(counts[-10:]) / 10
    return next(n for n in range(3, len(counts)) if sum(counts[n - 3 : n]) / 3 >= 0.8 * steady)


async def test_a_cold_start_is_over_within_fifteen_seconds(tmp_path: Path) -> None:
    counts = await requests_per_second(tmp_path, 150, 50, 28)

    assert seconds_to_rate(counts) <= WITHIN
    assert sum(counts[-10:]) >= 10 * 0.95 * 142 / 1.2 * 0.95, "and that is all that politeness allows"


@pytest.mark.long
async def test_ablation_too_little_room_for_new_hosts_makes_it_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Frontier.claim

    def with_little_room(
        self: Frontier, now: float, boot: float, room: int = 8, *, crowded: bool = True
    ) -> Lease | RobotsLease | None:
        return claim(self, now, boot, room - 21, crowded=crowded)

    monkeypatch.setattr(Frontier, "claim", with_little_room)

    assert seconds_to_rate(await requests_per_second(tmp_path, 150, 50, 45)) > WITHIN


@pytest.mark.long
async def test_so_is_one_of_three_thousand_hosts(tmp_path: Path) -> None:
    assert seconds_to_rate(await requests_per_second(tmp_path, 3_000, 1_000, 40)) <= WITHIN
