"""One pass over a parsed page: which text stands in which region, and the elements that say something.

Theory of operation. A pass over every node in Python costs more than the parse. So the selector engine picks
the elements that may matter (all but the inline ones), in document order; each boundary between blocks of text
gets a NUL before it, which no text of a document holds (the parser drops or replaces it); and the whole text
is then taken at once and cut at the marks: piece `i + 1` is what follows mark `i`.

A region is pushed with the next picked element after its subtree; reaching that element pops it. Finding it
climbs from last children only up to the innermost open region, so all climbs of a page together are linear in
its size. What holds no text of the page (scripts, drawings, form controls) is detached from the tree. Template
contents are inert and not seen, unless the template declares a shadow root.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawl_platform.digest.blocks import Block
from crawl_platform.digest.regions import BY_TAG, FOOTER, HEADER, MAIN, NOISE, OTHER, Region, region_of

SILENT = Region("other", False, False)
"""What is no text of the page. Links in it are links all the same."""
_MARK = b"\0"
# Names that are neither a boundary nor a region nor a fact; the rest of the inline ones is rare.
_INLINE = "span b i em code strong br path"
_PICKED = f":not({','.join(_INLINE.split())})"


Anchor = tuple[LexborNode, Region, int]
"""An `a` or `area`, the region that it stands in, and the number of the block that it begins in."""


class _Open(NamedTuple):
    """A region whose subtree is being walked; `end` is the id of the picked element after it (0: none)."""

    node: LexborNode
    end: int
    region: Region


class Walk:
    """What one pass over a page has found, in document order. Detaches nodes from the tree."""

    def __init__(self, root: LexborNode, most: int) -> None:
        """`most`: how many elements are looked at."""
        self.anchors: list[Anchor] = []
        self.frames: list[LexborNode] = []
        self.images: list[LexborNode] = []
        self.metas: list[LexborNode] = []
        self.links: list[LexborNode] = []
        self.bases: list[LexborNode] = []
        self.noscripts: list[Anchor] = []
        # The number is that of the anchor before which they stand.
        self.title: str | None = None
        self._marks: list[tuple[Region, bool]] = [(OTHER, False)]
        self._stack = [_Open(root, 0, OTHER)]
        self._walk(root.css(_PICKED)[:most])
        self._pieces = _collapsed(root.text())

    def blocks(self, linked: list[int]) -> list[Block]:
        """The blocks that have text. `linked`: words in links by number of block; more than a block has belong
        to those after it, because a link that holds blocks begins in the one before them."""
        blocks, carried = [], 0
        for (region, heading), text, more in zip(self._marks, self._pieces, linked, strict=False):
            carried += more
            if text:
                block = Block(region, heading, text, carried)
                carried -= block.linked
                blocks.append(block)
        return blocks

    @property
    def size(self) -> int:
        """Number of blocks, empty ones included."""
        return len(self._marks)

    def _walk(self, nodes: list[LexborNode]) -> None:
        marks, role_of = self._marks, _ROLES.get
        region, end = OTHER, 0
        for node in nodes:
            if end and node.mem_id == end:
                region, end = self._leave(end)
            role = role_of(node.tag_id)
            if role is None:
                continue
            if role is _ANCHOR:
                self.anchors.append((node, region, len(marks) - 1))
                continue
            block, heading, enter = role
            if enter is not None:
                opened = enter(self, node, region)
                if opened is not None:
                    region, end = self._open(node, opened)
            if block and region is not SILENT:
                node.insert_before(_MARK)
                marks.append((region, heading))
        self._leave(0)

    def _open(self, node: LexborNode, region: Region) -> tuple[Region, int]:
        opened = _Open(node, _end(node, self._stack[-1]), region)
        self._stack.append(opened)
        if region is SILENT:
            node.decompose(recursive=False)
        else:
            node.insert_after(_MARK)
        return region, opened.end

    def _leave(self, end: int) -> tuple[Region, int]:
        """Close the regions that end before the element `end`; text after them is a block of its own."""
        stack = self._stack
        while len(stack) > 1 and (stack[-1].end == end or not end):
            left = stack.pop()
            if left.region is not SILENT:
                self._marks.append((stack[-1].region, False))
        return stack[-1].region, stack[-1].end

    def _enter_region(self, node: LexborNode, around: Region) -> Region | None:
        """A container that opens a region of its own. A header in an article is the article's."""
        attributes = node.attributes
        if around is SILENT or (not attributes and node.tag not in BY_TAG):
            return None
        get = attributes.get
        style = "hidden" if "hidden" in attributes else get("style") or ""
        region = region_of(node.tag or "", get("role") or "", get("class") or "", get("id") or "", style)
        if region is None or region is around:
            return None
        if around is NOISE and region is not MAIN:
            return None
        if around is MAIN and (region is HEADER or region is FOOTER):
            return None
        return region

    def _enter_silence(self, node: LexborNode, around: Region) -> Region | None:
        return None if around is SILENT else SILENT

    def _leaf(self, node: LexborNode, around: Region) -> None:
        """Raw text: no element is in it."""
        node.decompose(recursive=False)

    def _enter_frame(self, node: LexborNode, around: Region) -> None:
        self.frames.append(node)
        node.decompose(recursive=False)

    def _enter_title(self, node: LexborNode, around: Region) -> None:
        if self.title is None and around is not SILENT:
            self.title = " ".join(node.text_lexbor().split())
        node.decompose(recursive=False)

    def _enter_noscript(self, node: LexborNode, around: Region) -> None:
        self.noscripts.append((node, around, len(self.anchors)))
        node.decompose(recursive=False)

    def _enter_image(self, node: LexborNode, around: Region) -> None:
        self.images.append(node)

    def _enter_meta(self, node: LexborNode, around: Region) -> None:
        self.metas.append(node)

    def _enter_link(self, node: LexborNode, around: Region) -> None:
        self.links.append(node)

    def _enter_base(self, node: LexborNode, around: Region) -> None:
        self.bases.append(node)


