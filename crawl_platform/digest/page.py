"""One pass over a parsed page: links with position, rel and anchor; text in blocks; what the head says.

Theory of operation. Lexbor's traversal yields nodes in document order and never says where an element ends, so
each element that matters (a region, a link) is pushed with the node that follows its subtree; reaching that
node pops it. Finding it climbs from last children only up to the innermost open element, so all climbs of a
page together are linear in its size. Template contents are inert and not
traversed.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_platform.digest.blocks import Block
from crawl_platform.digest.charset import query_in
from crawl_platform.digest.model import Link
from crawl_platform.digest.regions import FOOTER, HEADER, MAIN, NOISE, OTHER, Region, region_of
from crawl_platform.web.url import Base, resolve

MAX_ANCHOR = 200
MAX_BASE = 4_096
"""A base of 100 KB makes a gigabyte of the URLs of 10,000 links; below it, what a page's links take is bounded
by its own size. Twice what `frontier.max_url_length` lets in."""
MAX_HREF = 16_384
"""Longer ones (data URLs, mostly) are not looked at."""
_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_refresh = re.compile(
    r"[\t\n\f\r ]*(?:\d+[\d.]*|\.[\d.]*)(?:[\t\n\f\r ]*[;,][\t\n\f\r ]*|[\t\n\f\r ]+|\Z)(.*)", re.DOTALL
).match
_refresh_url = re.compile(r"url[\t\n\f\r ]*=[\t\n\f\r ]*(.*)", re.IGNORECASE | re.DOTALL).match


class _Open:
    """An element whose subtree is being traversed; `end` is the id of the node after it (0: none)."""

    __slots__ = ("end", "link", "node", "region")

    def __init__(self, node: LexborNode, end: int, region: Region, link: "_Anchor | None") -> None:
        self.node = node
        self.end = end
        self.region = region
        self.link = link


class _Anchor:
    """A link under construction; `parts` are its text so far, `alt` stands in if there is none."""

    __slots__ = ("alt", "parts", "position", "rel", "url")

    def __init__(self, url: str, rel: str, position: str, alt: str = "") -> None:
        self.url = url
        self.rel = rel
        self.position = position
        self.alt = alt
        self.parts: list[str] = []

    def finish(self, nofollow: bool) -> Link:
        anchor = " ".join("".join(self.parts[:MAX_ANCHOR]).split()) or " ".join(self.alt.split())
        marked = bool(self.rel) and not _NOFOLLOW.isdisjoint(self.rel.split(" "))
        return Link(self.url, self.rel, self.position, anchor[:MAX_ANCHOR], nofollow or marked)


class Page:
    """A page as the pass leaves it. `url` is the document's own; all other URLs are resolved."""

    def __init__(self, markup: bytes, url: str, encoding: str) -> None:
        self.encoding = encoding
        self.blocks: list[Block] = []
        self.title: str | None = None
        self.canonical: str | None = None
        self.meta_refresh: str | None = None
        self.robots: set[str] = set()
        self.frames: list[str] = []
        self.hreflang: list[tuple[str, str]] = []
        self._anchors: list[_Anchor] = []
        tree = LexborHTMLParser(markup)
        self._base = self._find_base(tree, url)
        if tree.root is not None:
            self._walk(tree.root)

    @property
    def links(self) -> tuple[Link, ...]:
        nofollow = self.nofollow
        return tuple([anchor.finish(nofollow) for anchor in self._anchors])

    @property
    def nofollow(self) -> bool:
        return "nofollow" in self.robots or "none" in self.robots

    @property
    def noindex(self) -> bool:
        return "noindex" in self.robots or "none" in self.robots

    def _find_base(self, tree: LexborHTMLParser, url: str) -> Base | None:
        """HTML §2.4.3: the first `base` with an href, if it parses; it is itself relative to the document."""
        document = resolve(url)
        hrefs = [element.attributes["href"] for element in tree.tags("base") if "href" in element.attributes]
        base = resolve(query_in(hrefs[0] or "", self.encoding), document) if hrefs else None
        found = base or document
        return Base(found) if found is not None and len(found) <= MAX_BASE else None

    def _resolve(self, href: str) -> str | None:
        if len(href) > MAX_HREF:
            return None
        # ISO-2022-JP is the one encoding that has something to say about ASCII.
        if not href.isascii() or self.encoding == "iso-2022-jp":
            href = query_in(href, self.encoding)
        return self._base.resolve(href) if self._base is not None else resolve(href)

    def _walk(self, root: LexborNode) -> None:
        top = _Open(root, 0, OTHER, None)
        stack = [top]
        text = _Text(self.blocks)
        chunks, linked, role_of = text.chunks, text.linked, _ROLES.get
        end, silent, link = 0, False, None
        for node in root.traverse(include_text=True):
            if node.mem_id == end:
                while stack[-1].end == end:
                    stack.pop()
                top = stack[-1]
                end, silent, link = top.end, top.region is _SILENT, top.link
                text.enter(top.region)
            tag = node.tag
            if tag == "-text":
                if not silent:
                    chunk = node.text_content or ""
                    chunks.append(chunk)
                    if link is not None:
                        linked.append(chunk)
                        link.parts.append(chunk)
                continue
            role = role_of(tag)
            if role is None:
                continue
            block, heading, enter = role
            if block:
                text.boundary(heading)
            opened = enter(self, node, top) if enter is not None else None
            if opened is not None:
                stack.append(opened)
                top = opened
                end, silent, link = top.end, top.region is _SILENT, top.link
                text.enter(top.region)
        text.boundary()

    def _enter_region(self, node: LexborNode, top: _Open) -> _Open | None:
        """A container that opens a region of its own. A header in an article is the article's."""
        attributes = node.attributes
        region = region_of(
            node.tag or "",
            attributes.get("role") or "",
            attributes.get("class") or "",
            attributes.get("id") or "",
            "hidden" if "hidden" in attributes else attributes.get("style") or "",
        )
        around = top.region
        if region is None or region is around or around is _SILENT:
            return None
        if around is NOISE and region is not MAIN:
            return None
        if around is MAIN and (region is HEADER or region is FOOTER):
            return None
        return _Open(node, _end(node, top), region, top.link)

    def _enter_marked(self, node: LexborNode, top: _Open) -> _Open | None:
        return self._enter_region(node, top) if node.attributes else None

    def _enter_silence(self, node: LexborNode, top: _Open) -> _Open | None:
        return _Open(node, _end(node, top), _SILENT, top.link)

    def _enter_frame(self, node: LexborNode, top: _Open) -> _Open | None:
        source = node.attributes.get("src")
        url = self._resolve(source) if source else None
        if url is not None:
            self.frames.append(url)
        return self._enter_silence(node, top)

    def _enter_title(self, node: LexborNode, top: _Open) -> _Open | None:
        if self.title is None and top.region is not _SILENT:
            self.title = " ".join(node.text_lexbor().split())
        return self._enter_silence(node, top)

    def _enter_image(self, node: LexborNode, top: _Open) -> None:
        if top.link is not None and not top.link.alt:
            top.link.alt = node.attributes.get("alt") or ""

    def _enter_anchor(self, node: LexborNode, top: _Open) -> _Open | None:
        attributes = node.attributes
        name = "href" if "href" in attributes else "xlink:href"
        if name not in attributes:
            return None
        href = attributes[name] or ""
        url = self._resolve(href)
        if url is None:
            return None
        rel = (
            " ".join(dict.fromkeys((attributes["rel"] or "").lower().split())) if "rel" in attributes else ""
        )
        anchor = _Anchor(url, rel, top.region.position, attributes.get("alt") or "")
        self._anchors.append(anchor)
        return _Open(node, _end(node, top), top.region, anchor)

    def _enter_meta(self, node: LexborNode, top: _Open) -> None:
        attributes = node.attributes
        content = attributes.get("content") or ""
        if (attributes.get("name") or "").lower() == "robots":
            self.robots.update(token.strip().lower() for token in content.split(","))
        elif (attributes.get("http-equiv") or "").lower() == "refresh" and self.meta_refresh is None:
            self.meta_refresh = self._refresh_target(content)

    def _refresh_target(self, content: str) -> str | None:
        """HTML §4.2.5.3, "shared declarative refresh steps"."""
        match = _refresh(content)
        if match is None:
            return None
        rest = match[1]
        named = _refresh_url(rest)
        target = named[1] if named else rest
        if named and target[:1] in ("'", '"'):
            target = target[1:].partition(target[0])[0]
        if not rest:
            return self._base.url if self._base is not None else None
        return self._resolve(target)

    def _enter_link(self, node: LexborNode, top: _Open) -> None:
        attributes = node.attributes
        href = attributes.get("href")
        rel = (attributes.get("rel") or "").lower().split()
        if not href or not rel:
            return
        if "canonical" in rel and self.canonical is None:
            self.canonical = self._resolve(href)
        if "alternate" in rel and attributes.get("hreflang"):
            url = self._resolve(href)
            if url is not None:
                self.hreflang.append((attributes["hreflang"] or "", url))


