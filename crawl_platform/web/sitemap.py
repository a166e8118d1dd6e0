"""Sitemaps (sitemaps.org 0.9): XML, index, RSS, Atom and plain text, also gzipped, also broken.

Theory of operation. The bytes are inflated at most twice and never beyond `MAX_BYTES`, decoded, and cut into
tags and text by one regular expression: no XML parser, because real sitemaps are often not well-formed and
because entities that a file defines itself must not be expanded (bombs) nor fetched. Five names and numeric
references are all the entities there are. A location counts when its element lies directly in a `url` or
`sitemap` (so `image:loc` does not), whatever the namespace prefix.
"""

import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from crawl_platform.web.url import resolve

MAX_BYTES = 50 * 1024 * 1024
"""The protocol's limit of an inflated file."""
MAX_ENTRIES = 50_000
"""The protocol's limit of locations in a file; what follows is ignored."""

# No alternative looks past the next "<", except those that take all to the end: no file is slow.
_tokens = re.compile(
    r"<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)"
    r"|<!--.*?(?:-->|\Z)"
    r"|<[!?][^<>]*>"
    r"|<(?P<close>/?)(?:[\w.-]{1,40}:)?(?P<name>[\w.-]{1,40})(?P<attributes>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*)>"
    r"|(?P<text>[^<]+)"
    r"|(?P<broken><)",
    re.DOTALL,
).finditer
_doctype = re.compile(
    r"(?:<\?[^>]*>\s*|<!--.{0,2000}?-->\s*){0,5}<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE
).match
_DOCTYPE_LENGTH = 16_384
# Items lie three deep; what nests deeper is no sitemap.
_MAX_DEPTH = 32
_reference = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#x([0-9a-f]{1,6}));", re.IGNORECASE)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_href = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE).search
_xml_encoding = re.compile(rb"<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})").match
_w3c = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(?:(Z)|([+-])(\d\d):?(\d\d))?)?)?)?\Z",
    re.IGNORECASE,
).match

# What an item and its location are called, by root element.
_ITEMS = {
    "urlset": ("url", "loc"),
    "sitemapindex": ("sitemap", "loc"),
    "rss": ("item", "link"),
    "rdf": ("item", "link"),
    "feed": ("entry", "link"),
}
_DATES = frozenset({"lastmod", "pubdate", "updated", "modified", "date"})
_declared_entities = re.compile(r"<!ENTITY\s+([\w.-]+)").findall


@dataclass(slots=True)
class Entry:
    """`loc` is absolute, WHATWG form; `lastmod` has a time zone (UTC if the file named none)."""

    loc: str
    lastmod: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sitemap:
    """`entries` are pages, `children` other sitemaps, in document order."""

    entries: list[Entry]
    children: list[str]


def parse(body: bytes, url: str) -> Sitemap:
    """Read a sitemap that was fetched from `url`. Never raises: a broken file yields what could be read."""
    text = _decode(_inflate(_inflate(body))).lstrip("\ufeff \t\r\n\x00")
    if not text.startswith("<"):
        return Sitemap(_lines(text), [])
    reader = _Reader(url)
    reader.read(text)
    return Sitemap(reader.entries, [child.loc for child in reader.children])


def covers(sitemap: str, url: str) -> bool:
    """Whether a sitemap at that URL may list `url`: same scheme, host and port, and not above its folder."""
    return url.startswith(re.split(r"[?#]", sitemap, maxsplit=1)[0].rpartition("/")[0] + "/")


