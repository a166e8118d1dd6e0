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

from crawl_platform.digest.blocks import Blocks
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
        self._pieces, self._words = _collapsed(root.text())

    def blocks(self, linked: list[int]) -> Blocks:
        """The blocks that have text. `linked`: the most words in links, by number of block."""
        return Blocks(self._marks, self._pieces, self._words, linked)

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
        if around is SILENT:
            return None
        attributes, tag = node.attributes, _REGIONAL.get(node.tag_id, "")
        if not attributes:
            region = BY_TAG[tag] if tag else None
        else:
            get = attributes.get
            style = "hidden" if "hidden" in attributes else get("style") or ""
            region = region_of(tag, get("role") or "", get("class") or "", get("id") or "", style)
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
_REGIONAL = {number: tag for tag in BY_TAG for number in _numbers(tag)}
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


# White space beyond ASCII, as `str.split` knows it, by its first two octets in UTF-8: 1 is white space by these two,
# a higher number is the row of `_THIRD` that says whether the third octet makes it one.
_SECOND = np.zeros(1 << 16, np.uint8)
_SECOND[[0xC285, 0xC2A0]] = 1
_SECOND[[0xE19A, 0xE280, 0xE281, 0xE380]] = (2, 3, 4, 5)
_THIRD = np.zeros((6, 256), np.bool_)
_THIRD[2, 0x80] = _THIRD[4, 0x9F] = _THIRD[5, 0x80] = True
_THIRD[3, [*range(0x80, 0x8B), 0xA8, 0xA9, 0xAF]] = True

_Octets = NDArray[np.uint8]


def _collapsed(text: str) -> tuple[list[str], NDArray[np.intp]]:
    """`text`, cut at the marks, white space collapsed in each piece; and the number of words of each piece."""
    octets = np.frombuffer(b"".join((b"\0", text.encode("utf-8", "replace"), b"\0\0")), np.uint8)
    if not text.isascii():
        octets = _with_plain_blanks(octets)
    # Control characters count as white space, all but the mark: 0 - 1 is 255. None is kept after another or a mark.
    dropped = (octets[1:-1] - np.uint8(1) < 32) & (octets[:-2] < 33)
    kept = octets[1:-1][~dropped] if dropped.any() else octets[1:-1].copy()
    kept[np.flatnonzero(kept - np.uint8(1) < 31)] = 32
    ends = np.flatnonzero(kept == 0)
    # A piece begins with no blank now, but may end in one.
    before = _counted(kept == 32, ends)
    words = before + (kept[ends - 1] != 32)
    words[1:] -= before[:-1]
    words[np.flatnonzero(kept[ends - 1] == 0)] = 0
    words[0] *= ends[0] > 0
    pieces = kept.tobytes().decode().split("\0")
    pieces.pop()
    return [piece.rstrip(" ") for piece in pieces], words


def _counted(flags: NDArray[np.bool_], places: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many of `flags` are set before each of `places`: 64 are counted at a time."""
    lanes = np.zeros(len(flags) // 64 + 1, np.uint64)
    packed = np.packbits(flags, bitorder="little")
    lanes.view(np.uint8)[: len(packed)] = packed
    ones = np.bitwise_count(lanes).astype(np.intp)
    lane = places >> 6
    rest = lanes[lane] & ((np.uint64(1) << (places & 63).astype(np.uint64)) - np.uint64(1))
    counted: NDArray[np.intp] = (np.cumsum(ones) - ones)[lane] + np.bitwise_count(rest)
    return counted


def _with_plain_blanks(octets: _Octets) -> _Octets:
    """UTF-8 `octets` with ASCII spaces for each octet of other white space. The last two must be ASCII."""
    leads = np.flatnonzero(octets - np.uint8(0xC2) <= 0xE3 - 0xC2)
    kinds = _SECOND[octets[leads].astype(np.uint16) << 8 | octets[leads + 1]]
    some = np.flatnonzero(kinds)
    leads, kinds = leads[some], kinds[some]
    wide = leads[_THIRD[kinds, octets[leads + 2]]]
    narrow = leads[kinds == 1]
    if not len(wide) + len(narrow):
        return octets
    plain = octets.copy()
    for at in (narrow, narrow + 1, wide, wide + 1, wide + 2):
        plain[at] = 32
    return plain
