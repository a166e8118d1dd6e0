"""Stops, starts and accidents: whatever happens to the fleet's processes, the crawl comes to the same end."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawl_platform.fleet.supervisor import EXIT_REFUSES
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.settings import Politeness
from crawl_platform.web.host import shard_of
from tests.fleet.checks import (
    asked,
    assert_brought_home,
    assert_drained,
    assert_nothing_twice,
    assert_one_row_per_request,
    assert_polite,
    assert_whole_at_every_commit,
    surplus,
)
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, serve
from tests.fleet.together import Together, told

SHARDS = 8
"""Of the fleet of two cells: the even ones are given to cell-0, the odd ones to cell-1."""


def a_fleet_that_was_stopped_cleanly_goes_on_where_it_was(folder: Path) -> None:
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        site = world.sites["one.test"]
        fleet.start()
        fleet.seed()
        fleet.wait_requests(8)
        fleet.stop()
        first = len(fleet.requests())
        assert first < len(site.pages)
        assert_one_row_per_request(fleet.requests(), fleet.fetches())

        fleet.start()
        fleet.wait_quiet()
        fleet.stop()

        log = fleet.requests()
        assert set(asked(log).values()) == {1}, "nothing was fetched twice, robots.txt neither"
        assert_one_row_per_request(log, fleet.fetches())
        assert_polite(log)
        assert_brought_home(fleet, site)
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def what_the_committer_had_not_taken_yet_is_committed_at_a_stop(folder: Path) -> None:
    with serve(folder, Plan("one.test", 150)) as world, Fleet(folder / "home", world.web) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_requests(8)
        committer = fleet.pid("committer")
        assert fleet.process is not None

        with fleet.suspended("committer"):
            fleet.wait_requests(30)
            fleet.process.terminate()
            eventually(lambda: _is_asked_to_end(committer), 20.0)
        fleet.stop()

        assert_one_row_per_request(fleet.requests(), fleet.fetches())


def _is_asked_to_end(pid: int) -> bool:
    """Whether a SIGTERM waits for the suspended process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    pending = int(status["ShdPnd"], 16) | int(status["SigPnd"], 16)
    return bool(pending & 1 << (signal.SIGTERM - 1))


def when_the_supervisor_is_killed_its_children_end_and_a_new_one_takes_over(folder: Path) -> None:
    with serve(folder, Plan("one.test", 150)) as world, Fleet(folder / "home", world.web) as fleet:
        site = world.sites["one.test"]
        fleet.start()
        fleet.seed()
        fleet.wait_requests(8)

        assert fleet.process is not None
        assert len(fleet.left_over()) == 3
        fleet.process.kill()
        fleet.process.wait()
        eventually(lambda: fleet.left_over() == [], 20.0, "children end by themselves")
        first = len(fleet.requests())

        fleet.start()
        fleet.wait_quiet()
        fleet.stop()

        log, fetches = fleet.requests(), fleet.fetches()
        assert first < len(site.pages)
        assert_polite(log)
        assert_nothing_twice(fetches)
        assert sum(surplus(log, fetches).values()) == 0, "children stop in order: nothing is fetched again"
        assert_brought_home(fleet, site)
        assert_drained(fleet)


