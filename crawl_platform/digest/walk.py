"""One pass over a parsed page: which text stands in which region, and the elements that say something.

Theory of operation. Both passes go from node to node in document order, as machine code (see `compiled`). The first,
`containers`, collects role, class, id and style of the elements that may open a region; what they open is decided in
Python, where it is remembered from page to page (`regions.region_of`). The second, `read`, writes the text, white space
collapsed, block after block, and notes the links and facts on its way.

Texts of the page are octets, `\\0` between blocks. What holds no text of the page (scripts, drawings, form controls) is
passed over; links in it are links all the same. Template contents are no children of their element, and so not seen,
unless the template declares a shadow root.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from selectolax.lexbor import LexborNode

from crawl_platform.digest import tree
from crawl_platform.digest.memory import eight, half, octet, whole, word
from crawl_platform.digest.octets import BLANK, OTHERS, OUT, WORDS, Octets, append
from crawl_platform.digest.regions import BY_TAG, FOOTER, HEADER, MAIN, NOISE, SILENT, number_of, region_of
from crawl_platform.digest.tree import (
    ALT,
    CHILD,
    CONTENT,
    DATA,
    ELEMENT,
    HREF,
    HTTP,
    KIND,
    LANGUAGE,
    LENGTH,
    META_NAME,
    NAME,
    NEXT,
    PARENT,
    REL,
    SRC,
    SRCSET,
    TEXT,
    TYPE,
    XLINK,
    Numbers,
    read_attributes,
)  # fmt: skip
from crawl_platform.machine_code import compiled

# What an element is to the pass.
_INLINE, _BLOCK, _HEADING, _REGIONAL, _SILENCE, _LEAF, _ANCHOR = range(1, 8)
FRAME, IMAGE, SOURCE, TITLE, NOSCRIPT, META, LINK, BASE, SCRIPT = range(8, 17)
_BY_NAME = {
    "span b i em code strong br path": _INLINE,
    "p li dt dd th tr pre blockquote figure figcaption caption address hr body fieldset summary": _BLOCK,
    "h1 h2 h3 h4 h5 h6": _HEADING,
    "div section ul ol dl table td form details dialog nav header footer aside main article": _REGIONAL,
    "svg select button datalist object canvas math": _SILENCE,
    "style textarea noframes noembed": _LEAF,
    "a area": _ANCHOR,
    "frame iframe": FRAME,
    "img": IMAGE,
    "source": SOURCE,
    "title": TITLE,
    "noscript": NOSCRIPT,
    "meta": META,
    "link": LINK,
    "base": BASE,
    "script": SCRIPT,
}
_CASE = np.uint64(0x2020_2020_2020_2020)
_LINKED = (np.uint64(int.from_bytes(b"applicat", "little")), np.uint64(int.from_bytes(b"ion/ld+j", "little")))
_MOST_TAGS = 512
"""Lexbor's own numbers of tags are below; others are addresses."""
FIELDS = {FRAME: 1, IMAGE: 2, SOURCE: 2, TITLE: 1, NOSCRIPT: 1, META: 3, LINK: 4, BASE: 1, SCRIPT: 1}
"""Strings of a fact."""


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """By Lexbor's number of a tag: what it is to the pass; the region that it opens by itself (-1: none)."""
    roles, regions = np.zeros(_MOST_TAGS, np.uint8), np.full(_MOST_TAGS, -1, np.int8)
    for tags, role in _BY_NAME.items():
        roles[tree.tag_numbers(tags)] = role
    for tag, region in BY_TAG.items():
        regions[tree.tag_numbers(tag)] = number_of(region)
    return roles, regions


tree.check()
ROLES, OPENS = _tables()
ATTRIBUTES = tree.attribute_names()
_MAIN, _NOISE, _SILENT = number_of(MAIN), number_of(NOISE), number_of(SILENT)
_HEADER, _FOOTER = number_of(HEADER), number_of(FOOTER)
_ROLE, _CLASS, _ID, _STYLE, _HIDDEN = (
    tree.NAMES.index(name) for name in ["role", "class", "id", "style", "hidden"]
)

