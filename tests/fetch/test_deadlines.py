"""Each phase of a request has a deadline of its own and its own outcome, against real small servers."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.outcome import Outcome
from tests.fetch.asking import SETTINGS, get
from tests.fetch.servers import Habit, Reader, Server, Writer, answers, reply, serving

LONG = 20.0
SHORT = 0.25
PATIENT = msgspec.structs.replace(
    SETTINGS, connect_timeout=LONG, tls_timeout=LONG, first_byte_timeout=LONG, head_timeout=LONG, read_timeout=LONG,
    total_timeout=LONG, rate_window=LONG,
)  # fmt: skip


@contextlib.asynccontextmanager
async def impatient(**values: float) -> AsyncIterator[HttpClient]:
    """A client that waits for ever but in one respect."""
    client = HttpClient(msgspec.structs.replace(PATIENT, **values), "tester", SystemClock())
    yield client
    await client.close()


def then_drips(first: bytes, every: float = 0.05, piece: bytes = b"x") -> Habit:
    async def habit(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                await writer.drain()
                await asyncio.sleep(every)
                writer.write(piece)

    return habit


def then_stalls(first: bytes) -> Habit:
    return then_drips(first, every=LONG)


BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nsome"


@pytest.mark.parametrize(
    ("habit", "deadline", "outcome"),
    [
        (then_stalls(b""), "first_byte_timeout", Outcome.FIRST_BYTE_TIMEOUT),
        (then_stalls(b"HTTP/1.1 200 OK\r\nA: b"), "read_timeout", Outcome.READ_TIMEOUT),
        (then_drips(b"HTTP/1.1 200 OK\r\nA: b"), "head_timeout", Outcome.TOO_SLOW),
        (then_stalls(BODY), "read_timeout", Outcome.READ_TIMEOUT),
        (then_drips(BODY), "rate_window", Outcome.TOO_SLOW),
        (then_drips(BODY, 0.02, b"x" * 90), "total_timeout", Outcome.TOO_SLOW),
        (then_drips(b"", 0.02, b"HTTP/1.1 103 Early Hints\r\n\r\n"), "head_timeout", Outcome.TOO_SLOW),
    ],
    ids=[
        "silence",
        "half a head",
        "a head in drips",
        "half a body",
        "a body in drips",
        "no end",
        "hints for ever",
    ],
)
async def test_a_deadline_ends_its_phase_alone(habit: Habit, deadline: str, outcome: Outcome) -> None:
    async with impatient(**{deadline: SHORT}) as client, serving(habit) as server:
        response = await get(client, server.url(), cap=1_000_000)

    assert (response.outcome, response.sent) == (outcome, True), response.detail
    assert SHORT <= response.duration < LONG / 4


@contextlib.asynccontextmanager
async def deaf() -> AsyncIterator[Server]:
    """A port that accepts and reads nothing, not even a handshake."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Server(listener.getsockname()[1])


async def test_a_handshake_that_is_not_answered_is_a_tls_timeout() -> None:
    async with impatient(tls_timeout=SHORT) as client, deaf() as server:
        response = await get(client, server.url(scheme="https"))

    assert (response.outcome, response.sent) == (Outcome.TLS_TIMEOUT, False)


async def test_every_phase_is_timed_and_a_kept_connection_has_no_connecting(client: HttpClient) -> None:
    async def takes_its_time(head: bytes, reader: Reader, writer: Writer) -> None:
        await asyncio.sleep(0.1)
        writer.write(reply(body=b"x"))

    async with serving(takes_its_time) as server:
        first, second = await get(client, server.url()), await get(client, server.url())

    assert 0 < (first.connect or 0) < 0.1
    assert 0.09 < (first.first_byte or 0) <= first.duration
    assert second.connect is None
    assert (second.first_byte or 0) > 0.09


async def test_a_fast_answer_leaves_no_timer_behind(client: HttpClient) -> None:
    loop = asyncio.get_running_loop()
    async with serving(answers(reply(body=b"x"))) as server:
        await get(client, server.url())
        armed = [h for h in loop._scheduled if not h.cancelled() and "_on_read_timeout" in repr(h)]  # type: ignore[attr-defined]

    assert armed == []


# a kept connection that dies


async def ask_twice(
    idle: float, monkeypatch: pytest.MonkeyPatch, client: HttpClient
) -> tuple[Response, Server]:
    async def once_then_resets(head: bytes, reader: Reader, writer: Writer) -> None:
        if len(server.heads) == 1:
            writer.write(reply(body=b"x"))
            await writer.drain()
        else:
            writer.transport.abort()

    monkeypatch.setattr("crawl_platform.fetch.metered.IDLE", idle)
    async with serving(once_then_resets) as server:
        await get(client, server.url())
        await asyncio.sleep(0.05)
        return await get(client, server.url()), server


async def test_a_connection_that_dies_after_idleness_is_stale_and_its_request_is_not_repeated(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    response, server = await ask_twice(0.02, monkeypatch, client)

    assert (response.outcome, response.sent) == (Outcome.CONNECTION_STALE, True)
    assert (len(server.heads), server.connections) == (2, 1)


async def test_a_connection_that_dies_in_full_use_is_lost(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    response, _ = await ask_twice(5.0, monkeypatch, client)

    assert response.outcome is Outcome.CONNECTION_LOST


async def test_a_connection_that_the_server_has_closed_in_time_is_not_used_at_all(client: HttpClient) -> None:
    async def closes_later(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(reply(body=b"x"))
        await writer.drain()
        asyncio.get_running_loop().call_later(0.02, writer.close)

    async with serving(closes_later) as server:
        await get(client, server.url())
        await asyncio.sleep(0.06)
        response = await get(client, server.url())

    assert (response.outcome, server.connections) == (Outcome.OK, 2)


async def test_a_slow_client_is_not_the_servers_fault(client: HttpClient) -> None:
    """The loop was busy for longer than a deadline while the answer lay in the kernel."""

    async def answers_and_holds_the_loop(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(reply(body=b"x"))
        time.sleep(SETTINGS.first_byte_timeout + 0.1)  # noqa: ASYNC251

    async with serving(answers_and_holds_the_loop) as server:
        response = await get(client, server.url())

    assert response.outcome is Outcome.OK
