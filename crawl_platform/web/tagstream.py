"""A file that may be gzipped, in any encoding and not well-formed, as tags and text: piece by piece.

Theory of operation. Bytes pass three generators, each of which holds one piece: `ungzipped` (as often as there are
layers), `decoded`, and `read`, which cuts the text by one regular expression and hands tags and text to a reader.
No XML parser: real sitemaps and feeds are often not well-formed, and entities that a file defines itself must
neither be expanded (bombs) nor fetched. Five names and numeric references are all the entities there are. What a
file takes of memory is its own bytes and a piece; the reader says when it has enough.
"""

import codecs
import re
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

PIECE = 65_536
"""Bytes inflated, decoded and cut at a time."""
FED = 4_096
"""Bytes given to the inflater at once: what it made of a piece in front of damage is kept."""
HEAD = 16_384
"""Characters among which the document type is looked for."""
MOST_OPEN = 1_000_000
"""Characters of a comment or CDATA section that may be looked through again; a longer one is dropped."""
MOST_BROKEN = 500
"""Tags that are none, after which the file is given up: it is no sitemap, and each costs as much as a good one."""
GZIP = b"\x1f\x8b"

# The first alternative is the usual item of a sitemap in one stroke: ten times as fast as tag by tag. Of the others
# none looks past the next "<" but CDATA and comments, which end or are kept for the next piece.
_token = re.compile(
    r"<url>\s*<loc>\s*+(?P<loc>[^<\s]{1,2000}+)\s*+</loc>\s*+(?:<lastmod>(?P<lastmod>[^<]{0,64}+)</lastmod>\s*+)?"
    r"(?:<changefreq>[^<]{0,64}+</changefreq>\s*+)?(?:<priority>[^<]{0,64}+</priority>\s*+)?(?P<item></url>)"
    r"|(?P<text>[^<]+)"
    r"|<(?P<close>/?)(?:(?P<prefix>[\w.-]{1,40}+):)?(?P<name>[\w.-]{1,40}+)"
    r"(?P<attributes>[^<>\"']*+(?:\"[^\"<]*+\"[^<>\"']*+|'[^'<]*+'[^<>\"']*+)*+)>"
    r"|<!\[CDATA\[(?P<cdata>.*?)\]\]>"
    r"|<!--.*?-->"
    r"|<[!?](?!--|\[CDATA\[)[^<>]*>"
    r"|<+(?=<)"
    r"|(?P<broken><)",
    re.DOTALL,
).finditer
_doctype = re.compile(
    r"(?:<\?[^>]*>\s*|<!--.{0,2000}?-->\s*){0,5}<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE
).match
_reference = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#x([0-9a-f]{1,6}));", re.IGNORECASE)
_cut_reference = re.compile(r"&[#\w]{0,9}\Z").search
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_declaration = re.compile(rb"\s*<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})").match
# Encodings that texts come in and that decode in linear time (punycode does not, and `hex` is none).
_known_encoding = re.compile(
    r"utf-?8|us-?ascii|ascii|iso-?8859-?\d\d?|latin-?\d|windows-125\d|windows-874|cp125\d|koi8-[ru]|gb2312|gbk|gb18030"
    r"|big5|big5-hkscs|euc-jp|euc-kr|shift[-_]?jis|sjis|iso-2022-jp|macintosh|tis-620"
).fullmatch
_LATIN_1 = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\x00<\x00", "utf-16-be"),
    (b"\x00h\x00t\x00t", "utf-16-be"),
)


class Reader(Protocol):
    """What is made of the tags and the text. `full`: it wants no more."""

    full: bool

    def start(self, prefix: str, name: str, attributes: str) -> None:
        """A start tag, lower case; `attributes` as written, ending in "/" if the element is empty."""
        ...

    def end(self, prefix: str, name: str) -> None: ...

    def text(self, text: str) -> None:
        """Text, references resolved; one element's may come in several parts."""
        ...

    def plain_item(self, loc: str, lastmod: str) -> bool:
        """`<url>` with nothing in it but a location and a date: whether that was understood as an item here."""
        ...

    def broken(self) -> None:
        """A "<" that begins no tag: what was collected in front of it is all there is."""
        ...


def inflated(body: bytes, layers: int, cap: int) -> Iterator[bytes]:
    """`body` without up to `layers` layers of gzip, in pieces: at most `cap` bytes of any layer."""
    source: Iterator[bytes] = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
    for _ in range(layers):
        source = _ungzipped(source, cap)
    room = cap
    for piece in source:
        yield piece[:room]
        room -= len(piece)
        if room <= 0:
            return