START, END, WORD_COUNT, CHARACTERS, REGION, IS_HEADING = range(6)
"""Columns of a block."""
ANCHOR_REGION, ANCHOR_BLOCK, ANCHOR_WORDS, _FROM, _TO, _HREF, _REL, _ALT, _NODE = range(9)
"""Columns of a link: words of its text, and where that and its attributes are."""
FACT, FACT_REGION, FACT_BEFORE = range(3)
"""Columns of a fact: what it is, where it stands, the number of links before it."""
MAX_ANCHOR = 200
"""Characters of a link's text that are kept."""
MAX_IMAGES = 1_000
_DEEPEST = 1_024


@compiled
def _role(node: int, roles: NDArray[np.uint8]) -> int:
    name = word(node + NAME)
    return whole(roles[name]) if 0 <= name < _MOST_TAGS else 0


@compiled
def _field(value: int, out: Octets, n: int) -> int:
    """Write an attribute's value and an end mark. Returns where it ends, -1 if there is no room."""
    length = word(value + 8) if value > 1 else 0
    return _octets(word(value), length, out, n) if length else _octets(0, 0, out, n)


@compiled
def _octets(at: int, length: int, out: Octets, n: int) -> int:
    if n < 0 or n + length + 2 > out.size:
        return -1
    for i in range(length):
        value = octet(at + i)
        out[n + i] = value if value else 32
    out[n + length] = 0
    return n + length + 1


@compiled
def containers(
    root: int, most: int, roles: NDArray[np.uint8], opens: NDArray[np.int8], names: Numbers,
    regions: NDArray[np.int8], keyed: NDArray[np.uint8], out: Octets, sizes: Numbers,
) -> None:  # fmt: skip
    """Elements that may open a region, in document order: `regions` receives what they open by their tag, `keyed`
    whether attributes may say otherwise, `out` these (role, class, id, style or "hidden"). `sizes`: how many, octets of
    `out`.
    """
    values = np.zeros(16, np.int64)
    count, n, seen = 0, 0, 0
    silence = 0
    at = root
    while True:
        child = 0
        if half(at + TYPE) == ELEMENT:
            role = _role(at, roles)
            seen += role != _INLINE
            if seen > most or count >= regions.size:
                break
            if role != _LEAF:
                child = word(at + CHILD)
            if role == _SILENCE and not silence:
                silence = at
            elif role == _REGIONAL and not silence:
                regions[count] = opens[word(at + NAME)]
                keyed[count] = 0
                if word(at + tree.ATTRIBUTES) != 0:
                    read_attributes(at, names, values)
                    if values[_ROLE] | values[_CLASS] | values[_ID] | values[_STYLE] | values[_HIDDEN]:
                        after = _field(values[_ROLE], out, n)
                        after = _field(values[_CLASS], out, after)
                        after = _field(values[_ID], out, after)
                        if values[_HIDDEN]:
                            if 0 <= after < out.size - 2:
                                out[after], out[after + 1] = 1, 0
                                after += 2
                            else:
                                after = -1
                        else:
                            after = _field(values[_STYLE], out, after)
                        if after >= 0:
                            keyed[count] = 1
                            n = after
                count += 1
        if child:
            at = child
            continue
        while at != root and word(at + NEXT) == 0:
            if at == silence:
                silence = 0
            at = word(at + PARENT)
        if at == root:
            break
        if at == silence:
            silence = 0
        at = word(at + NEXT)
    sizes[0], sizes[1] = count, n


@compiled
def _end_block(text: Octets, state: Numbers, blocks: Numbers, count: int, region: int, heading: int) -> int:
    """Begin a block. One without text makes way for it. Returns the number of the new one."""
    if state[WORDS] > 0 and count + 1 < len(blocks):
        n = state[OUT] - state[BLANK]
        blocks[count, END] = n
        blocks[count, WORD_COUNT] = state[WORDS]
        blocks[count, CHARACTERS] = n - blocks[count, START] - state[OTHERS]
        text[n] = 0
        state[OUT] = n + 1
        count += 1
    state[WORDS], state[OTHERS], state[BLANK] = 0, 0, 1
    blocks[count, START] = state[OUT]
    blocks[count, REGION] = region
    blocks[count, IS_HEADING] = heading
    return count


