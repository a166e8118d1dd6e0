import numpy as np
import pytest

from assets import schedule
from assets.schedule import window_at
from tests.orchestration.made_up_crawl import small_web

DAY = 86_400.0


def test_a_window_is_planned_within_capacity_and_politeness_and_published(harness, crawl, lake, fleet):
    small_web(crawl, farm=False)

    harness.execute("crawl_schedule")

    (window,) = fleet.windows
    rows = {row["host"]: row for row in lake.query("SELECT * FROM crawl_schedule").to_pylist()}
    assert window.allocations == {host: row["fetches"] for host, row in rows.items()}
    assert set(rows) == {f"seed-{i}.test" for i in range(12)}
    assert 0 < sum(window.allocations.values()) <= window.budget
    assert all(row["fetches"] <= row["most"] for row in rows.values())
    assert window.starts_at <= crawl.clock.now() < window.ends_at


def test_a_window_is_planned_once_and_published_again_as_it_was(harness, crawl, lake, fleet, clock):
    small_web(crawl, farm=False)
    harness.execute("crawl_schedule")
    crawl.host("another.test")
    crawl.commit()

    harness.execute("crawl_schedule")

    assert fleet.windows[0] == fleet.windows[1]
    assert lake.query("SELECT DISTINCT window_id FROM crawl_schedule").num_rows == 1
    assert lake.query("SELECT * FROM decisions WHERE kind = 'schedule'").num_rows == 1


def test_the_next_window_is_planned_anew(harness, crawl, lake, fleet, clock):
    small_web(crawl, farm=False)
    harness.execute("crawl_schedule")
    clock.advance(3_600)

    harness.execute("crawl_schedule")

    first, second = fleet.windows
    assert second.starts_at == first.ends_at


def test_what_could_not_be_published_is_published_by_the_next_run(harness, crawl, lake, fleet):
    small_web(crawl, farm=False)
    fleet.away = True
    harness.execute("crawl_schedule", fails=True)

    fleet.away = False
    harness.execute("crawl_schedule")

    assert fleet.windows[0].allocations


def test_overdue_pages_have_their_fetches_reserved(harness, crawl, lake, clock):
    crawl.host("a.test")
    for i in range(7):
        crawl.visit(f"https://a.test/{i}")
    crawl.commit()
    clock.advance(200 * DAY)
    crawl.report()
    crawl.commit()

    harness.execute("crawl_schedule")

    (row,) = lake.query("SELECT * FROM crawl_schedule").to_pylist()
    assert row["reserved"] == 7
    assert "7 of them overdue" in row["reason"]


def test_a_promise_that_does_not_fit_is_said_aloud_and_stops_nothing(harness, crawl, lake, clock, fleet):
    crawl.host("a.test")
    for i in range(60):
        crawl.visit(f"https://a.test/{i}")
    crawl.commit()
    clock.advance(200 * DAY)
    crawl.report(fetches=60, slots=1, cpu_seconds=6_000.0)  # a cell that needs 100 s of its core per fetch
    crawl.commit()

    result = harness.execute("crawl_schedule")

    failed = [e.check_name for e in result.get_asset_check_evaluations() if not e.passed]
    assert failed == ["deadlines_fit"]
    assert len(fleet.windows) == 1


def test_a_schedule_over_capacity_fails_its_check(harness, crawl, monkeypatch):
    """The check looks at the rows, not at the plan: an allocation that ignores the budget is caught."""
    monkeypatch.setattr(schedule, "allocate", lambda want, most, *rest: np.asarray(most) + 1)
    small_web(crawl, farm=False)

    result = harness.execute("crawl_schedule")

    assert [e.check_name for e in result.get_asset_check_evaluations() if not e.passed] == ["within_capacity"]


def test_capacity_is_bound_by_slots_or_by_the_core(harness, crawl, fleet):
    crawl.host("a.test")
    crawl.report(fetches=600, slots=16, cpu_seconds=6.0)  # 16 slots / 0.1 s = 160/s; 1 / 10 ms = 100/s
    crawl.commit()

    harness.execute("crawl_schedule")

    assert fleet.windows[0].budget == pytest.approx(0.9 * 100 * 3_600)


def test_windows_start_at_whole_multiples_and_hold_their_moment():
    window = window_at(7_250.0, 3_600.0)

    assert (window.starts_at, window.ends_at) == (7_200.0, 10_800.0)
    assert window.window_id == "1970-01-01T02:00:00+00:00"
