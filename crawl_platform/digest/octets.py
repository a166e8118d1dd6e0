"""Text as UTF-8 octets: white space collapsed, words and characters counted, case folded. Eight octets at a time
where all of them are plain."""

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.memory import eight, octet, put_eight, whole
from crawl_platform.machine_code import compiled

Octets = NDArray[np.uint8]

ONES = np.uint64(0x0101_0101_0101_0101)
HIGHS = np.uint64(0x8080_8080_8080_8080)
LOW_SEVEN = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_BLANKS = np.uint64(0x2020_2020_2020_2020)
_FROM_A = np.uint64(0x3F3F_3F3F_3F3F_3F3F)
_PAST_Z = np.uint64(0x2525_2525_2525_2525)
_7, _8, _56 = np.uint64(7), np.uint64(8), np.uint64(56)

OUT, WORDS, OTHERS, BLANK = range(4)
"""State of a text that is written: octets so far; words of the piece; octets of it that continue a character, and
whether what was written last is white space (or nothing)."""


@compiled
def marked(octets: np.uint64) -> int:
    """How many of eight octets have their high bit set, and no other."""
    return whole(((octets >> _7) * ONES) >> _56)


@compiled
def _blank_length(at: int, left: int) -> int:
    """Octets of the white space beyond ASCII that begins there, as `str.split` knows it; 0 if none does."""
    a = octet(at)
    if left < 2 or a < 0xC2 or a > 0xE3:
        return 0
    b = octet(at + 1)
    if a == 0xC2:
        return 2 if b == 0x85 or b == 0xA0 else 0
    if left < 3 or (a != 0xE1 and a != 0xE2 and a != 0xE3):
        return 0
    c = octet(at + 2)
    wide = (
        (a == 0xE2 and b == 0x80 and (c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF))
        or (a == 0xE2 and b == 0x81 and c == 0x9F)
        or (a == 0xE1 and b == 0x9A and c == 0x80)
        or (a == 0xE3 and b == 0x80 and c == 0x80)
    )
    return 3 if wide else 0


@compiled
def append(at: int, length: int, out: Octets, state: NDArray[np.int64]) -> None:
    """Write the octets at an address to `out`, each run of white space and control characters as one blank."""
    end = at + length
    base = out.ctypes.data
    n, words, others, blank = state[OUT], state[WORDS], state[OTHERS], state[BLANK]
    room = min(length, out.size - n - 16)
    end = at + max(room, 0)
    while at < end:
        if end - at >= 8:
            chunk = eight(at)
            # The high bit of each octet that is a blank. None may be below it, beyond ASCII, or beside another blank.
            low = (chunk - _BLANKS) | chunk
            zeros = chunk ^ _BLANKS
            spaces = ~(((zeros & LOW_SEVEN) + LOW_SEVEN) | zeros) & HIGHS
            before = (spaces << _8) | (np.uint64(0x80) if blank else np.uint64(0))
            if low & HIGHS == 0 and spaces & before == 0:
                put_eight(base + n, chunk)
                n += 8
                at += 8
                words += marked(~spaces & before)
                blank = whole(spaces >> _56 != 0)
                continue
        for _ in range(8):
            if at >= end:
                break
            value = octet(at)
            if value <= 32:
                skip = 1
            elif value < 0xC2:
                skip = 0
            else:
                skip = whole(_blank_length(at, end - at))
            if skip:
                at += skip
                if not blank:
                    out[n] = 32
                    n += 1
                    blank = 1
                continue
            out[n] = value
            n += 1
            at += 1
            words += blank
            blank = 0
            others += whole(value & 0xC0 == 0x80)
    state[OUT], state[WORDS], state[OTHERS], state[BLANK] = n, words, others, blank


def _lower_case() -> NDArray[np.uint16]:
    """By code point, below 65,536: the lower case, where it is one character of as many octets."""
    table = np.arange(1 << 16, dtype=np.uint16)
    for point in range(0x80, 0xD800):
        lower = chr(point).lower()
        if len(lower) == 1 and len(lower.encode()) == len(chr(point).encode()):
            table[point] = ord(lower)
    for point in range(0xFF21, 0xFF3B):
        table[point] = point + 32
    return table


LOWER = _lower_case()


@compiled
def fold(source: Octets, start: int, end: int, out: Octets, n: int, lower: NDArray[np.uint16]) -> int:
    """Copy `source[start:end]` to `out` from place `n` on, in lower case. Returns where the copy ends. The case of what
    needs more or fewer octets in lower case stays."""
    at, to = source.ctypes.data + start, out.ctypes.data + n
    last = source.ctypes.data + min(end, start + out.size - n)
    while at < last:
        if last - at >= 8:
            chunk = eight(at)
            if chunk & HIGHS == 0:
                upper = ((chunk + _FROM_A) & ~(chunk + _PAST_Z)) & HIGHS
                put_eight(to, chunk | (upper >> np.uint64(2)))
                at += 8
                to += 8
                continue
        for _ in range(8):
            if at >= last:
                break
            place = to - out.ctypes.data
            a = octet(at)
            if a < 0x80:
                out[place] = a + 32 if 65 <= a <= 90 else a
                at, to = at + 1, to + 1
            elif 0xC2 <= a <= 0xDF and last - at >= 2 and octet(at + 1) & 0xC0 == 0x80:
                point = whole(lower[(a & 31) << 6 | octet(at + 1) & 63])
                out[place], out[place + 1] = 0xC0 | point >> 6, 0x80 | point & 63
                at, to = at + 2, to + 2
            elif (
                0xE0 <= a <= 0xEF and last - at >= 3 and octet(at + 1) & 0xC0 == octet(at + 2) & 0xC0 == 0x80
            ):
                point = whole(lower[(a & 15) << 12 | (octet(at + 1) & 63) << 6 | octet(at + 2) & 63])
                out[place] = 0xE0 | point >> 12
                out[place + 1], out[place + 2] = 0x80 | (point >> 6) & 63, 0x80 | point & 63
                at, to = at + 3, to + 3
            else:
                out[place] = a
                at, to = at + 1, to + 1
    return n + last - (source.ctypes.data + start) if last > source.ctypes.data + start else n
