"""The facts of a parsed page: links with position, rel and anchor; text in blocks; what the head says.

The walk says which elements there are and where they stand; here their attributes are read and their
references resolved, once the `base` is known (it counts for what stands before it as well).
"""

import re
from collections.abc import Iterable

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from crawl_platform.digest.blocks import Blocks
from crawl_platform.digest.charset import query_in
from crawl_platform.digest.entities import declared_types
from crawl_platform.digest.model import Link
from crawl_platform.digest.regions import REGIONS, SILENT, number_of
from crawl_platform.digest.tree import Numbers, parse
from crawl_platform.digest.walk import (
    ANCHOR_BLOCK,
    ANCHOR_REGION,
    ANCHOR_WORDS,
    BASE,
    FIELDS,
    FRAME,
    LINK,
    MAX_ANCHOR,
    MAX_IMAGES,
    META,
    NOSCRIPT,
    SCRIPT,
    TITLE,
    Walk,
)
from crawl_platform.web.signals import bars_follow, refresh, robots_directives, srcset
from crawl_platform.web.url import Base, resolve

MAX_BASE = 4_096
"""A base of 100 KB makes a gigabyte of the URLs of 10,000 links; below it, what a page's links take is bounded
by its own size. Twice what `frontier.max_url_length` lets in."""
MAX_HREF = 16_384
"""Longer ones (data URLs, mostly) are not looked at."""
MAX_RESOURCES = MAX_IMAGES
MAX_NOSCRIPTS = 50
"""Each is parsed by itself, and thirty bytes can ask for it."""
OCTETS_PER_ELEMENT = 16
"""Pages have one element in 40 octets. What has more than one in 16 is looked at in its beginning only."""
LEAST_ELEMENTS = 2_000
_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_FEEDS = ("application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json")


