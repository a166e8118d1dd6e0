from pathlib import Path

import pytest

from crawl_platform.lake.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create(64)
    return lake
