"""Content-Encoding undone, with a cap on what comes *out*: 10 MB of gzip may hold 2 GiB."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import brotli
import zstandard
from isal import isal_zlib

from crawl_platform.errors import SiteError
from crawl_platform.fetch.oddities import Oddity
from crawl_platform.fetch.outcome import Outcome

STEP = 65_536
GZIP = b"\x1f\x8b"
LAYERS = 3
"""Encodings on top of one another that are undone; nobody has a reason for more than two."""
MEMBERS = 1_000
"""Members of one gzip body that are read: each costs a copy of all that follow."""
ZSTD_WINDOW = 1 << 23
"""8 MB, the most that a sender of web content may ask for (RFC 9659 §3)."""
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Inflated:
    body: bytes
    truncated: bool
    encoding: str
    """What the stored wire bytes are encoded with; `identity` also when the header lied."""
    oddities: frozenset[Oddity] = frozenset()


def inflate(wire: bytes, encoding: str, cap: int, *, complete: bool = True) -> Inflated:
    """At most `cap` bytes of `wire` decoded. `complete` is False when the wire itself was cut.

    Raises `SiteError(bad_encoding)` when nothing at all can be decoded; a gzip header over a plain body is
    taken as it is, as browsers do.
    """
    names = [name.strip().removeprefix("x-") for name in encoding.lower().split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names or not wire:
        return Inflated(wire[:cap], len(wire) > cap or not complete, "identity")
    if len(names) == 1 and names[0] in _DECODERS:
        return _undo(wire, names[0], cap, complete)
    if any(name not in _DECODERS for name in names) or len(names) > LAYERS:
        return _plain(wire, cap, complete, Oddity.UNKNOWN_ENCODING, f"Content-Encoding {encoding[:40]!r}")
    return _unstack(wire, names, cap, complete)


def inflate_unlabelled(wire: bytes, cap: int, *, complete: bool = True) -> Inflated:
    """A gzip body that no header has told of."""
    try:
        inflated = _undo(wire, "gzip", cap, complete)
    except SiteError:
        return Inflated(wire[:cap], len(wire) > cap or not complete, "identity")
    found = inflated.oddities | {Oddity.UNLABELLED_ENCODING}
    return Inflated(inflated.body, inflated.truncated, inflated.encoding, found)


def _unstack(wire: bytes, names: list[str], cap: int, complete: bool) -> Inflated:
    """The encoding applied last comes off first (RFC 9110 §8.4); the cap holds for each layer's output."""
    found: set[Oddity] = {Oddity.STACKED_ENCODING}
    undone: list[str] = []
    body, whole = wire, complete
    for name in reversed(names):
        layer = _undo(body, name, cap, whole)
        found |= layer.oddities
        if layer.encoding == "identity":
            break
        undone.insert(0, name)
        body, whole = layer.body, not layer.truncated
    return Inflated(body, not whole, ", ".join(undone) or "identity", frozenset(found))


def _undo(wire: bytes, encoding: str, cap: int, complete: bool) -> Inflated:
    try:
        body, ended = _DECODERS[encoding](wire, cap)
    except _ERRORS as error:
        return _plain(wire, cap, complete, Oddity.FALSE_ENCODING, f"{encoding}: {error}", error)
    if ended or body or not complete:
        cut = not ended and complete and len(body) < cap
        return Inflated(
            body,
            not (ended and complete),
            encoding,
            frozenset({Oddity.CUT_ENCODING}) if cut else frozenset(),
        )
    return _plain(wire, cap, complete, Oddity.FALSE_ENCODING, f"{encoding} body ends before its first byte")


def _plain(
    wire: bytes, cap: int, complete: bool, oddity: Oddity, detail: str, error: Exception | None = None
) -> Inflated:
    """`wire` as it is, if it looks like text; else nothing of it can be read."""
    head = wire[:512].lstrip()
    if head.startswith(b"<") or (bool(head) and all(9 <= byte < 127 for byte in head)):
        return Inflated(wire[:cap], len(wire) > cap or not complete, "identity", frozenset({oddity}))
    raise SiteError(Outcome.BAD_ENCODING, detail) from error


def _gzip(wire: bytes, cap: int) -> tuple[bytes, bool]:
    """All members of the file one after the other (RFC 1952 2.2); what follows them and is none is dropped."""
    parts, size, rest = [], 0, wire
    for _ in range(MEMBERS):
        decoder = isal_zlib.decompressobj(wbits=31)
        part, ended = _bounded(decoder, rest, cap - size)
        parts.append(part)
        size, rest = size + len(part), decoder.unused_data
        if not ended or not rest.startswith(GZIP):
            return b"".join(parts), ended
        if size >= cap:
            break
    return b"".join(parts), False


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
    with zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(
        wire, read_across_frames=True
    ) as reader:
        body = reader.read(cap + 1)
    return body[:cap], len(body) <= cap and _zstd_ended(wire, len(body))


def _zstd_ended(wire: bytes, size: int) -> bool:
    """Whether the frames that gave `size` bytes are whole; the reader is silent about one that was cut."""
    if zstandard.frame_content_size(wire) == size > 0:
        return True
    rest = wire
    while rest.startswith(_ZSTD):
        decoder = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
        decoder.decompress(rest)
        if not decoder.eof:
            return False
        rest = decoder.unused_data
    return True


_DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
_ERRORS = cast(tuple[type[Exception], ...], (zlib.error, isal_zlib.error, brotli.error, zstandard.ZstdError))
ACCEPTED = "gzip, deflate, br, zstd"
