"""What an operator does to a running fleet, and what happens to it: each promise with real processes."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.messages import Recrawl, ScheduleWindow
from crawl_platform.fleet.supervisor import EXIT_REFUSES
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.settings import Politeness
from crawl_platform.simulation.running import Ready, launch
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
from tests.fleet.sites import Site, free_port, write_site

SHARDS = 8
"""Of the fleet of two cells: the even ones are given to cell-0, the odd ones to cell-1."""
LOG_BYTES = 1_500


@dataclass(frozen=True)
class World:
    web: Ready
    sites: dict[str, Site]

    def url(self, name: str, page: str = "") -> str:
        return f"http://{self.sites[name].host}:{self.web.http_port}/{page}"


def _host_of_cell(word: str, parity: int) -> str:
    """A host name whose shard is even or odd."""
    names = (f"{word}{n}.test" for n in range(100))
    return next(name for name in names if shard_of(name, SHARDS) % 2 == parity)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("web")
    port = free_port()
    east, west = _host_of_cell("east", 0), _host_of_cell("west", 1)
    hidden = 12
    sites = {
        "small": write_site(root, "small.test", 30, abroad=[f"http://far.test:{port}/"]),
        "big": write_site(root, "big.test", 600),
        "tiny": write_site(root, "tiny.test", 10),
        "twelve": write_site(root, "twelve.test", 12),
        "window": write_site(root, "window.test", 25),
        "far": write_site(root, "far.test", 3),
        "east": write_site(
            root, east, 20, hidden=hidden, abroad=[f"http://{west}:{port}/x{n}.html" for n in range(1, 13)]
        ),
        "west": write_site(
            root, west, 20, hidden=hidden, abroad=[f"http://{east}:{port}/x{n}.html" for n in range(1, 13)]
        ),
    }
    options = [site.option for site in sites.values()]
    with launch(["files", *options], root / "requests.jsonl", http_port=port) as web:
        yield World(web.ready, sites)


@pytest.fixture(scope="module")
def running(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of one cell that several tests use, each with hosts of its own. It has crawled small.test."""
    logs = FleetSettings(log_bytes=LOG_BYTES, log_files=2)
    with Fleet(tmp_path_factory.mktemp("fleet") / "home", world.web, fleet=logs) as fleet:
        fleet.start()
        fleet.seed([world.url("small")])
        fleet.wait_quiet()
        yield fleet


# a running fleet is steered


def test_a_recrawl_is_in_the_lake_within_five_seconds(running: Fleet, world: World) -> None:
    url = world.url("small", "p7.html")
    query = "SELECT lane, outcome, request_id FROM fetches WHERE request_id = 'again-1'"

    running.client.recrawl(url, request_id="again-1")
    took = eventually(lambda: running.rows(query) != [], 5.0, "the recrawl is in the lake", 0.02)

    assert running.rows(query) == [{"lane": "fastlane", "outcome": "not_modified", "request_id": "again-1"}]
    assert took < 5.0


def test_a_request_that_comes_twice_is_one_request(running: Fleet, world: World) -> None:
    for _ in range(2):
        running.client.recrawl(world.url("small", "p8.html"), request_id="again-2")
    running.publish(
        f"inbox.{shard_of('small.test', running.settings.fleet.shards)}",
        Recrawl(world.url("small", "p8.html"), "again-2", time.time()),
    )
    running.wait_quiet()

    assert len(running.rows("SELECT * FROM fetches WHERE request_id = 'again-2'")) == 1
    assert asked(running.requests())["small.test", "/p8.html"] == 2, "the first visit and this one"


def test_a_recrawl_of_a_horizon_host_is_refused(running: Fleet, world: World) -> None:
    with pytest.raises(ConfigurationError, match="on the horizon: promote it first"):
        running.client.recrawl(world.url("far"), request_id="far-1")

    running.publish(
        f"inbox.{shard_of('far.test', running.settings.fleet.shards)}",
        Recrawl(world.url("far"), "far-2", time.time()),
    )
    running.client.recrawl(world.url("small"), request_id="after-far-2")
    eventually(lambda: _has_request(running, "after-far-2"), 10.0)
    assert running.requests_to("far.test") == [], "the cell refuses it as well"


