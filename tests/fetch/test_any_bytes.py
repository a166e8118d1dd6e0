"""Whatever bytes a server sends, in whatever pieces, and however it ends: one outcome, in time, in bounded memory."""

import asyncio
import gzip
import tracemalloc
from dataclasses import dataclass

import brotli
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.outcome import DISPOSITIONS, Outcome, of_status
from tests.fetch.asking import SETTINGS, Writes, get
from tests.fetch.servers import Reader, Writer, serving

QUICK = msgspec.structs.replace(
    SETTINGS, first_byte_timeout=0.15, head_timeout=0.3, read_timeout=0.15, total_timeout=0.5, rate_window=0.3
)
DEADLINE = 8.0
"""Seconds: connect, TLS and total deadlines, and a busy machine."""
CAP = 5_000
STATUS = [
    b"HTTP/1.1 200 OK",
    b"HTTP/1.1 204 x",
    b"HTTP/1.0 301 Moved",
    b"HTTP/1.1 103 Hints",
    b"http/1.1 999",
    b"HTTP/1.1 101 S",
]
FIELDS = [
    b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 99999999999", b"Transfer-Encoding: chunked",
    b"Content-Encoding: gzip", b"Content-Encoding: br, gzip", b"Content-Encoding: zstd", b"Location: \xff\xfe/ x",
    b"Connection: keep-alive", b"Connection: close", b"A : b", b" folded", b"junk", b"Set-Cookie: a/b=c;;",
    b"Content-Type: text/html", b"Content-Type: \x00", b"Upgrade: h2c", b"X: " + b"x" * 9_000, b"Retry-After: -1",
    b"Trailer: x",
]  # fmt: skip
BODIES = [
    b"5\r\nhello\r\n0\r\n\r\n", b"hello", b"5;" + b"e" * 3_000 + b"\r\n", gzip.compress(bytes(1_000_000)),
    brotli.compress(gzip.compress(b"x")), b"0\r\nA: b\r\n" * 50, b"HTTP/1.1 200 OK\r\n\r\n", b"\x28\xb5\x2f\xfd\0\0",
]  # fmt: skip

heads = st.builds(
    lambda status, fields, end, body: end.join([status, *fields, b"", b""]) + body,
    st.sampled_from(STATUS),
    st.lists(st.sampled_from(FIELDS), max_size=6),
    st.sampled_from([b"\r\n", b"\n", b"\r"]),
    st.sampled_from(BODIES) | st.binary(max_size=300),
)


@dataclass(frozen=True)
class Behaviour:
    pieces: list[bytes]
    ending: str
    """close, reset or silence."""


behaviours = st.builds(
    Behaviour,
    st.lists(
        heads | st.binary(max_size=100) | st.sampled_from([*BODIES, b"\r\n", b"\n", b"HTTP/1.1 "]), max_size=4
    ),
    st.sampled_from(["close", "close", "close", "reset", "reset", "silence"]),
)


@given(st.lists(behaviours, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_behaviour_ends_in_one_outcome_within_the_deadline(script: list[Behaviour]) -> None:
    asyncio.run(asyncio.wait_for(_ask(script), 30))


async def _ask(script: list[Behaviour]) -> None:
    waiting = list(script)

    async def behaves(head: bytes, reader: Reader, writer: Writer) -> None:
        behaviour = waiting.pop(0) if waiting else script[-1]
        for piece in behaviour.pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if behaviour.ending == "reset":
            writer.transport.abort()
        elif behaviour.ending == "close":
            writer.close()

    loop = asyncio.get_running_loop()
    client = HttpClient(QUICK, "tester", SystemClock())
    async with serving(behaves) as server:
        for _ in script:
            writes, begun = Writes(), loop.time()
            response = await get(client, server.url(), writes, cap=CAP)

            assert loop.time() - begun < DEADLINE
            assert response.outcome in DISPOSITIONS
            assert response.outcome is not Outcome.INTERNAL_ERROR
            assert writes.count == response.sent == 1
            assert len(response.wire) <= CAP
            assert len(response.body) <= CAP
            if response.outcome is Outcome.OK:
                assert of_status(response.status or 0) is Outcome.OK
            "".join([response.detail, *response.headers, *response.headers.values()]).encode()
        assert len(client._connections) == 0
    await client.close()


def test_the_memory_of_a_flood_is_that_of_its_caps() -> None:
    """Twenty floods of a head, of chunk extensions, of trailers and of a body leave nothing and take little."""
    floods = [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 60_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"e" * 60_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"T: x\r\n" * 10_000),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"b" * 60_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000),
    ]

    async def floods_on(head: bytes, reader: Reader, writer: Writer) -> None:
        first, piece = floods[int(head.split()[1][1:])]
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()

    async def main() -> list[str]:
        patient = msgspec.structs.replace(SETTINGS, total_timeout=20.0, head_timeout=20.0, body_cap=CAP)
        client = HttpClient(patient, "tester", SystemClock())
        async with serving(floods_on) as server:
            found = [
                str((await get(client, server.url(f"/{n}"), cap=CAP)).outcome) for n in range(len(floods))
            ]
        await client.close()
        return found

    tracemalloc.start()
    found = asyncio.run(main())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == ["headers_too_large", "response_flood", "headers_too_large", "ok", "ok"]
    assert peak < 5_000_000
