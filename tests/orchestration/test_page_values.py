"""The asset `page_values`: what the fleet hears of it, and when nothing is told or written."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from assets import appraisal, page_values
from crawl_platform.lake.history import forget_before
from crawl_platform.lake.tables import PAGE_VALUES
from crawl_platform.settings import Value
from tests.orchestration.test_content import story

PLAIN, COPY, OTHER = "https://plain.test/story", "https://mirror.test/story", "https://plain.test/other"
CHAIN = ("near_duplicates", "page_values")


@pytest.fixture
def mirrored(crawl, clock):
    """A page, its mirror (read later), and a page that says something else."""
    crawl.page(PLAIN, story(1), value=0.5)
    crawl.page(OTHER, story(2))
    clock.advance(60)
    crawl.page(COPY, story(1), value=0.25)
    crawl.commit()
    return crawl


def values(lake) -> dict[str, dict]:
    return {row["url"]: row for row in lake.query("SELECT * FROM page_values").to_pylist()}


@pytest.mark.long
def test_a_duplicate_is_told_at_a_fifth_and_at_its_own_value_once_it_differs(
    harness, mirrored, lake, fleet, clock
):
    harness.execute(*CHAIN)
    first, calls = list(fleet.appraised), fleet.calls
    harness.execute("page_values")
    assert fleet.calls == calls  # a repeated run tells nothing
    clock.advance(60)
    # By now the fleet fetches it at its lower value.
    mirrored.page(COPY, story(3), value=0.05)
    mirrored.commit()
    fleet.appraised.clear()
    harness.execute(*CHAIN)

    assert [(worth.url, worth.value) for worth in first] == [(COPY, pytest.approx(0.05, rel=0.3))]
    assert "duplicate (×0.2)" in first[0].reason
    assert [(worth.url, worth.value) for worth in fleet.appraised] == [(COPY, pytest.approx(0.25, rel=0.3))]


@pytest.mark.long
def test_values_that_could_not_be_told_are_told_by_the_next_run(harness, mirrored, lake, fleet):
    """Told before written: the other order would lose them."""
    fleet.away = True
    harness.execute(*CHAIN, fails=True)
    assert values(lake) == {}

    fleet.away = False
    harness.execute("page_values")

    assert [worth.url for worth in fleet.appraised] == [COPY]
    assert values(lake)[COPY]["told"] == fleet.appraised[0].value


def test_values_out_of_bounds_fail_the_check_and_nothing_is_told_or_written(
    harness, mirrored, lake, fleet, monkeypatch
):
    monkeypatch.setattr(appraisal, "combined", lambda base, *rest: base * 1e9)

    result = harness.execute("page_values", fails=True)

    passed = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert passed == {
        "signals_within_bounds": False,
        "critical_pages_have_their_floor": True,
        "usual_page_keeps_its_value": False,
    }
    assert fleet.appraised == []
    assert values(lake) == {}


def test_a_critical_page_below_the_floor_fails_the_check():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"url": "https://a.test/", "host": "a.test", "technical": 1.0, "exploration": 0.5, "base": 0.5, "value": 0.9,
           "reason": "", "critical": True, "retrievals": 0.0, "computed_at": now}  # fmt: skip
    table = pa.Table.from_pylist([row], schema=PAGE_VALUES.schema)

    assert not page_values._floor_holds(table, Value()).passed
    assert page_values._floor_holds(table, Value(critical_floor=0.5)).passed


@pytest.mark.long
def test_a_broken_topics_file_fails_the_run_with_its_line(harness, mirrored, tmp_path, fleet):
    (tmp_path / "topics.toml").write_text('[[topics]]\nname = "a"\nweight = 7\nphrases = ["a"]\n')

    result = harness.execute("page_values", fails=True)

    (failure,) = (event for event in result.all_events if event.is_step_failure)
    assert "line 3: weight must be a number" in str(failure.step_failure_data.error)
    assert fleet.appraised == []


def test_nothing_read_yet_is_no_error(harness, lake):
    result = harness.execute("page_values")

    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert values(lake) == {}


@pytest.mark.long
def test_links_are_new_until_a_run_has_seen_their_files(harness, crawl, lake, tmp_path):
    """By the versions of `links`: a repeated run has none, and all are new where the last run's version is gone."""
    (tmp_path / "topics.toml").write_text('[[topics]]\nname = "a"\nphrases = ["story*"]\n')
    crawl.host("plain.test")
    crawl.visit("https://plain.test/", PLAIN)
    crawl.commit()
    first = page_values.new_links(lake, lake.version("links"))
    harness.execute("page_values")
    again = page_values.new_links(lake, lake.version("links"))
    crawl.visit("https://plain.test/more", f"{PLAIN}-two")
    crawl.commit()
    third = page_values.new_links(lake, lake.version("links"))
    harness.execute("page_values")

    assert first is None
    assert again == []
    assert len(third) == 1
    assert values(lake).keys() >= {PLAIN, f"{PLAIN}-two"}
    forget_before(lake.root, "links", lake.version("links") + 1)
    assert page_values.new_links(lake, lake.version("links")) is None