@compiled
def _text_within(root: int, roles: NDArray[np.uint8], out: Octets, state: Numbers) -> None:
    """Append the text of a subtree, that of scripts and the like left out."""
    at = root
    while True:
        child = 0
        kind = half(at + TYPE)
        if kind == TEXT:
            append(word(at + DATA), word(at + LENGTH), out, state)
        elif kind == ELEMENT:
            role = _role(at, roles)
            if at == root or role not in (_LEAF, FRAME, TITLE, NOSCRIPT, SCRIPT):
                child = word(at + CHILD)
        if child:
            at = child
            continue
        while at != root and word(at + NEXT) == 0:
            at = word(at + PARENT)
        if at == root:
            return
        at = word(at + NEXT)


@compiled
def _is_linked_data(value: int) -> bool:
    """Whether a script's type is application/ld+json: by its first 16 octets."""
    if value <= 1 or word(value + 8) < 19:
        return False
    at = word(value)
    return bool((eight(at) | _CASE) == _LINKED[0] and (eight(at + 8) | _CASE) == _LINKED[1])


@compiled
def _fact(
    at: int, role: int, names: Numbers, values: Numbers, roles: NDArray[np.uint8], out: Octets, n: int
) -> int:
    """Write the strings of a fact. Returns where they end, -1 if there is no room, `n` if it says nothing."""
    if role == SCRIPT:
        read_attributes(at, names, values)
        if not _is_linked_data(values[KIND]):
            return n
    if role in (TITLE, NOSCRIPT, SCRIPT):
        state = np.zeros(4, np.int64)
        state[OUT], state[BLANK] = n, 1
        if role == TITLE:
            _text_within(at, roles, out, state)
        child = word(at + CHILD)
        while child != 0 and role != TITLE:
            # It is raw text: its white space may stand in attributes.
            if half(child + TYPE) == TEXT:
                end = _octets(word(child + DATA), word(child + LENGTH), out, state[OUT])
                if end < 0:
                    return -1
                state[OUT] = end - 1
            child = word(child + NEXT)
        return _octets(0, 0, out, state[OUT])
    read_attributes(at, names, values)
    if role in (IMAGE, SOURCE):
        if values[SRC] + values[SRCSET] <= 2:
            return n
        n = _field(values[SRC] if role == IMAGE else 0, out, n)
        return _field(values[SRCSET], out, n)
    if role == META:
        return _field(values[HTTP], out, _field(values[CONTENT], out, _field(values[META_NAME], out, n)))
    if role == LINK:
        n = _field(values[KIND], out, _field(values[HREF], out, _field(values[REL], out, n)))
        return _field(values[LANGUAGE], out, n)
    if role == BASE and values[HREF] == 0:
        return n
    return _field(values[SRC] if role == FRAME else values[HREF], out, n)


@compiled
def _write_links(
    anchors: Numbers, count: int, budget: int, text: Octets, roles: NDArray[np.uint8], scratch: Octets, out: Octets,
    n: int, sizes: Numbers,
) -> None:  # fmt: skip
    """Write the strings of links: reference, rel, alternative text, text. `budget`: octets that all texts may have."""
    state = np.zeros(4, np.int64)
    written = 0
    for i in range(count):
        after = _field(
            anchors[i, _ALT], out, _field(anchors[i, _REL], out, _field(anchors[i, _HREF], out, n))
        )
        if after < 0:
            break
        state[OUT], state[WORDS], state[OTHERS], state[BLANK] = 0, 0, 0, 1
        if budget > 0:
            if anchors[i, ANCHOR_REGION] == _SILENT:
                _text_within(anchors[i, _NODE], roles, scratch, state)
            else:
                start = anchors[i, _FROM]
                append(text.ctypes.data + start, anchors[i, _TO] - start, scratch, state)
        length = state[OUT] - (state[BLANK] if state[OUT] else 0)
        budget -= length
        characters = length - state[OTHERS]
        words = state[WORDS]
        if state[OTHERS] and characters > 16 * words:
            words = characters // 2
        anchors[i, ANCHOR_WORDS] = words
        kept = length
        if characters > MAX_ANCHOR:
            kept, left = 0, MAX_ANCHOR
            while left > 0 or scratch[kept] & 0xC0 == 0x80:
                left -= scratch[kept] & 0xC0 != 0x80
                kept += 1
        after = _octets(scratch.ctypes.data, kept, out, after)
        if after < 0:
            break
        n = after
        written += 1
    sizes[1], sizes[3] = written, n


