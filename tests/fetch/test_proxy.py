"""Through a proxy: a tunnel to the address that was checked here, TLS with the site itself, and whose fault is what."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.fetch import tls
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch
from crawl_platform.simulation.tls import Authority
from tests.fetch.asking import CAP, SETTINGS, Writes
from tests.fetch.servers import Reader, Server, Writer, answers, reply, serving

PUBLIC = "93.184.215.14"
"""Where the site claims to live; the proxies of these tests lead to loopback instead."""


@dataclass
class Proxy:
    port: int
    leads_to: int
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connected(self, reader: Reader, writer: Writer) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head.decode().partition("\r\n")[0])
            writer.write(self.answer)
            if b" 200 " in self.answer:
                there, back = await asyncio.open_connection("127.0.0.1", self.leads_to)
                await asyncio.gather(pipe(reader, back), pipe(there, writer))
        writer.close()


async def pipe(reader: Reader, writer: Writer) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def proxy_to(server: Server, answer: bytes = Proxy.answer) -> AsyncIterator[Proxy]:
    proxy = Proxy(0, server.port, answer)
    listener = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()


async def through(client: HttpClient, proxy: Proxy, url: str, address: str = PUBLIC) -> Response:
    return await client.get(
        url,
        "site.test",
        address,
        on_write=Writes(),
        headers={"User-Agent": "out/1"},
        cap=CAP,
        proxy=proxy.url,
    )


async def test_the_proxy_is_told_the_address_and_never_the_name(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"hello"))) as server, proxy_to(server) as proxy:
        responses = [await through(client, proxy, server.url()) for _ in range(3)]

    assert [(r.outcome, r.body, r.address) for r in responses] == [(Outcome.OK, b"hello", PUBLIC)] * 3
    assert proxy.asked == [f"CONNECT {PUBLIC}:{server.port} HTTP/1.1"]  # and the tunnel is kept
    assert b"user-agent: out/1\r\n" in server.heads[0].lower()
    assert b"GET / HTTP/1.1\r\n" in server.heads[0]


async def test_tls_is_spoken_with_the_site_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(time.time())
    context = authority.context(["site.test"])
    trusting = ssl.create_default_context(cadata=authority.pem().decode())
    monkeypatch.setattr(tls, "context", lambda _: trusting)
    client = HttpClient(SETTINGS, "tester/1 (+me@example.org)", SystemClock())
    async with serving(answers(reply(body=b"secret")), ssl=context) as server, proxy_to(server) as proxy:
        good = await through(client, proxy, server.url(scheme="https"))
        lying = await through(client, proxy, server.url(scheme="https").replace("site", "other"))
    await client.close()

    assert (good.outcome, good.body) == (Outcome.OK, b"secret")
    assert (lying.outcome, lying.proxy_failed) == (Outcome.TLS_FAILURE, False)


async def test_a_private_address_is_not_reached_through_a_proxy_either() -> None:
    client = HttpClient(Fetch(allow_networks=()), "tester/1 (+me@example.org)", SystemClock())
    async with serving(answers(reply(body=b"internal"))) as server, proxy_to(server) as proxy:
        refused = await through(client, proxy, server.url(), address="127.0.0.1")
        public = await through(client, proxy, server.url())
    await client.close()

    assert (refused.outcome, refused.proxy_failed) == (Outcome.UNSAFE_ADDRESS, False)
    assert public.outcome is Outcome.OK  # the proxy's own address is the operator's to choose
    assert len(proxy.asked) == 1


async def test_a_kept_connection_is_not_used_another_way_than_it_was_made(client: HttpClient) -> None:
    async with serving(answers(reply(body=b"x"))) as server, proxy_to(server) as one, proxy_to(server) as two:
        for proxy in (one, two, one):
            await through(client, proxy, server.url(), address="127.0.0.1")
        straight = await client.get(
            server.url(), "site.test", "127.0.0.1", on_write=Writes(), headers={}, cap=CAP
        )

    assert (len(one.asked), len(two.asked)) == (2, 1)
    assert straight.outcome is Outcome.OK
    assert server.connections == 4


@pytest.mark.parametrize(
    ("answer", "outcome", "proxy_failed"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Outcome.CONNECT_REFUSED, True),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", Outcome.CONNECT_REFUSED, True),
        (b"SSH-2.0-nonsense\r\n\r\n", Outcome.CONNECT_REFUSED, True),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", Outcome.CONNECT_REFUSED, False),
        (b"", Outcome.CONNECT_REFUSED, True),
        (b"HTTP/1.1 200" + b" " * 20_000, Outcome.CONNECT_REFUSED, True),
    ],
    ids=["407", "403", "no HTTP", "502", "hangs up", "endless"],
)
async def test_whose_fault_it_is(
    client: HttpClient, answer: bytes, outcome: Outcome, proxy_failed: bool
) -> None:
    async with serving(answers(reply(body=b"x"))) as server, proxy_to(server, answer) as proxy:
        response = await through(client, proxy, server.url())

    assert (response.outcome, response.proxy_failed, response.sent) == (outcome, proxy_failed, False)
    assert server.heads == []


async def test_a_dead_proxy_is_the_proxys_fault(client: HttpClient) -> None:
    response = await through(client, Proxy(9, 0), "http://site.test/")

    assert (response.outcome, response.proxy_failed) == (Outcome.CONNECT_REFUSED, True)
