"""64-bit simhash of a text (Charikar 2002; Manku, Jain, Das Sarma, WWW 2007): near-duplicates differ in few bits.

Features are shingles of three words, of at most the first `MAX_WORDS` words: a bounded cost, and the end of a
long page rarely makes it another page. Scripts that write no spaces are cut into characters instead.
"""

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.memory import whole
from crawl_platform.digest.octets import LOWER, Octets, fold
from crawl_platform.machine_code import compiled

MAX_WORDS = 2_000
# English has 6 characters per word, spaces included; cutting first bounds the work.
_MOST_CHARACTERS = MAX_WORDS * 8
_MOST_OCTETS = _MOST_CHARACTERS * 4
# Words of more characters than that on average are no words: the script writes no spaces.
_LONGEST_AVERAGE = 16

# Odd constants (splitmix64), so that a shingle depends on the order of its words.
_K0, _K1, _K2 = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_29, _31, _ONE, _NONE = np.uint64(29), np.uint64(31), np.uint64(1), np.uint64(0)


@compiled
def _mixed(number: np.uint64) -> np.uint64:
    """The high bits, which depend on all of the input, brought down."""
    number = (number ^ (number >> _31)) * _K0
    return number ^ (number >> _29)


@compiled
def _words(octets: Octets, hashes: NDArray[np.uint64]) -> int:
    """Hash of each word, a polynomial in its octets; how many there are."""
    count, power, total = 0, _NONE, _NONE
    for value in octets:
        if value > 32:
            power = power * _K0 if power else _ONE
            total += np.uint64(value) * power
        elif power:
            hashes[count] = _mixed(total)
            count += 1
            power, total = _NONE, _NONE
            if count == MAX_WORDS:
                return count
    if power:
        hashes[count] = _mixed(total)
        count += 1
    return count


@compiled
def _characters(octets: Octets, hashes: NDArray[np.uint64]) -> int:
    """Hash of each character that is no white space; how many there are."""
    count, point = 0, 0
    for i in range(len(octets)):
        value = whole(octets[i])
        if value < 0x80:
            point = value
        elif value >= 0xC0:
            point = value & (0x1F if value < 0xE0 else 0x0F if value < 0xF0 else 0x07)
        else:
            point = point << 6 | value & 63
        if point > 32 and (i + 1 == len(octets) or octets[i + 1] & 0xC0 != 0x80):
            hashes[count] = _mixed(np.uint64(point) * _K2)
            count += 1
            if count == MAX_WORDS:
                break
    return count


@compiled
def _majority(hashes: NDArray[np.uint64]) -> np.uint64:
    """The bits that most shingles have."""
    votes = np.zeros(64, np.int32)
    shingled = len(hashes) > 2
    voters = len(hashes) - 2 if shingled else len(hashes)
    for i in range(voters):
        number = hashes[i]
        if shingled:
            number = _mixed(number * _K0 ^ hashes[i + 1] * _K1 ^ hashes[i + 2] * _K2)
        for bit in range(64):
            votes[bit] += np.int32((number >> np.uint64(bit)) & _ONE)
    shared = _NONE
    for bit in range(64):
        if 2 * votes[bit] > voters:
            shared |= _ONE << np.uint64(bit)
    return shared


@compiled
def _cut(octets: Octets, characters: int) -> int:
    """Octets of the first `characters`."""
    for i in range(len(octets)):
        if octets[i] & 0xC0 != 0x80:
            if characters == 0:
                return i
            characters -= 1
    return len(octets)


def simhash(text: str) -> int:
    """Signed 64-bit simhash of `text`; 0 if it has no words."""
    return of_octets(text[:_MOST_CHARACTERS].encode("utf-8", "replace"))


def of_octets(text: bytes) -> int:
    """The same of a text in UTF-8."""
    octets = np.frombuffer(text, np.uint8, min(len(text), _MOST_OCTETS))
    octets = octets[: _cut(octets, _MOST_CHARACTERS)]
    lower = np.empty(len(octets), np.uint8)
    fold(octets, 0, len(octets), lower, 0, LOWER)
    hashes = np.empty(MAX_WORDS, np.uint64)
    count = _words(lower, hashes)
    if count * _LONGEST_AVERAGE <= _length(octets):
        count = _characters(lower, hashes)
    return int(np.uint64(_majority(hashes[:count])).astype(np.int64)) if count else 0


def _length(octets: Octets) -> int:
    """Number of characters."""
    return int(np.count_nonzero(octets & np.uint8(0xC0) != np.uint8(0x80)))


def distance(a: int, b: int) -> int:
    """Number of bits in which two simhashes differ."""
    return ((a ^ b) & 0xFFFF_FFFF_FFFF_FFFF).bit_count()
