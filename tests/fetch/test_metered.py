"""An answer that never ends is cut off by what it has sent, long before its deadline."""

import time

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch
from tests.fetch.asking import get
from tests.fetch.servers import Habit, Reader, Writer, answers, reply, serving

PATIENT = Fetch(read_timeout=20.0, total_timeout=20.0, allow_networks=("127.0.0.0/8",))
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def without_end(first: bytes, piece: bytes) -> Habit:
    async def habit(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()

    return habit


@pytest.mark.parametrize(
    ("first", "piece"),
    [(b"", EARLY_HINTS * 500), (CHUNKED + b"1;", b"x" * 50_000)],
    ids=["interim responses", "a chunk extension"],
)
async def test_what_no_body_cap_sees_has_an_end(first: bytes, piece: bytes) -> None:
    client = HttpClient(PATIENT, "tester/1 (+me@example.org)", SystemClock())
    begun = time.monotonic()

    async with serving(without_end(first, piece)) as server:
        response = await get(client, server.url())
    await client.close()

    assert (response.outcome, response.wire) == (Outcome.RESPONSE_FLOOD, b"")
    assert time.monotonic() - begun < 10, "it went on until the deadline"


async def test_an_allowance_is_per_request(client: HttpClient) -> None:
    hints = EARLY_HINTS * 1_500 + reply("200 OK", b"body")

    async with serving(answers(hints)) as server:
        responses = [await get(client, server.url()) for _ in range(4)]

    assert [response.body for response in responses] == [b"body"] * 4
    assert server.connections == 1
