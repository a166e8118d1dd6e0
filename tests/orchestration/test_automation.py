"""Automation by real ticks: which assets become due, and when they do not."""

from datetime import timedelta

import dagster as dg
import pytest

from crawl_platform.settings import Orchestration, Settings
from tests.orchestration.harness import Harness
from tests.orchestration.made_up_crawl import small_web

CHAIN = {"link_graph", "host_ranks", "related_hosts", "promotions"}
RATES = {"url_groups", "change_rates", "value_model"}
DECISIONS = {*CHAIN, *RATES, "crawl_schedule"}
"""What becomes due with news; all else goes by the clock, and a minute may end while a test runs."""


@pytest.fixture
def decided(harness, crawl):
    """A harness whose first chain has been requested and materialized."""
    harness.tick()
    small_web(crawl)
    harness.observe()
    harness.tick()
    harness.pretend(*DECISIONS)
    harness.tick()
    return harness


def test_nothing_is_due_before_the_fleet_has_written(harness):
    assert harness.tick() == set()


def test_new_tables_make_the_whole_chain_due_in_one_tick(harness, crawl):
    harness.tick()
    small_web(crawl)
    harness.observe()

    assert harness.tick() >= DECISIONS


@pytest.mark.long
def test_nothing_is_due_again_without_news(harness, crawl):
    harness.tick()
    small_web(crawl)
    harness.observe()
    harness.tick()
    harness.decide()
    harness.execute(*RATES, "crawl_schedule")

    assert not harness.tick() & DECISIONS
    assert harness.observe() == []
    assert not harness.tick() & DECISIONS


@pytest.mark.long
def test_an_update_on_the_tick_right_after_a_request_is_not_lost(harness, crawl, clock):
    """What a bare eager() swallows: new links while the run that was asked for has not started yet."""
    harness.tick()
    small_web(crawl)
    harness.observe()
    harness.tick()

    clock.advance(20)
    crawl.visit("https://seed-0.test/new", "https://another.test/")
    crawl.commit()
    harness.observe()

    assert "link_graph" in harness.tick()


@pytest.mark.long
def test_the_chain_stays_one_run_when_its_last_one_has_just_ended(harness, crawl, clock):
    harness.tick()
    small_web(crawl)
    harness.observe()
    harness.tick()

    harness.decide()
    clock.advance(20)
    crawl.visit("https://seed-0.test/new", "https://another.test/")
    crawl.commit()
    harness.observe()

    assert harness.tick() >= CHAIN


def test_the_chain_of_rates_stays_one_run_too(harness, crawl, clock):
    harness.tick()
    small_web(crawl)
    harness.observe()
    harness.tick()

    harness.execute(*RATES)
    clock.advance(20)
    crawl.visit("https://seed-0.test/new")
    crawl.commit()
    harness.observe()

    assert harness.tick() >= RATES


@pytest.mark.long
@pytest.mark.parametrize(
    ("parent", "check", "child"),
    [
        ("link_graph", "links_have_their_fetch", "host_ranks"),
        pytest.param("link_graph", "edges_add_up", "host_ranks", marks=pytest.mark.long),
        pytest.param("host_ranks", "ranks_sum_to_one", "promotions", marks=pytest.mark.long),
        pytest.param("host_ranks", "ranks_are_finite", "promotions", marks=pytest.mark.long),
        pytest.param("url_groups", "counts_add_up", "change_rates", marks=pytest.mark.long),
        pytest.param("url_groups", "groups_have_a_template", "change_rates", marks=pytest.mark.long),
        ("change_rates", "priors_are_proper", "value_model"),
    ],
)
def test_what_follows_is_not_due_while_a_blocking_check_of_its_parent_fails(decided, parent, check, child):
    decided.pretend(parent, failed=check)

    assert child not in decided.tick()


@pytest.mark.long
@pytest.mark.parametrize(
    ("parent", "child"),
    [
        ("link_graph", "host_ranks"),
        pytest.param("host_ranks", "promotions", marks=pytest.mark.long),
        pytest.param("url_groups", "change_rates", marks=pytest.mark.long),
        ("change_rates", "value_model"),
    ],
)
def test_with_passed_checks_it_would_be_due(decided, parent, child):
    """Ablation: the same history with checks that pass."""
    decided.pretend(parent)

    assert child in decided.tick()


@pytest.fixture
def production(tmp_path, clock, fleet):
    settings = Settings(home=str(tmp_path), orchestration=Orchestration(profile="production"))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Harness(settings, clock, fleet, instance)


def test_production_decides_by_cron_and_not_with_every_event(production, crawl):
    production.tick()
    small_web(crawl)
    production.observe()

    assert production.tick() == set()
    assert production.tick(later=timedelta(hours=7)) >= {*CHAIN, "crawl_schedule"}


def test_production_plans_windows_hourly_and_ranks_every_six_hours(production, crawl):
    production.tick()
    small_web(crawl)
    production.observe()
    production.tick(later=timedelta(hours=7))
    production.pretend(*CHAIN, "crawl_schedule")
    production.tick()

    # Half an hour apart: as in life, the tick after a request is not itself one of the cron's.
    half_hourly = [production.tick(later=timedelta(minutes=30)) for _ in range(12)]

    assert sum("link_graph" in due for due in half_hourly) == 1
    assert sum("crawl_schedule" in due for due in half_hourly) == 6


@pytest.mark.long
def test_production_estimates_rates_once_a_day(production, crawl):
    production.tick()
    small_web(crawl)
    production.observe()

    production.pretend(*CHAIN)
    hourly = [production.tick(later=timedelta(hours=1)) for _ in range(24)]

    assert sum(due >= RATES for due in hourly) == sum("url_groups" in due for due in hourly) == 1
