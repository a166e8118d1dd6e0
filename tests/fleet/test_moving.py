"""Shards change their cell while both crawl, and whoever is killed on the way: with real processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from crawl_platform import settings
from crawl_platform.commit.faults import (
    ADOPTED,
    DRAINED,
    FORGOT,
    HANDOFF_POINTS,
    IMPORTED,
    IMPORTING,
    SWAPPED,
    WIPED,
    WRITTEN,
)
from crawl_platform.fleet.shard_file import FOLDER
from crawl_platform.frontier.kv import prefix_end
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.frontier.shard_state import stored
from tests.fleet.checks import asked, surplus
from tests.fleet.harness import Fleet, eventually
from tests.fleet.moves import HOSTS, SHARD, assert_sound, crossed, order, table, wait_moved
from tests.fleet.together import Together, told

pytestmark = pytest.mark.long
GIVER = (FORGOT, WRITTEN, DRAINED, WIPED)
TAKER = (IMPORTING, IMPORTED, SWAPPED, ADOPTED)


def cells_after(fleet: Fleet, host: str, boot: float) -> set[str]:
    """Cells that fetched pages of `host` after that moment, as the lake knows them."""
    at = boot + fleet.clock.now() - fleet.clock.boottime()
    found = fleet.rows(
        "SELECT DISTINCT cell FROM fetches WHERE host = $1 AND epoch(started_at) > $2", host, at
    )
    return {row["cell"] for row in found}


def leftovers(fleet: Fleet) -> list[str]:
    """What a handoff should have cleared away: files, and copies in the store of a cell that has given a shard away."""
    folder = fleet.lake.root / FOLDER
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    for cell in ("cell-0", "cell-1"):
        kv = RocksKV(fleet.home / "cells" / cell / "state")
        try:
            found += [f"{cell} keeps shard {s}" for s in range(8) if stored(kv, s) and _of(cell, s) is False]
            found += [key.hex() for key, _ in kv.scan(b"!taken/", prefix_end(b"!taken/"))]
        finally:
            kv.close()
    return found


def _of(cell: str, shard: int) -> bool:
    if shard == SHARD:
        return cell == "cell-1"
    return shard % 2 == int(cell[-1])


def there_and_back_and_there_while_both_crawl(folder: Path) -> None:
    with crossed(folder, pages=400) as (world, fleet):
        fleet.start()
        fleet.seed()
        for number, cell in enumerate(("cell-1", "cell-0", "cell-1"), start=1):
            fleet.wait_requests(60 * number, HOSTS[0])
            order(fleet, SHARD, cell)
            took = wait_moved(fleet, SHARD, cell)
            assert took < 20.0
        moved = fleet.clock.boottime()
        fleet.wait_quiet(120.0)
        fleet.stop()

        assert cells_after(fleet, HOSTS[0], moved) == {"cell-1"}
        assert (fleet.restarts("cell-0"), fleet.restarts("cell-1")) == (0, 0)
        assert surplus(fleet.requests(), fleet.fetches()).total() == 0
        assert {n for (host, page), n in asked(fleet.requests()).items() if page != "/robots.txt"} == {1}
        assert_sound(fleet, world)
        assert leftovers(fleet) == []


def a_third_cell_gets_its_part(folder: Path) -> None:
    with crossed(folder, pages=300) as (world, fleet):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(40, HOSTS[0])
        fleet.stop()
        three = msgspec.structs.replace(fleet.settings.fleet, cells=3)
        fleet.settings = msgspec.structs.replace(fleet.settings, fleet=three)
        settings.save(fleet.settings)
        fleet.start()
        eventually(lambda: not any(owner.to for owner in table(fleet).values()), 60.0, "all have arrived")
        owners = table(fleet).values()
        fleet.wait_quiet(120.0)
        fleet.stop()

        assert {owner.cell for owner in owners} == {"cell-0", "cell-1", "cell-2"}
        assert "cell-2" in {owner.cell for owner in owners if owner.handed}
        assert [fleet.restarts(f"cell-{number}") for number in range(3)] == [0, 0, 0]
        assert_sound(fleet, world)


def _killed_at(folder: Path, point: str) -> None:
    victim = "cell-0" if point in GIVER else "cell-1"
    with crossed(folder) as (world, fleet):
        fleet.start(f"{victim}={point}:1")
        fleet.seed()
        fleet.wait_requests(40, HOSTS[0])
        order(fleet, SHARD, "cell-1")
        eventually(lambda: fleet.restarts(victim) == 1, 60.0, f"{victim} dies at {point}")
        wait_moved(fleet, SHARD, "cell-1")
        moved = fleet.clock.boottime()
        fleet.wait_quiet(120.0)
        fleet.stop()

        assert cells_after(fleet, HOSTS[0], moved) <= {"cell-1"}
        assert_sound(fleet, world)
        assert leftovers(fleet) == []


def _story(point: str) -> Callable[[Path], None]:
    return lambda folder: _killed_at(folder, point)


STORIES: dict[str, Callable[[Path], None]] = {
    "there_and_back": there_and_back_and_there_while_both_crawl,
    "a third cell": a_third_cell_gets_its_part,
    **{f"killed at {point}": _story(point) for point in HANDOFF_POINTS},
}


@pytest.fixture(scope="module")
def telling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with told(request, tmp_path_factory, STORIES) as together:
        yield together


@pytest.mark.parametrize("story", STORIES)
def test_a_shard_moves(telling: Together, story: str) -> None:
    telling.result(story)


def test_every_point_of_a_handoff_is_died_at_by_the_cell_that_passes_it() -> None:
    assert {*GIVER, *TAKER} == set(HANDOFF_POINTS)
