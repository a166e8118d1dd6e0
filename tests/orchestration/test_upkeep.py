"""The asset and the launchpad job of upkeep: what they ask for, what they show, what their checks find."""

import shutil
from datetime import timedelta

import dagster as dg
import msgspec
import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.upkeep import Order, Task, do_portion
from crawl_platform.lake.history import forget_before
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Budget, Report
from crawl_platform.settings import Retention
from tests.lake.aging import AgingLake
from tests.orchestration.harness import Harness
from tests.orchestration.made_up_crawl import RememberingFleet

DAYS = 86_400.0


class UpkeepFleet(RememberingFleet):
    """Does what the committer's child does, in this process."""

    def __init__(self, settings, clock):
        super().__init__()
        self.settings, self.clock = settings, clock
        self.orders: list[Order] = []
        self.allowed: int | None = None

    def upkeep(self, tables=(), *, dry_run=False) -> Report:
        if self.away:
            raise ExchangeError("nobody answers on upkeep.order")
        self.orders.append(Order(tuple(tables), dry_run))
        budget = None if self.allowed is None else Budget(self.clock, bytes_left=self.allowed)
        return do_portion(self.settings, self.clock, Task(self.orders[-1]), budget=budget)


@pytest.fixture
def settings(settings):
    return msgspec.structs.replace(settings, retention=Retention(compact_after_files=4))


@pytest.fixture
def fleet(settings, clock):
    return UpkeepFleet(settings, clock)


@pytest.fixture
def harness(settings, clock, fleet):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Harness(settings, clock, fleet, instance)


@pytest.fixture(scope="module")
def kept(empty_lake, tmp_path_factory):
    aging = AgingLake(
        Lake(shutil.copytree(empty_lake, tmp_path_factory.mktemp("aging") / "lake")), ManualClock()
    )
    aging.busy_day(rounds=6)
    aging.pass_days(1)
    return aging


@pytest.fixture
def aging(kept, lake, clock):
    """A copy of it; `clock` stands where its clock does."""
    shutil.copytree(kept.lake.root, lake.root, dirs_exist_ok=True)
    clock.advance(kept.clock.now() - clock.now())
    return kept.copied(lake, clock)


def failed(result) -> list[str]:
    return [e.check_name for e in result.get_asset_check_evaluations() if not e.passed]


def metadata(result):
    return result.asset_materializations_for_node("upkeep")[0].metadata


def test_a_run_looks_after_the_lake_and_shows_what_was_done(harness, aging, lake, fleet):
    result = harness.execute("upkeep")

    assert fleet.orders == [Order()]
    assert failed(result) == []
    shown = metadata(result)
    done = lake.query("SELECT table_name, action FROM upkeep").to_pylist()
    assert {"table_name": "fetches", "action": "compact"} in done
    assert shown["dagster/row_count"].value == len(done)
    assert "| fetches | compact | 6 → 1 |" in shown["done"].value
    assert shown["partitions_left"].value == 0
    assert shown["inputs"].value == {row["table_name"]: lake.version(row["table_name"]) for row in done}


@pytest.mark.long
def test_a_run_with_nothing_to_do_adds_no_row(harness, aging, lake):
    harness.execute("upkeep")
    version = lake.version("upkeep")

    result = harness.execute("upkeep")

    assert lake.version("upkeep") == version
    assert "none this time" in metadata(result)["done"].value


def test_without_a_fleet_the_run_fails_and_says_so(harness, aging, fleet, lake):
    fleet.away = True

    harness.execute("upkeep", fails=True)

    assert lake.version("upkeep") == 0


def test_the_job_of_the_launchpad_looks_after_named_tables(harness, aging, fleet, lake):
    config = {"ops": {"look_after_the_lake": {"config": {"tables": ["links"], "dry_run": True}}}}

    result = harness.definitions.resolve_job_def("compact_lake").execute_in_process(
        instance=harness.instance, run_config=config
    )

    assert result.success
    assert fleet.orders == [Order(("links",), True)]
    assert len(lake.delta("links").file_uris()) == 6


def test_it_is_due_at_each_tick_of_its_clock(harness):
    harness.tick()

    assert "upkeep" in harness.tick(later=timedelta(minutes=11))


# what the checks find


@pytest.mark.long
def test_a_day_that_waits_is_a_warning(harness, aging, fleet):
    fleet.allowed = 1  # byte: the first piece of work alone, of two files

    result = harness.execute("upkeep")

    (check,) = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert (check.check_name, check.severity) == ("days_are_compact", dg.AssetCheckSeverity.WARN)
    assert check.metadata["days_that_wait"].value > 1
    assert metadata(result)["partitions_left"].value > 1


@pytest.mark.long
def test_a_file_that_a_reader_needs_and_that_is_gone_is_an_error(harness, aging, lake):
    aging.upkeep(compact_after_files=4)
    staged = next(path for path in sorted(aging.files("pages")) if path.startswith("_staged"))
    (lake.path("pages") / staged).unlink()

    result = harness.execute("upkeep")

    assert failed(result) == ["history_can_be_read"]


@pytest.mark.long
def test_a_commit_of_these_days_that_cannot_be_read_is_an_error(harness, aging, lake):
    forget_before(lake.root, "fetches", 3)

    result = harness.execute("upkeep")

    assert failed(result) == ["history_can_be_read"]


@pytest.mark.long
def test_an_orphan_that_was_never_swept_is_a_warning(harness, aging, fleet, settings):
    aging.staged(aging.visit("orphan", "https://a.test/orphan"), incarnation="gone")
    (settings.root / "cells" / "cell-0" / "state").mkdir(
        parents=True
    )  # can't be read: nothing staged is swept
    aging.pass_days(10)

    result = harness.execute("upkeep")

    (check,) = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert (check.check_name, check.severity) == ("orphans_are_swept", dg.AssetCheckSeverity.WARN)
    assert check.metadata["orphans"].value == 1