def two_cells_exchange_what_they_find_through_the_inbox(folder: Path) -> None:
    east, west = _host_of_cell("east", 0), _host_of_cell("west", 1)
    pages = [f"x{n}.html" for n in range(1, 13)]
    plans = (
        Plan(east, 20, hidden=12, abroad=tuple((west, page) for page in pages)),
        Plan(west, 20, hidden=12, abroad=tuple((east, page) for page in pages)),
    )
    cells = FleetSettings(cells=2, shards=SHARDS)
    with serve(folder, *plans) as world, Fleet(folder / "home", world.web, fleet=cells) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_quiet()
        fleet.stop()

        owners = fleet.rows("SELECT DISTINCT host, cell FROM fetches ORDER BY cell")
        assert owners == [{"host": east, "cell": "cell-0"}, {"host": west, "cell": "cell-1"}]
        assert_brought_home(fleet, *world.sites.values())
        assert_one_row_per_request(fleet.requests(), fleet.fetches())
        assert set(asked(fleet.requests()).values()) == {1}
        assert_polite(fleet.requests())
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def the_crawl_goes_on_without_nats_and_everything_arrives_afterwards(folder: Path) -> None:
    with serve(folder, Plan("big.test", 600)) as world, Fleet(folder / "home", world.web) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_requests(30)

        with fleet.held():
            fleet.kill("nats")
            gone = fleet.clock.boottime()
            eventually(lambda: fleet.clock.boottime() - gone > 10.0, 15.0)
        without = [entry for entry in fleet.requests() if gone + 1.0 < entry.start_boot < gone + 10.0]
        assert len(without) > 50, "the crawl went on"
        state = fleet.kill_cell()
        fleet.wait_quiet()

        fleet.client.recrawl(world.url("big.test"), request_id="after-the-outage")
        eventually(lambda: _has_request(fleet, "after-the-outage"), 10.0, "the inbox is read again")
        fleet.client.exclude("big.test")
        eventually(lambda: _excluded(fleet, "big.test"), 10.0, "directives are obeyed again")
        fleet.stop()
        log, fetches = fleet.requests(), fleet.fetches()
        assert sum(1 for row in fetches if state.committed(row)) > 50, "committed without NATS, not lost"
        assert_polite(log)
        assert_nothing_twice(fetches)
        assert_brought_home(fleet, world.sites["big.test"])
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def a_cell_refuses_a_lake_that_was_restored_to_an_older_state(folder: Path) -> None:
    with serve(folder, Plan("tiny.test", 10)) as world, Fleet(folder / "home", world.web) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_quiet()
        with fleet.suspended("committer"):
            shutil.copytree(fleet.lake.root, folder / "older")
        fleet.client.recrawl(world.url("tiny.test"), request_id="newer")
        eventually(lambda: _has_request(fleet, "newer"), 10.0)
        fleet.wait_quiet()
        fleet.stop()

        shutil.rmtree(fleet.lake.root)
        shutil.copytree(folder / "older", fleet.lake.root)
        before = len(fleet.requests())
        fleet.process = fleet.spawn_supervisor()
        eventually(lambda: _state_of(fleet, "cell-0") == "refused", 30.0, "the cell refuses")

        assert _state_of(fleet, "committer") == "running"
        text = fleet.log_text("cell-0")
        assert "it was restored to an older state. Restore the cells' state of the same day" in text
        assert _run_cell(fleet) == EXIT_REFUSES == 3
        fleet.stop()
        assert len(fleet.requests()) == before
        assert fleet.restarts("cell-0") == 0, "it is not started again"


def _state_of(fleet: Fleet, name: str) -> str:
    return next((child.state for child in fleet.status().children if child.name == name), "")


def _run_cell(fleet: Fleet) -> int:
    command = [sys.executable, "-m", "crawl_platform.fleet", "cell", "--home", str(fleet.home)]
    return subprocess.run([*command, "--name", "cell-0"], check=False, timeout=30).returncode


def at_the_default_delay_of_one_second_the_server_sees_one_second(folder: Path) -> None:
    polite = Politeness()
    assert polite.host_delay == polite.address_delay == 1.0
    plans = (Plan("twelve.test", 12), Plan("ten.test", 10))
    with serve(folder, *plans) as world, Fleet(folder / "home", world.web, politeness=polite) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_requests(8)
        fleet.kill_cell()
        query = "SELECT count(DISTINCT url) AS pages FROM fetches WHERE kind = 'page'"
        eventually(lambda: fleet.rows(query)[0]["pages"] == 22, 60.0, "all 22 pages are in the lake", 0.5)
        fleet.stop()

        assert_polite(fleet.requests(), 1.0)
        assert_brought_home(fleet, *world.sites.values())


def _has_request(fleet: Fleet, request_id: str) -> bool:
    return fleet.rows("SELECT 1 FROM fetches WHERE request_id = $1", request_id) != []


def _excluded(fleet: Fleet, host: str) -> bool:
    return fleet.rows("SELECT 1 FROM hosts WHERE host = $1 AND event = 'excluded'", host) != []


def _host_of_cell(word: str, parity: int) -> str:
    """A host name whose shard is even or odd."""
    names = (f"{word}{n}.test" for n in range(100))
    return next(name for name in names if shard_of(name, SHARDS) % 2 == parity)


STORIES: dict[str, Callable[[Path], None]] = {
    story.__name__: story
    for story in (
        the_crawl_goes_on_without_nats_and_everything_arrives_afterwards,
        at_the_default_delay_of_one_second_the_server_sees_one_second,
        a_cell_refuses_a_lake_that_was_restored_to_an_older_state,
        a_fleet_that_was_stopped_cleanly_goes_on_where_it_was,
        what_the_committer_had_not_taken_yet_is_committed_at_a_stop,
        when_the_supervisor_is_killed_its_children_end_and_a_new_one_takes_over,
        two_cells_exchange_what_they_find_through_the_inbox,
    )
}


@pytest.fixture(scope="module")
def telling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with told(request, tmp_path_factory, STORIES) as together:
        yield together


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES)
def test_whatever_happens(telling: Together, story: str) -> None:
    telling.result(story)
