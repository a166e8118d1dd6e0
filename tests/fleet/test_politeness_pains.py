"""What other crawlers' users and their victims complained of, on a real cell in virtual time."""

from collections import Counter
from email.utils import formatdate
from pathlib import Path

import pytest

from crawl_platform.admission.politeness import Gates
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch, HostRule, Politeness
from tests.fleet.worker_cell import Answer, Request, Script, gaps, plain, virtual_cell

ONE = {"a.test": "192.0.2.1"}
SHARED = {"a.test": "192.0.2.9", "b.test": "192.0.2.9"}
NOW = 1_800_000_000.0
SLACK = 1e-6


def once(what: Answer, *nth: int) -> Script:
    """The `nth` pages are answered with `what`, everything else plainly."""
    pages = 0

    def script(request: Request) -> Answer:
        nonlocal pages
        is_page = not request.url.endswith("/robots.txt")
        pages += is_page
        return what if is_page and pages in nth else plain(request)

    return script


def least_gap(requests: list[Request], by: str = "host") -> float:
    return min(gap for found in gaps(requests, by).values() for gap in found)


# Retry-After


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 20.0),
        ({}, 5.0),
        ({"retry-after": "1"}, 5.0),
        ({"retry-after": "soon"}, 5.0),
    ],
)
async def test_a_host_that_wants_a_pause_gets_it(
    tmp_path: Path, status: int, headers: dict[str, str], least: float
) -> None:
    script = once(Answer(status, headers=headers), 3)
    async with virtual_cell(tmp_path, ONE, script) as cell:
        requests = await cell.run(50)

    found = gaps(requests)["a.test"]
    longest = max(found)
    assert found.index(longest) == 3  # robots.txt, two pages, and then the one that was refused
    assert longest >= least - SLACK
    assert longest < least + 11.0


async def test_a_pause_of_seven_seconds_is_kept_through_a_kill(tmp_path: Path) -> None:
    script = once(Answer(429, headers={"retry-after": "60"}), 2)
    async with virtual_cell(tmp_path, ONE, script) as cell:
        before = await cell.run(10)
        await cell.kill()
        after = await cell.run(70)

    assert after[0].start - before[-1].end >= 60.0 - SLACK
    assert least_gap(before + after) >= 1.0 - SLACK


async def test_a_retry_after_beyond_all_bounds_is_honoured_to_its_cap(tmp_path: Path) -> None:
    script = once(Answer(503, headers={"retry-after": "99999999"}), 2)
    politeness = Politeness(retry_after_cap=500.0)
    async with virtual_cell(tmp_path, ONE, script, politeness=politeness) as cell:
        requests = await cell.run(700)

    assert 500.0 - SLACK <= max(gaps(requests)["a.test"]) < 502.0


async def test_robots_txt_counts_like_any_request(tmp_path: Path) -> None:
    """A 429 to it slows and pauses its host as well."""

    def script(request: Request) -> Answer:
        return Answer(429, headers={"retry-after": "40"}) if request.url.endswith("robots.txt") else Answer()

    async with virtual_cell(tmp_path, ONE, script) as cell:
        requests = await cell.run(39)
        record = cell.frontier.hosts["a.test"].record

    assert len(requests) == 1
    assert record.pace.delay > 1.0


# the very first requests


async def test_two_hosts_of_one_address_are_paced_from_the_very_first_request(tmp_path: Path) -> None:
    """Nobody knows yet that they share it when both are claimed."""
    politeness = Politeness(host_delay=0.2, address_delay=2.0)
    async with virtual_cell(tmp_path, SHARED, politeness=politeness) as cell:
        requests = await cell.run(20)

    assert {r.host for r in requests} == set(SHARED)
    assert least_gap(requests, "address") >= 2.0 - SLACK


async def test_ablation_an_address_without_a_clock_is_asked_by_both_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_anyway(self: Gates, address: str, now: float, host: str = "") -> bool:
        self._address(address).started.append(now)
        return True

    monkeypatch.setattr(Gates, "address_ready_at", lambda *_: 0.0)
    monkeypatch.setattr(Gates, "take_address", take_anyway)
    monkeypatch.setattr(Gates, "check_write", lambda *_: None)
    async with virtual_cell(tmp_path, SHARED, politeness=Politeness(address_delay=2.0)) as cell:
        requests = await cell.run(20)

    assert least_gap(requests, "address") < 0


async def test_addresses_of_one_ipv6_network_share_their_clock(tmp_path: Path) -> None:
    hosts = {"a.test": "2001:db8::1", "b.test": "2001:db8::2", "c.test": "2001:db8:0:1::1"}
    async with virtual_cell(
        tmp_path, hosts, politeness=Politeness(host_delay=0.2, address_delay=2.0)
    ) as cell:
        requests = await cell.run(20)

    assert least_gap([r for r in requests if r.host != "c.test"], "proxy") >= 2.0 - SLACK
    assert least_gap(requests, "proxy") < 2.0  # the third is another server


async def test_the_first_page_waits_its_delay_after_robots_txt(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, ONE, politeness=Politeness(host_delay=3.0)) as cell:
        requests = await cell.run(10)

    assert [r.url.rpartition("/")[2] for r in requests[:1]] == ["robots.txt"]
    assert requests[1].start - requests[0].end >= 3.0 - SLACK


