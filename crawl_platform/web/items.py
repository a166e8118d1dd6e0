"""Files that list URLs: items with a location and a date, in any of the forms that `Grammar`s describe.

An item's fields are its direct children, so that `image:loc` in an `image:image` is none. A field that the file
forgets to close ends with its item; an item that it forgets to close ends with the next.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from crawl_platform.web.dates import parse_date
from crawl_platform.web.tagstream import unescaped
from crawl_platform.web.url import Base, resolve

MAX_ENTRIES = 50_000
"""The protocol's limit of locations in a file (sitemaps.org 0.9); what follows is ignored."""
MAX_FIELD = 8_192
"""Characters of a location, or of the attributes of a tag; longer ones are none."""
MAX_TOTAL = 16_000_000
"""Characters of all locations of a file: 320 for each of 50,000."""
MAX_FIELDS = 1_000
"""Fields kept of one item: alternates in every language there is."""
MAX_DEPTH = 32
"""Items lie three deep; what nests deeper is no sitemap."""
MAX_IDLE = 50_000
"""Elements without a location among them after which the file is given up: 50 MB of tags take half a minute."""
MAX_ROOTS = 3
"""Elements among which the root is looked for."""

# Extensions whose elements share names with those of the file itself.
_FOREIGN = frozenset(
    ("image", "video", "news", "xhtml", "media", "itunes", "mobile", "geo", "georss", "pagemap", "content", "thr")
)  # fmt: skip
_attribute = re.compile(r"(?<![\w:.-])([\w:.-]{1,40}+)\s*+=\s*(?:\"([^\"]*)\"|'([^']*)')").finditer
_entity = re.compile(r"&[A-Za-z_][\w.-]*;").search


@dataclass(slots=True)
class Entry:
    """`loc` is absolute, WHATWG form; `lastmod` has a time zone (UTC if the file named none).

    `alternates`: (language, URL) of the same page in other languages.
    """

    loc: str
    lastmod: datetime | None = None
    alternates: tuple[tuple[str, str], ...] = ()


class Field(NamedTuple):
    """An element that lies directly in an item, or in no item."""

    name: str
    text: str
    attributes: str

    def attribute(self, name: str) -> str:
        """Value of an attribute, references resolved; '' if it is not there."""
        for found in _attribute(self.attributes):
            if found[1].lower() == name:
                return unescaped(found[2] if found[2] is not None else found[3])
        return ""


Locate = Callable[[str], str | None]
"""The absolute URL of a location as written; None if it is none to believe."""


class Grammar(NamedTuple):
    """How a kind of file lists its items. `wanted`: fields of an item; `outside`: those looked at in no item.

    `entries` makes an item's entries of its fields and of the text that lies directly in it.
    """

    item: str
    wanted: frozenset[str]
    entries: Callable[[list[Field], str, Locate], list[Entry]]
    outside: frozenset[str] = frozenset()


