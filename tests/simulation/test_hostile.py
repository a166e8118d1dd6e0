"""The hostile web itself: its table is whole, its hosts do what they say, and it sees who comes where."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from dnslib import DNSRecord

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.simulation.hostile import names
from crawl_platform.simulation.hostile.server import DECOY
from crawl_platform.simulation.hostile.table import ALL, NETWORK, HostileHost, hosts
from crawl_platform.simulation.hostile.visit import DECOYS
from crawl_platform.simulation.running import RunningWeb, launch
from crawl_platform.simulation.verdict import read_log
from tests.simulation.wire import head, logged

BAD_TLS = ("tls-expired", "tls-early", "tls-foreign", "tls-elsewhere", "tls-old", "tls-weak")
SERVED = (
    "silent",
    "drip-body",
    "endless-body",
    "reset-after-request",
    "dns-rebinding",
    "refuses",
    "full",
    "tls-good",
    *BAD_TLS,
)
NEVER = {Outcome.INTERNAL_ERROR, Outcome.BAD_URL}
"""Our own bugs, and URLs that canonicalisation has let in by mistake: no host can be named for them."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    with launch(["hostile", *SERVED], tmp_path_factory.mktemp("hostile") / "log.jsonl") as running:
        yield running


def host(name: str) -> HostileHost:
    return hosts([name])[-1]


def test_misbehaviours_have_names_of_their_own_and_say_what_they_do() -> None:
    assert len({row.name for row in ALL}) == len(ALL) >= 40
    assert all(row.does and row.outcomes and row.name == row.name.lower() for row in ALL)


def test_every_outcome_of_the_taxonomy_has_a_host_and_no_host_another_outcome() -> None:
    expected = {outcome for row in ALL for outcome in row.outcomes}

    assert expected == set(Outcome) - NEVER


def test_what_has_to_be_seen_may_be_seen() -> None:
    assert [row.name for row in ALL if row.seen and row.seen not in row.outcomes] == []


def test_each_host_has_an_address_of_its_own_in_the_network_that_is_allowed() -> None:
    addresses = [address for host in hosts() for address in host.bound]

    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith(NETWORK.removesuffix("0.0/16")) for address in addresses)
    assert not any(address.startswith(NETWORK.removesuffix("0.0/16")) for address in DECOYS)


def test_a_host_keeps_its_address_whoever_else_is_there() -> None:
    every = {host.name: host.address for host in hosts()}

    assert {host.name: host.address for host in hosts(["maze", "silent"])}.items() <= every.items()
    with pytest.raises(KeyError):
        hosts(["no-such-misbehaviour"])


async def connect(web: RunningWeb, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(host(name).address, web.ready.http_port)


async def test_an_endless_body_is_logged_when_the_client_leaves(web: RunningWeb) -> None:
    reader, writer = await connect(web, "endless-body")
    writer.write(head("endless-body.hostile.test", "/"))
    got = await reader.readexactly(3_000_000)
    left = time.time()
    writer.transport.abort()

    entry = await logged(web.ready, lambda e: e.host == "endless-body.hostile.test")

    assert b"more and more" in got
    assert entry.ended_by == "disconnect"
    assert left - 0.5 < entry.end < left + 0.5


@pytest.mark.parametrize("name", ["silent", "drip-body"])
async def test_a_client_that_leaves_quietly_is_noticed_at_once(web: RunningWeb, name: str) -> None:
    _, writer = await connect(web, name)
    writer.write(head(f"{name}.hostile.test", "/"))
    await asyncio.sleep(0.15)
    left = time.time()
    writer.close()

    entry = await logged(web.ready, lambda e: e.host == f"{name}.hostile.test")

    assert entry.ended_by == "disconnect"
    assert entry.end - left < 0.09


async def test_a_reset_is_a_reset(web: RunningWeb) -> None:
    reader, writer = await connect(web, "reset-after-request")
    writer.write(head("reset-after-request.hostile.test", "/"))

    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_whoever_connects_to_a_decoy_is_seen(web: RunningWeb) -> None:
    _, writer = await asyncio.open_connection(DECOYS[1], web.ready.http_port)

    entry = await logged(web.ready, lambda e: e.host == DECOY)

    assert entry.address == DECOYS[1]
    writer.close()


def test_a_port_that_nobody_listens_at_refuses(web: RunningWeb) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host("refuses").address, web.ready.http_port), timeout=2)


def test_a_full_backlog_leaves_a_client_waiting(web: RunningWeb) -> None:
    with pytest.raises(TimeoutError):
        socket.create_connection((host("full").address, web.ready.http_port), timeout=0.5)


def handshake(web: RunningWeb, name: str) -> None:
    context = ssl.create_default_context(cafile=web.ready.ca_file)
    address = (host(name).address, web.ready.https_port)
    with (
        socket.create_connection(address, timeout=3) as raw,
        context.wrap_socket(raw, server_hostname=f"{name}.hostile.test"),
    ):
        pass


@pytest.mark.parametrize("name", BAD_TLS)
def test_a_careful_client_refuses_the_bad_certificates(web: RunningWeb, name: str) -> None:
    with pytest.raises(ssl.SSLError):
        handshake(web, name)


def test_a_careful_client_accepts_the_good_certificate(web: RunningWeb) -> None:
    handshake(web, "tls-good")


def addresses(zone: names.HostileZone, name: str, kind: str = "A") -> set[str]:
    answer = zone.answer(DNSRecord.question(name, kind).pack())
    assert answer is not None
    return {str(record.rdata) for record in DNSRecord.parse(answer).rr}


def test_a_name_is_rebound_after_its_first_answer() -> None:
    zone = names.HostileZone({"x.test": ("127.80.9.7", names.rebinding)})

    assert [addresses(zone, "x.test") for _ in range(3)] == [{"127.80.9.7"}, {DECOYS[0]}, {DECOYS[0]}]


def test_a_mapped_address_comes_as_ipv6_only() -> None:
    zone = names.HostileZone({"x.test": ("127.80.9.7", names.mapped)})

    assert addresses(zone, "x.test") == set()
    assert {ip_address(address) for address in addresses(zone, "x.test", "AAAA")} == {
        ip_address(f"::ffff:{DECOYS[0]}")
    }


def test_what_is_no_question_gets_no_answer() -> None:
    zone = names.HostileZone({"x.test": ("127.80.9.7", names.mute)})

    assert zone.answer(b"junk") is None
    assert zone.answer(DNSRecord.question("x.test").pack()) is None


def test_it_stops_at_once_with_requests_under_way(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    silent = host("silent").address
    with (
        launch(["hostile", "silent"], log) as running,
        socket.create_connection((silent, running.ready.http_port), timeout=0.2) as client,
    ):
        client.sendall(head("silent.hostile.test", "/"))
        with contextlib.suppress(TimeoutError):
            client.recv(1)
        running.process.terminate()
        running.process.wait(3)

    assert [(entry.path, entry.ended_by) for entry in read_log(log)] == [("/", "disconnect")]
