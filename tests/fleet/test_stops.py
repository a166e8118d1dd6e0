"""Stop switches and purges on a real fleet: within five seconds, with NATS down too, and nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crawl_platform.cli import main
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.live import live_stores
from crawl_platform.fleet.messages import Recrawl
from crawl_platform.lake.purges import purges
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.testing.invariants import links_have_fetches
from crawl_platform.web.host import shard_of
from tests.fleet.checks import assert_polite
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, World, serve
from tests.lake.told import telling

WITHIN = 5.0
CALM = 0.5
"""Seconds without a request that show a pause: with delays of 20 ms there would be dozens."""
APART = ("nats", "logs")
"""Folders of the home that a purge does not reach at once (docs/operating.md)."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    plans = (
        Plan("a.shop.test", 2_000),
        Plan("b.shop.test", 2_000),
        Plan("other.test", 2_000),
        Plan("gone.test", 30),
        Plan("stays.test", 30),
        Plan("back.test", 30),
    )
    with serve(tmp_path_factory.mktemp("web"), *plans) as running_world:
        yield running_world


@pytest.fixture(scope="module")
def fleet(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet") / "home", world.web) as running:
        yield running.start()


class Command:
    """`crawl …` on the home of a fleet, in this process."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--home", str(self._home)])

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


def last_request(fleet: Fleet, *hosts: str) -> float:
    """UTC seconds of the last request's start."""
    return max((entry.start for host in hosts for entry in fleet.requests_to(host)), default=0.0)


def is_calm(fleet: Fleet, *hosts: str) -> bool:
    return time.time() - last_request(fleet, *hosts) > CALM


def when(said: dict[str, Any]) -> float:
    return datetime.fromisoformat(said["at"]).timestamp()


def asks_on(fleet: Fleet, host: str) -> None:
    before = len(fleet.requests_to(host))
    eventually(lambda: len(fleet.requests_to(host)) > before, 10.0, f"{host} is asked again")


# purge first: its sites are small


@pytest.mark.long
def test_a_purge_leaves_nothing_of_a_host_and_all_of_the_others(fleet: Fleet, world: World) -> None:
    command = Command(fleet.home)
    fleet.seed([world.url("gone.test"), world.url("stays.test")])
    fleet.wait_quiet()
    export = fleet.home / "pages.warc.gz"
    assert command.json("export", str(export))["pages"] == 60
    assert telling(fleet.home, "gone.test/p", without=APART) != []
    assert in_state_files(fleet.home, b"gone.test:") != []
    stays = fleet.rows("SELECT * FROM pages WHERE host = 'stays.test' ORDER BY url")

    shown = command.json("purge", "*.gone.test")
    done = command.json("purge", "*.gone.test", "--yes", "--now", "--reason", "a court says so")

    assert shown["rows"]["pages"] == 30
    assert shown["frontier_urls"] == 30
    assert (done["state"], done["cells_that_did_not_answer"]) == ("erased", [])
    assert done["exports"] == {str(export): 60}, "of each page a resource and a metadata record"
    assert telling(fleet.home, "gone.test/p", "gone.test:", without=(*APART, "cells", "requests")) == []
    assert in_stores(fleet.home, b"gone.test") == in_state_files(fleet.home, b"gone.test:") == []
    assert fleet.rows("SELECT * FROM pages WHERE host = 'stays.test' ORDER BY url") == stays
    assert command.json("export", str(export), "--force")["pages"] == 30
    commit = fleet.lake.latest_commit()
    assert commit is not None
    assert links_have_fetches(fleet.lake, commit.commit_id) == []


def in_state_files(home: Path, word: bytes) -> list[str]:
    """Files of the cells' stores in which the word stands byte by byte, apart from RocksDB's lists of its files."""
    files = (
        path for path in (home / "cells").rglob("*") if path.suffix in (".sst", ".log") and path.is_file()
    )
    return [path.name for path in files if word in path.read_bytes()]


def in_stores(home: Path, word: bytes) -> list[bytes]:
    """Entries of the cells' stores in which the word stands."""
    return [
        key
        for _, kv in live_stores(home)
        for key, value in kv.scan(b"\0", b"\xff")
        if word in key or word in value
    ]


@pytest.mark.long
def test_it_is_audited_and_the_exclusion_keeps_the_name(fleet: Fleet, world: World) -> None:
    (purge,) = purges(fleet.lake.root)

    (request,) = fleet.rows("SELECT * FROM requests WHERE kind = 'purge'")
    assert (request["request_id"], request["target"]) == (purge.request_id, "*.gone.test")
    assert request["reason"] == "a court says so"
    (decision,) = fleet.rows("SELECT * FROM decisions WHERE kind = 'purge'")
    assert '"pages":30' in decision["evidence"]
    assert {row["action"] for row in fleet.rows("SELECT action FROM upkeep")} == {"purge", "erase"}
    (event,) = fleet.rows("SELECT * FROM hosts WHERE event = 'purged'")
    assert event["detail"] == "30 URLs of 1 hosts dropped from the frontier"
    refused = Command(fleet.home)("seed", world.url("gone.test"))
    assert refused.exit_code == 2
    assert "excluded" in refused.stderr


@pytest.mark.long
def test_pages_below_an_address_go_and_their_host_is_crawled_on(fleet: Fleet, world: World) -> None:
    command = Command(fleet.home)
    private = world.url("stays.test", "p1")  # p1.html, p10.html … p19.html
    fleet.seed([world.url("stays.test")])
    fleet.wait_quiet()

    done = command.json("purge", private, "--yes", "--now", "--reason", "they name somebody")

    assert done["state"] == "erased"
    assert done["frontier_urls"] == 11
    left = {row["url"] for row in fleet.rows("SELECT url FROM pages WHERE host = 'stays.test'")}
    assert len(left) == 19
    assert not any(url.startswith(private) for url in left)
    asked = len(fleet.requests_to("stays.test"))
    with pytest.raises(ConfigurationError, match="is excluded"):
        fleet.client.recrawl(f"{private}2.html", request_id="barred")
    shard = shard_of("stays.test", fleet.settings.fleet.shards)
    fleet.publish(f"inbox.{shard}", Recrawl(f"{private}2.html", "barred", time.time()))
    assert f"URLs below {private} are excluded" in command("explain", f"{private}2.html").output
    fleet.client.recrawl(world.url("stays.test"), request_id="allowed")
    eventually(lambda: fleet.rows("SELECT 1 FROM fetches WHERE request_id = 'allowed'") != [], 10.0)
    assert len(fleet.requests_to("stays.test")) == asked + 1


@pytest.mark.long
def test_a_host_that_is_let_in_again_is_crawled_anew(fleet: Fleet, world: World) -> None:
    command = Command(fleet.home)
    fleet.seed([world.url("back.test")])
    fleet.wait_quiet()
    before = len(fleet.requests_to("back.test"))
    command.json("purge", "*.back.test", "--yes", "--reason", "a mistake")

    assert command("exclude", "*.back.test", "--lift").exit_code == 0
    fleet.seed([world.url("back.test")])
    eventually(lambda: len(fleet.requests_to("back.test")) >= before + 30, 30.0, "all of it is asked for")


# pauses


@pytest.mark.long
def test_a_domain_is_paused_with_all_its_hosts_and_no_other(fleet: Fleet, world: World) -> None:
    command = Command(fleet.home)
    shops = ("a.shop.test", "b.shop.test")
    fleet.seed([world.url(host) for host in (*shops, "other.test")])
    for host in (*shops, "other.test"):
        fleet.wait_requests(5, host)

    said_at = when(command.json("pause", "a.shop.test"))
    eventually(lambda: is_calm(fleet, *shops), WITHIN + CALM, "the domain is left alone")

    assert last_request(fleet, *shops) < said_at + WITHIN
    asks_on(fleet, "other.test")
    assert is_calm(fleet, *shops)
    assert "paused: shop.test" in command("status").stdout
    command.json("resume", "shop.test")
    asks_on(fleet, "a.shop.test")


def test_without_nats_everything_stops_within_five_seconds_and_goes_on(fleet: Fleet, world: World) -> None:
    fleet.seed([world.url(host) for host in ("a.shop.test", "other.test")])
    fleet.wait_requests(5, "other.test")
    with nats_down(fleet):
        asks_on(fleet, "other.test")
        done = Command(fleet.home).json("pause")
        said_at = when(done)
        assert (done["cells_signalled"], done["exchange_told"]) == (1, False)
        eventually(lambda: is_calm(fleet, "other.test", "a.shop.test"), WITHIN + CALM, "all is calm")
        assert last_request(fleet, "other.test", "a.shop.test") < said_at + WITHIN
        assert "PAUSED" in Command(fleet.home)("status").stdout

    eventually(lambda: Command(fleet.home)("status").exit_code == 0, 60.0, "NATS is back")
    assert is_calm(fleet, "other.test"), "the file still holds"
    Command(fleet.home).json("resume")
    asks_on(fleet, "other.test")
    assert_polite(fleet.requests())


@contextmanager
def nats_down(fleet: Fleet) -> Iterator[None]:
    """NATS stands still: connections are open and nothing is answered, which is worse than a refusal."""
    pid = fleet.living_pid("nats")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long
def test_a_restarted_cell_remembers_a_pause(fleet: Fleet, world: World) -> None:
    Command(fleet.home).json("pause")
    eventually(lambda: is_calm(fleet, "other.test"), WITHIN + CALM)

    pid = fleet.kill("cell-0")
    eventually(lambda: fleet.pid("cell-0") not in (0, pid), 30.0, "it is started again")
    eventually(lambda: "crawls 64 shards" in fleet.log_text("cell-0").rpartition("paused: True")[2], 30.0)

    assert is_calm(fleet, "other.test", "a.shop.test", "b.shop.test")


@pytest.mark.long
@pytest.mark.parametrize("victim", ["the command", "cell-0", "committer"])
def test_a_purge_that_is_killed_goes_on(tmp_path: Path, victim: str) -> None:
    with (
        serve(tmp_path / "web", Plan("gone.test", 300), Plan("stays.test", 30)) as world,
        Fleet(tmp_path / "home", world.web, fleet=FleetSettings(cells=2)) as fleet,
    ):
        fleet.start()
        fleet.seed([world.url("gone.test"), world.url("stays.test")])
        fleet.wait_requests(100, "gone.test")
        arguments = ["purge", "gone.test", "--yes", "--now", "--reason", "a court", "--home", str(fleet.home)]
        command = [sys.executable, "-c", "from crawl_platform.cli import main; main()", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: bool(purges(fleet.lake.root)), 30.0, "it is noted", 0.01)
        process.kill() if victim == "the command" else fleet.kill(victim)
        process.wait(200)

        eventually(lambda: Command(fleet.home)("status").exit_code == 0, 60.0, "all is well again")
        done = Command(fleet.home).json("purge", "gone.test", "--yes", "--now", "--reason", "a court")

        assert done["state"] == "erased"
        assert telling(fleet.home, "gone.test/p", "gone.test:", without=(*APART, "cells", "requests")) == []
        assert in_stores(fleet.home, b"gone.test") == []
        if victim == "the command":
            assert len(fleet.rows("SELECT * FROM requests WHERE kind = 'purge'")) == 1
        assert len(fleet.rows("SELECT * FROM pages WHERE host = 'stays.test'")) > 0