class Page:
    """A page's facts. `url` is the document's own, `encoding` the one that its URLs' queries are written in.

    `agent` is the product token that we go by: meta elements of that name speak to us as `robots` does.
    `nofollow`: known already of all links.
    """

    def __init__(
        self, markup: bytes, url: str, encoding: str, agent: str = "", nofollow: bool = False
    ) -> None:
        self.encoding = encoding
        self.title: str | None = None
        self.links: tuple[Link, ...] = ()
        self.frames: tuple[str, ...] = ()
        self.resources: tuple[str, ...] = ()
        self.robots: set[str] = set()
        self.nofollow = nofollow
        self.meta_refresh: str | None = None
        self.tdm_reservation: str | None = None
        self.tdm_policy: str | None = None
        self.canonical: str | None = None
        self.hreflang: list[tuple[str, str]] = []
        self.feeds: list[str] = []
        self.entity_types: tuple[str, ...] = ()
        self.next: list[str] = []
        self.prev: list[str] = []
        self._stems: dict[str, str | None] = {}
        self._known: dict[str, str | None] = {}
        self._rels: dict[str, tuple[str, bool]] = {"": ("", False)}
        self._names = {"robots", agent.lower()} - {""}
        self._document = resolve(url)
        self._base = self._find_base([])
        tree = parse(markup)
        most = max(LEAST_ELEMENTS, len(markup) // OCTETS_PER_ELEMENT)
        # What anchors take together may be no more than the page: they can stand in one another (in drawings).
        walk = Walk(tree.root, most, len(markup), 4 * len(markup)) if tree.root is not None else None
        linked = np.zeros(len(walk.blocks) if walk else 0, np.int64)
        if walk is None:
            self.blocks = Blocks(np.empty((0, 6), np.int64), np.empty(0, np.uint8), linked)
            return
        self._read(walk, linked)
        self.blocks = Blocks(walk.blocks, walk.text, linked)

    def _read(self, walk: Walk, linked: Numbers) -> None:
        facts, at = [], 0
        for kind, region, before in walk.facts.tolist():
            facts.append((kind, walk.fields[at : at + FIELDS[kind]], region, before))
            at += FIELDS[kind]
        self._base = self._find_base([strings[0] for kind, strings, _, _ in facts if kind == BASE])
        frames: list[str] = []
        sources: list[str] = []
        scripts: list[str] = []
        noscripts: list[tuple[str, int, int]] = []
        for kind, strings, region, before in facts:
            if kind == META:
                self._read_meta(*strings)
            elif kind == LINK:
                self._read_link(*strings)
            elif kind == TITLE:
                self.title = " ".join(strings[0].split())
            elif kind == FRAME:
                frames += strings
            elif kind == SCRIPT:
                scripts += strings
            elif kind == NOSCRIPT:
                noscripts.append((strings[0], region, before))
            elif kind != BASE:
                sources.append(strings[0])
                sources += srcset(strings[1]) if strings[1] else ()
        self.entity_types = declared_types(scripts)
        self.nofollow = self.nofollow or bars_follow(self.robots)
        links = self._read_links(walk.links, walk.fields[at:], linked)
        self.links = self._with_noscripts(links, noscripts)
        self.frames = self._resolved(frames)
        self.resources = self._resolved(sources)

    def _find_base(self, hrefs: list[str]) -> Base | None:
        """HTML, "document base URL": the first `base` with an href, itself relative to the document. If it can't be
        parsed, or is a data or javascript URL, that of the document; of any other scheme, relative references
        lead to nothing http.
        """
        found = self._document
        if hrefs:
            scheme = _scheme(hrefs[0])
            if scheme and scheme[1].lower() not in _BASELESS:
                return None
            found = resolve(query_in(hrefs[0], self.encoding), found) or found
        return Base(found) if found is not None and len(found) <= MAX_BASE else None

    def _resolve(self, href: str) -> str | None:
        if "#" not in href:
            return self._resolve_whole(href)
        stem, mark, fragment = href.partition("#")
        if not _plain_fragment(fragment) or stem[-1:] in _TRIMMED:
            return self._resolve_whole(href)
        # Many links of a page differ in their fragment only, and such a fragment stays as it is.
        if stem in self._stems:
            url = self._stems[stem]
        else:
            url = self._stems[stem] = self._resolve_whole(stem)
        return url and url + mark + fragment

    def _resolve_whole(self, href: str) -> str | None:
        if len(href) > MAX_HREF:
            return None
        # ISO-2022-JP is the one encoding that has something to say about ASCII.
        if not href.isascii() or self.encoding == "iso-2022-jp":
            href = query_in(href, self.encoding)
        return self._base.resolve(href) if self._base is not None else resolve(href)

    def _resolved(self, references: Iterable[str]) -> tuple[str, ...]:
        urls = [self._resolve(reference) for reference in references if reference]
        return tuple([url for url in urls if url is not None][:MAX_RESOURCES])

    def _read_links(self, rows: Numbers, fields: list[str], linked: Numbers | None) -> list[Link | None]:
        """A link for each row, None if it leads nowhere. `linked` receives the words of links by block."""
        links: list[Link | None] = []
        add, known, rels, all_barred = links.append, self._known, self._rels, self.nofollow
        for href, rel, alt, text, region in zip(
            fields[::4],
            fields[1::4],
            fields[2::4],
            fields[3::4],
            rows[:, ANCHOR_REGION].tolist(),
            strict=False,
        ):
            if href in known:
                url = known[href]
            else:
                url = known[href] = self._resolve(href)
            if url is None:
                add(None)
                continue
            if alt and not text:
                text = " ".join(alt.split())[:MAX_ANCHOR]
            tokens, bars = rels.get(rel) or self._rel(rel)
            add(Link(url, tokens, _POSITIONS[region], text, all_barred or bars))
        if linked is not None and len(linked):
            lead = np.fromiter((link is not None for link in links), np.bool_, len(links))
            count = lead & (rows[:, ANCHOR_REGION] != _SILENT)
            np.add.at(linked, rows[count, ANCHOR_BLOCK].clip(max=len(linked) - 1), rows[count, ANCHOR_WORDS])
        return links

    def _rel(self, rel: str) -> tuple[str, bool]:
        """The tokens of a `rel`, each once; whether they bar from following."""
        tokens = dict.fromkeys(rel.lower().split())
        self._rels[rel] = found = " ".join(tokens), not _NOFOLLOW.isdisjoint(tokens)
        return found

    def _with_noscripts(
        self, links: list[Link | None], noscripts: list[tuple[str, int, int]]
    ) -> tuple[Link, ...]:
        """`links` and, where they stand, those of `noscript` elements: pages that load late repeat theirs there."""
        for raw, region, before in reversed(noscripts[:MAX_NOSCRIPTS]):
            if "<a" not in raw and "<A" not in raw:
                continue
            root = LexborHTMLParser(raw, scripting=True).root
            if root is None:
                continue
            walk = Walk(root, LEAST_ELEMENTS, 4 * len(raw), 4 * len(raw))
            walk.links[:, ANCHOR_REGION] = region
            fields = walk.fields[sum(FIELDS[kind] for kind in walk.facts[:, 0].tolist()) :]
            links[before:before] = self._read_links(walk.links, fields, None)
        return tuple([link for link in links if link is not None])

    def _read_meta(self, name: str, content: str, pragma: str) -> None:
        name = name.lower()
        if name in self._names:
            self.robots.update(robots_directives(content))
        elif name == "tdm-reservation" and self.tdm_reservation is None:
            self.tdm_reservation = content.strip()
        elif name == "tdm-policy" and self.tdm_policy is None:
            self.tdm_policy = self._resolve(content.strip())
        elif self.meta_refresh is None and pragma.lower() == "refresh":
            self.meta_refresh = self.refresh_target(content)

    def refresh_target(self, content: str) -> str | None:
        """Where a declarative refresh leads; without a reference it reloads the document."""
        found = refresh(content)
        if found is None:
            return None
        return self._document if found.target is None else self._resolve(found.target)

    def _read_link(self, relations: str, href: str, kind: str, language: str) -> None:
        rel = relations.lower().split()
        url = self._resolve(href) if href and not _FACTS.isdisjoint(rel) else None
        if url is None:
            return
        if "canonical" in rel and self.canonical is None:
            self.canonical = url
        if "next" in rel:
            self.next.append(url)
        if "prev" in rel or "previous" in rel:
            self.prev.append(url)
        if "alternate" in rel and "stylesheet" not in rel:
            if kind.partition(";")[0].strip().lower() in _FEEDS:
                self.feeds.append(url)
            elif language:
                self.hreflang.append((language, url))


_scheme = re.compile(r"[\x00-\x20]*+([A-Za-z][A-Za-z0-9+.-]*+):").match
_BASELESS = frozenset({"http", "https", "data", "javascript"})
# What a URL may end in without it: trimmed from a whole reference, kept before a fragment.
_TRIMMED = frozenset(map(chr, range(33)))
_plain_fragment = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]{0,2000}").fullmatch
_FACTS = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_POSITIONS = [region.position for region in REGIONS]
_SILENT = number_of(SILENT)
