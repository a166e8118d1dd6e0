"""TLS over a plain transport: bytes in any pieces, every way to end, and little memory at rest."""

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.fetch.secure import RECORD, Secured
from crawl_platform.fetch.warm import BYTES_EACH
from tests.fetch.test_tls import Authority

AUTHORITY = Authority()
SERVER = AUTHORITY.context()
CLIENT = ssl.create_default_context(
    cadata=AUTHORITY.certificate.public_bytes(serialization.Encoding.PEM).decode()
)


class Socket(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed, self.aborted = bytearray(), False, False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted


class Inner(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.data = bytearray()
        self.pieces = 0
        self.error: Exception | None = None
        self.ended = asyncio.Event()
        self.enough = 1 << 60

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1
        if len(self.data) >= self.enough:
            self.ended.set()

    def eof_received(self) -> None:
        self.heard.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")
        self.error = exc


class Pair:
    """`Secured` and an OpenSSL of the other side, without a socket."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.inner, self.socket = Inner(), Socket()
        self.secured = Secured(CLIENT, "site.test", self.inner, self.loop)
        self.to_server, self.to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = SERVER.wrap_bio(self.to_server, self.to_client, server_side=True)

    def shaken(self, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> "Pair":
        self.secured.connection_made(self.socket)
        for _ in range(4):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.hear()
                self.server.do_handshake()
            self.deliver(cut)
        return self

    def hear(self) -> None:
        self.to_server.write(bytes(self.socket.written))
        self.socket.written.clear()

    def deliver(self, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> None:
        for piece in cut(self.to_client.read()):
            self.secured.data_received(piece)

    def says(self, data: bytes) -> bytes:
        self.server.write(data)
        return self.to_client.read()


def every(size: int) -> Callable[[bytes], list[bytes]]:
    return lambda data: [data[start : start + size] for start in range(0, len(data), size)]


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 5_000), length=st.integers(0, 5 * RECORD), wire=st.sampled_from([7, 1_000, 300_000])
)
def test_bytes_arrive_whole_however_they_are_cut(size: int, length: int, wire: int) -> None:
    pair = Pair().shaken(every(size))
    body = bytes(number % 251 for number in range(length))

    for piece in every(max(wire, length // 500 + 1))(pair.says(body) if body else b""):
        pair.secured.data_received(piece)

    assert pair.inner.data == body
    assert pair.inner.heard == ["made"]


def test_what_comes_at_once_is_handed_on_at_once() -> None:
    pair = Pair().shaken()

    pair.secured.data_received(pair.says(bytes(10 * RECORD)))

    assert (len(pair.inner.data), pair.inner.pieces) == (10 * RECORD, 1)


def test_what_is_written_is_read_at_the_other_end() -> None:
    pair = Pair().shaken()

    pair.secured.write(b"GET / HTTP/1.1")
    assert b"GET" not in pair.socket.written
    pair.hear()

    assert pair.server.read(100) == b"GET / HTTP/1.1"


def test_who_closes_says_so_and_waits_for_nobody() -> None:
    pair = Pair().shaken()

    pair.secured.close()
    pair.hear()

    assert pair.server.read(100) == b"", "a close_notify"
    assert pair.socket.closed
    pair.secured.write(b"more")
    pair.secured.data_received(pair.says(b"late"))
    assert not pair.socket.written
    assert not pair.inner.data


def test_the_other_end_says_that_it_closes() -> None:
    pair = Pair().shaken()
    last = pair.says(b"the last words")
    with contextlib.suppress(ssl.SSLWantReadError):
        pair.server.unwrap()

    pair.secured.data_received(last + pair.to_client.read())
    pair.secured.connection_lost(None)

    assert pair.inner.data == b"the last words"
    assert pair.inner.heard == ["made", "eof", "lost"]
    assert pair.socket.closed
    assert pair.inner.error is None


def test_bytes_that_are_no_record_end_the_connection_with_their_error() -> None:
    pair = Pair().shaken()

    pair.secured.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    assert pair.socket.closed
    pair.secured.connection_lost(None)

    assert isinstance(pair.inner.error, ssl.SSLError)
    assert not pair.inner.data


def test_a_connection_that_is_lost_in_the_handshake_is_nothing_to_its_user() -> None:
    pair = Pair()
    pair.secured.connection_made(pair.socket)
    pair.secured.connection_lost(None)

    with pytest.raises(ConnectionResetError):
        pair.loop.run_until_complete(pair.secured.handshake())
    assert pair.inner.heard == []


def test_who_gives_up_in_the_handshake_is_never_connected() -> None:
    pair = Pair()
    pair.secured.connection_made(pair.socket)
    pair.secured.abort()
    with contextlib.suppress(ssl.SSLWantReadError):
        pair.hear()
        pair.server.do_handshake()
    pair.deliver()

    assert pair.socket.aborted
    assert pair.inner.heard == []


AT_REST = """
import asyncio, os, resource, signal, sys, uvloop
from crawl_platform.fetch.secure import Secured
from tests.fetch.test_secure import CLIENT, SERVER, Inner

MANY, BODY = 300, bytes(60_000)

async def serve(told):
    async def answering(reader, writer):
        while await reader.read(1):
            writer.write(BODY)
    listening = await asyncio.start_server(answering, "127.0.0.1", 0, ssl=SERVER)
    os.write(told, str(listening.sockets[0].getsockname()[1]).encode())
    await asyncio.sleep(60)

async def connect(port, how):
    loop, inner = asyncio.get_running_loop(), Inner()
    inner.enough = len(BODY)
    if how == "secured":
        transport = Secured(CLIENT, "site.test", inner, loop)
        await loop.create_connection(lambda: transport, "127.0.0.1", port)
        await transport.handshake()
    else:
        transport, _ = await loop.create_connection(
            lambda: inner, "127.0.0.1", port, ssl=CLIENT, server_hostname="site.test"
        )
    transport.write(b"x")
    await inner.ended.wait()
    inner.data = None
    return transport

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

async def main(port, how):
    kept = [await connect(port, how) for _ in range(20)]
    before = resident()
    kept += [await connect(port, how) for _ in range(MANY)]
    print((resident() - before) // MANY)

heard, told = os.pipe()
server = os.fork()
if server == 0:
    uvloop.run(serve(told))
try:
    uvloop.run(main(int(os.read(heard, 10)), sys.argv[1]))
finally:
    os.kill(server, signal.SIGKILL)
"""


def memory(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", AT_REST, how], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.long
def test_at_rest_it_takes_less_than_the_loops_own() -> None:
    secured, loops_own = memory("secured"), memory("loop")

    assert secured < 0.75 * loops_own
    assert secured < BYTES_EACH


def test_it_runs_on_the_loop_of_a_cell() -> None:
    async def main() -> bytes:
        async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(3) + bytes(100_000))

        listening = await asyncio.start_server(answering, "127.0.0.1", 0, ssl=SERVER)
        inner, loop = Inner(), asyncio.get_running_loop()
        secured, inner.enough = Secured(CLIENT, "site.test", inner, loop), 100_003
        await loop.create_connection(lambda: secured, *listening.sockets[0].getsockname())
        await secured.handshake()
        secured.write(b"abc")
        await asyncio.wait_for(inner.ended.wait(), 5)
        secured.close()
        listening.close()
        return bytes(inner.data[:4])

    assert uvloop.run(main()) == b"abc\0"
