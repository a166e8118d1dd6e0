"""Bounds on what a parser may be made to do: nesting, reopened formatting, attributes of one tag.

HTML tree construction walks the open elements at every tag, reopens every unclosed `b` or `font` in each
paragraph after it, and looks for each attribute among those before it. So 250 KB can cost seconds, or memory
without end: a thousand unclosed `<font color=…>` and sixty thousand `<p>` make sixty million elements. Browsers
stop nesting at 512; we cut the body before the tag that goes beyond a bound.

The bounds are estimated on the bytes, all tags at once. For each name the elements open after a tag are
S - min(S, 0) with S the number of start tags less that of end tags: an end tag without a start closes nothing.
Names count as one when their first three letters agree, for formatting elements when they are equal.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 512
MAX_ATTRIBUTES = 2_000
"""Looking for two thousand among themselves takes about 2 ms."""
TAGS_UNWATCHED = 300
"""So few can't do harm: 150 unclosed in 150 paragraphs are 22,500 elements."""

STARTS_SQUARED_PER_OCTET = 180
"""Nesting all of n start tags takes 2 ns · n² at worst; up to here that is under 40 ms per 100 KB."""

_LONGEST_NAME = 12

_Octets = NDArray[np.uint8]
_Tags = NDArray[np.intp]

# Void elements, and those that the next of their kind closes.
_FLAT = (
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody"
)
# HTML, "formatting" elements; a second `a` closes the first.
_FORMATTING = "b big code em font i nobr s small strike strong tt u"


def _reopened(octets: int) -> int:
    """How many elements may be reopened in a page of that size. Each takes about 100 bytes and 100 ns."""
    return 50_000 + octets


def _letters() -> NDArray[np.uint16]:
    table = np.zeros(256, np.uint16)
    for number in range(26):
        table[[ord("a") + number, ord("A") + number]] = number + 1
    return table


_LETTER = _letters()


def _code(name: str) -> int:
    """First three letters in 15 bits; a character that is no letter ends the name."""
    a, b, c = (int(_LETTER[ord(char)]) for char in name.ljust(3, "\0")[:3])
    return a << 10 | b << 5 | (c if b else 0)


_IS_FLAT = np.zeros(1 << 15, np.bool_)
_IS_FLAT[[_code(name) for name in _FLAT.split()]] = True
# By the low five bits of the first two octets, because most tags are none of them.
_MAY_FORMAT = np.zeros(1 << 10, np.bool_)
_MAY_FORMAT[
    [
        (ord(name[0]) & 31) << 5 | ord(second) & 31
        for name in _FORMATTING.split()
        for second in (name[1:2] or "\t\n\f\r />")
    ]
] = True
_PACKED = np.sort(
    np.array(
        [int.from_bytes(name.encode().ljust(8, b"\0"), "little") for name in _FORMATTING.split()], np.uint64
    )
)
_FOLDED = np.arange(256, dtype=np.uint8)
_FOLDED[ord("A") : ord("Z") + 1] += 32
_FOLDED[list(b" \t\n\f\r/>")] = 0


def bounded(body: bytes) -> bytes:
    """`body`, cut before the tag that goes beyond a bound."""
    octets = np.frombuffer(body, np.uint8)
    size = len(body)
    at = np.flatnonzero(octets == ord("<"))
    # A name and what ends it have to fit behind.
    at = at[: np.searchsorted(at, size - _LONGEST_NAME)]
    end = _too_many_attributes(body, at)
    if len(at) > TAGS_UNWATCHED:
        closes = octets[at + 1] == ord("/")
        first = at + 1 + closes
        end = min(end, _too_much_formatting(octets, at, first, closes, size))
        starts = len(at) - int(np.count_nonzero(closes))
        if starts**2 > STARTS_SQUARED_PER_OCTET * size:
            end = min(end, _too_deep(octets, at, first, closes, size))
    return body[:end] if end < size else body


def _too_deep(octets: _Octets, at: _Tags, first: _Tags, closes: NDArray[np.bool_], size: int) -> int:
    """Where the body has to be cut for its nesting; `size` if nowhere."""
    a, b, c = _LETTER[octets[first]], _LETTER[octets[first + 1]], _LETTER[octets[first + 2]]
    codes = a << 10 | b << 5 | np.where(b > 0, c, 0)
    nests = np.flatnonzero((a > 0) & ~_IS_FLAT[codes])
    deep = np.flatnonzero(np.cumsum(_opened(codes[nests], closes[nests])) > MAX_DEPTH)
    return int(at[nests[deep[0]]]) if len(deep) else size