class _Role(NamedTuple):
    """What an element is to the pass: a block boundary, a heading, and what entering it does."""

    block: bool
    heading: bool = False
    enter: Callable[[Walk, LexborNode, Region], Region | None] | None = None


_ANCHOR = _Role(False)
_BY_NAME = {
    "p li dt dd th tr pre blockquote figure figcaption caption address hr body fieldset summary": _Role(True),
    "h1 h2 h3 h4 h5 h6": _Role(True, heading=True),
    "div section ul ol dl table td form details dialog": _Role(True, enter=Walk._enter_region),
    "nav header footer aside main article": _Role(True, enter=Walk._enter_region),
    "svg select button datalist object canvas math": _Role(False, enter=Walk._enter_silence),
    "script style textarea noframes noembed": _Role(False, enter=Walk._leaf),
    "a area": _ANCHOR,
    "frame iframe": _Role(False, enter=Walk._enter_frame),
    "img source": _Role(False, enter=Walk._enter_image),
    "title": _Role(False, enter=Walk._enter_title),
    "noscript": _Role(False, enter=Walk._enter_noscript),
    "meta": _Role(False, enter=Walk._enter_meta),
    "link": _Role(False, enter=Walk._enter_link),
    "base": _Role(False, enter=Walk._enter_base),
}


def _numbers(tags: str) -> list[int]:
    """Lexbor's numbers of tags: they spare a string per element; any document can be asked for them."""
    some = LexborHTMLParser("<p>").create_node
    return [some(tag).tag_id for tag in tags.split()]


_ROLES = {number: role for tags, role in _BY_NAME.items() for number in _numbers(tags)}
_PASSED = frozenset(_numbers(_INLINE))


def parse(markup: bytes) -> LexborHTMLParser:
    """The tree of a UTF-8 page as a browser with scripts builds it, declared shadow roots in the open.

    `noscript` is raw text then: what it says to readers without scripts (redirects, mostly) is not the page.
    """
    tree = LexborHTMLParser(markup, options=LexborDocumentOptions.WO_EVENTS, scripting=True)
    if b"shadowrootmode" in markup:
        _open_shadows(tree)
    return tree


_MOST_SHADOWS = 1_000


def _open_shadows(tree: LexborHTMLParser) -> None:
    """Put the contents of declarative shadow roots in the place of their templates."""
    opened = 0
    while opened < _MOST_SHADOWS:
        templates = tree.css("template[shadowrootmode]")
        if not templates:
            return
        for template in templates:
            for fragment in template.template_fragments():
                for node in list(fragment.iter(include_text=True)):
                    template.insert_before(node, move=True)
            template.decompose(recursive=False)
        opened += len(templates)


def _end(node: LexborNode, top: _Open) -> int:
    """Id of the first picked element after the subtree of `node`, 0 if none. Climbs no further than `top`."""
    stop = top.node.mem_id
    while True:
        following = node.next
        while following is not None:
            if following.is_element_node:
                picked = following.css_first(_PICKED) if following.tag_id in _PASSED else following
                if picked is not None:
                    return picked.mem_id
            following = following.next
        parent = node.parent
        if parent is None:
            return 0
        if parent.mem_id == stop:
            return top.end
        node = parent


# White space beyond ASCII, as `str.split` knows it: three octets of UTF-8, or two and a wildcard.
_WIDE = np.array([0xC2_85_00, 0xC2_A0_00, 0xE1_9A_80, *range(0xE2_80_80, 0xE2_80_8B), 0xE2_80_A8, 0xE2_80_A9,
                  0xE2_80_AF, 0xE2_81_9F, 0xE3_80_80])  # fmt: skip


def _collapsed(text: str) -> list[str]:
    """`text`, cut at the marks, white space collapsed in each piece."""
    octets = np.frombuffer(b"".join((b" ", text.encode("utf-8", "replace"), b"  ")), np.uint8)
    if not text.isascii() and _has_wide_blanks(octets):
        return [" ".join(piece.split()) for piece in text.split("\0")]
    # Control characters count as white space, all but the mark: 0 - 1 is 255.
    blanks = octets - np.uint8(1) < 32
    kept = np.maximum(octets, blanks.view(np.uint8) << 5)[1:][~(blanks[1:] & blanks[:-1])]
    return [piece.strip(" ") for piece in kept.tobytes().decode().split("\0")]


def _has_wide_blanks(octets: NDArray[np.uint8]) -> bool:
    leads = np.flatnonzero((octets >= 0xC2) & (octets <= 0xE3))
    first, second, third = (octets[leads + i].astype(np.int64) for i in range(3))
    third[first < 0xE0] = 0
    return bool(np.isin(first << 16 | second << 8 | third, _WIDE).any())
