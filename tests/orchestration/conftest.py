import shutil
from contextlib import nullcontext
from pathlib import Path

import dagster as dg
import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Orchestration, Settings
from tests.orchestration.harness import Harness, without_pictures
from tests.orchestration.made_up_crawl import SHARDS, MadeUpCrawl, RememberingFleet


@pytest.fixture
def pictures():
    """Asked for by tests that look at pictures."""


@pytest.fixture(autouse=True)
def no_pictures(request):
    with nullcontext() if "pictures" in request.fixturenames else without_pictures():
        yield


@pytest.fixture(scope="session", autouse=True)
def unstamped():
    """The revision that Dagster stamps on its databases in memory is read by nobody, and takes 0.1 s each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dagster._core.storage.runs.in_memory.stamp_alembic_rev", lambda *_: None)
        patch.setattr("dagster._core.storage.event_log.in_memory.stamp_alembic_rev", lambda *_: None)
        yield


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
