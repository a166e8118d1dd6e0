"""Sitemaps (sitemaps.org 0.9) and feeds: XML, index, RSS, Atom, JSON and plain text, also gzipped, also broken.

The file is read in pieces (`tagstream`), inflated at most twice, and never beyond `MAX_BYTES`. A location counts when
its element lies directly in a `url` or `sitemap`, whatever the namespace and its prefix.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain

from crawl_platform.web import feed
from crawl_platform.web.items import MAX_ENTRIES, MAX_TOTAL, Entry, Field, Grammar, Items, Locate, first_date
from crawl_platform.web.tagstream import HEAD, decoded, document_type, inflated, read
from crawl_platform.web.url import host_of, resolve

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "Entry", "Sitemap", "covers", "may_list", "parse"]

MAX_BYTES = 50 * 1024 * 1024
"""The protocol's limit of an inflated file."""
LAYERS = 2
"""Of gzip: a .gz file that the server compresses once more."""
MAX_LINE = 65_536
"""Characters; no URL of a plain text sitemap is longer."""

# What a server prints in front of the file (warnings, mostly) doesn't make it plain text.
_root = re.compile(
    r"<(?:\?xml|(?:[\w.-]{1,40}:)?(?:urlset|sitemapindex|rss|rdf|feed)[\s>])", re.IGNORECASE
).search
_line_end = re.compile(r"[\r\n]+")
_BLANK = "\ufeff \t\r\n\x00"


@dataclass(frozen=True, slots=True)
class Sitemap:
    """`entries` are pages, `index` other sitemaps, in document order.

    `kind`: urlset, sitemapindex, rss, rdf, feed (Atom), json (JSON Feed), text, or '' for what is none of them.
    `hubs` (WebSub) and `following` (the next page of an archive) are told by feeds.
    """

    entries: list[Entry]
    index: list[Entry] = field(default_factory=list)
    kind: str = ""
    hubs: tuple[str, ...] = ()
    following: tuple[str, ...] = ()

    @property
    def children(self) -> list[str]:
        """URLs of the sitemaps that an index lists."""
        return [child.loc for child in self.index]


def parse(body: bytes, url: str, *, most: int | None = None) -> Sitemap:
    """Read a sitemap or feed that was fetched from `url`; at most `most` of its locations (`MAX_ENTRIES`).

    Never raises: a broken file yields what could be read.
    """
    most = MAX_ENTRIES if most is None else most
    source = decoded(inflated(body, LAYERS, MAX_BYTES))
    head = ""
    while len(head) < HEAD and (piece := next(source, None)) is not None:
        head = (head + piece).lstrip(_BLANK)
    if head.startswith("{"):
        return _json(head, source, url, most)
    root = None if head.startswith(("<?", "<!")) else _root(head)
    if root is not None:
        head = head[root.start() :]
    if not head.startswith("<"):
        return Sitemap(_lines(chain((head,), source), most), kind="text")
    doctype = document_type(head[:HEAD])
    reader = Items(url, GRAMMARS, own_entities="<!ENTITY" in doctype.upper(), most=most)
    read(chain((head[len(doctype) :],), source), reader)
    reader.finish()
    return _of(reader, url)


def _json(head: str, source: Iterator[str], url: str, most: int) -> Sitemap:
    text = head
    while len(text) <= feed.MAX_JSON and (piece := next(source, None)) is not None:
        text += piece
    found = feed.read_json(text, lambda link: resolve(link, url)) if len(text) <= feed.MAX_JSON else None
    if found is None:
        return Sitemap([])
    entries, hubs, following = found
    return Sitemap(entries[:most], [], "json", hubs, following)


def _of(reader: Items, url: str) -> Sitemap:
    if reader.root == "sitemapindex":
        return Sitemap([], reader.entries, reader.root)
    if reader.root in feed.GRAMMARS:
        hubs, following = (
            feed.linked(reader.outside, rel, lambda href: resolve(href, url)) for rel in ("hub", "next")
        )
        return Sitemap(reader.entries, [], reader.root, hubs, following)
    return Sitemap(reader.entries, [], reader.root)


def covers(sitemap: str, url: str) -> bool:
    """Whether a sitemap at that URL may list `url`: same scheme, host and port, and not above its folder."""
    return url.startswith(re.split(r"[?#]", sitemap, maxsplit=1)[0].rpartition("/")[0] + "/")


def may_list(sitemap: str, url: str, vouched: Collection[str]) -> bool:
    """Whether what `sitemap` says of `url` counts: it lies below it, or its host's own robots.txt names the sitemap
    (`vouched`: the hosts whose does; sitemaps.org, "Sitemaps & Cross Submits")."""
    return covers(sitemap, url) or host_of(url) in vouched


def _lines(source: Iterator[str], most: int) -> list[Entry]:
    entries: list[Entry] = []
    total = 0
    for line in _split(source):
        text = line.strip(_BLANK).partition("\t")[0]
        loc = resolve(text) if text[:4].lower() == "http" else None
        if loc is not None:
            entries.append(Entry(loc))
            total += len(loc)
            if len(entries) >= most or total > MAX_TOTAL:
                break
    return entries


def _split(source: Iterator[str]) -> Iterator[str]:
    rest = ""
    for piece in source:
        *lines, rest = _line_end.split(rest + piece)
        yield from lines
        if len(rest) > MAX_LINE:
            rest = rest[:1]  # no URL any more, whatever follows
    yield rest


def _locations(fields: list[Field], bare: str, locate: Locate) -> list[Entry]:
    """An item's locations: several where a file forgets the item between them."""
    found = [url for loc in fields if loc.name == "loc" and (url := locate(loc.text))]
    if not found and bare.startswith("http"):
        url = locate(bare)
        found = [url] if url else []
    date = first_date(fields, ("lastmod", "modified", "updated", "date"))
    alternates = tuple(_alternates(fields, locate))
    return [Entry(url, date, alternates) for url in found]


def _alternates(fields: list[Field], locate: Locate) -> Iterator[tuple[str, str]]:
    for link in fields:
        if link.name in ("xhtml:link", "link") and "alternate" in link.attribute("rel").lower().split():
            url = locate(link.attribute("href"))
            if url is not None:
                yield link.attribute("hreflang").lower(), url


_FIELDS = frozenset({"loc", "lastmod", "modified", "updated", "date", "xhtml:link", "link"})
GRAMMARS = {
    "urlset": Grammar("url", _FIELDS, _locations),
    "sitemapindex": Grammar("sitemap", _FIELDS, _locations),
    **feed.GRAMMARS,
}
"""By root element."""
