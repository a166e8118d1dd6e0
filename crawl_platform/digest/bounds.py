"""Bounds on what a parser may be made to do: nesting, reopened formatting, attributes of one tag.

HTML tree construction walks the open elements at every tag, reopens every unclosed `b` or `font` in each
paragraph after it, and looks for each attribute among those before it. So 250 KB can cost seconds, or memory
without end: a thousand unclosed `<font color=…>` and sixty thousand `<p>` make sixty million elements. Browsers
stop nesting at 512; we cut the body before the tag that goes beyond a bound.

The bounds are estimated on the bytes, tag by tag; an end tag without a start closes nothing.
Names count as one when their first three letters agree, for formatting elements when they are equal.
"""

import re

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.memory import whole
from crawl_platform.digest.octets import Octets
from crawl_platform.machine_code import compiled

MAX_DEPTH = 512
MAX_ATTRIBUTES = 2_000
"""Looking for two thousand among themselves takes about 2 ms."""
TAGS_UNWATCHED = 300
"""So few can't do harm: 150 unclosed in 150 paragraphs are 22,500 elements."""

STARTS_SQUARED_PER_OCTET = 180
"""Nesting all of n start tags takes 2 ns · n² at worst; up to here that is under 40 ms per 100 KB."""

_LONGEST_NAME = 12

Tags = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Void elements, and those that the next of their kind closes.
_FLAT = (
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody"
)
# HTML, "formatting" elements; a second `a` closes the first.
_FORMATTING = "b big code em font i nobr s small strike strong tt u"


def _reopened(octets: int) -> int:
    """How many elements may be reopened in a page of that size. Each takes about 100 bytes and 100 ns."""
    return 50_000 + octets


def _letters() -> NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
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
# The names, eight octets each, with zeros behind.
_NAMES = np.array([int.from_bytes(name.encode(), "little") for name in _FORMATTING.split()], np.int64)
_MAY_FORMAT = np.zeros(256, np.bool_)
_MAY_FORMAT[[ord(letter) for name in _FORMATTING.split() for letter in (name[0], name[0].upper())]] = True


def bounded(body: bytes) -> bytes:
    """`body`, cut before the tag that goes beyond a bound."""
    octets = np.frombuffer(body, np.uint8)
    size = len(body)
    at = np.flatnonzero(octets == ord("<"))
    # A name and what ends it have to fit behind.
    at = at[: np.searchsorted(at, size - _LONGEST_NAME)]
    end = _too_many_attributes(body, at)
    if len(at) > TAGS_UNWATCHED:
        starts = _starts(octets, at)
        end = min(end, _too_much_formatting(octets, at, starts, _reopened(size), _MAY_FORMAT, _NAMES))
        if starts**2 > STARTS_SQUARED_PER_OCTET * size:
            end = min(end, _too_deep(octets, at, _LETTER, _IS_FLAT))
    return body[:end] if end < size else body


@compiled
def _starts(octets: Octets, at: Tags) -> int:
    """How many of the tags are no end tags."""
    count = 0
    for place in at:
        count += octets[place + 1] != 47
    return count


@compiled
def _too_deep(octets: Octets, at: Tags, letter: Octets, is_flat: Flags) -> int:
    """Where the body has to be cut for its nesting; its length if nowhere."""
    opened = np.zeros(1 << 15, np.int32)
    depth = 0
    for place in at:
        closes = octets[place + 1] == 47
        first = place + 1 + closes
        a, b = whole(letter[octets[first]]), whole(letter[octets[first + 1]])
        code = a << 10 | b << 5 | (whole(letter[octets[first + 2]]) if b else 0)
        if a == 0 or is_flat[code]:
            continue
        if not closes:
            opened[code] += 1
            depth += 1
        elif opened[code]:
            opened[code] -= 1
            depth -= 1
        if depth > MAX_DEPTH:
            return whole(place)
    return len(octets)


@compiled
def _formatting(octets: Octets, first: int, names: Tags) -> int:
    """Number of the formatting element whose name begins at `first`, -1 for any other name."""
    name = 0
    for i in range(8):
        value = whole(octets[first + i])
        if value <= 32 or value == 47 or value == 62:
            break
        name |= (value + 32 if 65 <= value <= 90 else value) << (8 * i)
    for number in range(len(names)):
        if names[number] == name:
            return number
    return -1


@compiled
def _too_much_formatting(
    octets: Octets, at: Tags, starts: int, bound: int, may_format: Flags, names: Tags
) -> int:
    """Where the body has to be cut for the formatting that it leaves open; its length if nowhere.

    What is reopened was closed with a block, and each block has a start tag. Most are closed by the next formatting
    tag: no more than one of them is open at any time.
    """
    lasting, last, last_closes = 0, -2, True
    for place in at:
        closes = octets[place + 1] == 47
        if may_format[octets[place + 1 + closes]]:
            number = _formatting(octets, place + 1 + closes, names)
            if number >= 0:
                lasting += 0 if closes else 1
                lasting -= closes and not last_closes and number == last
                last, last_closes = number, closes
    if (lasting + 1) * starts <= bound:
        return len(octets)
    opened = np.zeros(len(names), np.int64)
    unclosed, reopened = 0, 0
    for place in at:
        closes = octets[place + 1] == 47
        if may_format[octets[place + 1 + closes]]:
            number = _formatting(octets, place + 1 + closes, names)
            if number >= 0 and not closes:
                opened[number] += 1
                unclosed += 1
            elif number >= 0 and opened[number]:
                opened[number] -= 1
                unclosed -= 1
        reopened += unclosed
        if reopened >= bound:
            return whole(place)
    return len(octets)


# A tag as the tokenizer reads it, not beyond what a tag of that many attributes needs.
_tag = re.compile(rb"""<[a-zA-Z](?:[^>"']++|"[^"]*+"?|'[^']*+'?)*+""").match
_attributes = re.compile(rb"""[^\s/>="']++(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]++))?""").findall


def _too_many_attributes(body: bytes, at: Tags) -> int:
    """Where the first tag with more than `MAX_ATTRIBUTES` begins; the body's length if none does."""
    # Their names differ, so that they need more than twice as many bytes.
    gaps = np.diff(at, append=len(body))
    for start in at[gaps > 2 * MAX_ATTRIBUTES].tolist():
        tag = _tag(body, start)
        if tag is not None and len(tag[0]) > 2 * MAX_ATTRIBUTES and len(_attributes(tag[0])) > MAX_ATTRIBUTES:
            return int(start)
    return len(body)
