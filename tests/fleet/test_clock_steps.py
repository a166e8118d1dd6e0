"""The wall clock is stepped, either way, by any amount, at any moment: politeness is kept, and nothing is lost.

Delays and back-offs run by CLOCK_BOOTTIME, over restarts too. What is due is due by the wall clock: after a step back
it waits until the clock is there again.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.records import HostRecord
from crawl_platform.settings import Politeness
from tests.fleet.worker_cell import Answer, Request, VirtualCell, gaps, plain, virtual_cell

A, B = "a.test", "b.test"
ADDRESSES = {A: "192.0.2.1", B: "192.0.2.2"}
DELAY = 1.0
HOUR, DAY, YEAR = 3_600.0, 86_400.0, 365 * 86_400.0
POLITE = Politeness(host_delay=DELAY, address_delay=DELAY)
RETRY_AFTER = 500.0
PAGES = 6

STEPS = st.tuples(
    st.sampled_from(["step", "step and kill", "crawl"]),
    st.one_of(st.floats(-YEAR, YEAR), st.sampled_from([-DAY, -HOUR, -0.5, 0.5, HOUR, DAY])),
)


@given(happens=st.lists(STEPS, min_size=1, max_size=6))
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_the_wall_clock_does_the_delays_are_kept_and_all_is_fetched(
    tmp_path_factory: pytest.TempPathFactory, happens: list[tuple[str, float]]
) -> None:
    async with virtual_cell(
        tmp_path_factory.mktemp("steps"), ADDRESSES, pages=PAGES, politeness=POLITE
    ) as cell:
        furthest = cell.clock.now()
        for what, seconds in happens:
            if what != "crawl":
                cell.clock.step(seconds)
            if what == "step and kill":
                await cell.kill()
            await cell.run(3.0)
            furthest = max(furthest, cell.clock.now())
        cell.clock.step(max(furthest - cell.clock.now(), 0.0))  # the clock is where it was once
        await cell.run(30.0)

        for by in ("host", "address"):
            assert min(min(found) for found in gaps(cell.wire.requests, by).values()) >= DELAY - 1e-6
        pages = {request.url for request in cell.wire.requests if not request.url.endswith("robots.txt")}
        assert pages == {f"https://{host}/{n}" for n in range(PAGES) for host in ADDRESSES}


def limited_once(request: Request) -> Answer:
    """The second page asks to be left alone."""
    if request.url.endswith("/1"):
        return Answer(429, headers={"retry-after": str(int(RETRY_AFTER))})
    return plain(request)


async def until_limited(cell: VirtualCell) -> float:
    """Crawl until the host has said so; returns when (CLOCK_BOOTTIME)."""
    while not (limited := [r for r in cell.wire.requests if r.url.endswith("/1") and r.end < float("inf")]):
        await cell.run(0.5)
    return limited[0].end


@pytest.mark.parametrize("step", [DAY, -DAY, YEAR, -YEAR])
async def test_a_retry_after_holds_over_a_step_and_a_kill_and_ends_when_it_should(
    tmp_path: Path, step: float
) -> None:
    async with virtual_cell(tmp_path, {A: ADDRESSES[A]}, limited_once, politeness=POLITE) as cell:
        limited = await until_limited(cell)

        cell.clock.step(step)
        await cell.kill()
        cell.discover(f"https://{A}/news")
        await cell.run(RETRY_AFTER + 60.0)

        later = [request.start for request in cell.wire.requests if request.start > limited]
        assert limited + RETRY_AFTER - 1e-6 <= min(later) <= limited + RETRY_AFTER + 10.0


async def test_ablation_by_the_wall_clock_alone_a_retry_after_would_be_over_after_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostRecord, "held", lambda record, now, _boot: record.not_before - now)
    async with virtual_cell(tmp_path, {A: ADDRESSES[A]}, limited_once, politeness=POLITE) as cell:
        limited = await until_limited(cell)

        cell.clock.step(DAY)
        await cell.kill()
        await cell.run(60.0)

        assert [r for r in cell.wire.requests if limited < r.start < limited + RETRY_AFTER] != []


async def test_ablation_hosts_asleep_until_a_time_that_was_wrong_would_sleep_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frontier, "_follow_clock", lambda *_: None)
    async with virtual_cell(tmp_path, {A: ADDRESSES[A]}, pages=PAGES, politeness=POLITE) as cell:
        await cell.run(3.0)
        cell.clock.step(-YEAR)
        await cell.run(3.0)
        cell.clock.step(YEAR)

        assert await cell.run(DAY) == []


def test_on_another_machine_the_wall_clock_holds() -> None:
    """Its boottime says nothing: it may have run for years, or for a minute."""
    record = HostRecord(not_before=1_000.0, not_before_boot=5_000.0, left_alone=400.0)

    assert record.held(700.0, 4_700.0) == 300.0
    assert record.held(700.0, 9e9) == 300.0
    assert record.held(700.0, 60.0) == 400.0, "and never longer than it was to be"
    assert record.held(1_001.0, 9e9) == 0.0
