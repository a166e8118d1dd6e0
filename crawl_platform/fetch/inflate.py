"""Content-Encoding undone, with a cap on what comes *out*: 10 MB of gzip may hold 2 GiB."""

import zlib
from dataclasses import dataclass
from typing import Protocol, cast

import brotli
import zstandard
from isal import isal_zlib

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome

STEP = 65_536
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Inflated:
    body: bytes
    truncated: bool
    encoding: str
    """What the stored wire bytes are encoded with; `identity` also when the header lied."""


def inflate(wire: bytes, encoding: str, cap: int, *, complete: bool = True) -> Inflated:
    """At most `cap` bytes of `wire` decoded. `complete` is False when the wire itself was cut.

    Raises `SiteError(bad_encoding)` when nothing at all can be decoded; a gzip header over a plain body is
    taken as it is, as browsers do.
    """
    encoding = encoding.strip().lower().removeprefix("x-")
    plain = Inflated(wire[:cap], len(wire) > cap or not complete, "identity")
    if encoding in ("", "identity") or not wire:
        return plain
    decoder = _DECODERS.get(encoding)
    if decoder is None:
        raise SiteError(Outcome.BAD_ENCODING, f"unknown Content-Encoding {encoding[:40]!r}")
    try:
        body, ended = decoder(wire, cap)
    except _ERRORS as error:
        if _looks_plain(wire):
            return plain
        raise SiteError(Outcome.BAD_ENCODING, f"{encoding}: {error}") from error
    if not body and not ended and complete:
        if _looks_plain(wire):
            return plain
        raise SiteError(Outcome.BAD_ENCODING, f"{encoding} body ends before its first byte")
    return Inflated(body, not (ended and complete), encoding)


def _looks_plain(wire: bytes) -> bool:
    head = wire[:512].lstrip()
    return head.startswith(b"<") or (bool(head) and all(9 <= byte < 127 for byte in head))


def _gzip(wire: bytes, cap: int) -> tuple[bytes, bool]:
    """All members of the file one after the other (RFC 1952 2.2); what follows them and is none is dropped."""
    body, rest = b"", wire
    while True:
        decoder = isal_zlib.decompressobj(wbits=31)
        part, ended = _bounded(decoder, rest, cap - len(body))
        body, rest = body + part, decoder.unused_data
        if not ended or not rest.startswith(GZIP):
            return body, ended
        if len(body) >= cap:
            return body, False


def _deflate(wire: bytes, cap: int) -> tuple[bytes, bool]:
    """zlib as the standard says, raw deflate as some servers send it."""
    try:
        return _bounded(zlib.decompressobj(), wire, cap)
    except zlib.error:
        return _bounded(zlib.decompressobj(-15), wire, cap)


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _bounded(decoder: _Decoder, wire: bytes, cap: int) -> tuple[bytes, bool]:
    body = decoder.decompress(wire, cap)
    return body, bool(decoder.eof)


def _brotli(wire: bytes, cap: int) -> tuple[bytes, bool]:
    decoder = brotli.Decompressor()
    parts, size = [], 0
    for start in range(0, len(wire), STEP):
        part = decoder.process(wire[start : start + STEP], output_buffer_limit=cap - size + 1)
        while True:
            parts.append(part)
            size += len(part)
            if size > cap or decoder.can_accept_more_data():
                break
            part = decoder.process(b"", output_buffer_limit=cap - size + 1)
        if size > cap:
            break
    return b"".join(parts)[:cap], decoder.is_finished() and size <= cap


def _zstd(wire: bytes, cap: int) -> tuple[bytes, bool]:
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(wire) as reader:
        body = reader.read(cap + 1)
    return body[:cap], len(body) <= cap and _zstd_ended(wire, len(body))


def _zstd_ended(wire: bytes, size: int) -> bool:
    """Whether the frame that gave `size` bytes is whole; the reader is silent about one that was cut."""
    declared = zstandard.frame_content_size(wire)
    if declared >= 0:
        return size == declared
    decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    decoder.decompress(wire)
    return bool(decoder.eof)


_DECODERS = {"gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
_ERRORS = cast(tuple[type[Exception], ...], (zlib.error, isal_zlib.error, brotli.error, zstandard.ZstdError))
ACCEPTED = "gzip, deflate, br, zstd"
