"""What an operator does to a running fleet: each promise with real processes, all on one fleet."""

import re
import time
from collections.abc import Iterator

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.messages import GroupPriors, Recrawl, ScheduleWindow, Worth
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.web.host import shard_of
from tests.fleet.checks import (
    asked,
    assert_brought_home,
    assert_one_row_per_request,
    assert_polite,
    assert_whole_at_every_commit,
)
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, World, serve

LOG_BYTES = 1_500


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    plans = (
        Plan("small.test", 30, abroad=(("far.test", ""),)),
        Plan("big.test", 600),
        Plan("tiny.test", 10),
        Plan("window.test", 25),
        Plan("groups.test", 12),
        Plan("far.test", 3),
    )
    with serve(tmp_path_factory.mktemp("web"), *plans) as running_world:
        yield running_world


@pytest.fixture(scope="module")
def running(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of one cell that several tests use, each with hosts of its own. It has crawled small.test."""
    logs = FleetSettings(log_bytes=LOG_BYTES, log_files=2)
    with Fleet(tmp_path_factory.mktemp("fleet") / "home", world.web, fleet=logs) as fleet:
        fleet.start()
        fleet.seed([world.url("small.test")])
        fleet.wait_quiet()
        yield fleet


# a running fleet is steered


def test_a_recrawl_is_in_the_lake_within_five_seconds(running: Fleet, world: World) -> None:
    url = world.url("small.test", "p7.html")
    query = "SELECT lane, outcome, request_id FROM fetches WHERE request_id = 'again-1'"

    running.client.recrawl(url, request_id="again-1")
    took = eventually(lambda: running.rows(query) != [], 5.0, "the recrawl is in the lake", 0.02)

    assert running.rows(query) == [{"lane": "fastlane", "outcome": "not_modified", "request_id": "again-1"}]
    assert took < 5.0


@pytest.mark.long
def test_a_request_that_comes_twice_is_one_request(running: Fleet, world: World) -> None:
    for _ in range(2):
        running.client.recrawl(world.url("small.test", "p8.html"), request_id="again-2")
    running.publish(
        f"inbox.{shard_of('small.test', running.settings.fleet.shards)}",
        Recrawl(world.url("small.test", "p8.html"), "again-2", time.time()),
    )
    running.wait_quiet()

    assert len(running.rows("SELECT * FROM fetches WHERE request_id = 'again-2'")) == 1
    assert asked(running.requests())["small.test", "/p8.html"] == 2, "the first visit and this one"


def test_a_recrawl_of_a_horizon_host_is_refused(running: Fleet, world: World) -> None:
    with pytest.raises(ConfigurationError, match="on the horizon: promote it first"):
        running.client.recrawl(world.url("far.test"), request_id="far-1")

    running.publish(
        f"inbox.{shard_of('far.test', running.settings.fleet.shards)}",
        Recrawl(world.url("far.test"), "far-2", time.time()),
    )
    running.client.recrawl(world.url("small.test"), request_id="after-far-2")
    eventually(lambda: _has_request(running, "after-far-2"), 10.0)
    assert running.requests_to("far.test") == [], "the cell refuses it as well"


def _has_request(fleet: Fleet, request_id: str) -> bool:
    return fleet.rows("SELECT 1 FROM fetches WHERE request_id = $1", request_id) != []


def test_a_window_with_a_small_allocation_is_obeyed(running: Fleet, world: World) -> None:
    now, host = time.time(), "window.test"
    running.client.schedule(ScheduleWindow("window-1", now, now + 60.0, 4, {host: 4}))
    eventually(lambda: has_a_window(running), 30.0, "the shard of the host has heard of it", 0.02)

    running.seed([world.url(host), world.url("tiny.test")])
    running.wait_requests(1 + len(world.sites["tiny.test"].pages), "tiny.test")
    running.wait_requests(1 + 4, host)
    running.client.schedule(ScheduleWindow("window-2", now + 3600, now + 7200, 0, {"tiny.test": 0}))
    running.wait_quiet()

    assert pages_asked(running, host) == 4, "and the window that starts in an hour is not in force yet"
    assert pages_asked(running, "tiny.test") == len(world.sites["tiny.test"].pages), (
        "a host without an allocation is not held back"
    )

    running.client.schedule(ScheduleWindow("window-3", now, now + 60.0, 99, {host: 99}))
    running.wait_requests(1 + len(world.sites[host].pages), host)
    running.wait_quiet()

    rows = running.rows(
        "SELECT window_id FROM fetches WHERE host = $1 AND kind = 'page' ORDER BY started_at", host
    )
    rest = len(world.sites[host].pages) - 4
    assert [row["window_id"] for row in rows] == ["window-1"] * 4 + ["window-3"] * rest


def has_a_window(fleet: Fleet) -> bool:
    """Whether a window for one host has just come into force; logs are short here, so this is for who looks often."""
    logs = (fleet.home / "logs").glob("cell-0.log*")
    return any(re.search(r"window in force in \d+ shards for 1 hosts", log.read_text()) for log in logs)


def pages_asked(fleet: Fleet, host: str) -> int:
    return sum(entry.path != "/robots.txt" for entry in fleet.requests_to(host))


@pytest.mark.long
def test_a_group_is_given_what_its_window_allots_and_is_believed_what_is_told_of_it(
    running: Fleet, world: World
) -> None:
    pages = group_id("groups.test", "/p#.html")
    now = time.time()
    window = ScheduleWindow("window-3", now, now + 4.0, 99, {"groups.test": 50}, {"groups.test": {pages: 3}})
    running.client.priors(GroupPriors((1.0, 50.0), {}, {"groups.test": {pages: (3.0, 0.001)}}))
    running.client.schedule(window)

    running.seed([world.url("groups.test")])
    eventually(lambda: time.time() > window.ends_at, 10.0)
    running.wait_quiet()

    told = running.client.window("groups.test")
    assert told is not None
    assert told.groups == {"groups.test": {pages: 3}}
    rows = running.rows(
        "SELECT url, group_id, template, window_id, predicted_change FROM fetches "
        "WHERE host = 'groups.test' AND kind = 'page' ORDER BY started_at"
    )
    within = [row for row in rows if row["window_id"] == "window-3" and row["group_id"] == pages]
    assert len(within) == 3
    assert len(rows) == len(world.sites["groups.test"].pages), "when it has ended the rest follows"
    assert {row["template"] for row in within} == {"/p#.html"}
    assert {row["predicted_change"] for row in rows} == {None}, "nothing can have changed since no visit"

    running.client.recrawl(within[0]["url"], request_id="groups-1")
    query = "SELECT predicted_change FROM fetches WHERE request_id = 'groups-1'"
    eventually(lambda: running.rows(query) != [], 10.0)
    age = running.rows(
        "SELECT epoch(max(started_at)) - epoch(min(started_at)) AS age FROM fetches WHERE url = $1",
        within[0]["url"],
    )[0]["age"]
    expected = 1 - (0.001 / (0.001 + age / 86_400)) ** 3
    assert running.rows(query)[0]["predicted_change"] == pytest.approx(expected, rel=1e-3)


def test_what_a_url_is_worth_is_told_once_and_kept(running: Fleet, world: World) -> None:
    url = world.url("small.test", "p9.html")

    assert running.client.appraise([Worth(url, 0.01, "duplicate of p8")]) == 1
    with pytest.raises(ConfigurationError, match="not a URL"):
        running.client.appraise([Worth(url, 0.5), Worth("mailto:x", 0.5)])
    running.client.recrawl(url, request_id="worth-1")
    query = "SELECT value FROM fetches WHERE request_id = 'worth-1'"
    eventually(lambda: running.rows(query) != [], 10.0)

    assert running.rows(query)[0]["value"] == pytest.approx(0.01)


def test_an_exclusion_is_in_force_within_five_seconds(running: Fleet, world: World) -> None:
    running.seed([world.url("big.test")])
    running.wait_requests(30, "big.test")

    asked_at = running.clock.boottime()
    running.client.exclude("big.test", request_id="stop-1", reason="the owner asked")
    eventually(lambda: _excluded(running, "big.test"), 5.0, "the exclusion is in the lake")
    running.wait_quiet()

    log = running.requests_to("big.test")
    assert max(entry.start_boot for entry in log) < asked_at + 5.0
    assert len(log) < 300, "its queue was not worked off"
    with pytest.raises(ConfigurationError, match="excluded"):
        running.seed([world.url("big.test")])
    with pytest.raises(ConfigurationError, match="the owner asked"):
        running.client.recrawl(world.url("big.test"), request_id="stop-2")


def _excluded(fleet: Fleet, host: str) -> bool:
    return fleet.rows("SELECT 1 FROM hosts WHERE host = $1 AND event = 'excluded'", host) != []


@pytest.mark.long
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


@pytest.mark.long
def test_logs_are_rotated_and_the_server_saw_a_polite_fleet(running: Fleet, world: World) -> None:
    running.wait_quiet()
    running.stop()

    logs = {path.name: path.stat().st_size for path in (running.home / "logs").glob("committer.log*")}
    assert set(logs) == {"committer.log", "committer.log.1", "committer.log.2"}
    assert max(logs.values()) <= LOG_BYTES
    assert_polite(running.requests())
    assert_one_row_per_request(running.requests(), running.fetches())
    assert_whole_at_every_commit(running.lake)
    assert_brought_home(
        running, world.sites["small.test"], world.sites["tiny.test"], world.sites["window.test"]
    )