class Items:
    """The reader of one file (`tagstream.Reader`): `root` is what it calls itself, '' if nothing known."""

    def __init__(self, url: str, grammars: Mapping[str, Grammar], *, own_entities: bool, most: int) -> None:
        self.entries: list[Entry] = []
        self.outside: list[Field] = []
        self.root = ""
        self.full = False
        self._base = Base(base) if (base := resolve(url)) else None
        self._grammars = grammars
        self._most = most
        self._grammar: Grammar | None = None
        self._own_entities = own_entities
        """The file defines entities itself: a location that names one is not believed."""
        self._roots = 0
        self._path: list[str] = []
        self._item = _Item()
        self._open: tuple[str, str] | None = None
        """(name, attributes) of the field whose text is being collected."""
        self._text: list[str] = []
        self._length = 0
        self._total = 0
        self._idle = 0

    def start(self, prefix: str, name: str, attributes: str) -> None:
        if prefix in _FOREIGN:
            name = f"{prefix}:{name}"
        self._idle += 1
        if self._idle > MAX_IDLE:
            self.full = True
        grammar = self._grammar
        if grammar is None:
            self._begin(name)
            grammar = self._grammar
        if grammar is None:
            return
        if self._open is not None and not self._forgotten(name, grammar):
            return
        empty = attributes.endswith("/")
        if len(attributes) > MAX_FIELD:
            attributes = "/" if empty else ""
        if name == grammar.item:
            self._close_item()
            self._item.opened = attributes
        elif self._item.opened is not None:
            if name in grammar.wanted and self._path and self._path[-1] == grammar.item:
                self._start_field(name, attributes, empty)
        elif name in grammar.outside and len(self.outside) < MAX_FIELDS:
            self._start_field(name, attributes, empty)
        if not empty and len(self._path) < MAX_DEPTH:
            self._path.append(name)

    def plain_item(self, loc: str, lastmod: str) -> bool:
        grammar = self._grammar
        if grammar is None or grammar.item != "url" or self._open is not None or len(self._path) > 1:
            return False
        self._close_item()
        url = self._locate(loc)
        if url is not None:
            self.entries.append(Entry(url, parse_date(lastmod) if lastmod else None))
            self.full = self.full or len(self.entries) >= self._most
        return True

    def _forgotten(self, name: str, grammar: Grammar) -> bool:
        """Whether the open field was not closed: another begins, and it has its text."""
        if self._open is None or not (name == grammar.item or name in grammar.wanted):
            return False
        if not "".join(self._text).strip():
            return False
        self.end("", self._open[0])
        return True

    def _begin(self, name: str) -> None:
        self._roots += 1
        self._grammar = self._grammars.get(name)
        self.root = name if self._grammar else ""
        self.full = self._grammar is None and (self._roots >= MAX_ROOTS or name in ("html", "body"))

    def _start_field(self, name: str, attributes: str, empty: bool) -> None:
        if empty:
            self._keep(Field(name, "", attributes[:-1]))
        else:
            self._open = name, attributes

    def _keep(self, found: Field) -> None:
        kept = self._item.fields if self._item.opened is not None else self.outside
        if len(kept) < MAX_FIELDS:
            kept.append(found)

    def text(self, text: str) -> None:
        if self._open is not None:
            parts = self._text
        elif (
            self._item.opened is not None
            and self._path
            and self._grammar
            and self._path[-1] == self._grammar.item
        ):
            parts = self._item.bare
        else:
            return
        self._length += len(text)
        if self._length <= MAX_FIELD:
            parts.append(text)

    def end(self, prefix: str, name: str) -> None:
        if prefix in _FOREIGN:
            name = f"{prefix}:{name}"
        if self._open is not None:
            if name != self._open[0]:
                return
            self._end_field()
        if name in self._path:
            del self._path[len(self._path) - 1 - self._path[::-1].index(name) :]
        if self._grammar is not None and name == self._grammar.item:
            self._close_item()

    def _end_field(self) -> None:
        if self._open is not None:
            text = "".join(self._text).strip() if self._length <= MAX_FIELD else ""
            self._keep(Field(self._open[0], text, self._open[1]))
        self._open, self._text, self._length = None, [], 0

    def broken(self) -> None:
        if self._open is not None:
            self.end("", self._open[0])

    def finish(self) -> None:
        """The file is over."""
        self._close_item()

    def _close_item(self) -> None:
        item = self._item
        self._length = 0
        if item.opened is None or self._grammar is None:
            return
        if not (item.fields or item.bare or item.opened):
            item.opened = None
            return
        self._item = _Item()
        item.fields.insert(0, Field(self._grammar.item, "", item.opened))
        self.entries += self._grammar.entries(item.fields, "".join(item.bare).strip(), self._locate)
        if len(self.entries) >= self._most:
            del self.entries[self._most :]
            self.full = True

    def _locate(self, text: str) -> str | None:
        if not text or len(text) > MAX_FIELD or (self._own_entities and _entity(text)):
            return None
        self._idle = 0
        self._total += len(text)
        self.full = self.full or self._total > MAX_TOTAL
        return self._base.resolve(text) if self._base is not None else resolve(text)


@dataclass(slots=True)
class _Item:
    """`opened`: the attributes of its start tag, None between items."""

    opened: str | None = None
    fields: list[Field] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """Text directly in the item, for files that forget the `loc`."""


def first_date(fields: list[Field], names: tuple[str, ...]) -> datetime | None:
    """The date of the first of `names` that has one."""
    for name in names:
        for found in fields:
            if found.name == name and found.text and (date := parse_date(found.text)) is not None:
                return date
    return None
