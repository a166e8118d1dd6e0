import dagster as dg

from assets.fleet import FRESH_WITHIN
from crawl_platform.settings import Orchestration, Settings
from resources.cadence import PRODUCTION
from sensors.table_events import WATCHED
from tests.orchestration.harness import Harness
from tests.orchestration.made_up_crawl import small_web


def test_every_table_is_reported_once_from_its_creation_on(harness, lake):
    """Also empty ones: an asset that was never materialized would block what depends on it."""
    assert lake.versions()["fetches"] == 0
    assert set(harness.observe()) >= {"fetches", "links", "hosts", "requests", "fleet_stats"}
    assert harness.observe() == []


def test_a_new_version_is_reported_with_what_it_added(harness, crawl, clock):
    harness.observe()
    clock.advance(20)
    small_web(crawl, seeds=4, farm=False)

    events = {e.asset_key.to_user_string(): e for e in harness.sense("table_events").asset_events}

    metadata = {name: value.value for name, value in events["fetches"].metadata.items()}
    assert (metadata["rows_added"], metadata["dagster/row_count"], metadata["delta_version"]) == (4, 4, 1)
    assert events["fetches"].tags["dagster/data_version"] == "1"
    assert events["fleet_stats"].metadata["pages_per_second"].value == 10.0
    assert events["fleet_stats"].metadata["latency_p95_ms"].value == 250.0


def test_a_table_has_at_most_one_event_in_fifteen_seconds_which_then_carries_the_range(harness, crawl, clock):
    harness.observe()
    for _ in range(10):
        clock.advance(1)
        crawl.visit("https://a.test/")
        crawl.commit()
        assert harness.observe() == []

    clock.advance(6)
    (event,) = [
        e for e in harness.sense("table_events").asset_events if e.asset_key.to_user_string() == "fetches"
    ]

    assert event.metadata["versions"].value == "1 to 10"
    assert event.metadata["rows_added"].value == 10


def test_production_reports_often_only_what_says_that_the_fleet_lives(tmp_path, crawl, clock, fleet):
    """Events are kept for ever, and nothing in production waits for one."""
    settings = Settings(home=str(tmp_path), orchestration=Orchestration(profile="production"))
    with dg.DagsterInstance.ephemeral() as instance:
        production = Harness(settings, clock, fleet, instance)
        production.observe()
        seen = []
        for _ in range(3):
            clock.advance(1_200)
            small_web(crawl, seeds=4, farm=False)
            seen.append(set(production.observe()))

    assert seen[0] == {"fetches", "fleet_stats"}
    assert seen[1] == {"fetches", "fleet_stats"}
    assert seen[2] > {"links", "hosts"}


def test_the_tables_reported_often_are_those_with_a_freshness_policy_of_minutes():
    assert set(WATCHED) == set(FRESH_WITHIN)
    assert all(window.total_seconds() > PRODUCTION.table_event_gap for window in FRESH_WITHIN.values())


def test_versions_that_no_commit_names_yet_are_not_reported(harness, crawl, clock, lake):
    """Readers stand at the version vector: a table that is ahead of it is not news."""
    crawl.visit("https://a.test/")
    crawl.commit()
    clock.advance(20)
    harness.observe()
    crawl.visit("https://b.test/")
    crawl.begin_commit()

    clock.advance(20)
    assert lake.version("fetches") == 2
    assert "fetches" not in harness.observe()

    crawl.end_commit()
    assert "fetches" in harness.observe()


def test_without_a_lake_it_says_so(harness, lake):
    (lake.root / "lake.json").unlink()

    result = harness.sense("table_events")

    assert "no lake" in result.skip_reason.skip_message
