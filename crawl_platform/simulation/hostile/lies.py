"""Hosts that say one thing and send another, or end in the middle of what they send."""

import zlib
from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import Headers, Visit, page, plain_page

_lie = partial(Misbehaviour, "lies")
_reset = partial(Misbehaviour, "resets", outcomes=("connection_lost", "connection_stale"))
_PAGE = page("a page", "<p>words and words</p>")
_GZIPPED = zlib.compress(_PAGE, wbits=31)


def _says(headers: Headers, body: bytes = _PAGE, status: int = 200) -> Act:
    """A head with exactly these headers, then `body`, then the end of the connection."""

    async def act(visit: Visit) -> None:
        await visit.head(status, headers, body)

    return act


def _raw(data: bytes) -> Act:
    async def act(visit: Visit) -> None:
        await visit.send(data)

    return act


def _typed(kind: str, body: bytes) -> Act:
    async def act(visit: Visit) -> None:
        await visit.answer(body, kind=kind)

    return act


async def _slowly(visit: Visit) -> None:
    """Asks for time between requests, in which a kept connection grows old."""
    await visit.answer(b"User-agent: *\nCrawl-delay: 3\n", kind="text/plain")


async def _stale(visit: Visit) -> None:
    """Ends a kept connection under the request: it has gone out, and nobody will answer."""
    if not visit.earlier:
        await plain_page(visit)


LIES = (
    _lie(
        "length-short",
        "a Content-Length shorter than the body",
        ("ok",),
        _says([("Content-Length", "20")]),
        odd="long_body",
    ),
    _lie(
        "length-long",
        "a Content-Length longer than the body",
        ("ok",),
        _says([("Content-Length", "5000")]),
        odd="short_body",
    ),
    _lie(
        "length-negative",
        "a negative Content-Length",
        ("ok",),
        _says([("Content-Length", "-5")]),
        odd="bad_length",
    ),
    _lie(
        "lengths",
        "two Content-Lengths that differ",
        ("ok",),
        _says([("Content-Length", "20"), ("Content-Length", "30")]),
        odd="several_lengths",
    ),
    _lie(
        "gzip-lie",
        "says gzip, sends plain text",
        ("ok",),
        _says([("Content-Encoding", "gzip"), ("Content-Length", str(len(_PAGE)))]),
        odd="false_encoding",
    ),
    _lie(
        "gzip-cut",
        "gzip that ends in the middle",
        ("ok",),
        _says([("Content-Encoding", "gzip"), ("Content-Length", "60")], _GZIPPED[:60]),
        truncated=True,
        odd="cut_encoding",
    ),
    _lie(
        "gzip-noise",
        "says gzip, sends noise",
        ("bad_encoding",),
        _says([("Content-Encoding", "gzip"), ("Content-Length", "80")], bytes(range(128, 208))),
    ),
    _lie(
        "unknown-encoding",
        "an encoding that nobody knows",
        ("ok",),
        _says([("Content-Encoding", "rot13")]),
        odd="unknown_encoding",
    ),
    _lie(
        "image-as-page",
        "an image served as HTML",
        ("ok",),
        _typed("text/html", b"\x89PNG\r\n\x1a\n" + bytes(5_000)),
    ),
    _lie(
        "pdf-as-page",
        "a PDF served as HTML",
        ("ok",),
        _typed("text/html", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" * 200),
    ),
    _lie("type-noise", "a content type that is none", ("ok",), _typed('\xff/;;charset="', _PAGE)),
    _lie(
        "charset-lie",
        "a charset that does not exist, and broken bytes",
        ("ok",),
        _typed("text/html; charset=klingon-7", b"<title>\xff\xfe\xc3\x28</title>\x80\x81"),
    ),
    _lie(
        "body-of-204",
        "204 with a body",
        ("ok",),
        _says([("Content-Length", str(len(_PAGE)))], status=204),
        odd="forbidden_body",
    ),
    _lie(
        "status-999",
        "a status that does not exist",
        ("client_error",),
        _says([], status=999),
        odd="unknown_status",
    ),
    _lie(
        "not-http",
        "answers what is no HTTP",
        ("bad_http",),
        _raw(b"<html>HTTP/0.9, as in the old days</html>" * 9),
    ),
    _lie(
        "another-protocol", "the greeting of a mail server", ("bad_http",), _raw(b"220 mail.test ESMTP\r\n")
    ),
    _lie(
        "bad-chunk",
        "a chunk size that is no number",
        ("bad_http",),
        _says([("Transfer-Encoding", "chunked")], b"zz\r\n"),
    ),
    _lie("unasked-304", "304 to a first request", ("not_modified",), _says([], b"", 304)),
    _lie(
        "unasked-206",
        "a part that nobody asked for",
        ("ok",),
        _says([("Content-Range", "bytes 0-9/90")], status=206),
        odd="unasked_range",
    ),
    _lie(
        "upgrade",
        "switches to another protocol",
        ("bad_http", "client_error"),
        _says([("Upgrade", "x")], status=101),
    ),
    _lie(
        "split-header",
        "line ends and NUL bytes inside headers",
        ("ok", "bad_http"),
        _raw(b"HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: c=d\r\nX-N: \0\0\r\nContent-Length: 2\r\n\r\nhi"),
    ),
    _lie(
        "stale-connection",
        "ends a kept connection under the next request",
        ("connection_stale", "ok"),
        _stale,
        seen="connection_stale",
        robots=_slowly,
    ),
)


async def _after_request(visit: Visit) -> None:
    visit.reset()


async def _in_head(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    visit.reset()


async def _in_body(visit: Visit) -> None:
    await visit.head(headers=[("Content-Type", "text/html"), ("Content-Length", "5000")])
    await visit.send(_PAGE)
    visit.reset()


RESETS = (
    _reset("reset-after-request", "resets after the request", act=_after_request),
    _reset("reset-in-head", "resets in the middle of the head", act=_in_head),
    _reset("reset-in-body", "resets in the middle of the body", act=_in_body),
    _reset("close-after-request", "closes after the request", act=_raw(b"")),
)
