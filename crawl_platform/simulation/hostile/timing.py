"""Hosts that take time: the crawler's slots and patience are what they are after."""

import asyncio
from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page, plain_page

_row = partial(Misbehaviour, "timing")


async def _silent(visit: Visit) -> None:
    await visit.gone()


async def _drip_head(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\n")
    await visit.drip(b"X-More: and more\r\n")


async def _drip_body(visit: Visit) -> None:
    await visit.head(headers=[("Content-Type", "text/html"), ("Content-Length", "100000")])
    await visit.send(page("slow"))
    await visit.drip(b"word ")


async def _late(visit: Visit) -> None:
    await asyncio.sleep(0.8)
    await plain_page(visit)


async def _stall(visit: Visit) -> None:
    await visit.head(headers=[("Content-Type", "text/html"), ("Content-Length", "100000")])
    await visit.send(page("half"))
    await visit.gone()


async def _unended(visit: Visit) -> None:
    """Everything but the last chunk."""
    await visit.head(headers=[("Content-Type", "text/html"), ("Transfer-Encoding", "chunked")])
    await visit.send(b"5\r\nhello\r\n")
    await visit.gone()


ROWS = (
    _row("silent", "takes the request and never answers", ("first_byte_timeout",), _silent),
    _row(
        "silent-door",
        "takes the connection and never says a word, to robots.txt neither",
        ("first_byte_timeout",),
        door="silent",
        watched="/robots.txt",
    ),
    _row("drip-head", "one byte of head each 0.1 s, without end", ("too_slow",), _drip_head),
    _row("drip-body", "one byte of body each 0.1 s", ("too_slow",), _drip_body),
    _row("late", "the first byte comes late, but comes", ("ok",), _late),
    _row("stall", "falls silent in the middle of the body", ("read_timeout", "too_slow"), _stall),
    _row("unended", "never sends the last chunk", ("read_timeout", "too_slow"), _unended),
)
