"""What counts as a change: MD5 over the visible text that is left when noise is taken out.

Markup itself never counts: scripts, styles, comments, attributes, tag names, white space, case. Of the text,
regions that say they are advertising, navigation, page furniture or hidden don't count, unless little else is
left. In what remains these are masked: dates, times and ages; version numbers; nonces (long hexadecimal or mixed
tokens); counters; copyright years. Everything else counts, plain numbers and prices included.

All noise has digits, so the work is per number, not per character: numbers are found all at once, each is matched
together with what follows it, and only if that is ambiguous are the few characters before it looked at.
See docs/decisions/0003-fingerprint.md for what it was measured on.
"""

import hashlib
import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.blocks import Blocks

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
# White space is collapsed before, so a blank is one space; all repetitions are bounded, so no text is slow.
_CLOCK_REST = (
    r"[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?: ?[ap](?:m\b|\.m\.))?"
    r"(?: ?(?:utc|gmt|[ce]e?s?t|p[sd]t|z)\b)?(?: ?[+-][0-9]{2}:?[0-9]{2}\b)?"
)
_CLOCK = rf"[0-9]{{1,2}}:{_CLOCK_REST}"
_AGE = r"(?:sec(?:ond)?|min(?:ute)?|h(?:ou)?r|day|week|month|year)s? ago\b"
_COUNTED = (
    r"(?:views?|likes?|shares?|comments?|votes?|followers?|downloads?|reads?|online|visitors?|replies)\b"
)
_DOCUMENT = r"(?:documentation|docs|manual|reference)\b"

# Noise by itself, whatever stands before: what may follow the first digits of a date, clock, age, count, version.
# All of it is group 1 of `_number`.
_ALWAYS = (
    rf"-[0-9]{{1,2}}-[0-9]{{1,2}}(?:[t ]{_CLOCK})?(?![0-9-])",
    r"([/.])[0-9]{1,2}\2[0-9]{2,4}\b(?![.0-9])",
    rf":{_CLOCK_REST}",
    rf"\.[0-9]{{1,9}}(?:(?:\.[0-9]{{1,9}}){{1,6}}(?:[-+][0-9a-z.]{{1,20}}){{0,3}}"
    rf"|(?:\.[0-9]{{1,9}}){{0,3}}(?= {_DOCUMENT}))",
    rf"(?:st|nd|rd|th|\.)? {_MONTH}(?:,? [0-9]{{4}}\b|(?![a-z]))",
    rf" {_AGE}",
    rf"(?:[.,][0-9]{{1,3}}){{0,4}}[km]? {_COUNTED}",
)
# Noise only after a word that says what it is.
_LED = (
    r"[0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{4}\b"
    r"|[0-9]{1,9}(?:\.[0-9]{1,9}){0,6}(?:[-–][0-9]{1,9})?(?:[a-z]{1,9}[0-9]{0,9})?"
)
_names = re.compile(r"\w+").findall
_MONTHS = frozenset(
    _names(
        "jan january feb february mar march apr april may jun june jul july aug august sep sept september"
        " oct october nov november dec december"
    )
)
_WEEKDAYS = frozenset(
    _names("mon monday tue tues tuesday wed wednesday thu thurs thursday fri friday sat saturday sun sunday")
)
_LEADS = _MONTHS | {"version", "ver", "release", "rev", "revision", "build", "v", "©", "(c)", "copyright"}
# A digit inside a word, a decimal or a price starts nothing, but "v1.2" does.
_number = re.compile(
    rf"[0-9](?:(?<![\w.,$€£¥].)|(?<=\bv.))(?:([0-9]{{0,8}}(?![0-9])(?:{'|'.join(_ALWAYS)}))|)"
).match
_led = re.compile(_LED).match
_own_version = re.compile(rf"[0-9](?<![\w.].)[0-9]{{0,5}}(?:\.[0-9]{{1,6}}){{1,4}}(?= {_DOCUMENT})").search
# Hexadecimal from 12 characters on, anything mixed from 32 on; ASCII, lest a sentence without spaces be one.
_nonce = re.compile(
    r"\b(?:(?=[a-z]{0,99}[0-9])(?=[0-9]{0,99}[a-z])[0-9a-f]{12,}|(?=[a-z_-]{0,99}[0-9])[\w-]{32,})\b",
    re.ASCII,
).sub
_NONCE_LEAST = 12
_LEAD_LENGTH = 24
# Number of blocks at either end of a page that count as its header and footer.
_EDGE = 8

