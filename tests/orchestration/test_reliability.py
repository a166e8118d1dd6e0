"""Expected beside realised change in the asset `change_rates`."""

from datetime import timedelta

import dagster as dg
import pytest

from crawl_platform.clock import as_datetime
from crawl_platform.scheduling.templates import group_id


def predicted(crawl, expected: float, found: float, checks: int) -> None:
    """Checks of which cells thought that a part `expected` would find a change, and a part `found` did."""
    before = as_datetime(crawl.clock.now()) - timedelta(seconds=30)
    for n in range(checks):
        crawl.fetch(
            f"https://a.test/story/x-{n % 20}",
            previous_success_at=before,
            changed=n < found * checks,
            predicted_change=expected,
            group_id=group_id("a.test", "/story/*"),
            template="/story/*",
        )


def check(result, name: str) -> dg.AssetCheckEvaluation:
    (evaluation,) = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return evaluation


@pytest.mark.usefixtures("pictures")
def test_expected_and_found_changes_are_shown_by_tenths(harness, crawl):
    predicted(crawl, 0.25, 0.25, 120)
    predicted(crawl, 0.75, 0.75, 80)
    crawl.commit()

    result = harness.execute("url_groups", "change_rates")

    (made,) = result.asset_materializations_for_node("change_rates")
    assert "| 0.250 | 0.250 |" in made.metadata["reliability"].md_str
    assert made.metadata["reliability_diagram"].md_str.startswith("![Changes found over changes expected]")
    assert made.metadata["calibration_error"].value == pytest.approx(0.0, abs=1e-6)
    assert made.metadata["brier_score"].value == pytest.approx(0.25 * 0.75)
    assert made.metadata["brier_score_of_the_mean"].value == pytest.approx(0.45 * 0.55)
    assert check(result, "reliable").passed


def test_errors_that_cancel_out_are_pointed_out(harness, crawl):
    """Ablation in one: the check of the totals alone is content."""
    predicted(crawl, 0.2, 0.4, 150)
    predicted(crawl, 0.8, 0.6, 150)
    crawl.commit()

    result = harness.execute("url_groups", "change_rates")

    assert check(result, "predictions_hold").passed
    found = check(result, "reliable")
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN
    assert found.description == "40% of 150 where 20% were expected; 60% of 150 where 80% were expected"


def test_before_any_second_visit_nothing_is_claimed(harness, crawl):
    crawl.fetch("https://a.test/", group_id=3, template="/")
    crawl.commit()

    result = harness.execute("url_groups", "change_rates")

    assert check(result, "reliable").description == "No page was fetched twice yet."
    assert check(result, "reliable").passed