def _inflate(body: bytes) -> bytes:
    """`body` without one layer of gzip, if it has one; of a damaged stream what comes before the damage."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    stream = zlib.decompressobj(wbits=31)
    out = bytearray()
    try:
        # In pieces, so that output in front of damage is kept.
        for start in range(0, len(body), 4_096):
            out += stream.decompress(body[start : start + 4_096], MAX_BYTES - len(out) + 1)
            if stream.eof or len(out) > MAX_BYTES:
                break
    except zlib.error:
        return bytes(out)
    return bytes(out[:MAX_BYTES])


def _decode(body: bytes) -> str:
    body = body[:MAX_BYTES]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16", "replace")
    if body[:4] in (b"<\x00?\x00", b"<\x00u\x00"):
        return body.decode("utf-16-le", "replace")
    declared = _xml_encoding(body)
    try:
        return body.decode(declared[1].decode() if declared else "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _lines(text: str) -> list[Entry]:
    found = (resolve(line.strip()) for line in text.splitlines())
    return [Entry(loc) for loc in found if loc is not None][:MAX_ENTRIES]


class _Reader:
    """The state of one pass over the tokens."""

    def __init__(self, url: str) -> None:
        self.entries: list[Entry] = []
        self.children: list[Entry] = []
        self._url = url
        self._root = ""
        self._item_name, self._loc_name = "", ""
        self._entities: list[str] = []
        """References to entities that the file defines itself; a location with one is not believed."""
        self._item = ""
        """Name of the item that is open, '' between items."""
        self._found: list[Entry] = []
        """Locations of the open item."""
        self._date: datetime | None = None
        self._path: list[str] = []
        self._field = ""
        """Name of the field whose text is being collected."""
        self._text: list[str] = []
        self._bare: list[str] = []
        """Text directly in the item, for files that forget the `loc`."""

    def read(self, text: str) -> None:
        doctype = _doctype(text[:_DOCTYPE_LENGTH])
        if doctype:
            self._entities = [f"&{name};" for name in _declared_entities(doctype[0])[:100]]
        for token in _tokens(text, doctype.end() if doctype else 0):
            if token["name"]:
                if token["close"]:
                    self._end(token["name"].lower())
                else:
                    self._start(token["name"].lower(), token["attributes"])
            elif token["broken"]:
                # The file ends within a tag: what was collected is complete.
                self._end(self._field)
            elif token["cdata"] is not None:
                self._add(token["cdata"])
            elif token["text"]:
                self._add(_reference.sub(_character, token["text"]))
            if len(self.entries) + len(self.children) >= MAX_ENTRIES:
                return
        self._close_item()

    def _add(self, text: str) -> None:
        if self._field:
            self._text.append(text)
        elif self._item and self._path and self._path[-1] == self._item:
            self._bare.append(text)

    def _start(self, name: str, attributes: str) -> None:
        if not self._root:
            self._root = name
            self._item_name, self._loc_name = _ITEMS.get(name, ("", ""))
        if not self._item_name or self._field:
            return
        parent = self._path[-1] if self._path else ""
        if name == self._item_name:
            self._close_item()
            self._item = name
        elif self._item and parent == self._item:
            self._start_field(name, attributes)
        if not attributes.endswith("/") and len(self._path) < _MAX_DEPTH:
            self._path.append(name)

    def _start_field(self, name: str, attributes: str) -> None:
        href = _href(attributes) if name == self._loc_name == "link" else None
        if href:
            self._locate(_reference.sub(_character, href[1] or href[2] or ""))
        elif (name == self._loc_name or name in _DATES) and not attributes.endswith("/"):
            self._field = name

    def _end(self, name: str) -> None:
        if self._field and name == self._field:
            text = "".join(self._text).strip()
            if name in _DATES:
                self._date = self._date or _date(text)
            elif text:
                self._locate(text)
            self._field = ""
            self._text = []
        if self._field:
            return
        if name in self._path:
            del self._path[len(self._path) - 1 - self._path[::-1].index(name) :]
        if name == self._item:
            self._close_item()

    def _locate(self, text: str) -> None:
        loc = resolve(text, self._url)
        if loc is not None and not any(entity in text for entity in self._entities):
            self._found.append(Entry(loc))

    def _close_item(self) -> None:
        if not self._found and "".join(self._bare).strip().startswith("http"):
            self._locate("".join(self._bare).strip())
        for entry in self._found:
            entry.lastmod = self._date
        (self.children if self._item == "sitemap" else self.entries).extend(self._found)
        self._item, self._found, self._date, self._bare = "", [], None, []


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1].lower()]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _date(text: str) -> datetime | None:
    """W3C datetime or RFC 5322 date; None for what is no date."""
    match = _w3c(text)
    try:
        if match is None:
            found = parsedate_to_datetime(text)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        year, month, day, hour, minute, second = (int(part or default) for part, default in
                                                  zip(match.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True))  # fmt: skip
        offset = timedelta(hours=int(match[9] or 0), minutes=int(match[10] or 0))
        zone = timezone(-offset if match[8] == "-" else offset) if offset else UTC
        return datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