# Below that many characters the regions that count are no page by themselves.
_LEAST = 40


def visible(blocks: Blocks) -> str:
    """The text that counts, white space collapsed, in lower case."""
    counting = [text for text, region in zip(blocks.texts, blocks.regions, strict=True) if region.counts]
    if sum(map(len, counting)) + len(counting) <= _LEAST:
        counting = blocks.texts
    joined = " ".join(counting)
    if joined.isascii():
        return joined.lower()
    # Block by block, because most are ASCII, whose case is changed ten times as fast.
    return " ".join([text.lower() for text in counting])


def mask(text: str) -> str:
    """`text`, which must be in lower case, without what varies from fetch to fetch."""
    points = _points(text)
    numbers = _numbers(points)
    shorter = _without_nonces(text, points, *numbers)
    if shorter is not text:
        text, points = shorter, _points(shorter)
        numbers = _numbers(points)
    kept: list[str] = []
    at = 0
    for start, follows in _suspects(points, *numbers):
        if start < at or not (follows or _word_before(text, start) in _LEADS):
            continue
        number = _number(text, start)
        if number is None:
            continue
        always = number[1] is not None
        lead = _lead(text[max(at, start - _LEAD_LENGTH) : start], _WEEKDAYS if always else _LEADS)
        found = number if always else (_led(text, start) if lead else None)
        if found:
            kept.append(text[at : start - lead])
            at = found.end()
    kept.append(text[at:])
    return "".join(kept)


_Points = NDArray[np.uint8]
_Places = NDArray[np.intp]
_MARGIN = b" " * 4
# More numbers than that are left as they are: a page of nothing else would take a second.
_CHARACTERS_PER_SUSPECT = 24
_LEAST_SUSPECTS = 1_000
_OTHER = 128
"""Stands for all characters beyond ASCII."""