def _ungzipped(source: Iterator[bytes], cap: int) -> Iterator[bytes]:
    """All members of a gzip file (RFC 1952 2.2); of a damaged one what comes before the damage."""
    first = b""
    while len(first) < len(GZIP) and (piece := next(source, b"")):
        first += piece
    pieces = chain((first,), source)
    if not first.startswith(GZIP):
        yield from pieces
        return
    stream = zlib.decompressobj(wbits=31)
    for piece in pieces:
        for start in range(0, len(piece), FED):
            data = piece[start : start + FED]
            while data:
                try:
                    part = stream.decompress(data, PIECE)
                except zlib.error:
                    return
                cap -= len(part)
                if part:
                    yield part
                if cap < 0:
                    return
                data = stream.unconsumed_tail
                if stream.eof:
                    data = stream.unused_data
                    stream = zlib.decompressobj(wbits=31)


def decoded(source: Iterator[bytes]) -> Iterator[str]:
    """The pieces as text: by byte order mark, else by the XML declaration, else UTF-8. Never raises."""
    head = b""
    while len(head) < 1_024 and (piece := next(source, b"")):
        head += piece
    decoder = codecs.getincrementaldecoder(_encoding(head))("replace")
    for piece in chain((head,), source):
        yield decoder.decode(piece)
    yield decoder.decode(b"", True)


def _encoding(head: bytes) -> str:
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    if head[1:2] == b"\x00" and head[:1] in b"<h":
        return "utf-16-le"
    declared = _declaration(head)
    name = declared[1].decode().lower() if declared else "utf-8"
    if name in _LATIN_1:
        return "windows-1252"
    return name if _known_encoding(name) else "utf-8"


def unescaped(text: str) -> str:
    """`text` with its references resolved; unknown ones stay as they are."""
    return _reference.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1].lower()]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def document_type(head: str) -> str:
    """The document type that the text begins with, and what stands in front of it; '' if there is none."""
    found = _doctype(head)
    return found[0] if found else ""


def read(source: Iterator[str], reader: Reader) -> None:
    """Hand the tags and the text of `source` to `reader` until it is full."""
    cutter = _Cutter(reader)
    for piece in source:
        cutter.feed(piece)
        if reader.full:
            return
    cutter.finish()


class _Cutter:
    """What is kept between two pieces: a tag, a reference, a comment that may go on in the next."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rest = ""
        self._broken = 0
        self._dropping = ""
        """What ends the section that is being dropped."""

    def feed(self, piece: str) -> None:
        buffer = self._rest + piece
        self._rest = ""
        if self._dropping:
            end = buffer.find(self._dropping)
            if end < 0:
                self._rest = buffer[1 - len(self._dropping) :]
                return
            buffer, self._dropping = buffer[end + len(self._dropping) :], ""
        self._cut(buffer, final=False)

    def finish(self) -> None:
        if not self._dropping:
            self._cut(self._rest, final=True)

    def _cut(self, buffer: str, final: bool) -> None:
        reader = self._reader
        for token in _token(buffer):
            kind = token.lastgroup
            if kind == "attributes":
                close, prefix, name, attributes = token.group("close", "prefix", "name", "attributes")
                if close:
                    reader.end(prefix.lower() if prefix else "", name.lower())
                else:
                    reader.start(prefix.lower() if prefix else "", name.lower(), attributes)
                if reader.full:
                    return
            elif kind == "item":
                self._item(unescaped(token["loc"]), unescaped(token["lastmod"] or ""))
                if reader.full:
                    return
            elif kind == "text":
                text = token[0]
                if not final and token.end() == len(buffer) and (cut := _cut_reference(text)):
                    self._rest = text[cut.start() :]
                    text = text[: cut.start()]
                reader.text(unescaped(text))
            elif kind == "cdata":
                reader.text(token["cdata"])
            elif kind == "broken" and self._stays_open(buffer, token.start(), final):
                return

    def _item(self, loc: str, lastmod: str) -> None:
        reader = self._reader
        if reader.plain_item(loc, lastmod):
            return
        reader.start("", "url", "")
        for name, text in (("loc", loc), ("lastmod", lastmod)):
            reader.start("", name, "")
            reader.text(text)
            reader.end("", name)
        reader.end("", "url")

    def _stays_open(self, buffer: str, start: int, final: bool) -> bool:
        """A "<" whose tag is not complete: whether what follows has to wait for the next piece, or is used up."""
        section = next((end for begin, end in _SECTIONS if buffer.startswith(begin, start)), "")
        if not final:
            if section and len(buffer) - start > MOST_OPEN:
                self._dropping, self._rest = section, buffer[1 - len(section) :]
                return True
            if (section or buffer.find("<", start + 1) < 0) and len(buffer) - start <= MOST_OPEN:
                self._rest = buffer[start:]
                return True
        if section == "]]>":
            self._reader.text(buffer[start + len("<![CDATA[") :])
        self._reader.broken()
        self._broken += 1
        self._reader.full = self._reader.full or self._broken >= MOST_BROKEN
        return bool(section) or self._reader.full


_SECTIONS = (("<![CDATA[", "]]>"), ("<!--", "-->"))
