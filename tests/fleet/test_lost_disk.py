"""The state folder of a cell is gone: its shards come back from the lake, with real processes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawl_platform.commit.faults import REBUILT, REBUILT_BASE
from crawl_platform.fleet.ordering import order_rebuild
from crawl_platform.settings import Commit
from crawl_platform.settings import Fleet as FleetSettings
from tests.fleet.checks import asked
from tests.fleet.harness import Fleet, eventually
from tests.fleet.moves import HOSTS, SHARDS, assert_sound, crossed, table
from tests.fleet.together import Together, told

pytestmark = pytest.mark.long
OFTEN = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=4.0, snapshot_seconds=3.0)
SELDOM = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=5.0)
PAGES = 250
T_DEAD = 12.0


def lose_the_disk(fleet: Fleet, name: str = "cell-0") -> None:
    with fleet.held():
        pid = fleet.kill(name)
        eventually(lambda: _ended(pid), 5.0, f"{name} is dead", 0.01)
        shutil.rmtree(fleet.home / "cells" / name)


def _ended(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "\nState:\tZ" in status.read_text()


def snapshots(fleet: Fleet) -> int:
    """URLs of the first host in its shard's last snapshot."""
    return int(fleet.rows("SELECT count(*) AS n FROM frontier_now WHERE host = $1", HOSTS[0])[0]["n"])


def _crawl_lose_and_check(folder: Path, commit: Commit, fault: str = "", snapshot: bool = True) -> None:
    with crossed(folder, PAGES, commit=commit) as (world, fleet):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(40, HOSTS[0])
        if snapshot:
            eventually(lambda: snapshots(fleet) > 20, 60.0, "a snapshot is in the lake")
        before = len(fleet.requests())
        if fault:
            fleet.stop()
            shutil.rmtree(fleet.home / "cells" / "cell-0")
            fleet.start(f"cell-0={fault}:1")
        else:
            lose_the_disk(fleet)
        eventually(
            lambda: "shards that it owns: its state is gone" in fleet.log_text("cell-0"), 60.0, "it says so"
        )
        eventually(lambda: not any(owner.lost for owner in table(fleet).values()), 90.0, "all is rebuilt")
        fleet.wait_quiet(180.0)
        fleet.stop()

        assert fleet.log_text("cell-0").count("is rebuilt: ") >= SHARDS // 2
        again = sum(
            count - 1 for (_, page), count in asked(fleet.requests()).items() if page != "/robots.txt"
        )
        assert again < before / 2, "what is done twice is bounded by what no row told of"
        assert_sound(fleet, world)


def a_lost_disk_is_rebuilt_from_snapshot_and_rows(folder: Path) -> None:
    _crawl_lose_and_check(folder, OFTEN)


def without_any_snapshot_the_rows_are_enough(folder: Path) -> None:
    _crawl_lose_and_check(folder, SELDOM, snapshot=False)


def a_rebuild_that_is_killed_begins_anew(folder: Path) -> None:
    _crawl_lose_and_check(folder, OFTEN, REBUILT_BASE)


def a_rebuild_that_is_killed_at_its_end_begins_anew(folder: Path) -> None:
    _crawl_lose_and_check(folder, OFTEN, REBUILT)


def a_lost_machine_s_shards_go_to_a_cell_that_lives(folder: Path) -> None:
    _lose_a_machine_and_check(folder, takeover=0.0)


def the_shards_of_a_cell_that_nobody_hears_of_go_to_one_that_lives_by_themselves(folder: Path) -> None:
    _lose_a_machine_and_check(folder, takeover=T_DEAD + 3.0)


def _lose_a_machine_and_check(folder: Path, takeover: float) -> None:
    """The machine is away, disk and all. Its process stands still here, and finds its shards gone in the end."""
    cells = FleetSettings(cells=2, shards=SHARDS, silence_limit=T_DEAD, takeover_seconds=takeover)
    with crossed(folder, PAGES, commit=OFTEN, fleet=cells) as (world, fleet):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(40, HOSTS[0])
        eventually(lambda: snapshots(fleet) > 20, 60.0, "a snapshot is in the lake")
        with fleet.suspended("cell-0"):
            beat = fleet.beats()["cell-0"].at
            eventually(lambda: fleet.clock.now() - beat > T_DEAD, 30.0, "it is silent")
            if not takeover:
                given = order_rebuild(fleet.home / "run" / "nats.json", "cell-0", ["cell-1"], 3.0)
                assert len(given) == SHARDS // 2
            eventually(
                lambda: {o.cell for o in table(fleet).values()} == {"cell-1"}, 60.0, "all are given away"
            )
            eventually(lambda: not any(owner.lost for owner in table(fleet).values()), 90.0, "all is rebuilt")
            before = len(fleet.requests_to(HOSTS[0]))
            fleet.wait_requests(before + 10, HOSTS[0])
        fleet.wait_quiet(180.0)
        assert {owner.cell for owner in table(fleet).values()} == {"cell-1"}
        fleet.stop()

        assert_sound(fleet, world)


def a_nats_of_an_older_day_is_refused_until_the_cells_rebuild_their_shards(folder: Path) -> None:
    with crossed(folder, PAGES, commit=OFTEN) as (world, fleet):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(40, HOSTS[0])
        fleet.stop()
        shutil.copytree(fleet.home / "nats", folder / "of-an-older-day")
        fleet.start()
        fleet.wait_requests(120, HOSTS[0])
        fleet.stop()

        shutil.rmtree(fleet.home / "nats")
        shutil.copytree(folder / "of-an-older-day", fleet.home / "nats")
        fleet.start()
        told = "NATS is at an older state than this cell"
        eventually(
            lambda: told in fleet.log_text("cell-0") + fleet.log_text("cell-1"), 60.0, "a cell refuses"
        )
        fleet.stop()

        shutil.move(fleet.home / "cells", folder / "put-away")
        fleet.start()
        eventually(
            lambda: not any(owner.lost for owner in table(fleet).values())
            and "is rebuilt: " in fleet.log_text("cell-0") + fleet.log_text("cell-1"),
            90.0, "all is rebuilt",
        )  # fmt: skip
        fleet.wait_quiet(180.0)
        fleet.stop()

        assert_sound(fleet, world)


STORIES: dict[str, Callable[[Path], None]] = {
    story.__name__: story
    for story in (
        a_lost_disk_is_rebuilt_from_snapshot_and_rows,
        without_any_snapshot_the_rows_are_enough,
        a_rebuild_that_is_killed_begins_anew,
        a_rebuild_that_is_killed_at_its_end_begins_anew,
        a_lost_machine_s_shards_go_to_a_cell_that_lives,
        the_shards_of_a_cell_that_nobody_hears_of_go_to_one_that_lives_by_themselves,
        a_nats_of_an_older_day_is_refused_until_the_cells_rebuild_their_shards,
    )
}


@pytest.fixture(scope="module")
def telling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with told(request, tmp_path_factory, STORIES) as together:
        yield together


@pytest.mark.parametrize("story", STORIES)
def test_a_disk_is_lost(telling: Together, story: str) -> None:
    telling.result(story)
