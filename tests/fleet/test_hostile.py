"""What somebody who means harm, or a full disk, can do to a running fleet: not much.

Hostile answers of sites are in `tests/fetch` and `tests/digest`; here is what reaches the processes themselves.
"""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from crawl_platform.commit.manifest import Manifest, decode_manifest, encode_manifest
from crawl_platform.fleet.messages import (
    Admit,
    Discover,
    DiscoveredUrl,
    InboxMessage,
    Recrawl,
    decode_inbox,
    encode,
)
from crawl_platform.lake.delta import StagedFile, missing_files
from crawl_platform.settings import Politeness
from crawl_platform.web.host import shard_of
from tests.fleet.checks import assert_brought_home, assert_drained, assert_nothing_twice, assert_polite
from tests.fleet.harness import Fleet, eventually, fetch_from
from tests.fleet.sites import Plan, World, serve

pytestmark = pytest.mark.long

HOST, STRAY = "one.test", "stray.test"
UNHOLDABLE: dict[str, InboxMessage] = {
    "a value beyond any rank": Discover((DiscoveredUrl(f"http://{HOST}/v", 0, -1e300),)),
    "a depth beyond 64 bits": Discover((DiscoveredUrl(f"http://{HOST}/d", -(10**30)),)),
    "a host that is none": Admit("", (DiscoveredUrl("ftp://x/"),), "", "", True),
    "a pattern as host": Admit("*.test", (), "", "", True),
    "a host not as URLs spell it": Admit("ONE.test", (), "", "", True),
    "a URL that is none": Recrawl("ftp://one.test/", "r", 0.0),
}


def manifest(
    number: int = 1, path: str = "_staged/none.parquet", table: str = "fetches", size: int = 1
) -> Manifest:
    """A forged one, of an incarnation that never was."""
    file = StagedFile(table, path, {"date": "2026-01-01"}, size, 1, 1, "{}")
    return Manifest(f"forged-{number}-{table}", "bulk", number, "evil", 1, 4e9, (1,), (file,))


@pytest.mark.parametrize("message", UNHOLDABLE.values(), ids=list(UNHOLDABLE))
def test_a_message_that_no_store_could_hold_is_not_read(message: InboxMessage) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_inbox(encode(message))


def test_urls_from_the_inbox_are_canonical() -> None:
    sent = Discover((DiscoveredUrl("HTTP://One.test/a b\r\nX-Injected: 1"), DiscoveredUrl("nonsense")))

    read = decode_inbox(encode(sent))

    assert read == Discover((DiscoveredUrl("http://one.test/a%20bX-Injected:%201"),))


@pytest.mark.parametrize("number", [0, -5, 2**63 - 1, 10**30])
def test_a_manifest_with_a_number_that_delta_has_not_is_not_read(number: int) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_manifest(encode_manifest(manifest(number)))


@pytest.mark.parametrize(
    "path", ["../secret", "secret", "_delta_log/secret", "_staged/../secret", "_staged/\0"]
)
def test_a_file_that_was_not_staged_is_missing(tmp_path: Path, path: str) -> None:
    for folder in ("t/_staged", "t/_delta_log"):
        (tmp_path / folder).mkdir(parents=True)
    for place in ("secret", "t/secret", "t/_delta_log/secret"):
        (tmp_path / place).write_text("x")
    forged = manifest(path=path).files[0]

    assert missing_files(tmp_path / "t", [forged]) == [forged]


@pytest.fixture
def world(tmp_path: Path) -> World:
    with serve(tmp_path / "web", Plan(HOST, 40), Plan(STRAY, 3)) as world:
        yield world  # type: ignore[misc]


def crawl_to_the_end(fleet: Fleet, world: World) -> None:
    fleet.wait_quiet(60)
    restarts = {name: fleet.restarts(name) for name in ("cell-0", "committer")}
    fleet.stop()
    assert restarts == {"cell-0": 0, "committer": 0}
    assert_brought_home(fleet, world.sites[HOST])
    assert_nothing_twice(fleet.fetches())
    assert_polite(fleet.requests())
    assert_drained(fleet)


@pytest.mark.long
def test_a_fleet_lives_through_whatever_is_published_to_it(tmp_path: Path, world: World) -> None:
    with Fleet(tmp_path / "home", world.web).start() as fleet:
        shard = shard_of(HOST, fleet.settings.fleet.shards)
        for message in (b"\xff{", b"[]", b"", *UNHOLDABLE.values(), stray(world)):
            fleet.publish(f"inbox.{shard}", message)
        for forged in (
            b"\xff{",
            b"[]",
            manifest(-5),
            manifest(),
            manifest(table="nope"),
            manifest(path="/etc/hostname"),
        ):
            fleet.publish("manifest.x.bulk", forged)
        fleet.seed([world.url(HOST)])

        crawl_to_the_end(fleet, world)

        assert fleet.requests_to(STRAY) == [], "a host of another shard was let in"


def stray(world: World) -> Admit:
    """For a shard that is not its own: in a larger fleet another cell crawls it."""
    return Admit(STRAY, (DiscoveredUrl(world.url(STRAY)),), "", "", True)


@pytest.mark.long
def test_a_supervisor_that_can_not_write_keeps_its_fleet(tmp_path: Path, world: World) -> None:
    with Fleet(tmp_path / "home", world.web).start() as fleet:
        in_the_way = fleet.home / "run" / "status.tmp"
        eventually(lambda: _made(in_the_way), 10.0, "the status can't be written any more", 0.01)
        stale = fleet.status().at
        fleet.seed([world.url(HOST)])
        fleet.wait_requests(20)
        in_the_way.rmdir()

        eventually(lambda: fleet.status().at > stale, 10.0, "the status is written again")
        eventually(lambda: fleet.restarts("nats") == 1, 10.0, "what NATS could not write is forgotten")
        crawl_to_the_end(fleet, world)


def _made(folder: Path) -> bool:
    """The supervisor's draft has the same name for a moment, four times a second."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


@contextmanager
def black_holes(count: int) -> Iterator[list[str]]:
    """Root URLs of hosts that take a connection and never say a word."""
    with contextlib.ExitStack() as stack:
        roots = []
        for number in range(count):
            hole = stack.enter_context(socket.create_server((f"127.77.0.{number + 1}", 0), backlog=8))
            roots.append(f"http://127.77.0.{number + 1}:{hole.getsockname()[1]}/")
        yield roots


def test_hosts_that_never_answer_leave_slots_to_those_that_do(tmp_path: Path, world: World) -> None:
    fetch = fetch_from(world.web, slots=4, read_timeout=60.0)
    politeness = Politeness(host_delay=0.2, address_delay=0.2)
    home = tmp_path / "home"
    with (
        black_holes(12) as holes,
        Fleet(home, world.web, fetch=fetch, politeness=politeness).start() as fleet,
    ):
        fleet.seed([world.url(HOST)])
        fleet.wait_requests(5)

        fleet.seed(holes)

        fleet.wait_requests(41, within=30.0)