async def test_the_robots_txt_of_one_host_counts_at_the_address_of_another(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return Answer(404, took=2.0) if request.url.endswith("/robots.txt") else plain(request)

    politeness = Politeness(host_delay=0.2, address_delay=3.0)
    async with virtual_cell(tmp_path, SHARED, script, politeness=politeness) as cell:
        requests = await cell.run(20)

    first = [r for r in requests if r.url.endswith("/robots.txt")]
    assert {r.host for r in first} == set(SHARED)
    assert least_gap(requests, "address") >= 3.0 - SLACK


async def test_ablation_a_robots_txt_that_does_not_count_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, asked = Gates.rest_address, set[str]()

    def free_the_first(self: Gates, address: str, now: float, rest: float) -> str | None:
        first = address not in asked
        asked.add(address)
        return end(self, address, now, 0.0 if first else rest)

    monkeypatch.setattr(Gates, "rest_address", free_the_first)
    async with virtual_cell(
        tmp_path, SHARED, politeness=Politeness(host_delay=0.2, address_delay=3.0)
    ) as cell:
        requests = await cell.run(20)

    assert requests[0].url.endswith("/robots.txt")
    assert least_gap(requests, "address") < 1.0


async def test_hosts_may_have_delays_of_their_own(tmp_path: Path) -> None:
    hosts = {"a.test": "192.0.2.1", "slow.test": "192.0.2.2"}
    rules = (HostRule("slow.test", politeness={"host_delay": 8.0}),)
    async with virtual_cell(tmp_path, hosts, hosts=rules) as cell:
        found = gaps(await cell.run(60))

    assert min(found["slow.test"]) >= 8.0 - SLACK
    assert min(found["a.test"]) == pytest.approx(1.0)


# slots


async def test_one_slow_large_host_does_not_fill_the_slots(tmp_path: Path) -> None:
    quick = {f"quick{n}.test": f"192.0.2.{n}" for n in range(8)}

    def script(request: Request) -> Answer:
        return Answer(took=55.0) if request.host == "slow.test" else plain(request)

    hosts = quick | {"slow.test": "192.0.2.200"}
    async with virtual_cell(tmp_path, hosts, script, pages=25, fetch=Fetch(slots=4)) as cell:
        requests = await cell.run(28)

    counts = Counter(r.host for r in requests)
    assert counts["slow.test"] == 1
    assert min(counts[host] for host in quick) >= 23  # of 25 that their delay would allow


async def test_many_hosts_of_one_address_take_one_slot_and_get_their_turns(tmp_path: Path) -> None:
    tenants = {f"t{n}.test": "192.0.2.9" for n in range(150)}
    others = {f"o{n}.test": f"192.0.2.{100 + n}" for n in range(5)}
    async with virtual_cell(tmp_path, tenants | others, pages=3, fetch=Fetch(slots=8)) as cell:
        await cell.run(170)  # every address is known now
        looks = 0
        turn = cell.frontier.admission.turn

        def counted(*args: object) -> object:
            nonlocal looks
            looks += 1
            return turn(*args)

        cell.frontier.admission.turn = counted
        requests = await cell.run(100)
        line = cell.frontier.gates._address("192.0.2.9").waiting

    at_address = [r for r in requests if r.address == "192.0.2.9"]
    assert least_gap(at_address, "address") >= 1.0 - SLACK
    assert len(at_address) >= 0.85 * 100 / 1.1  # the address is never idle for long
    assert max(Counter(r.host for r in at_address).values()) <= 2
    assert len(line) <= len(tenants)
    assert looks <= 8 * len(at_address)  # and not hundreds of looks for each turn


# slowing down


async def test_refusals_and_broken_connections_slow_a_host_and_good_answers_let_it_recover(
    tmp_path: Path,
) -> None:
    politeness = Politeness(recovery_run=3, recovery_step=0.2)
    script = once(Answer(429), 5, 6, 7)
    async with virtual_cell(tmp_path, ONE, script, pages=120, politeness=politeness) as cell:
        requests = await cell.run(200)
        told = [(r["detail"], r["delay"]) for r in cell.rows("hosts", event="paced")]

    found = gaps(requests)["a.test"]
    assert found[0] == pytest.approx(1.0)
    assert min(found[7:10]) >= 8.0 - SLACK  # three times doubled
    assert found[-1] == pytest.approx(1.0)
    assert [delay for detail, delay in told if "overloaded" in detail] == [2.0, 4.0, 8.0]
    assert told[-1] == ("recovers", 1.0)


async def test_a_slower_pace_outlives_a_kill(tmp_path: Path) -> None:
    script = once(Answer(None, outcome=Outcome.READ_TIMEOUT), 3)
    async with virtual_cell(tmp_path, ONE, script, politeness=Politeness(backoff_first=1.0)) as cell:
        await cell.run(6)
        before = cell.frontier.delay(cell.frontier.hosts["a.test"].record, "a.test")
        await cell.kill()
        after = await cell.run(5)

    assert before == 1.5
    assert min(gaps(after)["a.test"]) >= 1.5 - SLACK


async def test_what_several_hosts_of_an_address_say_slows_it_and_that_outlives_a_kill(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return Answer(503) if request.url.endswith(("/1", "/2")) else plain(request)

    politeness = Politeness(host_delay=0.1, address_delay=0.5, backoff_first=0.2)
    async with virtual_cell(tmp_path, SHARED, script, politeness=politeness) as cell:
        await cell.run(8)
        before = cell.frontier.gates.paces.delay("192.0.2.9")
        await cell.kill()
        kept = cell.frontier.gates.paces.delay("192.0.2.9")
        after = await cell.run(3)

    assert before >= 1.0
    assert kept >= 1.0
    assert least_gap(after, "address") >= 1.0 - SLACK
