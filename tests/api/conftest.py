from pathlib import Path

import pytest

from crawl_platform.lake.lake import Lake
from tests.api.serving import MadeUpFleet


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a crawl that has a lake and nothing in it."""
    Lake(tmp_path / "lake").create(4)
    return tmp_path


@pytest.fixture
def lake(home: Path) -> Lake:
    return Lake(home / "lake")


@pytest.fixture
def fleet() -> MadeUpFleet:
    return MadeUpFleet(seed={"a.test"})