def _has_request(fleet: Fleet, request_id: str) -> bool:
    return fleet.rows("SELECT 1 FROM fetches WHERE request_id = $1", request_id) != []


def test_a_window_with_a_small_allocation_is_obeyed(running: Fleet, world: World) -> None:
    now = time.time()
    window = ScheduleWindow("window-1", now, now + 5.0, 4, {"window.test": 4})

    running.client.schedule(window)
    running.seed([world.url("window"), world.url("tiny")])
    eventually(lambda: time.time() > window.ends_at, 10.0)
    running.wait_quiet()

    visits = [entry for entry in running.requests_to("window.test") if entry.path != "/robots.txt"]
    within = [entry for entry in visits if entry.start < window.ends_at]
    assert len(within) == 4
    assert len(visits) == len(world.sites["window"].pages), "when it has ended the rest follows"
    rows = running.rows(
        "SELECT window_id FROM fetches WHERE host = 'window.test' AND kind = 'page' ORDER BY started_at"
    )
    assert [row["window_id"] for row in rows] == ["window-1"] * 4 + [None] * (len(rows) - 4)
    tiny = [entry for entry in running.requests_to("tiny.test") if entry.start < window.ends_at]
    assert len(tiny) == 1 + len(world.sites["tiny"].pages), "a host without an allocation is not held back"


def test_an_exclusion_is_in_force_within_five_seconds(running: Fleet, world: World) -> None:
    running.seed([world.url("big")])
    running.wait_requests(30, "big.test")

    asked_at = running.clock.boottime()
    running.client.exclude("big.test", request_id="stop-1", reason="the owner asked")
    eventually(lambda: _excluded(running, "big.test"), 5.0, "the exclusion is in the lake")
    running.wait_quiet()

    log = running.requests_to("big.test")
    assert max(entry.start_boot for entry in log) < asked_at + 5.0
    assert len(log) < 300, "its queue was not worked off"
    with pytest.raises(ConfigurationError, match="excluded"):
        running.seed([world.url("big")])
    with pytest.raises(ConfigurationError, match="the owner asked"):
        running.client.recrawl(world.url("big"), request_id="stop-2")


def _excluded(fleet: Fleet, host: str) -> bool:
    return fleet.rows("SELECT 1 FROM hosts WHERE host = $1 AND event = 'excluded'", host) != []


def test_a_second_supervisor_on_the_same_home_is_refused(running: Fleet) -> None:
    before = running.status()

    second = running.spawn_supervisor()
    try:
        assert second.wait(20.0) == 1
    finally:
        second.kill()

    assert f"a fleet is already running here (pid {before.pid})" in running.log_text("supervisor")
    after = running.status()
    assert (after.pid, after.state) == (before.pid, "running")
    assert [child.pid for child in after.children] == [child.pid for child in before.children]


def test_logs_are_rotated_and_the_server_saw_a_polite_fleet(running: Fleet, world: World) -> None:
    running.wait_quiet()
    running.stop()

    logs = {path.name: path.stat().st_size for path in (running.home / "logs").glob("committer.log*")}
    assert set(logs) == {"committer.log", "committer.log.1", "committer.log.2"}
    assert max(logs.values()) <= LOG_BYTES
    assert_polite(running.requests())
    assert_one_row_per_request(running.requests(), running.fetches())
    assert_whole_at_every_commit(running.lake)
    assert_brought_home(running, world.sites["small"], world.sites["tiny"], world.sites["window"])


# starts, stops and accidents


def test_a_fleet_that_was_stopped_cleanly_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    site = world.sites["small"]
    with Fleet(tmp_path / "home", world.web) as fleet:
        fleet.start()
        fleet.seed([world.url("small")])
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


def test_when_the_supervisor_is_killed_its_children_end_and_a_new_one_takes_over(
    world: World, tmp_path: Path
) -> None:
    with Fleet(tmp_path / "home", world.web) as fleet:
        fleet.start()
        fleet.seed([world.url("small")])
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
        assert first < len(world.sites["small"].pages)
        assert_polite(log)
        assert_nothing_twice(fetches)
        assert sum(surplus(log, fetches).values()) == 0, "children stop in order: nothing is fetched again"
        assert_brought_home(fleet, world.sites["small"])
        assert_drained(fleet)


