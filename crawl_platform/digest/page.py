"""The facts of a parsed page: links with position, rel and anchor; text in blocks; what the head says.

The walk says which elements there are and where they stand; here their attributes are read and their
references resolved, once the `base` is known (it counts for what stands before it as well).
"""

import re
from collections.abc import Iterable

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_platform.digest.blocks import Blocks, words_of
from crawl_platform.digest.charset import query_in
from crawl_platform.digest.model import Link
from crawl_platform.digest.walk import SILENT, Anchor, Walk, parse
from crawl_platform.web.signals import bars_follow, refresh, robots_directives, srcset
from crawl_platform.web.url import Base, resolve

MAX_ANCHOR = 200
MAX_BASE = 4_096
"""A base of 100 KB makes a gigabyte of the URLs of 10,000 links; below it, what a page's links take is bounded
by its own size. Twice what `frontier.max_url_length` lets in."""
MAX_HREF = 16_384
"""Longer ones (data URLs, mostly) are not looked at."""
MAX_RESOURCES = 1_000
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
        self.next: list[str] = []
        self.prev: list[str] = []
        self._stems: dict[str, str | None] = {}
        self._known: dict[str, str | None] = {_ABSENT: None}
        self._rels: dict[str, tuple[str, bool]] = {}
        self._names = {"robots", agent.lower()} - {""}
        tree = parse(markup)
        # What anchors take together may be no more than the page: they can stand in one another (in drawings).
        self._anchor_budget = 4 * len(markup)
        most = max(LEAST_ELEMENTS, len(markup) // OCTETS_PER_ELEMENT)
        walk = Walk(tree.root, most) if tree.root is not None else None
        self._document = resolve(url)
        self._base = self._find_base(walk.bases if walk else [])
        self.blocks = self._read(walk) if walk is not None else Blocks([], [], np.empty(0, np.int64), [])

    def _read(self, walk: Walk) -> Blocks:
        self.title = walk.title
        for meta in walk.metas:
            self._read_meta(meta.attributes)
        for link in walk.links:
            self._read_link(link.attributes)
        linked = [0] * walk.size
        self.nofollow = self.nofollow or bars_follow(self.robots)
        links = self._read_anchors(walk.anchors, linked)
        self.links = self._with_noscripts(links, walk.noscripts)
        self.frames = self._resolved([frame.attributes.get("src") for frame in walk.frames])
        self.resources = self._resolved(_sources(walk.images))
        return walk.blocks(linked)

    def _find_base(self, bases: list[LexborNode]) -> Base | None:
        """HTML, "document base URL": the first `base` with an href, itself relative to the document. If it can't be
        parsed, or is a data or javascript URL, that of the document; of any other scheme, relative references
        lead to nothing http.
        """
        found = self._document
        for base in bases:
            attributes = base.attributes
            if "href" in attributes:
                href = attributes["href"] or ""
                scheme = _scheme(href)
                if scheme and scheme[1].lower() not in _BASELESS:
                    return None
                found = resolve(query_in(href, self.encoding), found) or found
                break
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

    def _resolved(self, references: Iterable[str | None]) -> tuple[str, ...]:
        urls = [self._resolve(reference) for reference in references if reference]
        return tuple([url for url in urls if url is not None][:MAX_RESOURCES])

    def _read_anchors(self, anchors: list[Anchor], linked: list[int]) -> list[Link | None]:
        """A link for each anchor, None if it leads nowhere. `linked` receives the words of links by block.

        Written out in one loop, because a page may have hundreds and each call costs what a line of it does.
        """
        links: list[Link | None] = []
        add, known, rels, all_barred = links.append, self._known, self._rels, self.nofollow
        budget = self._anchor_budget
        for node, region, block in anchors:
            attributes = node.attributes
            href = attributes.get("href") or _other_href(attributes)
            url = known.get(href, _ABSENT)
            if url is _ABSENT:
                url = known[href] = self._resolve(href)
            if url is None:
                add(None)
                continue
            anchor = node.text_lexbor() if budget > 0 else ""
            budget -= len(anchor)
            anchor = " ".join((anchor.replace("\0", " ") if "\0" in anchor else anchor).split())
            if not anchor:
                anchor = " ".join((attributes.get("alt") or _alternative(node)).split())
            elif region is not SILENT:
                linked[block] += words_of(anchor)
            rel, barred = attributes.get("rel") or "", all_barred
            if rel:
                rel, bars = rels.get(rel) or self._rel(rel)
                barred = barred or bars
            add(Link(url, rel, region.position, anchor[:MAX_ANCHOR], barred))
        self._anchor_budget = budget
        return links

    def _rel(self, rel: str) -> tuple[str, bool]:
        """The tokens of a `rel`, each once; whether they bar from following."""
        tokens = dict.fromkeys(rel.lower().split())
        self._rels[rel] = found = " ".join(tokens), not _NOFOLLOW.isdisjoint(tokens)
        return found

    def _with_noscripts(self, links: list[Link | None], noscripts: list[Anchor]) -> tuple[Link, ...]:
        """`links` and, where they stand, those of `noscript` elements: pages that load late repeat theirs there."""
        for noscript, region, before in reversed(noscripts[:MAX_NOSCRIPTS]):
            raw = noscript.text_lexbor()
            if "<a" not in raw and "<A" not in raw:
                continue
            anchors = LexborHTMLParser(raw, is_fragment=True).css("a,area")
            links[before:before] = self._read_anchors([(node, region, 0) for node in anchors], [0])
        return tuple([link for link in links if link is not None])

    def _read_meta(self, attributes: dict[str, str | None]) -> None:
        name = (attributes.get("name") or "").lower()
        content = attributes.get("content") or ""
        if name in self._names:
            self.robots.update(robots_directives(content))
        elif name == "tdm-reservation" and self.tdm_reservation is None:
            self.tdm_reservation = content.strip()
        elif name == "tdm-policy" and self.tdm_policy is None:
            self.tdm_policy = self._resolve(content.strip())
        elif self.meta_refresh is None and (attributes.get("http-equiv") or "").lower() == "refresh":
            self.meta_refresh = self.refresh_target(content)

    def refresh_target(self, content: str) -> str | None:
        """Where a declarative refresh leads; without a reference it reloads the document."""
        found = refresh(content)
        if found is None:
            return None
        return self._document if found.target is None else self._resolve(found.target)

    def _read_link(self, attributes: dict[str, str | None]) -> None:
        href = attributes.get("href")
        rel = (attributes.get("rel") or "").lower().split()
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
            kind = (attributes.get("type") or "").partition(";")[0].strip().lower()
            if kind in _FEEDS:
                self.feeds.append(url)
            elif attributes.get("hreflang"):
                self.hreflang.append((attributes["hreflang"] or "", url))


_ABSENT = "\0"
_scheme = re.compile(r"[\x00-\x20]*+([A-Za-z][A-Za-z0-9+.-]*+):").match
_BASELESS = frozenset({"http", "https", "data", "javascript"})
# What a URL may end in without it: trimmed from a whole reference, kept before a fragment.
_TRIMMED = frozenset(map(chr, range(33)))
_plain_fragment = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]{0,2000}").fullmatch
_FACTS = frozenset({"canonical", "next", "prev", "previous", "alternate"})


def _other_href(attributes: dict[str, str | None]) -> str:
    """The reference of a link that has no href, or an empty one."""
    return "" if "href" in attributes else attributes.get("xlink:href", _ABSENT) or ""


def _alternative(node: LexborNode) -> str:
    """The first alternative text of an image in a link without text."""
    for image in node.css("img[alt]"):
        alt = image.attributes.get("alt")
        if alt:
            return alt
    return ""


def _sources(images: list[LexborNode]) -> Iterable[str | None]:
    """References of `img` and of a picture's `source`, in document order."""
    for image in images[:MAX_RESOURCES]:
        attributes = image.attributes
        if image.tag == "img":
            yield attributes.get("src")
        if attributes.get("srcset"):
            yield from srcset(attributes["srcset"] or "")