@compiled
def read(
    root: int, most: int, roles: NDArray[np.uint8], names: Numbers, regions: NDArray[np.int8], text: Octets,
    scratch: Octets, out: Octets, blocks: Numbers, anchors: Numbers, facts: Numbers, budget: int, sizes: Numbers,
) -> None:  # fmt: skip
    """The blocks of text, links and facts of a page, in document order.

    `regions`: what `containers` found, decided. `out` receives the strings, those of facts first, each with an end
    mark.
    `sizes`: blocks, links, facts, octets of `out`. `budget`: octets of text that links may have together.
    """
    values, state = np.zeros(16, np.int64), np.zeros(4, np.int64)
    state[BLANK] = 1
    region_stack = np.zeros((_DEEPEST, 2), np.int64)
    anchor_stack = np.zeros((_DEEPEST, 2), np.int64)
    open_regions, open_anchors = 0, 0
    block, links, found, n = 0, 0, 0, 0
    seen, container, images, titles = 0, 0, 0, 0
    silence, region = 0, 0
    blocks[0, START], blocks[0, REGION], blocks[0, IS_HEADING] = 0, 0, 0
    at = root
    while True:
        child = 0
        kind = half(at + TYPE)
        if kind == TEXT:
            if not silence:
                append(word(at + DATA), word(at + LENGTH), text, state)
        elif kind == ELEMENT:
            role = _role(at, roles)
            seen += role != _INLINE
            if seen > most:
                break
            child = word(at + CHILD)
            if role <= _INLINE:
                pass
            elif role == _ANCHOR:
                read_attributes(at, names, values)
                href = values[HREF] if values[HREF] else values[XLINK]
                if href and links < len(anchors) and open_anchors < _DEEPEST:
                    anchor_stack[open_anchors, 0], anchor_stack[open_anchors, 1] = at, links
                    open_anchors += 1
                    anchors[links, ANCHOR_REGION] = _SILENT if silence else region
                    anchors[links, ANCHOR_BLOCK] = block
                    anchors[links, _FROM] = anchors[links, _TO] = state[OUT]
                    anchors[links, _HREF] = href
                    anchors[links, _REL] = values[REL]
                    anchors[links, _ALT] = values[ALT] if values[ALT] > 1 else 0
                    anchors[links, _NODE] = at
                    links += 1
            elif role <= _HEADING:
                if not silence:
                    block = _end_block(text, state, blocks, block, region, whole(role == _HEADING))
            elif role == _REGIONAL:
                if not silence and container < len(regions):
                    opened = whole(regions[container])
                    container += 1
                    if opened >= 0 and opened != region and open_regions < _DEEPEST:
                        inner = (region == _NOISE and opened != _MAIN) or (
                            region == _MAIN and opened in (_HEADER, _FOOTER)
                        )
                        if not inner:
                            region_stack[open_regions, 0], region_stack[open_regions, 1] = at, region
                            open_regions += 1
                            region = opened
                    block = _end_block(text, state, blocks, block, region, 0)
            elif role == _SILENCE:
                if not silence:
                    silence = at
            elif role == _LEAF:
                child = 0
            else:
                if role in (FRAME, TITLE, NOSCRIPT, SCRIPT):
                    child = 0
                if role == IMAGE and open_anchors:
                    read_attributes(at, names, values)
                    for i in range(open_anchors):
                        link = anchor_stack[i, 1]
                        hidden = silence and anchors[link, ANCHOR_REGION] != _SILENT
                        if values[ALT] > 1 and anchors[link, _ALT] == 0 and not hidden:
                            anchors[link, _ALT] = values[ALT]
                pictures = role in (IMAGE, SOURCE)
                images += pictures
                wanted = not pictures or images <= MAX_IMAGES
                if role == TITLE:
                    wanted = not titles and not silence
                if wanted and found < len(facts):
                    after = _fact(at, role, names, values, roles, out, n)
                    if after > n:
                        n = after
                        titles += role == TITLE
                        facts[found, FACT] = role
                        facts[found, FACT_REGION] = _SILENT if silence else region
                        facts[found, FACT_BEFORE] = links
                        found += 1
        if child:
            at = child
            continue
        while True:
            # Nothing is left in `at`.
            if at == silence:
                silence = 0
            if open_anchors and anchor_stack[open_anchors - 1, 0] == at:
                open_anchors -= 1
                anchors[anchor_stack[open_anchors, 1], _TO] = state[OUT]
            if open_regions and region_stack[open_regions - 1, 0] == at:
                open_regions -= 1
                region = region_stack[open_regions, 1]
                block = _end_block(text, state, blocks, block, region, 0)
            if at == root or word(at + NEXT) != 0:
                break
            at = word(at + PARENT)
        if at == root:
            break
        at = word(at + NEXT)
    for i in range(open_anchors):
        anchors[anchor_stack[i, 1], _TO] = state[OUT]
    block = _end_block(text, state, blocks, block, 0, 0)
    sizes[0], sizes[2] = block, found
    _write_links(anchors, links, budget, text, roles, scratch, out, n, sizes)


