"""Windows know the catalogue by its summary: `group_work`, and what was fetched since."""

from dataclasses import replace

import numpy as np
import pytest

from assets import group_work, schedule_work
from assets.schedule import window_at
from assets.schedule_plan import Plan, plan_window
from assets.schedule_work import Work
from bench.simulation.tables import MemoryTables
from bench.window import Shape, measure
from crawl_platform.clock import DAY, as_datetime
from crawl_platform.settings import HostRule, Settings
from tests.orchestration.test_schedule import HOUR, queued, read

NOW = 20_000 * DAY
PAGES = 2_000
SETTINGS = Settings(home="", hosts=(HostRule("b.test", promises={"within": 9 * DAY}),))


def catalogue(tables: MemoryTables) -> None:
    """Two hosts with two groups each in a snapshot of yesterday: pages with a history, and some that wait."""
    random = np.random.default_rng(5)
    taken = NOW - DAY
    tables.append(
        "hosts",
        [
            {"host": host, "happened_at": as_datetime(taken), "event": "in", "state": "seed", "delay": 1.0}
            for host in ("a.test", "b.test")
        ],
    )
    rows = []
    for n in range(PAGES):
        rate = 0.005 * 8.0 ** (n // 2 % 2) * np.exp(random.normal(0.0, 0.7))
        waits = n % 10 == 0
        rows.append(
            {"snapshot_id": "s", "snapshot_at": as_datetime(taken), "shard": 0, "host": "ab"[n % 2] + ".test",
             "url": f"https://{'ab'[n % 2]}.test/{n}", "state": "queued" if waits else "fetched",
             "value": float(random.random()), "group_id": 1 + n // 2 % 2, "rate_a": 3.0, "rate_b": 3.0 / rate,
             "discovered_at": as_datetime(taken - 9 * DAY * random.random()),
             "last_success_at": None if waits else as_datetime(taken - 9 * DAY * random.random())}
        )  # fmt: skip
    tables.append("frontier", rows)


def fetched_since(tables: MemoryTables, every: int) -> None:
    """Each so-manieth page of the snapshot was fetched an hour before the window, and has not changed."""
    tables.append(
        "fetches",
        [
            {"fetch_id": row["url"], "url": row["url"], "host": row["host"], "shard": 0, "kind": "page",
             "lane": "refresh", "started_at": as_datetime(NOW - HOUR), "outcome": "ok", "group_id": row["group_id"],
             "previous_success_at": row["last_success_at"], "discovered_at": row["discovered_at"],
             "rate_a": row["rate_a"], "rate_b": row["rate_b"] + 1.0, "value": row["value"]}
            for row in tables.reading.rows(f"SELECT * FROM frontier ORDER BY url LIMIT {PAGES // every}")
        ],
    )  # fmt: skip


def work(tables: MemoryTables) -> Work:
    return schedule_work.work_of(tables.reading, SETTINGS, window_at(NOW, 12 * HOUR))


def each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is a bucket."""
    whole = group_work.bucketed
    monkeypatch.setattr(
        "assets.schedule_catalogue.bucketed",
        lambda pages: whole(pages).replace("GROUP BY shard,", "GROUP BY since, shard,"),
    )


def test_a_window_planned_by_the_summary_is_that_of_the_pages_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = MemoryTables()
    catalogue(tables)
    tables.overwrite("group_work", group_work.summed_up(tables.reading, SETTINGS.refresh))
    buckets = tables.reading.number("SELECT count(*) FROM group_work")

    found = work(tables)

    tables.reading.connection.execute("DELETE FROM group_work")
    each_for_itself(monkeypatch)
    exact = work(tables)
    assert buckets < PAGES / 15
    assert found.hosts == exact.hosts
    np.testing.assert_allclose(found.eligible, exact.eligible, rtol=0.1, atol=3)
    np.testing.assert_allclose(found.overdue, exact.overdue, rtol=0.1, atol=3)
    assert found.overdue.sum() > 50
    assert found.levels is not None
    assert exact.levels is not None
    worth = [float(levels.worth @ levels.visits) for levels in (found.levels, exact.levels)]
    assert worth[0] == pytest.approx(worth[1], rel=0.1)
    np.testing.assert_allclose(
        np.bincount(found.levels.group, found.levels.visits),
        np.bincount(exact.levels.group, exact.levels.visits),
        rtol=0.1,
        atol=3,
    )


def test_what_was_fetched_since_is_taken_out_of_the_summary() -> None:
    """Ablation: without the log of that day, the pages are still due."""
    tables = MemoryTables()
    catalogue(tables)
    tables.overwrite("group_work", group_work.summed_up(tables.reading, SETTINGS.refresh))
    before = work(tables)

    fetched_since(tables, 1)
    after = work(tables)

    assert before.pages.sum() > PAGES / 4
    assert after.pages.sum() < 0.1 * before.pages.sum()
    assert after.overdue.sum() < 0.25 * before.overdue.sum()


def test_promised_first_visits_are_overdue_reserved_for_and_named_where_they_do_not_fit() -> None:
    """Ablation: without the promise nothing of the kind is reserved."""
    tables = MemoryTables()
    catalogue(tables)
    tables.overwrite("group_work", group_work.summed_up(tables.reading, SETTINGS.refresh))
    window = window_at(NOW, 12 * HOUR)
    rule = HostRule("a.test", promises={"first_within": 4 * DAY}, politeness={"host_delay": 600.0})

    def planned(*rules: HostRule) -> Plan:
        found = schedule_work.work_of(tables.reading, Settings(home="", hosts=rules), window)
        return plan_window(replace(found, host_most=np.array([40, 40])), "w")

    waiting = tables.reading.number(
        f"SELECT count(*) FROM frontier WHERE host = 'a.test' AND state = 'queued' "
        f"AND epoch(discovered_at) < {window.ends_at - 4 * DAY}"
    )
    plan = planned(rule)
    assert plan.work.unvisited is not None
    assert plan.work.unvisited.sum() == pytest.approx(waiting, abs=4)
    assert plan.reserved.sum() == 40
    assert any("of them for the first time" in named for named in plan.unmet)
    assert planned().reserved.sum() == 0


def test_a_window_never_looks_at_the_catalogue_once_there_is_a_summary() -> None:
    tables = MemoryTables()
    catalogue(tables)
    tables.overwrite("group_work", group_work.summed_up(tables.reading, SETTINGS.refresh))
    planned = work(tables)

    for view in ("group_values", "frontier_now"):
        tables.reading.connection.execute(f"DROP VIEW {view}")
    for name in ("frontier", "page_values", "pages"):
        tables.reading.connection.execute(f"DROP TABLE {name}")

    assert np.array_equal(work(tables).eligible, planned.eligible)


@pytest.mark.long
def test_a_thousand_times_the_urls_are_not_ten_times_the_rows_of_a_window() -> None:
    small, large = (measure(Shape(urls, 10, 8, 500)) for urls in (100_000, 100_000_000))

    assert large["due_pages"] > 500 * small["urls_in_buckets"]
    assert large["buckets"] < 2 * small["buckets"]
    assert large["rows"] == small["rows"]


def test_every_url_is_in_one_bucket_and_a_window_stands_on_them(harness, crawl, lake):
    crawl.host("a.test")
    for n in range(4):
        read(crawl, f"https://a.test/story/{n}", "/story/*")
    queued(crawl, "a.test", "/story/*", 6)
    crawl.report()
    crawl.commit()

    made = harness.execute("group_work", "secondary_groups", "crawl_schedule")

    (summed,) = made.asset_materializations_for_node("group_work")
    assert summed.metadata["urls"].value == 6
    assert {c.check_name for c in made.get_asset_check_evaluations() if not c.passed} == set()
    (decision,) = lake.query("SELECT input_versions FROM decisions").to_pylist()
    assert dict(decision["input_versions"])["group_work"] == 1
    rows = lake.query("SELECT template, eligible FROM allocations").to_pylist()
    assert {row["template"]: row["eligible"] for row in rows}["/story/*"] == 6
