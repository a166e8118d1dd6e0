"""The head of an answer, read as browsers read it. Sans-IO.

`mend` is asked only when aiohttp's parser, which is lenient already, has refused the bytes: it writes a head
that the parser accepts and says what it changed. `oddities` names what the parser let pass.
"""

import re
from dataclasses import dataclass, field

from crawl_platform.fetch.oddities import Oddity

SLOP = 4
"""Bytes before the status line that are skipped, as browsers do (not more: it may be a body without a head)."""
_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"http(?:/\d(?:\.\d)?)?[ \t]+(\d{3})(?!\d)(.*)", re.IGNORECASE | re.DOTALL)
_START = re.compile(rb"[ \t]*http[/ ]", re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_SPACED = re.compile(rb"\n[^:\r\n]*[ \t]:")
_FOLD = re.compile(rb"\n[ \t]+[^ \t\r\n]")


@dataclass(slots=True)
class Mended:
    """`head` is well-formed. The body starts at `start` of the raw bytes and has `length` bytes (None: until
    its chunks or the connection end)."""

    head: bytes
    start: int
    length: int | None
    oddities: set[Oddity] = field(default_factory=set)


def looks_like_http(raw: bytes) -> bool:
    """Whether these first bytes can become a head: there is a status line within `SLOP` bytes."""
    begin = raw.lstrip(b"\r\n")
    return any(_START.match(begin, n) for n in range(min(SLOP, len(begin)) + 1)) or len(begin) < SLOP + 5


def mend(raw: bytes) -> Mended | None:
    """The final head within `raw`, repaired; interim ones (1xx) are skipped.

    None: its end has not come yet. Raises `ValueError` where there is no status to be read.
    """
    start = 0
    while True:
        begin, end = _frame(raw, start)
        if end is None:
            return None
        mended = _mend_one(raw[begin : end.start()], end.end())
        mended.oddities |= {Oddity.LEADING_BYTES} if raw[start:begin].strip(b"\r\n") else set()
        if not mended.head.startswith(b"HTTP/1.1 1"):
            return mended
        start = end.end()


def _frame(raw: bytes, start: int) -> tuple[int, re.Match[bytes] | None]:
    while raw[start : start + 1] in (b"\r", b"\n"):
        start += 1
    if len(raw) - start < SLOP + 5:
        return start, None
    for skip in range(SLOP + 1):
        if _START.match(raw, start + skip):
            return start + skip, _END.search(raw, start + skip)
    raise ValueError("no status line")


def _mend_one(head: bytes, start: int) -> Mended:
    found: set[Oddity] = set()
    lines = [line.removesuffix(b"\r") for line in head.split(b"\n")]
    status = _STATUS.match(lines[0].strip())
    if status is None:
        raise ValueError("no status")
    if not re.match(rb"HTTP/1\.[01] \d{3}( |$)", lines[0]):
        found.add(Oddity.STATUS_LINE)
    reason = _CONTROL.sub(b"", status[2]).strip()
    headers = _framed(_fields(lines[1:], found), found)
    code = int(status[1])
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    length = int(lengths[0]) if lengths else None
    if code < 200 or code in (204, 304):
        length = 0
    text = b"HTTP/1.1 %d %s\r\n" % (code, reason)
    text += b"".join(b"%s: %s\r\n" % pair for pair in headers) + b"\r\n"
    return Mended(text, start, length, found)


def _fields(lines: list[bytes], found: set[Oddity]) -> list[tuple[bytes, bytes]]:
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            if fields:
                name, value = fields[-1]
                fields[-1] = (name, b" ".join((value, _clean(line.strip(), found))).strip())
            found.add(Oddity.FOLDED_HEADER)
            continue
        name, colon, value = line.partition(b":")
        if name != name.rstrip():
            found.add(Oddity.SPACE_BEFORE_COLON)
        if colon and _NAME.fullmatch(name.rstrip()):
            fields.append((name.rstrip(), _clean(value.strip(), found)))
        else:
            found.add(Oddity.JUNK_HEADER)
    return fields


def _clean(value: bytes, found: set[Oddity]) -> bytes:
    cleaned = _CONTROL.sub(b" ", value)
    if cleaned != value:
        found.add(Oddity.JUNK_HEADER)
    return cleaned.strip()


def _framed(fields: list[tuple[bytes, bytes]], found: set[Oddity]) -> list[tuple[bytes, bytes]]:
    """The fields with one way to tell where the body ends (RFC 9112 §6.3), so that the parser sees no conflict."""
    chunked = any(
        name.lower() == b"transfer-encoding" and b"chunked" in value.lower() for name, value in fields
    )
    kept, length = [], b""
    for name, value in fields:
        if name.lower() != b"content-length":
            kept.append((name, value))
            continue
        values = [part.strip() for part in value.split(b",")]
        numbers = [part for part in values if part.isdigit() and len(part) < 19]
        if len(values) > 1 or length:
            found.add(Oddity.SEVERAL_LENGTHS)
        if not numbers:
            found.add(Oddity.BAD_LENGTH)
        elif not length:
            length = numbers[0]
    if chunked and (length or Oddity.BAD_LENGTH in found):
        found.add(Oddity.LENGTH_AND_CHUNKS)
    elif length:
        kept.append((b"Content-Length", length))
    return kept


def oddities(raw: bytes, reason: str, status: int) -> set[Oddity]:
    """What is odd about a head that the parser took as it came (`raw` may go on beyond it)."""
    found: set[Oddity] = set()
    if not reason:
        found.add(Oddity.NO_REASON)
    if not 100 <= status < 600:
        found.add(Oddity.UNKNOWN_STATUS)
    end = raw.find(b"\r\n\r\n")
    if end < 0 or raw.find(b"\n\n", 0, end) >= 0:
        match = _END.search(raw)
        end = match.start() if match else len(raw)
    if raw.count(b"\n", 0, end) != raw.count(b"\r\n", 0, end):
        found.add(Oddity.BARE_LF)
    if (raw.find(b"\n ", 0, end) >= 0 or raw.find(b"\n\t", 0, end) >= 0) and _FOLD.search(raw, 0, end):
        found.add(Oddity.FOLDED_HEADER)
    if raw.find(b" :", 0, end) >= 0 and _SPACED.search(raw, 0, end):
        found.add(Oddity.SPACE_BEFORE_COLON)
    return found
