"""One pass over a parsed page: links with position, rel and anchor; text in blocks; what the head says.

Theory of operation. Lexbor's traversal yields nodes in document order and never says where an element ends, so
each element that matters (a region, a link) is pushed with the node that follows its subtree; reaching that
node pops it. Finding it climbs from last children only up to the innermost open element, so all climbs of a
page together are linear in its size. Script and style are removed before. Template contents are inert and not
traversed.
"""

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_platform.digest.blocks import Block
from crawl_platform.digest.charset import query_in
from crawl_platform.digest.model import Link
from crawl_platform.digest.regions import BY_TAG, NOISE, OTHER, Region, region_of
from crawl_platform.web.url import Base, resolve

MAX_ANCHOR = 200
_INERT = ["script", "style", "noembed", "object", "applet", "canvas", "math"]
_CONTAINERS = frozenset({"div", "section", "ul", "ol", "dl", "table", "td", "tr", "form", "p", "span", "details", "dialog"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | (_CONTAINERS - {"span"}) | frozenset(
    {"li", "dt", "dd", "th", "pre", "blockquote", "article", "main", "figure", "figcaption", "caption", "address",
     "nav", "header", "footer", "aside", "hr", "body", "fieldset", "summary"}
)  # fmt: skip
_SILENT = frozenset({"title", "svg", "select", "textarea", "button", "noscript", "iframe", "option", "datalist"})
_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_refresh = re.compile(
    r"[\t\n\f\r ]*(?:\d+[\d.]*|\.[\d.]*)(?:[\t\n\f\r ]*[;,][\t\n\f\r ]*|[\t\n\f\r ]+|\Z)(.*)", re.DOTALL
).match
_refresh_url = re.compile(r"url[\t\n\f\r ]*=[\t\n\f\r ]*(.*)", re.IGNORECASE | re.DOTALL).match


@dataclass(slots=True)
class _Open:
    """An element whose subtree is being traversed; `end` is the id of the node after it (0: none)."""

    node: LexborNode
    end: int
    region: Region
    link: "_Anchor | None"


@dataclass(slots=True)
class _Anchor:
    """A link under construction; `parts` are its text so far."""

    url: str
    rel: str
    position: str
    parts: list[str] = field(default_factory=list)
    length: int = 0
    alt: str = ""

    def add(self, text: str) -> None:
        if self.length < 2 * MAX_ANCHOR:
            self.parts.append(text[:MAX_ANCHOR])
            self.length += len(text)

    def finish(self, nofollow: bool) -> Link:
        anchor = " ".join("".join(self.parts).split()) or " ".join(self.alt.split())
        marked = bool(self.rel) and not _NOFOLLOW.isdisjoint(self.rel.split(" "))
        return Link(self.url, self.rel, self.position, anchor[:MAX_ANCHOR], nofollow or marked)


class Page:
    """A page as the pass leaves it. `url` is the document's own; all other URLs are resolved."""

    def __init__(self, markup: bytes, url: str, encoding: str) -> None:
        self.encoding = encoding
        self.blocks: list[Block] = [Block()]
        self.title = ""
        self.canonical: str | None = None
        self.meta_refresh: str | None = None
        self.robots: set[str] = set()
        self.frames: list[str] = []
        self.hreflang: list[tuple[str, str]] = []
        self._anchors: list[_Anchor] = []
        tree = LexborHTMLParser(markup)
        self._base = self._find_base(tree, url)
        self._title_seen = False
        if tree.root is not None:
            tree.root.strip_tags(_INERT, recursive=True)
            self._walk(tree.root)

    @property
    def links(self) -> tuple[Link, ...]:
        nofollow = "nofollow" in self.robots
        return tuple(anchor.finish(nofollow) for anchor in self._anchors)

    def _find_base(self, tree: LexborHTMLParser, url: str) -> Base | None:
        """HTML §2.4.3: the first `base` with an href, if it parses; it is itself relative to the document."""
        element = tree.css_first("base[href]")
        document = resolve(url)
        href = (element.attributes.get("href") or "") if element is not None else None
        base = resolve(query_in(href, self.encoding), document) if href is not None else document
        base = base or document
        return Base(base) if base is not None else None

    def _resolve(self, href: str) -> str | None:
        if not href.isascii():
            href = query_in(href, self.encoding)
        return self._base.resolve(href) if self._base is not None else resolve(href)

    def _walk(self, root: LexborNode) -> None:
        stack = [_Open(root, 0, OTHER, None)]
        top = stack[0]
        block = self.blocks[0]
        for node in root.traverse(include_text=True):
            if node.mem_id == top.end:
                while stack[-1].end == node.mem_id:
                    stack.pop()
                top = stack[-1]
                if top.region is not block.region:
                    block = self._new_block(top.region, "")
            if node.is_text_node:
                text = node.text_content or ""
                if top.region is _SILENCE:
                    continue
                block.chunks.append(text)
                count = len(text.split())
                block.words += count
                if top.link is not None:
                    top.link.add(text)
                    block.linked += count
                continue
            if not node.is_element_node:
                continue
            tag = node.tag or ""
            if tag in _BLOCKS:
                block = self._new_block(top.region, tag)
            opened = self._enter(node, tag, top)
            if opened is not None:
                stack.append(opened)
                top = opened
                if opened.region is not block.region and opened.region is not _SILENCE:
                    block = self._new_block(opened.region, tag)

    def _new_block(self, region: Region, tag: str) -> Block:
        last = self.blocks[-1]
        if last.chunks:
            # A block boundary is a word boundary, too.
            last.chunks.append(" ")
            last = Block()
            self.blocks.append(last)
        last.region = region
        last.heading = tag in _HEADINGS
        return last

    def _enter(self, node: LexborNode, tag: str, top: _Open) -> _Open | None:
        """What `node` opens: a link, a region, silence, or nothing."""
        if tag in ("a", "area"):
            return self._enter_link(node, top)
        if tag in _SILENT:
            self._note(node, tag)
            return _Open(node, _end(node, top), _SILENCE if tag != "noscript" else top.region, top.link)
        if tag in BY_TAG or tag in _CONTAINERS:
            attributes = node.attributes
            region = region_of(tag, attributes) if attributes or tag in BY_TAG else None
            if region is not None and _opens(region, top.region):
                return _Open(node, _end(node, top), region, top.link)
        elif tag in _NOTED:
            self._note(node, tag)
            if tag == "img" and top.link is not None and not top.link.alt:
                top.link.alt = node.attributes.get("alt") or ""
        return None

    def _enter_link(self, node: LexborNode, top: _Open) -> _Open | None:
        attributes = node.attributes
        href = attributes.get("href") if "href" in attributes else attributes.get("xlink:href", _ABSENT)
        if href is _ABSENT:
            return None
        url = self._resolve(href or "")
        if url is None:
            return None
        rel = " ".join(dict.fromkeys((attributes.get("rel") or "").lower().split()))
        anchor = _Anchor(url, rel, top.region.position)
        self._anchors.append(anchor)
        if node.tag == "area":
            anchor.alt = attributes.get("alt") or ""
            return None
        return _Open(node, _end(node, top), top.region, anchor)

    def _note(self, node: LexborNode, tag: str) -> None:
        if tag == "title":
            if not self._title_seen and _namespace_parent(node) != "svg":
                self._title_seen = True
                self.title = " ".join(node.text_lexbor().split())
        elif tag == "meta":
            self._note_meta(node.attributes)
        elif tag == "link":
            self._note_link(node.attributes)
        elif tag in ("iframe", "frame"):
            source = node.attributes.get("src")
            url = self._resolve(source) if source else None
            if url is not None:
                self.frames.append(url)

    def _note_meta(self, attributes: dict[str, str | None]) -> None:
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

    def _note_link(self, attributes: dict[str, str | None]) -> None:
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


_ABSENT = "\0absent"
_SILENCE = Region("other", False, False)
_NOTED = frozenset({"meta", "link", "frame", "img"})


def _opens(region: Region, around: Region) -> bool:
    """Whether a region changes anything: a header in an article is the article's, noise is noise throughout."""
    if around in (NOISE,) or region is around:
        return False
    return not (region.position in ("header", "footer") and around.position == "main" and region is not NOISE)


def _namespace_parent(node: LexborNode) -> str:
    parent = node.parent
    return (parent.tag or "") if parent is not None else ""


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