class Walk:
    """What the passes over a page have found, in document order.

    `text`: octets of the blocks; `blocks`, `links`, `facts`: rows with the columns above. `fields`: the strings of the
    facts, then four for each link (reference, rel, alternative text, text).
    """

    def __init__(self, root: LexborNode, most: int, size: int, budget: int) -> None:
        """`most`: how many elements are looked at. `size`: octets of the markup. `budget`: octets of text that all
        links may have together."""
        at = root.mem_id
        out = np.empty(3 * size + _LEAST, np.uint8)
        regions = _decided(at, most, out)
        self.text = np.empty(2 * size + _LEAST, np.uint8)
        scratch = np.empty_like(self.text)
        blocks = np.empty((2 * most + 2, 6), np.int64)
        links = np.empty((most, 9), np.int64)
        facts = np.empty((min(most, _MOST_FACTS), 3), np.int64)
        sizes = np.zeros(4, np.int64)
        read(
            at, most, ROLES, ATTRIBUTES, regions, self.text, scratch, out, blocks, links, facts, budget, sizes
        )
        n_blocks, n_links, n_facts, octets = sizes.tolist()
        self.blocks, self.links, self.facts = blocks[:n_blocks], links[:n_links], facts[:n_facts]
        self.fields = out[:octets].tobytes().decode("utf-8", "replace").split("\0")


_LEAST = 4_096
_MOST_FACTS = 5_000


def _decided(root: int, most: int, out: Octets) -> NDArray[np.int8]:
    """The regions that elements open, by their number in `regions.REGIONS`; -1 for none."""
    regions, keyed = np.empty(most, np.int8), np.empty(most, np.uint8)
    sizes = np.zeros(2, np.int64)
    containers(root, most, ROLES, OPENS, ATTRIBUTES, regions, keyed, out, sizes)
    count, octets = sizes.tolist()
    places = np.flatnonzero(keyed[:count])
    if len(places):
        said = out[:octets].tobytes().decode("utf-8", "replace").split("\0")
        tags = map(_TAGS.__getitem__, regions[places].tolist())
        opened = map(_opened, tags, said[::4], said[1::4], said[2::4], said[3::4])
        regions[places] = np.fromiter(opened, np.int8, len(places))
    return regions[:count]


_TAGS = {-1: ""} | {number_of(region): tag for tag, region in BY_TAG.items()}


@lru_cache(maxsize=8_192)
def _opened(tag: str, role: str, classes: str, identifier: str, style: str) -> int:
    region = region_of(tag, role, classes, identifier, "hidden" if style == "\1" else style)
    return -1 if region is None else number_of(region)
