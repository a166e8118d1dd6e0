import shutil
from pathlib import Path

import dagster as dg
import pytest

from assets import plots
from crawl_platform.clock import ManualClock
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Orchestration, Settings
from tests.orchestration.harness import Harness
from tests.orchestration.made_up_crawl import SHARDS, MadeUpCrawl, RememberingFleet


@pytest.fixture
def pictures():
    """Asked for by tests that look at pictures."""


@pytest.fixture(autouse=True)
def no_pictures(request, monkeypatch):
    """Drawing takes a third of a run's time."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(plots, "_markdown", lambda figure, caption: dg.MetadataValue.md(caption))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory) -> Path:
    """A lake as created; copying it is ten times as fast as creating another."""
    root = tmp_path_factory.mktemp("empty") / "lake"
    Lake(root).create(SHARDS)
    return root


@pytest.fixture
def lake(empty_lake: Path, tmp_path: Path) -> Lake:
    shutil.copytree(empty_lake, tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture
def crawl(lake: Lake, clock: ManualClock) -> MadeUpCrawl:
    return MadeUpCrawl(lake, clock)


@pytest.fixture
def fleet() -> RememberingFleet:
    return RememberingFleet()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path), orchestration=Orchestration(profile="demo", promotion_quota=5))


@pytest.fixture
def harness(settings: Settings, clock: ManualClock, fleet: RememberingFleet):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Harness(settings, clock, fleet, instance)
