import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.lake import Lake
from crawl_platform.testing.builders import tiny_lake


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedKV]:
    kv: OrderedKV = MemoryKV() if request.param == "memory" else RocksKV(tmp_path / "state")
    yield kv
    kv.close()


@pytest.fixture(scope="session")
def new_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake as `create` leaves it, to be copied."""
    return tiny_lake(tmp_path_factory.mktemp("new") / "lake").root


@pytest.fixture
def lake(new_lake: Path, tmp_path: Path) -> Lake:
    return Lake(shutil.copytree(new_lake, tmp_path / "lake"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
