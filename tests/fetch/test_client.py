"""One request on the wire, against small real servers: what is sent, how often, how much is read."""

import asyncio
import gzip
import threading
from asyncio import selector_events
from typing import Any

import pytest

from crawl_platform.errors import PlatformError
from crawl_platform.fetch import client as client_module
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.outcome import Outcome
from tests.fetch.asking import CAP, Writes, get
from tests.fetch.servers import Reader, Writer, answers, reply, serving

# what is sent


async def test_a_request_says_who_we_are_and_what_we_can_read(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"hello"))) as server:
        response = await client.get(
            server.url("/a?b=%7Ec"),
            "site.test",
            "127.0.0.1",
            on_write=Writes(),
            headers={"If-None-Match": '"tag"'},
            cap=CAP,
        )

    head = server.heads[0].decode().lower()
    assert head.startswith("get /a?b=%7ec http/1.1\r\n")
    assert "user-agent: tester/1 (+me@example.org)" in head
    assert "accept-encoding: gzip, deflate, br, zstd" in head
    assert 'if-none-match: "tag"' in head
    assert f"host: site.test:{server.port}" in head
    assert (response.outcome, response.status, response.body) == (Outcome.OK, 200, b"hello")
    assert (response.address, response.sent) == ("127.0.0.1", True)
    assert response.duration > 0


async def test_cookies_are_not_sent_back(client: HttpClient) -> None:
    async with serving(answers(reply("200 OK", b"x", "Set-Cookie: session=1; Path=/"))) as server:
        await get(client, server.url())
        await get(client, server.url())

    assert server.connections == 1
    assert not any(b"cookie" in head.lower() for head in server.heads)


async def test_a_connection_is_kept_as_long_as_the_host_keeps_its_address(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"x"))) as server:
        for _ in range(3):
            await get(client, server.url())
        assert server.connections == 1
        moved = await get(client, server.url(), address="127.0.0.2")

    assert moved.outcome is Outcome.CONNECT_REFUSED  # asked where it lives now, not over the old connection
    assert len(server.heads) == 3


async def test_bytes_in_headers_that_are_no_text_become_text(client: HttpClient) -> None:
    async with serving(
        answers(reply("200 OK", b"x", 'ETag: "caf\xe9"', "Content-Type: text/\xff"))
    ) as server:
        response = await get(client, server.url())

    assert response.header("etag") == '"caf\ufffd"'
    assert "".join(response.headers.values()).encode()  # rows and records can be written


# on_write


async def test_on_write_is_called_once_per_request_also_on_a_kept_connection(client: HttpClient) -> None:
    writes = Writes()
    async with serving(answers(reply(body=b"x"))) as server:
        for n in range(1, 4):
            await get(client, server.url(), writes)
            assert writes.count == len(server.heads) == n


async def test_on_write_runs_in_the_loop_step_of_the_write_and_before_it(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    write = selector_events._SelectorSocketTransport.write  # type: ignore[attr-defined]

    def spy(transport: object, data: bytes) -> None:
        if bytes(data).startswith(b"GET"):
            events.append("write")
        write(transport, data)

    def on_write() -> None:
        events.append("on_write")
        asyncio.get_running_loop().call_soon(events.append, "next step")

    monkeypatch.setattr(selector_events._SelectorSocketTransport, "write", spy)  # type: ignore[attr-defined]
    async with serving(answers(reply(body=b"x"))) as server:
        for _ in range(2):  # on a new connection and on a kept one
            events.clear()
            await client.get(server.url(), "site.test", "127.0.0.1", on_write=on_write, headers={}, cap=CAP)
            assert events == ["on_write", "write", "next step"]


async def test_a_request_that_on_write_forbids_is_never_sent(client: HttpClient) -> None:
    class Forbidden(PlatformError):
        pass

    def forbids() -> None:
        raise Forbidden

    async with serving(answers(reply(body=b"x"))) as server:
        with pytest.raises(Forbidden):
            await client.get(server.url(), "site.test", "127.0.0.1", on_write=forbids, headers={}, cap=CAP)
        await asyncio.sleep(0.05)

        assert server.heads == []


async def test_a_kept_connection_that_the_server_resets_gets_no_silent_second_request(
    client: HttpClient,
) -> None:
    writes = Writes()

    async def once_then_resets(head: bytes, reader: Reader, writer: Writer) -> None:
        if len(server.heads) == 1:
            writer.write(reply(body=b"x"))
            await writer.drain()
        else:
            writer.transport.abort()

    async with serving(once_then_resets) as server:
        await get(client, server.url(), writes)
        response = await get(client, server.url(), writes)
        await asyncio.sleep(0.05)

        assert len(server.heads) == 2
    assert writes.count == 2
    assert (response.outcome, response.sent, response.status) == (Outcome.CONNECTION_LOST, True, None)


# caps


async def test_a_body_is_cut_at_the_cap_and_the_connection_is_not_read_on(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"x" * 1_000_000))) as server:
        response = await get(client, server.url(), cap=1_000)
        again = await get(client, server.url(), cap=1_000)

    assert (len(response.wire), len(response.body), response.truncated) == (1_000, 1_000, True)
    assert (again.outcome, server.connections) == (Outcome.OK, 2)


async def test_a_body_of_exactly_the_cap_is_whole(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"x" * 1_000))) as server:
        response = await get(client, server.url(), cap=1_000)

    assert (len(response.body), response.truncated) == (1_000, False)


async def test_a_bomb_is_cut_at_the_cap_when_inflated(client: HttpClient) -> None:
    bomb = gzip.compress(bytes(5_000_000))
    async with serving(answers(reply("200 OK", bomb, "Content-Encoding: gzip"))) as server:
        response = await get(client, server.url())

    assert (len(response.body), response.truncated, response.encoding) == (CAP, True, "gzip")


async def test_wire_and_body_are_both_there(client: HttpClient) -> None:
    packed = gzip.compress(b"hello")
    async with serving(answers(reply("200 OK", packed, "Content-Encoding: gzip"))) as server:
        response = await get(client, server.url())

    assert (response.wire, response.body, response.encoding) == (packed, b"hello", "gzip")


# the pin


async def test_a_request_goes_to_the_pinned_address_whatever_the_name_is(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"x"))) as server:
        response = await client.get(
            server.url(), "site.test", "127.0.0.1", on_write=Writes(), headers={}, cap=CAP
        )
        away = await client.get(
            f"http://other.test:{server.port}/",
            "other.test",
            "127.0.0.77",
            on_write=Writes(),
            headers={},
            cap=CAP,
        )

    assert response.outcome == Outcome.OK
    assert (away.outcome, away.address) == (Outcome.CONNECT_REFUSED, "127.0.0.77")


async def test_a_body_that_may_be_large_is_inflated_beside_the_loop(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    inflated = client_module._inflated

    def noting(*given: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return inflated(*given)

    monkeypatch.setattr(client_module, "_inflated", noting)
    packed = reply("200 OK", gzip.compress(b"x" * 5_000), "Content-Encoding: gzip")
    async with serving(answers(packed)) as server:
        responses = [await get(client, server.url(), cap=cap) for cap in (CAP, 50_000_000)]

    assert [response.body for response in responses] == [b"x" * 5_000] * 2
    assert threads == [True, False]
