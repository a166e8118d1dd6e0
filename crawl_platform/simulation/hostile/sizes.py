"""Hosts whose answers have no end, or far too much of one part."""

from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page

_row = partial(Misbehaviour, "sizes")
_HTML = ("Content-Type", "text/html")
_CHUNKED = ("Transfer-Encoding", "chunked")


async def _endless_body(visit: Visit) -> None:
    await visit.head(headers=[_HTML])
    await visit.send(page("endless"))
    await visit.pour(b"<p>more and more and more</p>\n" * 1_000)


async def _endless_headers(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\n")
    await visit.pour(b"X-More: and more\r\n" * 500)


async def _endless_header(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await visit.pour(b"x" * 16_384)


async def _endless_status(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 ")
    await visit.pour(b"fine " * 4_000)


async def _header_flood(visit: Visit) -> None:
    """100,000 headers, and then a page."""
    await visit.send(b"HTTP/1.1 200 OK\r\n")
    for start in range(0, 100_000, 1_000):
        await visit.send(b"".join(b"X-%d: y\r\n" % number for number in range(start, start + 1_000)))
    body = page("at last")
    await visit.send(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


async def _long_header(visit: Visit) -> None:
    await visit.answer(page("12 kB"), headers=[("X-Long", "x" * 12_000)])


async def _long_location(visit: Visit) -> None:
    await visit.redirect("/" + "x" * 200_000)


async def _interim(visit: Visit) -> None:
    await visit.pour(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" * 200)


async def _one_byte_chunks(visit: Visit) -> None:
    await visit.head(headers=[_HTML, _CHUNKED])
    await visit.pour(b"1\r\nx\r\n" * 2_000)


async def _chunk_extensions(visit: Visit) -> None:
    await visit.head(headers=[_HTML, _CHUNKED])
    await visit.pour(b"1;" + b"name=value;" * 1_000 + b"\r\nx\r\n")


async def _trailers(visit: Visit) -> None:
    await visit.head(headers=[_HTML, _CHUNKED])
    await visit.send(b"5\r\nhello\r\n0\r\n")
    await visit.pour(b"X-Trailer: and more\r\n" * 500)


async def _huge_chunk(visit: Visit) -> None:
    """Says that 16 EiB follow."""
    await visit.head(headers=[_HTML, _CHUNKED])
    await visit.send(b"fffffffffffffff0\r\n" + page("huge"))
    await visit.gone()


ROWS = (
    _row("endless-body", "a body without end", ("ok",), _endless_body, truncated=True),
    _row("endless-headers", "header after header without end", ("headers_too_large",), _endless_headers),
    _row("endless-header", "one header without end", ("headers_too_large",), _endless_header),
    _row("endless-status", "a status line without end", ("headers_too_large",), _endless_status),
    _row("header-flood", "100,000 headers before the page", ("headers_too_large",), _header_flood),
    _row("long-header", "a header of 12 kB", ("ok",), _long_header),
    _row("long-location", "a Location of 200 kB", ("headers_too_large",), _long_location),
    _row("endless-interim", "interim responses (103) without end", ("response_flood",), _interim),
    _row("one-byte-chunks", "chunks of one byte without end", ("ok",), _one_byte_chunks, truncated=True),
    _row(
        "chunk-extensions",
        "10 kB of chunk extension to each byte",
        ("bad_http", "response_flood", "headers_too_large"),
        _chunk_extensions,
    ),
    _row("trailers", "trailers without end", ("headers_too_large", "response_flood", "bad_http"), _trailers),
    _row(
        "huge-chunk",
        "a chunk that claims 16 EiB, of which little comes",
        ("read_timeout", "too_slow"),
        _huge_chunk,
    ),
)
