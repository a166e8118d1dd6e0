"""Every store under one contract: a test that asks for `store` runs over both."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.rocks import RocksKV


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedKV]:
    kv: OrderedKV = MemoryKV() if request.param == "memory" else RocksKV(tmp_path / "state")
    yield kv
    kv.close()


@pytest.fixture
def open_rocks(tmp_path: Path) -> Callable[[], RocksKV]:
    return lambda: RocksKV(tmp_path / "durable")