def test_two_cells_exchange_what_they_find_through_the_inbox(world: World, tmp_path: Path) -> None:
    east, west = world.sites["east"], world.sites["west"]
    with Fleet(tmp_path / "home", world.web, fleet=FleetSettings(cells=2, shards=SHARDS)) as fleet:
        fleet.start()
        fleet.seed([world.url("east"), world.url("west")])
        fleet.wait_quiet()
        fleet.stop()

        cells = fleet.rows("SELECT DISTINCT host, cell FROM fetches ORDER BY cell")
        assert cells == [{"host": east.host, "cell": "cell-0"}, {"host": west.host, "cell": "cell-1"}]
        assert_brought_home(fleet, east, west)
        assert_one_row_per_request(fleet.requests(), fleet.fetches())
        assert set(asked(fleet.requests()).values()) == {1}
        assert_polite(fleet.requests())
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def test_the_crawl_goes_on_without_nats_and_everything_arrives_afterwards(
    world: World, tmp_path: Path
) -> None:
    with Fleet(tmp_path / "home", world.web) as fleet:
        fleet.start()
        fleet.seed([world.url("big")])
        fleet.wait_requests(30)

        with fleet.held():
            fleet.kill("nats")
            gone = fleet.clock.boottime()
            eventually(lambda: fleet.clock.boottime() - gone > 10.0, 15.0)
        without = [entry for entry in fleet.requests() if gone + 1.0 < entry.start_boot < gone + 10.0]
        assert len(without) > 100, "the crawl went on"
        state = fleet.kill_cell()
        fleet.wait_quiet()

        fleet.client.recrawl(world.url("big"), request_id="after-the-outage")
        eventually(lambda: _has_request(fleet, "after-the-outage"), 10.0, "the inbox is read again")
        fleet.client.exclude("big.test")
        eventually(lambda: _excluded(fleet, "big.test"), 10.0, "directives are obeyed again")
        fleet.stop()
        log, fetches = fleet.requests(), fleet.fetches()
        assert sum(1 for row in fetches if state.committed(row)) > 100, "committed without NATS, not lost"
        assert_polite(log)
        assert_nothing_twice(fetches)
        assert_brought_home(fleet, world.sites["big"])
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def test_a_cell_refuses_a_lake_that_was_restored_to_an_older_state(world: World, tmp_path: Path) -> None:
    with Fleet(tmp_path / "home", world.web) as fleet:
        fleet.start()
        fleet.seed([world.url("tiny")])
        fleet.wait_quiet()
        with fleet.suspended("committer"):
            shutil.copytree(fleet.lake.root, tmp_path / "older")
        fleet.client.recrawl(world.url("tiny"), request_id="newer")
        eventually(lambda: _has_request(fleet, "newer"), 10.0)
        fleet.wait_quiet()
        fleet.stop()

        shutil.rmtree(fleet.lake.root)
        shutil.copytree(tmp_path / "older", fleet.lake.root)
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


# at the delay of a real crawl


@pytest.mark.slow
def test_at_the_default_delay_of_one_second_the_server_sees_one_second(world: World, tmp_path: Path) -> None:
    with Fleet(tmp_path / "home", world.web, politeness=Politeness()) as fleet:
        assert fleet.settings.politeness.host_delay == 1.0
        fleet.start()
        fleet.seed([world.url("twelve"), world.url("tiny")])
        fleet.wait_requests(8)
        fleet.kill_cell()
        query = "SELECT count(DISTINCT url) AS pages FROM fetches WHERE kind = 'page'"
        eventually(lambda: fleet.rows(query)[0]["pages"] == 22, 60.0, "all 22 pages are in the lake", 0.5)
        fleet.stop()

        assert_polite(fleet.requests(), 1.0)
        assert_brought_home(fleet, world.sites["twelve"], world.sites["tiny"])