class _Text:
    """Collects text into blocks; a block ends at a boundary and where the region changes.

    `chunks` is the text since the last boundary, `linked` what of it is inside links.
    """

    __slots__ = ("_blocks", "_heading", "_region", "chunks", "linked")

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._heading = False
        self._region = OTHER
        self.chunks: list[str] = []
        self.linked: list[str] = []

    def boundary(self, heading: bool = False) -> None:
        if self.chunks:
            words = "".join(self.chunks).split()
            if words:
                linked = len("".join(self.linked).split()) if self.linked else 0
                self._blocks.append(Block(self._region, self._heading, words, linked))
            self.chunks.clear()
            self.linked.clear()
        self._heading = heading

    def enter(self, region: Region) -> None:
        if region is not self._region and region is not _SILENT:
            self.boundary(self._heading)
            self._region = region


class _Role(NamedTuple):
    """What an element is to the pass: a block boundary, a heading, and what entering it does."""

    block: bool
    heading: bool = False
    enter: "Callable[[Page, LexborNode, _Open], _Open | None] | None" = None


_SILENT = Region("other", False, False)


def _roles(tags: str, role: _Role) -> dict[str | None, _Role]:
    return dict.fromkeys(tags.split(), role)


_ROLES: dict[str | None, _Role] = {
    **_roles(
        "p li dt dd th tr pre blockquote figure figcaption caption address hr body fieldset summary",
        _Role(True),
    ),
    **_roles("h1 h2 h3 h4 h5 h6", _Role(True, heading=True)),
    **_roles("div section ul ol dl table td form details dialog", _Role(True, enter=Page._enter_marked)),
    **_roles("nav header footer aside main article", _Role(True, enter=Page._enter_region)),
    **_roles("script style svg select textarea button datalist", _Role(False, enter=Page._enter_silence)),
    **_roles("noframes noembed object canvas math", _Role(False, enter=Page._enter_silence)),
    **_roles("a area", _Role(False, enter=Page._enter_anchor)),
    **_roles("frame iframe", _Role(False, enter=Page._enter_frame)),
    "img": _Role(False, enter=Page._enter_image),
    "title": _Role(False, enter=Page._enter_title),
    "meta": _Role(False, enter=Page._enter_meta),
    "link": _Role(False, enter=Page._enter_link),
}


def _end(node: LexborNode, top: _Open) -> int:
    """Id of the first node after the subtree of `node`, 0 if none. Climbs no further than `top`."""
    stop = top.node.mem_id
    while True:
        following = node.next
        if following is not None:
            return following.mem_id
        parent = node.parent
        if parent is None:
            return 0
        if parent.mem_id == stop:
            return top.end
        node = parent
