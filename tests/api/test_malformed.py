"""Whatever is sent, the answer is a refusal that says so: never a 5xx, and the API goes on."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.lake.lake import Lake
from tests.api.serving import AUTHORISED, MadeUpFleet, serving

FEW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
BATCH = 10
"""Inputs per example: they share one server."""

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.text(max_size=40) for name in ("url", "host", "reason", "priority", "lift", "extra")
    },
)
BODIES = st.binary(max_size=200) | NEARLY.map(lambda value: json.dumps(value).encode())
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
WORDS = st.text(max_size=60) | st.sampled_from(
    [
        "http://\x00/",
        "http://[::1]/",
        "http://a.test/\ud7ff",
        "*.",
        "a" * 5_000,
        "http://a.test:99999/",
        "'; --",
    ]
)


def over_http(home: Path, work: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(home, MadeUpFleet(seed={"a.test"})) as api:
            await work(api)
            assert (await api.get("/healthz")).status == 200

    asyncio.run(run())


@FEW
@given(
    sent=st.lists(
        st.tuples(st.sampled_from(["recrawl", "promote", "exclude"]), BODIES, HEADER), min_size=BATCH
    )
)
def test_any_body_and_key_get_an_answer_below_500(home: Path, sent: list[tuple[str, bytes, str]]) -> None:
    async def work(api: Any) -> None:
        for kind, body, key in sent[:BATCH]:
            headers = {**AUTHORISED, "Content-Type": "application/json", "Idempotency-Key": key}
            answer = await api.post(f"/v1/{kind}", data=body, headers=headers)
            assert answer.status < 500, (kind, body, key)

    over_http(home, work)


@FEW
@given(urls=st.lists(WORDS, min_size=BATCH))
@pytest.mark.long
def test_any_url_can_be_asked_to_be_explained(home: Path, urls: list[str]) -> None:
    async def work(api: Any) -> None:
        for url in urls[:BATCH]:
            text = url.encode(errors="replace").decode()
            answer = await api.get("/v1/explain", params={"url": text}, headers=AUTHORISED)
            assert answer.status in (200, 422), url

    over_http(home, work)


@FEW
@given(paths=st.lists(st.binary(max_size=60), min_size=BATCH))
def test_any_path_and_query_get_an_answer_below_500(home: Path, paths: list[bytes]) -> None:
    async def work(api: Any) -> None:
        for path in paths[:BATCH]:
            quoted = "".join(f"%{byte:02x}" for byte in path)
            for target in (f"/v1/requests/{quoted}", f"/v1/explain?url={quoted}&{quoted}={quoted}"):
                status = await _status(api.port, f"GET {target} HTTP/1.1".encode())
                assert status < 500, target

    over_http(home, work)


@FEW
@given(lines=st.lists(st.binary(max_size=120), min_size=BATCH))
def test_what_is_no_http_is_turned_away_and_the_server_goes_on(home: Path, lines: list[bytes]) -> None:
    async def work(api: Any) -> None:
        for line in lines[:BATCH]:
            assert await _status(api.port, line) < 500, line

    over_http(home, work)


async def _status(port: int, request_line: bytes) -> int:
    """Status of the answer to raw bytes with a valid token; 0 if the connection was just closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = AUTHORISED["Authorization"].encode()
    try:
        writer.write(
            request_line + b"\r\nHost: x\r\nAuthorization: " + token + b"\r\nConnection: close\r\n\r\n"
        )
        writer.write_eof()
        answer = await asyncio.wait_for(reader.readline(), 30)
    except ConnectionError:
        return 0
    finally:
        writer.close()
    return int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0


def test_a_body_that_ends_early_is_refused(home: Path, lake: Lake) -> None:
    async def work(api: Any) -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        head = (
            "POST /v1/exclude HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
            f"Authorization: {AUTHORISED['Authorization']}\r\n\r\n" + '{"host":'
        )
        writer.write(head.encode())
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.1)

    over_http(home, work)
    assert lake.query("SELECT count(*) AS n FROM requests")["n"][0].as_py() == 0