def _points(text: str) -> _Points:
    """The characters of `text` as numbers, with four blanks on either side."""
    if text.isascii():
        return np.frombuffer(b"".join((_MARGIN, text.encode(), _MARGIN)), np.uint8)
    wide = np.frombuffer((f"    {text}    ").encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.minimum(wide, _OTHER).astype(np.uint8)


def _numbers(points: _Points) -> tuple[_Places, _Places]:
    """Where runs of digits begin and end: finding them all takes a tenth of what a search for each does."""
    digits = np.flatnonzero(points - np.uint8(48) < 10)
    apart = np.ones(len(digits) + 1, np.bool_)
    apart[1:-1] = digits[1:] - digits[:-1] != 1
    return digits[apart[:-1]], digits[apart[1:]] + 1


def _table(pairs: str) -> NDArray[np.bool_]:
    table = np.zeros((_OTHER + 1, _OTHER + 1), np.bool_)
    for pair in pairs.split():
        table[ord(pair[0]), ord(pair[1])] = True
    return table


# Beginnings of what makes a number noise after a blank (a month, an age, what is counted), ends of what leads it.
_AFTER_BLANK = _table("ja fe ma ap ju au se oc no de mi ho hr da we mo ye vi li sh co vo fo do re on")
_BEFORE_BLANK = _table(
    "an ry eb ar ch pr il ay un ne ul ly ug st ep er pt ct ov ec on se ev ld ht c)"
    " n. b. r. l. y. e. g. p. t. v. c. h. d. n, b, r, l, y, e, g, p, t, v, c, h, n: b: r: l: y: e: g: p: t: v: c: h: d:"
)
_BEFORE_BLANK[32, ord("v")] = _BEFORE_BLANK[32, _OTHER] = True
_AFTER = np.isin(np.arange(_OTHER + 1), list(b"-/.:,snrtkm"))
_AGAINST = np.isin(np.arange(_OTHER + 1), [*b"v).,:", _OTHER])


def _suspects(points: _Points, starts: _Places, ends: _Places) -> list[tuple[int, bool]]:
    """Numbers that their neighbours allow to be noise: where they begin; whether what follows them may say so."""
    follows = _AFTER[points[ends]] | ((points[ends] == 32) & _AFTER_BLANK[points[ends + 1], points[ends + 2]])
    before = points[starts - 1]
    led = _AGAINST[before] | ((before == 32) & _BEFORE_BLANK[points[starts - 3], points[starts - 2]])
    suspect = np.flatnonzero(follows | led)[: max(_LEAST_SUSPECTS, len(points) // _CHARACTERS_PER_SUSPECT)]
    return list(zip((starts[suspect] - len(_MARGIN)).tolist(), follows[suspect].tolist(), strict=True))


def _word_before(text: str, start: int) -> str:
    if start == 0:
        return ""
    end = start - 1 if text[start - 1] == " " else start
    return text[text.rfind(" ", max(0, end - _LEAD_LENGTH), end) + 1 : end].strip(".,:")


def _lead(before: str, words: frozenset[str]) -> int:
    """Number of characters at the end of `before` that announce a number: one of `words`, and its weekday."""
    parts = before.split()
    if not parts or parts[-1].strip(".,:") not in words:
        return 0
    first = parts[-2] if len(parts) > 1 and parts[-2].strip(".,") in _WEEKDAYS else parts[-1]
    return len(before) - before.rindex(first)


def _without_nonces(text: str, points: _Points, numbers: _Places, ends: _Places) -> str:
    """A nonce is a long word with a digit: the words around the numbers are all that need be looked at."""
    # A number by itself is none, unless it is very long.
    numbers = numbers[(points[numbers - 1] > 32) | (points[ends] > 32) | (ends - numbers >= _NONCE_LEAST)]
    if not len(numbers):
        return text
    blanks = np.flatnonzero(points <= 32)
    after = np.unique(np.searchsorted(blanks, numbers))
    starts, ends = blanks[after - 1] + 1, blanks[after]
    long = ends - starts >= _NONCE_LEAST
    kept: list[str] = []
    at, margin = 0, len(_MARGIN)
    for start, end in zip((starts[long] - margin).tolist(), (ends[long] - margin).tolist(), strict=True):
        word = text[start:end]
        masked = _nonce("", word)
        if masked != word:
            kept += (text[at:start], masked)
            at = end
    return "".join((*kept, text[at:])) if kept else text


def fingerprint(title: str, blocks: Blocks) -> str:
    """Hex MD5 of `title` and `blocks` without noise.

    A number that the page introduces as the version of what it documents ("Frob 15.18 Documentation"), in its
    title or at its edges, is masked wherever it stands alone.
    """
    text = f"{title.lower()}\n{visible(blocks)}"
    edges = " ".join((*blocks.texts[:_EDGE], *blocks.texts[-_EDGE:]))
    own = _own_version(f"{title} {edges}".lower())
    if own:
        text = _without(own[0], text)
    return of_bytes(mask(text).encode("utf-8", "replace"))


_continues = re.compile(r"\w|\.\d").match
_continued = re.compile(r"[\w.]").match


def _without(number: str, text: str) -> str:
    """`text` without `number` where it is no part of another."""
    pieces = text.split(number)
    kept = pieces[:1]
    for before, after in pairwise(pieces):
        alone = not (_continues(after) or _continued(before[-1:]))
        kept += (after,) if alone else (number, after)
    return "".join(kept)


def of_bytes(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
