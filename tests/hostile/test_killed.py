"""The worst moment: a cell is killed, or its disk runs full, while every other host means harm."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.simulation.hostile.honest import paths
from crawl_platform.simulation.hostile.server import DECOY
from crawl_platform.simulation.verdict import overlaps, short_gaps
from tests.fleet.checks import assert_nothing_twice, assert_whole_at_every_commit
from tests.fleet.harness import Fleet, eventually
from tests.hostile.crawl import DELAY, path_of, served, settings
from tests.hostile.test_crawl import SLICE

HONEST = "honest.hostile.test"
KILLS = 3
MARGIN, FILLER = 2_000_000_000, 4_000_000_000
"""Bytes that are free beyond the reserve, and bytes that fill them: others use the disk too."""


def honest_pages(fleet: Fleet) -> set[str]:
    """Paths of the honest site that were fetched well."""
    rows = [row for row in fleet.fetches() if row["host"] == HONEST]
    return {path_of(row["url"]) for row in rows if row["outcome"] == Outcome.OK}


def assert_harmless(fleet: Fleet) -> None:
    """Whatever happened: polite, whole, nobody contacted who must not be, and the honest site complete."""
    log = fleet.requests()
    for by in ("host", "address"):
        assert overlaps(log, by=by) == []
        assert short_gaps(log, DELAY, by=by) == []
    assert [entry for entry in log if entry.host == DECOY] == []
    assert paths() <= honest_pages(fleet)
    assert_nothing_twice(fleet.fetches())
    assert_whole_at_every_commit(fleet.lake)


@pytest.mark.long
def test_a_cell_killed_among_hostile_hosts_goes_on_politely_and_loses_nothing(tmp_path: Path) -> None:
    with served(tmp_path, SLICE) as (web, _), Fleet(tmp_path / "home", web, **settings(web)).start() as fleet:
        fleet.seed()
        for number in range(1, KILLS + 1):
            fleet.wait_requests(5 * number, HONEST)
            fleet.kill_cell()
        fleet.wait_quiet(150)
        fleet.stop()

        assert_harmless(fleet)
        assert fleet.copy_of_state().unqueued == []


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """The disk of `folder` is full up to the reserve."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, FILLER)
    try:
        yield
    finally:
        filler.unlink()


@pytest.mark.long
def test_a_cell_whose_disk_is_full_stops_claiming_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    if free < 2 * FILLER:
        pytest.skip("not enough room to fill some of it")
    low = FleetSettings(min_free_disk=free - MARGIN)
    with served(tmp_path, SLICE) as (web, _):
        sections = settings(web) | {"fleet": low}
        with Fleet(tmp_path / "home", web, **sections).start() as fleet:
            fleet.seed()
            fleet.wait_requests(5, HONEST)
            with full(tmp_path):
                eventually(lambda: "min_free_disk" in fleet.log_text("cell-0"), 30.0, "it says so")
                time.sleep(1.0)
                before = len(fleet.requests_to(HONEST))
                time.sleep(3.0)
                assert len(fleet.requests_to(HONEST)) == before < len(paths())
            fleet.wait_requests(before + 1, HONEST, within=30.0)
            fleet.wait_quiet(150)
            assert fleet.restarts("cell-0") == 0
            fleet.stop()

            assert_harmless(fleet)
