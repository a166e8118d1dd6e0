"""The asset `crawl_quality`: one set of measures per commit, its trend, and what its checks say."""

from dataclasses import replace
from datetime import timedelta

import pytest

from assets import quality
from assets.quality import ENOUGH_CHANGES, USUAL, History, judged
from crawl_platform.clock import as_datetime
from crawl_platform.quality.catalog import MEASURES
from tests.orchestration.made_up_crawl import small_web

AT = as_datetime(1_700_000_000.0)


def rows(lake):
    return lake.query("SELECT * FROM crawl_quality ORDER BY measured_at, measure").to_pylist()


def metadata(result):
    (event,) = result.asset_materializations_for_node("crawl_quality")
    return event.metadata


def checks(result):
    return {e.check_name: e for e in result.get_asset_check_evaluations()}


@pytest.fixture
def read_web(crawl, clock):
    """A web whose hosts were asked politely: robots first, and a page every two seconds."""
    crawl.host("a.test")
    crawl.robots("a.test")
    for n in range(6):
        clock.advance(2)
        crawl.visit(f"https://a.test/{n}", "https://b.test/")
    clock.advance(120)
    crawl.report()
    crawl.commit()
    return crawl


def test_each_declared_measure_is_a_row_at_the_time_of_the_commit(harness, read_web, lake, clock):
    harness.execute("crawl_quality")

    found = rows(lake)
    assert {row["measure"] for row in found} == set(MEASURES)
    assert {row["measured_at"] for row in found} == {as_datetime(clock.now())}
    for row in found:
        assert (row["dimension"], row["unit"]) == (
            MEASURES[row["measure"]].dimension,
            MEASURES[row["measure"]].unit,
        )
        assert dict(row["input_versions"])["fetches"] == 1


@pytest.mark.long
def test_the_same_commit_is_measured_once_and_the_run_still_says_how_it_is(harness, read_web, lake, clock):
    harness.execute("crawl_quality")
    before = rows(lake)
    clock.advance(7_200)

    again = harness.execute("crawl_quality")

    assert rows(lake) == before
    assert metadata(again)["host_coverage"].value == 1.0
    assert all(check.passed for check in checks(again).values())


@pytest.mark.long
def test_the_next_commit_adds_to_the_trend(harness, read_web, lake, clock, pictures):
    harness.execute("crawl_quality")
    clock.advance(3_600)
    read_web.fetch("https://a.test/1", changed=True)
    read_web.commit()

    result = harness.execute("crawl_quality")

    assert lake.query("SELECT DISTINCT measured_at FROM crawl_quality").num_rows == 2
    assert lake.query("SELECT * FROM quality_now").num_rows == len(MEASURES)
    assert "data:image/png" in metadata(result)["freshness_over_time"].md_str


def test_before_the_first_commit_there_is_nothing_and_it_says_so(harness, lake):
    result = harness.execute("crawl_quality")

    assert rows(lake) == []
    assert all(check.passed for check in checks(result).values())
    assert "not committed anything" in checks(result)["all_measured"].description


def test_every_measure_has_a_value_or_says_why_not(harness, read_web):
    result = harness.execute("crawl_quality")

    said = checks(result)["all_measured"].metadata["nothing_to_measure"].data
    assert said == {name: m.missing for name, m in MEASURES.items() if name not in metadata(result)}
    assert set(said) == {
        "url_coverage", "backlog", "pages_per_promoted_host", "promoted_hosts_read", "calibration", "fastlane_p95",
        "freshness_by_value", "discovery_to_fetch_median", "discovery_to_fetch_p95", "admission_regret",
        "listed_coverage", "brier_score", "calibration_error", "freshlane_p95", "late_first_visits",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        pytest.param(0.5, "short_gaps", marks=pytest.mark.long),
        (-0.02, "overlapping_requests"),
        (0.01, "short_gaps"),
    ],
)
def test_an_impolite_crawl_fails_its_check(harness, read_web, clock, wait, kind):
    read_web.visit("https://a.test/x")
    clock.advance(0.04 + wait)
    read_web.visit("https://a.test/y")
    clock.advance(120)
    read_web.commit()

    polite = checks(harness.execute("crawl_quality"))["polite"]

    assert not polite.passed
    assert polite.severity.value == "ERROR"
    assert polite.metadata[kind].value == 1