def _too_much_formatting(
    octets: _Octets, at: _Tags, first: _Tags, closes: NDArray[np.bool_], size: int
) -> int:
    """Where the body has to be cut for the formatting that it leaves open; `size` if nowhere."""
    two = (octets[first] & 31).astype(np.uint16) << 5 | octets[first + 1] & 31
    formats = np.flatnonzero(_MAY_FORMAT[two])
    ends = closes[formats]
    bound, starts = _reopened(size), len(at) - int(np.count_nonzero(closes))
    # What is reopened was closed with a block, and each block has a start tag.
    if (len(formats) - int(np.count_nonzero(ends))) * starts <= bound:
        return size
    numbers = _formatting(octets, first[formats])
    known = np.flatnonzero(numbers < len(_PACKED))
    formats, numbers, ends = formats[known], numbers[known], ends[known]
    # Most are closed by the next formatting tag: no more than one of them is open at any time.
    at_once = ends[1:] & ~ends[:-1] & (numbers[1:] == numbers[:-1])
    lasting = len(ends) - int(np.count_nonzero(ends)) - int(np.count_nonzero(at_once))
    if (lasting + 1) * starts <= bound:
        return size
    unclosed = np.zeros(len(at), np.int64)
    unclosed[formats] = _opened(numbers, ends)
    over = int(np.searchsorted(np.cumsum(np.cumsum(unclosed)), bound))
    return int(at[over]) if over < len(at) else size


_ONES = np.uint64(0x0101_0101_0101_0101)
_HIGHS = np.uint64(0x8080_8080_8080_8080)
_ONE = np.uint64(1)


def _formatting(octets: _Octets, first: _Tags) -> NDArray[np.intp]:
    """Number of the formatting element whose name begins at `first`; the last number for any other name."""
    names = _FOLDED[octets[first[:, None] + np.arange(8)]].view(np.uint64)[:, 0]
    # What follows the first zero octet is no part of the name; its high bit is the lowest of these.
    zeros = (names - _ONES) & ~names & _HIGHS
    names &= (zeros & (~zeros + _ONE)) - _ONE
    found = np.minimum(np.searchsorted(_PACKED, names), len(_PACKED) - 1)
    return np.where(_PACKED[found] == names, found, len(_PACKED))


def _opened(codes: NDArray[np.integer[Any]], closes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """By how much each tag changes the number of open elements of its name: 1, -1 or 0."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    steps = np.where(closes[order], -1, 1)
    new = np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1]))[: len(codes)]
    # Each name's sums begin far below those of the name before, so that one running minimum serves all.
    number = np.cumsum(new) - 1
    sums = np.cumsum(steps)
    starts = np.flatnonzero(new)
    base = -number * (2 * len(codes) + 2)
    sums = sums - (sums - steps)[starts][number] + base
    opened = sums - np.minimum(np.minimum.accumulate(sums), base)
    changes = np.empty(len(codes), np.int64)
    changes[order] = opened - np.where(new, 0, np.concatenate(([0], opened))[: len(codes)])
    return changes


# A tag as the tokenizer reads it, not beyond what a tag of that many attributes needs.
_tag = re.compile(rb"""<[a-zA-Z](?:[^>"']++|"[^"]*+"?|'[^']*+'?)*+""").match
_attributes = re.compile(rb"""[^\s/>="']++(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]++))?""").findall


def _too_many_attributes(body: bytes, at: _Tags) -> int:
    """Where the first tag with more than `MAX_ATTRIBUTES` begins; the body's length if none does."""
    # Their names differ, so that they need more than twice as many bytes.
    gaps = np.diff(at, append=len(body))
    for start in at[gaps > 2 * MAX_ATTRIBUTES].tolist():
        tag = _tag(body, start)
        if tag is not None and len(tag[0]) > 2 * MAX_ATTRIBUTES and len(_attributes(tag[0])) > MAX_ATTRIBUTES:
            return int(start)
    return len(body)
