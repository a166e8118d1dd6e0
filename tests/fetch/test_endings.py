"""Every way a request can end on real small servers has its name."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch
from crawl_platform.simulation.tls import Authority, write_ca
from tests.fetch.asking import Writes, get
from tests.fetch.servers import Reader, Server, Writer, answers, reply, says_nothing, serving, then_closes

# endings


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("200 OK", Outcome.OK),
        ("404 Not Found", Outcome.NOT_FOUND),
        ("410 Gone", Outcome.GONE),
        ("403 Forbidden", Outcome.UNAUTHORIZED),
        ("402 Payment Required", Outcome.PAYMENT_REQUIRED),
        ("429 Too Many Requests", Outcome.RATE_LIMITED),
        ("503 Service Unavailable", Outcome.UNAVAILABLE),
        ("500 Oops", Outcome.SERVER_ERROR),
        ("418 Teapot", Outcome.CLIENT_ERROR),
    ],
)
async def test_a_complete_answer_is_named_after_its_status(
    client: HttpClient, status: str, outcome: Outcome
) -> None:
    async with serving(answers(reply(status, b"body", "Retry-After: 7"))) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.body, response.header("retry-after")) == (outcome, b"body", "7")


async def test_not_modified_has_no_body_and_keeps_the_connection(client: HttpClient) -> None:
    async with serving(answers(reply("304 Not Modified", b"", 'ETag: "1"', length=False))) as server:
        first, second = await get(client, server.url()), await get(client, server.url())

    assert (first.outcome, second.outcome, server.connections) == (
        Outcome.NOT_MODIFIED,
        Outcome.NOT_MODIFIED,
        1,
    )


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
async def test_a_redirect_is_reported_and_not_followed(client: HttpClient, status: str) -> None:
    async with serving(answers(reply(status, b"", "Location: /elsewhere"))) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.header("location")) == (Outcome.REDIRECT, "/elsewhere")
    assert len(server.heads) == 1


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Unavailable", "404 Not Found"])
async def test_a_refusal_whose_body_is_garbled_is_still_that_refusal(client: HttpClient, status: str) -> None:
    """As bad_encoding it would not back off, and its Retry-After would be lost."""
    garbled = reply(status, b"\xff\x00garbage\xff" * 20, "Content-Encoding: gzip", "Retry-After: 60")
    plain = reply(status)
    async with serving(answers(plain, garbled)) as server:
        expected = await get(client, server.url())
        response = await get(client, server.url())

    assert response.outcome == expected.outcome
    assert response.header("retry-after") == "60"


async def test_a_page_whose_body_is_garbled_is_bad_encoding(client: HttpClient) -> None:
    async with serving(answers(reply("200 OK", b"\xff\x00\xfe" * 50, "Content-Encoding: gzip"))) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.status, response.sent) == (Outcome.BAD_ENCODING, 200, True)


@pytest.mark.parametrize(
    "answer",
    [
        b"this is not http\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    ],
    ids=["no http", "no status", "no chunk"],
)
async def test_what_is_not_http_is_bad_http(client: HttpClient, answer: bytes) -> None:
    async with serving(then_closes(answer)) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.sent) == (Outcome.BAD_HTTP, True)
    assert response.detail


async def test_many_headers_are_bounded_too(client: HttpClient) -> None:
    flood = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 1_000) for n in range(5_000))
    async with serving(then_closes(b"HTTP/1.1 200 OK\r\n" + flood + b"\r\n")) as server:
        response = await get(client, server.url())

    assert response.outcome == Outcome.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Le", reply(body=b"nothing of it")[:-13]],
    ids=["at once", "within the header", "before the body"],
)
async def test_a_connection_that_ends_too_soon_is_lost(client: HttpClient, answer: bytes) -> None:
    async with serving(then_closes(answer)) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.sent) == (Outcome.CONNECTION_LOST, True)


async def test_a_server_that_accepts_and_never_answers_is_a_first_byte_timeout(client: HttpClient) -> None:
    async with serving(says_nothing) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.sent) == (Outcome.FIRST_BYTE_TIMEOUT, True)
    assert 0.2 < response.duration < 2.0


async def test_a_server_that_drips_for_ever_is_stopped_by_the_total(client: HttpClient) -> None:
    async def drips(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with serving(drips) as server:
        response = await get(client, server.url())

    assert response.outcome == Outcome.TOO_SLOW
    assert response.duration < 2.0


async def test_a_port_that_nobody_listens_on_is_refused(client: HttpClient) -> None:
    async with serving(says_nothing) as server:
        pass
    writes = Writes()

    response = await get(client, server.url(), writes)

    assert (response.outcome, response.sent, writes.count) == (Outcome.CONNECT_REFUSED, False, 0)


async def test_a_server_whose_backlog_is_full_is_a_connect_timeout(client: HttpClient) -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(("127.0.0.1", port))
        await asyncio.sleep(0.05)

        response = await get(client, Server(port).url())

        for one in crowd:
            one.close()
    assert (response.outcome, response.sent) == (Outcome.CONNECT_TIMEOUT, False)


@pytest.mark.parametrize("url", ["http://site.test:99999/", "http://site.test:1/\r\nX: y"])
async def test_a_url_that_cannot_be_asked_for_is_an_outcome_and_not_a_crash(
    client: HttpClient, url: str
) -> None:
    response = await get(client, url)

    assert not response.sent
    assert response.outcome in (Outcome.BAD_URL, Outcome.CONNECT_REFUSED)


# TLS


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(SystemClock().now())


def trusting(authority: Authority, folder: Path) -> HttpClient:
    write_ca(authority, folder / "ca.pem")
    settings = Fetch(
        ca_file=str(folder / "ca.pem"), connect_timeout=1.0, read_timeout=1.0, allow_networks=("127.0.0.0/8",)
    )
    return HttpClient(settings, "tester", SystemClock())


async def test_a_trusted_certificate_is_accepted(authority: Authority, tmp_path: Path) -> None:
    client = trusting(authority, tmp_path)
    async with serving(answers(reply(body=b"safe")), authority.context(["site.test"])) as server:
        response = await get(client, server.url(scheme="https"))
    await client.close()

    assert (response.outcome, response.body) == (Outcome.OK, b"safe")


@pytest.mark.parametrize("flaw", ["unknown authority", "another name", "no TLS at all"])
async def test_a_certificate_that_cannot_be_trusted_is_a_tls_failure_and_nothing_is_sent(
    authority: Authority, tmp_path: Path, flaw: str
) -> None:
    client = trusting(authority, tmp_path)
    writes = Writes()
    context: ssl.SSLContext | None = authority.context(
        ["other.test" if flaw == "another name" else "site.test"]
    )
    if flaw == "unknown authority":
        context = Authority(SystemClock().now()).context(["site.test"])
    elif flaw == "no TLS at all":
        context = None
    async with serving(then_closes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), context) as server:
        if context is None:
            response = await asyncio.wait_for(plain_talk(client, writes), 5)
        else:
            response = await get(client, server.url(scheme="https"), writes)
    await client.close()

    assert (response.outcome, response.sent, writes.count) == (Outcome.TLS_FAILURE, False, 0)
    assert server.heads == []


async def plain_talk(client: HttpClient, writes: Writes) -> Response:
    """Ask https of a server that answers the handshake in plain HTTP."""

    async def blurts(reader: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(blurts, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    response = await get(client, f"https://site.test:{port}/", writes)
    listener.close()
    return response