@pytest.mark.long
def test_a_page_without_robots_before_it_fails_the_check_too(harness, crawl, clock):
    small_web(crawl, seeds=4, farm=False)
    clock.advance(120)
    crawl.report()
    crawl.commit()

    assert checks(harness.execute("crawl_quality"))["polite"].metadata["requests_before_robots"].value == 4


@pytest.mark.long
def test_a_measure_that_got_lost_fails_its_check(harness, read_web, monkeypatch):
    whole = quality.measured
    monkeypatch.setattr(
        quality, "measured", lambda *a: {k: v for k, v in whole(*a).items() if k != "freshness"}
    )

    assert not checks(harness.execute("crawl_quality"))["all_measured"].passed


@pytest.mark.long
def test_a_measure_with_a_denominator_and_no_value_fails_its_check(harness, read_web, monkeypatch):
    whole = quality.measured

    def broken(*arguments):
        values = whole(*arguments)
        return values | {"bytes_per_page": replace(values["bytes_per_page"], value=None)}

    monkeypatch.setattr(quality, "measured", broken)

    assert not checks(harness.execute("crawl_quality"))["all_measured"].passed


# what the checks say of a history


def history(*measurements: dict[str, float | None], hours: float = 1.0) -> History:
    return History(
        [
            {
                "measured_at": AT + timedelta(hours=hours * n), "measure": name, "value": value,
                "numerator": value, "denominator": measurement.get("denominator", 1.0),
            }
            for n, measurement in enumerate(measurements)
            for name, value in measurement.items()
        ]
    )  # fmt: skip


def verdict(name: str, *measurements: dict[str, float | None], hours: float = 1.0) -> bool:
    return {r.check_name: r.passed for r in judged(history(*measurements, hours=hours))}[name]


USUALLY = [{"freshness": 0.8}] * USUAL


@pytest.mark.parametrize(("now", "holds"), [(0.8, True), (0.71, True), (0.69, False), (None, True)])
def test_freshness_may_not_fall_ten_points_below_what_is_usual(now, holds):
    assert verdict("freshness_holds", *USUALLY, {"freshness": now}) is holds


def test_a_young_crawl_has_no_usual_freshness_to_fall_from():
    assert verdict("freshness_holds", *USUALLY[1:], {"freshness": 0.1})


@pytest.mark.parametrize(("ratio", "sound"), [(0.7, False), (0.85, True), (1.2, True), (1.4, False)])
def test_expectations_are_sound_if_about_as_many_changes_are_found(ratio, sound):
    assert verdict("calibrated", {"calibration": ratio, "denominator": ENOUGH_CHANGES}) is sound


def test_a_few_changes_prove_nothing():
    assert verdict("calibrated", {"calibration": 3.0, "denominator": ENOUGH_CHANGES - 1})


@pytest.mark.parametrize(
    ("coverage", "backlog", "keeps_up"),
    [(0.6, 500.0, True), (0.4, 90.0, True), (0.4, 500.0, False), (0.995, 500.0, True)],
)
def test_a_crawl_keeps_up_if_coverage_rises_or_the_backlog_shrinks(coverage, backlog, keeps_up):
    then = {"url_coverage": 0.5, "backlog": 100.0}
    now = {"url_coverage": coverage, "backlog": backlog}

    assert verdict("keeps_up", then, now, hours=25.0) is keeps_up


def test_it_is_compared_with_a_day_ago_and_not_with_an_hour_ago():
    day_ago, hour_ago = {"url_coverage": 0.5, "backlog": 100.0}, {"url_coverage": 0.9, "backlog": 10.0}
    now = {"url_coverage": 0.8, "backlog": 300.0}

    assert verdict("keeps_up", day_ago, hour_ago, now, hours=12.0)
    assert verdict("keeps_up", hour_ago, now)


def test_all_judgements_but_politeness_are_warnings():
    severities = {r.check_name: r.severity.value for r in judged(history({"freshness": 0.5}))}

    assert severities.pop("polite") == "ERROR"
    assert set(severities.values()) == {"WARN"}
