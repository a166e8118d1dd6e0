import shutil
from pathlib import Path

import pytest

from crawl_platform.lake.lake import Lake


@pytest.fixture(scope="session")
def new_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake as `create` leaves it, to be copied."""
    lake = Lake(tmp_path_factory.mktemp("new") / "lake")
    lake.create(64)
    return lake.root


@pytest.fixture
def lake(new_lake: Path, tmp_path: Path) -> Lake:
    """A lake of its own, empty, with 64 shards."""
    return Lake(shutil.copytree(new_lake, tmp_path / "lake"))
