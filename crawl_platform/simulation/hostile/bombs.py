"""Small answers that grow when they are inflated: 100 MB out of a few kilobytes, in four encodings and stacked."""

import asyncio
import zlib
from collections.abc import Callable
from functools import cache, partial

import brotli
import zstandard
from isal import isal_zlib

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page

_row = partial(Misbehaviour, "bombs")
_PIECE = b" " * 1_000_000
_PIECES = 100


def _gzip() -> bytes:
    return _deflated(31)


def _zlib() -> bytes:
    return _deflated(15)


def _raw() -> bytes:
    return _deflated(-15)


def _deflated(window: int) -> bytes:
    packer = isal_zlib.compressobj(1, zlib.DEFLATED, window)
    parts = [
        packer.compress(page("bomb")),
        *(packer.compress(_PIECE) for _ in range(_PIECES)),
        packer.flush(),
    ]
    return b"".join(parts)


def _brotli() -> bytes:
    packer = brotli.Compressor(quality=1)
    parts = [packer.process(page("bomb")), *(packer.process(_PIECE) for _ in range(_PIECES)), packer.finish()]
    return b"".join(parts)


def _zstd() -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [
        packer.compress(page("bomb")),
        *(packer.compress(_PIECE) for _ in range(_PIECES)),
        packer.flush(),
    ]
    return b"".join(parts)


def _members() -> bytes:
    """20,000 gzip members of nothing, then the page."""
    empty = isal_zlib.compressobj(1, zlib.DEFLATED, 31).flush()
    packer = isal_zlib.compressobj(1, zlib.DEFLATED, 31)
    return empty * 20_000 + packer.compress(page("at last")) + packer.flush()


def _twice() -> bytes:
    packer = isal_zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(_gzip()) + packer.flush()


def _bomb(make: Callable[[], bytes], encoding: str) -> Act:
    made = cache(make)

    async def act(visit: Visit) -> None:
        # In a thread, and once: the other hosts must not wait for it.
        body = await asyncio.to_thread(made)
        await visit.answer(body, headers=[("Content-Encoding", encoding)])

    return act


ROWS = (
    _row("bomb-gzip", "100 MB as gzip", ("ok",), _bomb(_gzip, "gzip"), truncated=True),
    _row("bomb-deflate", "100 MB as zlib", ("ok",), _bomb(_zlib, "deflate"), truncated=True),
    _row("bomb-raw-deflate", "100 MB as raw deflate", ("ok",), _bomb(_raw, "deflate"), truncated=True),
    _row("bomb-br", "100 MB as brotli", ("ok",), _bomb(_brotli, "br"), truncated=True),
    _row("bomb-zstd", "100 MB as zstd", ("ok",), _bomb(_zstd, "zstd"), truncated=True),
    _row("bomb-members", "20,000 empty gzip members before the page", ("ok",), _bomb(_members, "gzip")),
    _row(
        "bomb-stacked",
        "gzip in gzip",
        ("ok",),
        _bomb(_twice, "gzip, gzip"),
        truncated=True,
        odd="stacked_encoding",
    ),
    _row(
        "bomb-deep",
        "says that it is packed 200 times",
        ("bad_encoding",),
        _bomb(_gzip, ", ".join(["gzip"] * 200)),
    ),
)
