"""The log under every ending, over plain sockets and TLS; and what a rude client leaves in it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.running import Ready
from crawl_platform.simulation.server import WebServer
from crawl_platform.simulation.verdict import overlaps, read_log, short_gaps
from tests.simulation.wire import connect, head, logged, read_answer


@dataclass(frozen=True)
class OneHost:
    name: str
    address: str
    scheme: Literal["http", "https"]
    fault: str = ""


class Rehearsed:
    """Answers each path with the reply rehearsed for it."""

    def __init__(self, scheme: Literal["http", "https"]) -> None:
        self.host = OneHost("one.test", "127.0.9.1", scheme)
        self.hosts = {"one.test": self.host}
        self.replies = {
            "/": lambda: Reply(200, body=b"hello"),
            "/later": lambda: Reply(200, body=b"hello", delay=0.3),
            "/never": lambda: Reply(200, delay=1_000),
            "/drip": lambda: Reply(200, body=bytes(4_000), speed=1_000),
            "/cut": lambda: Reply(200, body=bytes(1_000), cut=400),
            "/reset": lambda: Reply(200, body=bytes(1_000), cut=-1, ending="reset"),
            "/long": lambda: Reply(200, [("Content-Length", "5")], b"hello and more", cut=14),
        }

    def reply(self, request: Request, now: float) -> Reply:
        return self.replies[request.path]()


@pytest.fixture(params=["http", "https"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Ready, OneHost]]:
    web = Rehearsed(request.param)
    log, ca_file = tmp_path / "log.jsonl", tmp_path / "ca.pem"
    server = WebServer(SystemClock(), log, ca_file)
    server.bind(web.hosts)
    await server.start(web)
    yield Ready("", server.http_port, server.https_port, str(ca_file), str(log), [], 0, 0.0), web.host
    server.close()


@pytest.mark.parametrize("path", ["/never", "/drip"])
async def test_a_client_that_leaves_is_logged_as_disconnect(stage: tuple[Ready, OneHost], path: str) -> None:
    ready, host = stage
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2), connect(ready, host) as (reader, writer):
            writer.write(head(host.name, path))
            await reader.readexactly(10_000)

    entry = await logged(ready, lambda e: e.path == path)

    assert entry.ended_by == "disconnect"
    assert (entry.host, entry.address) == (host.name, host.address)
    assert entry.port == (ready.https_port if host.scheme == "https" else ready.http_port)
    assert 0.05 < entry.end_boot - entry.start_boot < 0.9
    assert entry.status == (200 if path == "/drip" else None)


@pytest.mark.parametrize(
    ("path", "status", "partial"),
    [("/cut", 200, True), ("/reset", None, True), ("/long", 200, False)],
)
async def test_a_reply_that_breaks_off_is_logged_as_response(
    stage: tuple[Ready, OneHost], path: str, status: int | None, partial: bool
) -> None:
    ready, host = stage
    async with connect(ready, host) as (reader, writer):
        writer.write(head(host.name, path))
        if partial:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await read_answer(reader)
        else:
            assert (await read_answer(reader)).body == b"hello"
            assert await reader.read() == b" and more"

    entry = await logged(ready, lambda e: e.path == path)
    assert (entry.status, entry.ended_by) == (status, "response")


async def test_a_late_reply_spans_its_delay(stage: tuple[Ready, OneHost]) -> None:
    ready, host = stage
    async with connect(ready, host) as (reader, writer):
        writer.write(head(host.name, "/later"))
        await read_answer(reader)

    entry = await logged(ready, lambda e: e.path == "/later")
    assert 0.29 < entry.end_boot - entry.start_boot < 0.8


async def test_head_has_no_body_and_leaves_the_connection_usable(stage: tuple[Ready, OneHost]) -> None:
    ready, host = stage
    async with connect(ready, host) as (reader, writer):
        writer.write(head(host.name, "/", method="HEAD"))
        first = await read_answer(reader, "HEAD")
        writer.write(head(host.name, "/"))
        second = await read_answer(reader)

    assert (first.headers["content-length"], first.body, second.body) == ("5", b"", b"hello")


async def test_connection_close_is_obeyed(stage: tuple[Ready, OneHost]) -> None:
    ready, host = stage
    async with connect(ready, host) as (reader, writer):
        writer.write(head(host.name, "/", Connection="close"))

        assert (await reader.read()).endswith(b"hello")


@pytest.mark.parametrize(
    "junk", [b"what\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"x" * 70_000]
)
async def test_junk_ends_the_connection_and_is_not_logged(stage: tuple[Ready, OneHost], junk: bytes) -> None:
    ready, host = stage
    async with connect(ready, host) as (reader, writer):
        writer.write(junk)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""

    assert read_log(Path(ready.log)) == []


async def test_a_rude_client_is_seen_in_the_log_and_a_polite_one_is_not(stage: tuple[Ready, OneHost]) -> None:
    ready, host = stage

    async def visit(path: str) -> None:
        async with connect(ready, host) as (reader, writer):
            writer.write(head(host.name, path))
            await read_answer(reader)

    await visit("/")
    await asyncio.sleep(0.25)
    await visit("/later")
    polite = read_log(Path(ready.log))
    await asyncio.gather(visit("/later"), visit("/later"))
    rude = read_log(Path(ready.log))

    assert len(polite) == 2
    assert overlaps(polite) == []
    assert short_gaps(polite, 0.2) == []
    assert len(overlaps(rude)) == 1
    assert len(overlaps(rude, by="address")) == 1
    assert len(short_gaps(rude, 0.2)) == 1
