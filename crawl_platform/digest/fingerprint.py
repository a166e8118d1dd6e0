"""What counts as a change: a hash of the visible text that is left when noise is taken out.

Markup itself never counts: scripts, styles, comments, attributes, tag names, white space, case. Of the text,
regions that say they are advertising, navigation, page furniture or hidden don't count, unless little else is
left. In what remains these are masked: dates, times and ages; version numbers; nonces (long hexadecimal or mixed
tokens); counters; copyright years. Everything else counts, plain numbers and prices included.

All noise has digits, so the work is per number, not per character: numbers are found all at once, each is matched
together with what follows it, and only if that is ambiguous are the few characters before it looked at.
See docs/decisions/0003-fingerprint.md for what it was measured on.
"""

import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128_hexdigest

from crawl_platform.digest.blocks import Blocks
from crawl_platform.digest.memory import eight, whole
from crawl_platform.digest.octets import HIGHS, LOW_SEVEN, Octets, marked
from crawl_platform.machine_code import compiled

Pairs = NDArray[np.bool_]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]

_FROM_0, _PAST_9 = np.uint64(0x5050_5050_5050_5050), np.uint64(0x4646_4646_4646_4646)
_1 = np.uint64(1)

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


def _led_end(text: str, start: int) -> int:
    match = _led(text, start)
    return match.end() if match else 0


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


def mask(text: str) -> str:
    """`text`, which must be in lower case, without what varies from fetch to fetch."""
    found = _found(text)
    shorter = _without_nonces(text, found.words)
    if shorter is not text:
        text = shorter
        found = _found(text)
    kept: list[str] = []
    at = 0
    for start, follows in zip(found.suspects, found.follows, strict=True):
        if start < at or not (follows or _word_before(text, start) in _LEADS):
            continue
        number = _number(text, start)
        if number is None:
            continue
        always = number[1] is not None
        lead = _lead(text[max(at, start - _LEAD_LENGTH) : start], _WEEKDAYS if always else _LEADS)
        found_end = number.end() if always else _led_end(text, start) if lead else 0
        if found_end:
            kept.append(text[at : start - lead])
            at = found_end
    kept.append(text[at:])
    return "".join(kept)


class _Found(NamedTuple):
    """What the search for numbers has found, by number of character."""

    suspects: list[int]
    """Beginnings of numbers that their neighbours allow to be noise."""
    follows: list[bool]
    """Whether what follows a suspect may say so."""
    words: list[tuple[int, int]]
    """Beginnings and ends of words that are long enough for a nonce and hold a digit."""


# More numbers than that are left as they are: a page of nothing else would take a second.
_CHARACTERS_PER_SUSPECT = 24
_LEAST_SUSPECTS = 1_000
_MARGIN = 8
_OTHER = 128
"""Stands for all characters beyond ASCII."""


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


def _found(text: str) -> _Found:
    octets = text.encode("utf-8", "replace")
    padded = np.frombuffer(b"".join((_BLANKS, octets, _BLANKS)), np.uint8)
    most = max(_LEAST_SUSPECTS, len(octets) // _CHARACTERS_PER_SUSPECT)
    suspects, follows = np.empty(most, np.int64), np.empty(most, np.bool_)
    words = np.empty((len(octets) // _NONCE_LEAST + 1, 2), np.int64)
    sizes = np.zeros(2, np.int64)
    _search(padded, _AFTER_BLANK, _BEFORE_BLANK, _AFTER, _AGAINST, suspects, follows, words, sizes)
    n, m = sizes.tolist()
    return _Found(suspects[:n].tolist(), follows[:n].tolist(), list(map(tuple, words[:m].tolist())))


_BLANKS = b" " * _MARGIN


@compiled
def _character_before(octets: Octets, at: int) -> int:
    """Place of the character that ends before `at`."""
    at -= 1
    while octets[at] & 0xC0 == 0x80:
        at -= 1
    return at


@compiled
def _search(
    octets: Octets, after_blank: Pairs, before_blank: Pairs, after: Flags, against: Flags,
    suspects: Places, follows: Flags, words: Places, sizes: Places,
) -> None:  # fmt: skip
    """Find numbers in `octets`, which have a margin of blanks. All that is found is told by number of character."""
    count, long, others = 0, 0, 0
    base, end = octets.ctypes.data, len(octets) - _MARGIN
    at, word_until = whole(_MARGIN), 0
    while at < end:
        if at + 8 <= end:
            chunk = eight(base + at)
            low = chunk & LOW_SEVEN
            digits = (low + _FROM_0) & ~(low + _PAST_9) & ~chunk & HIGHS
            if digits == 0:
                # Octets that continue a character begin with 10.
                continues = chunk & ~(chunk << _1) & HIGHS
                others += marked(continues)
                at += 8
                continue
        for _ in range(8):
            if at >= end:
                break
            value = octets[at]
            others += whole(value & 0xC0 == 0x80)
            if not 48 <= value <= 57:
                at += 1
                continue
            start = at
            while 48 <= octets[at] <= 57:
                at += 1
            before, behind = min(octets[start - 1], _OTHER), min(octets[at], _OTHER)
            following = after[behind] or (
                behind == 32 and after_blank[min(octets[at + 1], _OTHER), min(octets[at + 2], _OTHER)]
            )
            led = against[before]
            if before == 32:
                last = _character_before(octets, start - 1)
                led = before_blank[
                    min(octets[_character_before(octets, last)], _OTHER), min(octets[last], _OTHER)
                ]
            if (following or led) and count < len(suspects):
                suspects[count] = start - _MARGIN - others
                follows[count] = following
                count += 1
            # A number by itself is no nonce, unless it is very long.
            if (before > 32 or behind > 32 or at - start >= _NONCE_LEAST) and start >= word_until:
                first, word_until, inner = start, at, 0
                while octets[first - 1] > 32:
                    first -= 1
                    inner += octets[first] & 0xC0 == 0x80
                before_word = others - inner
                while octets[word_until] > 32:
                    inner += octets[word_until] & 0xC0 == 0x80
                    word_until += 1
                if word_until - first - inner >= _NONCE_LEAST and long < len(words):
                    words[long, 0] = first - _MARGIN - before_word
                    words[long, 1] = word_until - _MARGIN - before_word - inner
                    long += 1
            break
    sizes[0], sizes[1] = count, long


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


def _without_nonces(text: str, words: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in words:
        word = text[start:end]
        masked = _nonce("", word)
        if masked != word:
            kept += (text[at:start], masked)
            at = end
    return "".join((*kept, text[at:])) if kept else text


def fingerprint(title: str, blocks: Blocks) -> str:
    """Hash (hex, 128 bits) of `title` and `blocks` without noise.

    A number that the page introduces as the version of what it documents ("Frob 15.18 Documentation"), in its
    title or at its edges, is masked wherever it stands alone.
    """
    text = f"{title.lower()}\n{blocks.visible().decode('utf-8', 'replace')}"
    first, last = blocks.texts(slice(_EDGE)), blocks.texts(slice(-_EDGE, None))
    own = _own_version(f"{title} {' '.join((*first, *last))}".lower())
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
    return xxh3_128_hexdigest(body)
