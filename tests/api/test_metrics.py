"""The figures for Prometheus: right, named by the rules, and bounded in number."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from crawl_platform.api.metrics import Metrics
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet.messages import Heartbeat, ScheduleWindow
from crawl_platform.lake.lake import Lake
from tests.api.serving import AUTHORISED, MadeUpFleet, serving
from tests.lake.samples import commit, rows

ROOT = Path(__file__).parents[2]
LABELS = {"cell", "outcome", "reason", "quantile", "part", "operation", "status", "stage", "le"}
"""None of them grows with the web."""


@pytest.fixture
def busy(lake: Lake, fleet: MadeUpFleet) -> tuple[MadeUpFleet, ManualClock]:
    """A fleet of two cells with a window in force, its reports and fetches in the lake."""
    clock = ManualClock()
    now = clock.now()
    counted = {"fetches": 10, "pages": 8, "errors": 2, "bytes": 5_000, "in_flight": 3, "known_urls": 70}
    counted |= {
        "hosts": 4,
        "spooled_bytes": 900,
        "outcome.ok": 8,
        "outcome.not_found": 2,
        "turned_away.seen": 5,
        "cpu.digest": 3,
    }
    fleet.beats = [
        Heartbeat(f"cell-{n}", "i", 1, now - n, 0.0, {name: float(v) for name, v in counted.items()})
        for n in range(2)
    ]
    window = as_datetime(now - 60).isoformat()
    fleet.in_force = ScheduleWindow(window, now - 60, now + 540, 500, {"a.test": 5, "b.test": 7})
    day = as_datetime(now).date()
    reports = rows(
        "fleet_stats", 3, cell="cell-0", date=day, seconds=10.0, cpu_seconds=5.0, latency_p50_ms=250.0
    )
    commit(lake, "fleet_stats", reports, 1)
    hosts = [rows("fetches", 1, n, date=day, window_id=window, host=f"h{n}.test") for n in range(6)]
    for number, fetched in enumerate(hosts):
        commit(lake, "fetches", fetched, number + 1)
    return fleet, clock


def samples(lake: Lake, fleet: MadeUpFleet, clock: ManualClock) -> list[Sample]:
    text = Metrics(lake, fleet.client, clock).text().decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(found: list[Sample], name: str, **labels: str) -> float:
    return next(s.value for s in found if s.name == name and s.labels.items() >= labels.items())


def test_heartbeats_reports_lake_and_window_are_told(
    lake: Lake, busy: tuple[MadeUpFleet, ManualClock]
) -> None:
    found = samples(lake, *busy)

    assert value(found, "crawl_up", part="exchange") == value(found, "crawl_up", part="lake") == 1
    assert value(found, "crawl_pages_total", cell="cell-1") == 8
    assert value(found, "crawl_fetch_outcomes_total", cell="cell-0", outcome="not_found") == 2
    assert value(found, "crawl_links_turned_away_total", cell="cell-1", reason="seen") == 5
    assert value(found, "crawl_cpu_seconds_total", cell="cell-0", stage="digest") == 3
    assert value(found, "crawl_cell_heartbeat_age_seconds", cell="cell-1") == pytest.approx(1.0)
    assert value(found, "crawl_spool_bytes", cell="cell-0") == 900
    assert value(found, "crawl_cpu_usage_ratio", cell="cell-0") == pytest.approx(0.5)
    assert value(found, "crawl_fetch_latency_seconds", cell="cell-0", quantile="0.5") == pytest.approx(0.25)
    assert value(found, "crawl_window_budget_fetches") == 500
    assert value(found, "crawl_window_used_fetches") == 6
    assert value(found, "crawl_window_remaining_seconds") == pytest.approx(540)


def test_the_age_of_the_last_commit_is_told(lake: Lake, fleet: MadeUpFleet) -> None:
    committed = rows("commits", 1, commit_id=7, versions=[("fetches", 0)])
    lake.append("commits", committed)
    at = committed["committed_at"][0].as_py()

    found = samples(lake, fleet, ManualClock(now=at.timestamp() + 42))

    assert value(found, "crawl_lake_commit_id") == 7
    assert value(found, "crawl_lake_commit_age_seconds") == pytest.approx(42)


def test_what_is_away_is_told_and_the_rest_still_is(
    lake: Lake, busy: tuple[MadeUpFleet, ManualClock]
) -> None:
    fleet, clock = busy
    fleet.away = True

    found = samples(lake, fleet, clock)

    assert value(found, "crawl_up", part="exchange") == 0
    assert value(found, "crawl_up", part="lake") == 1
    assert not [sample for sample in found if sample.name == "crawl_pages_total"]
    assert value(found, "crawl_slots", cell="cell-0") > 0


@pytest.mark.parametrize("table", ["fleet_stats", "commits"])
async def test_a_lake_whose_files_are_gone_is_told_as_away(
    home: Path, lake: Lake, busy: tuple[MadeUpFleet, ManualClock], table: str
) -> None:
    lake.append("commits", rows("commits", 1, commit_id=7, versions=[("fetches", 6)]))
    for file in (home / "lake" / table).rglob("*.parquet"):
        file.unlink()
    fleet, clock = busy

    async with serving(home, fleet, clock=clock) as api:
        answer = await api.get("/metrics")
        text = await answer.text()

    assert answer.status == 200
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert value(found, "crawl_up", part="lake") == 0
    assert value(found, "crawl_up", part="exchange") == 1
    assert value(found, "crawl_pages_total", cell="cell-1") == 8


def test_no_label_grows_with_the_web(lake: Lake, busy: tuple[MadeUpFleet, ManualClock]) -> None:
    found = samples(lake, *busy)

    assert {label for sample in found for label in sample.labels} <= LABELS
    assert not re.search(r"h\d\.test|a\.test", str(found))
    assert len(found) < 25 * 2 + len(Outcome) * 2


def test_names_carry_base_units_and_counters_say_total(
    lake: Lake, busy: tuple[MadeUpFleet, ManualClock]
) -> None:
    text = Metrics(lake, *(busy[0].client, busy[1])).text().decode()

    for family in text_string_to_metric_families(text):
        assert family.name.startswith("crawl_")
        assert not re.search(r"_(ms|millis|kb|mb|minutes|hours|percent)$", family.name)
        if family.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)


async def test_calls_are_counted_by_operation_not_by_path(home: Path, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        await api.get("/v1/requests/one", headers=AUTHORISED)
        await api.get("/v1/requests/two", headers=AUTHORISED)
        await api.get("/no/such/path")
        text = await (await api.get("/metrics")).text()

    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert value(found, "crawl_api_requests_total", operation="request", status="404") == 2
    assert value(found, "crawl_api_requests_total", operation="none", status="404") == 1


def test_every_metric_is_documented(lake: Lake, busy: tuple[MadeUpFleet, ManualClock]) -> None:
    documented = set(re.findall(r"`(crawl_[a-z_]+)", (ROOT / "docs" / "api.md").read_text()))

    assert set(_names(Metrics(lake, busy[0].client, busy[1]).text().decode())) <= documented


def _names(text: str) -> Iterator[str]:
    for family in text_string_to_metric_families(text):
        yield f"{family.name}_total" if family.type == "counter" else family.name
