"""A small web on the wire, one process for all tests that only read from it."""

from collections.abc import Iterator

import pytest

from crawl_platform.simulation.running import RunningWeb, launch


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    log = tmp_path_factory.mktemp("web") / "requests.jsonl"
    with launch(["synthetic", "--seed", "11"], log, scale=0.2) as web:
        yield web
