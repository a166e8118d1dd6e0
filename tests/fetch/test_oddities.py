"""Answers that break the standard and that browsers show all the same: kept, and told what is wrong with them."""

import gzip
import zlib
from dataclasses import dataclass

import brotli
import pytest
import zstandard

from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.oddities import MEANINGS, Oddity
from crawl_platform.fetch.outcome import Outcome
from tests.fetch.asking import get
from tests.fetch.servers import Reader, Writer, answers, reply, serving, then_closes

PAGE = b"<p>hello"
LENGTH = b"Content-Length: 8\r\n\r\n"
PACKED = gzip.compress(PAGE)


@dataclass(frozen=True)
class Odd:
    answer: bytes
    oddities: str
    body: bytes = PAGE
    truncated: bool = False
    outcome: Outcome = Outcome.OK


ODD = {
    # status line
    "no reason": Odd(b"HTTP/1.1 200\r\n" + LENGTH + PAGE, "no_reason"),
    "no reason, but its space": Odd(b"HTTP/1.1 200 \r\n" + LENGTH + PAGE, "no_reason"),
    "lower case": Odd(b"http/1.1 200 OK\r\n" + LENGTH + PAGE, "status_line"),
    "two spaces": Odd(b"HTTP/1.1  200 OK\r\n" + LENGTH + PAGE, "status_line"),
    "a version that never was": Odd(b"HTTP/1.2 200 OK\r\n" + LENGTH + PAGE, "status_line"),
    "HTTP/2 in words": Odd(b"HTTP/2 200\r\n" + LENGTH + PAGE, "no_reason,status_line"),
    "no version": Odd(b"HTTP 200 OK\r\n" + LENGTH + PAGE, "status_line"),
    "no space before the reason": Odd(b"HTTP/1.1 200OK\r\n" + LENGTH + PAGE, "status_line"),
    "bytes before it": Odd(b"\xef\xbb\xbfHTTP/1.1 200 OK\r\n" + LENGTH + PAGE, "leading_bytes"),
    "empty lines before it": Odd(b"\r\n\r\nHTTP/1.1 200 OK\r\n" + LENGTH + PAGE, ""),
    "999": Odd(b"HTTP/1.1 999 No\r\n" + LENGTH + PAGE, "unknown_status", outcome=Outcome.CLIENT_ERROR),
    # header lines
    "bare LF": Odd(b"HTTP/1.1 200 OK\nContent-Length: 8\n\n" + PAGE, "bare_lf"),
    "one bare LF": Odd(b"HTTP/1.1 200 OK\r\nA: b\n" + LENGTH + PAGE, "bare_lf"),
    "folded": Odd(b"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n" + LENGTH + PAGE, "folded_header"),
    "space before colon": Odd(b"HTTP/1.1 200 OK\r\nA : b\r\n" + LENGTH + PAGE, "space_before_colon"),
    "space before the length's": Odd(
        b"HTTP/1.1 200 OK\r\nContent-Length : 8\r\n\r\n" + PAGE, "space_before_colon"
    ),
    "no colon": Odd(b"HTTP/1.1 200 OK\r\nnonsense\r\n" + LENGTH + PAGE, "junk_header"),
    "no name": Odd(b"HTTP/1.1 200 OK\r\n: x\r\n" + LENGTH + PAGE, "junk_header"),
    "a space in the name": Odd(b"HTTP/1.1 200 OK\r\nMy Own: x\r\n" + LENGTH + PAGE, "junk_header"),
    "a name that is no ASCII": Odd(b"HTTP/1.1 200 OK\r\nCaf\xe9: x\r\n" + LENGTH + PAGE, "junk_header"),
    "NUL": Odd(b"HTTP/1.1 200 OK\r\nA: x\0y\r\n" + LENGTH + PAGE, "junk_header"),
    "several at once": Odd(
        b"http/1.1 200 OK\nA : b\n c\nnonsense\nContent-Length: 8\n\n" + PAGE,
        "bare_lf,folded_header,junk_header,space_before_colon,status_line",
    ),
    # lengths
    "the same length twice": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n" + LENGTH + PAGE, "several_lengths"),
    "a list of lengths": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: 8, 8\r\n\r\n" + PAGE, "several_lengths"),
    "two lengths": Odd(
        b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nContent-Length: 3\r\n\r\n" + PAGE, "several_lengths"
    ),
    "no number": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: banana\r\n\r\n" + PAGE, "bad_length"),
    "below zero": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: -8\r\n\r\n" + PAGE, "bad_length"),
    "beyond 64 bits": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n" + PAGE, "bad_length"),
    "no length's value": Odd(b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n" + PAGE, "bad_length"),
    "length and chunks": Odd(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n" + PAGE + b"\r\n0\r\n\r\n",
        "length_and_chunks",
    ),
    "too short a body": Odd(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + PAGE, "short_body", truncated=True),
    "too long a body": Odd(b"HTTP/1.1 200 OK\r\n" + LENGTH + PAGE + b" and more", "long_body"),
    "another answer behind it": Odd(reply(body=PAGE) + b"HTTP/1.1 200 OK\r\n" + LENGTH + b"SMUGGLED", "long_body"),
    "chunks without an end": Odd(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n" + PAGE + b"\r\n", "cut_chunks", truncated=True
    ),
    "a 204 with a body": Odd(b"HTTP/1.1 204 No Content\r\n\r\n" + PAGE, "forbidden_body", b""),
    "a 204 with a length": Odd(b"HTTP/1.1 204 No Content\r\n" + LENGTH + PAGE, "forbidden_body", b""),
    # encodings
    "gzip over plain": Odd(reply("200 OK", PAGE, "Content-Encoding: gzip"), "false_encoding"),
    "br over plain": Odd(reply("200 OK", PAGE, "Content-Encoding: br"), "false_encoding"),
    "an unknown encoding": Odd(reply("200 OK", PAGE, "Content-Encoding: utf-8"), "unknown_encoding"),
    "gzip without a header": Odd(reply("200 OK", PACKED, "Content-Type: text/html"), "unlabelled_encoding"),
    "two encodings": Odd(
        reply("200 OK", brotli.compress(PACKED), "Content-Encoding: gzip, br"), "stacked_encoding"
    ),
    "two headers of encoding": Odd(
        reply("200 OK", zstandard.compress(zlib.compress(PAGE)), "Content-Encoding: deflate", "Content-Encoding: zstd"),
        "stacked_encoding",
    ),
    "cut gzip": Odd(
        reply("200 OK", gzip.compress(PAGE)[:-9], "Content-Encoding: gzip"), "cut_encoding", truncated=True
    ),
    # meaning
    "two types": Odd(
        reply("200 OK", PAGE, "Content-Type: text/plain", "Content-Type: text/html"), "several_types"
    ),
    "a file to save": Odd(reply("200 OK", PAGE, "Content-Disposition: attachment; filename=x"), "attachment"),
    "a range that nobody asked for": Odd(
        reply("206 Partial Content", PAGE, "Content-Range: bytes 0-7/100"), "unasked_range"
    ),
    "cookies that are none": Odd(reply("200 OK", PAGE, "Set-Cookie: _csrf/link=1", "Set-Cookie: ;;=\x7f"), ""),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_an_odd_answer_is_kept_and_flagged(client: HttpClient, odd: Odd) -> None:
    async with serving(then_closes(odd.answer)) as server:
        response = await get(client, server.url())

    assert response.outcome is odd.outcome, response.detail
    assert response.body[: len(odd.body) or 1] == odd.body or (odd.truncated and response.body)
    assert ",".join(sorted(response.oddities)) == odd.oddities
    assert response.truncated == odd.truncated


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_it_makes_no_difference_in_what_pieces_an_odd_head_comes(client: HttpClient, odd: Odd) -> None:
    async def in_pieces(head: bytes, reader: Reader, writer: Writer) -> None:
        for start in range(0, len(odd.answer), 7):
            writer.write(odd.answer[start : start + 7])
            await writer.drain()
        writer.close()

    async with serving(in_pieces) as server:
        response = await get(client, server.url())

    assert response.outcome is odd.outcome, response.detail
    assert response.truncated == odd.truncated


@pytest.mark.parametrize(
    "name", ["no colon", "two lengths", "too long a body", "a 204 with a body", "lower case"]
)
async def test_a_connection_that_was_not_understood_is_not_used_again(client: HttpClient, name: str) -> None:
    async with serving(answers(ODD[name].answer)) as server:
        for _ in range(2):
            response = await get(client, server.url())
            assert response.outcome is ODD[name].outcome

    assert server.connections == 2


async def test_what_a_server_says_unasked_is_not_the_answer_to_the_next_request(client: HttpClient) -> None:
    smuggled = reply(body=b"for somebody else")
    async with serving(answers(reply(body=b"first") + smuggled, reply(body=b"second"))) as server:
        first = await get(client, server.url("/first"))
        second = await get(client, server.url("/second"))

    assert (first.body, second.body) == (b"first", b"second")


async def test_values_of_headers_that_come_several_times(client: HttpClient) -> None:
    answer = reply(
        "200 OK", PAGE, "X-Robots-Tag: noindex", "X-Robots-Tag: otherbot: nofollow", "Content-Type: text/plain",
        "Content-Type: text/html", "Retry-After: 7", "Retry-After: 9", "Link: </a>; rel=next", "Link: </b>; rel=prev",
    )  # fmt: skip
    async with serving(answers(answer)) as server:
        response = await get(client, server.url())

    assert response.header("x-robots-tag") == "noindex\notherbot: nofollow"
    assert response.header("link") == "</a>; rel=next, </b>; rel=prev"
    assert (response.header("content-type"), response.header("retry-after")) == ("text/html", "7")


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>no head at all</html>",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail.test ESMTP\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\rContent-Length: 8\r\r<p>hello",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-8\r\n<p>hello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n<p>hello",
    ],
)
async def test_what_no_browser_reads_is_bad_http(client: HttpClient, answer: bytes) -> None:
    async with serving(then_closes(answer)) as server:
        response = await get(client, server.url())

    assert (response.outcome, response.sent) == (Outcome.BAD_HTTP, True), response.detail
    assert response.detail


def test_every_oddity_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Oddity)


def test_every_oddity_is_met() -> None:
    met = {name for odd in ODD.values() for name in odd.oddities.split(",") if name}
    elsewhere = {Oddity.RAW_LOCATION, Oddity.SEVERAL_LOCATIONS, Oddity.RESET_AT_END}

    assert met == set(Oddity) - elsewhere
