"""64-bit simhash of a text (Charikar 2002; Manku, Jain, Das Sarma, WWW 2007): near-duplicates differ in few bits.

Features are shingles of three words, of at most the first `MAX_WORDS` words: a bounded cost, and the end of a
long page rarely makes it another page. Scripts that write no spaces are cut into characters instead.

Words are hashed all at once: with P the base and S the sums of byte · P^position, the polynomial hash of a word
is (S[end] - S[start]) / P^start modulo 2^64, and P has an inverse because it is odd.
"""

import numpy as np
from numpy.typing import NDArray

_Hashes = NDArray[np.uint64]

MAX_WORDS = 2_000
# English has 6 characters per word, spaces included; cutting first bounds the work.
_MOST_CHARACTERS = MAX_WORDS * 8
_MOST_BYTES = _MOST_CHARACTERS * 4
# Words of more characters than that on average are no words: the script writes no spaces.
_LONGEST_AVERAGE = 16

# Odd constants (splitmix64), so that a shingle depends on the order of its words.
_K = tuple(np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_P = 0x9E3779B97F4A7C15
_POWERS = np.multiply.accumulate(np.array([1] + [_P] * _MOST_BYTES, np.uint64))
_INVERSES = np.multiply.accumulate(np.array([1] + [pow(_P, -1, 2**64)] * _MOST_BYTES, np.uint64))


def simhash(text: str) -> int:
    """Signed 64-bit simhash of `text`; 0 if it has no words."""
    # Line by line, because most are ASCII, whose case is changed ten times as fast.
    text = "\n".join([line.lower() for line in text[:_MOST_CHARACTERS].split("\n")])
    hashes = _words(text)
    if len(hashes) * _LONGEST_AVERAGE <= len(text):
        hashes = _characters(text)
    if not len(hashes):
        return 0
    if len(hashes) >= 3:
        hashes = _mixed(hashes[:-2] * _K[0] ^ hashes[1:-1] * _K[1] ^ hashes[2:] * _K[2])
    ones = _votes(hashes) * 2 > len(hashes)
    return int(np.packbits(ones, bitorder="little").view(np.int64)[0])


def _words(text: str) -> _Hashes:
    """Hash of each word."""
    octets = np.frombuffer(b" " + text.encode("utf-8", "replace") + b" ", np.uint8)
    inside = octets > 32
    edges = np.flatnonzero(inside[1:] != inside[:-1])[: 2 * MAX_WORDS]
    starts, ends = edges[::2], edges[1::2]
    if not len(edges):
        return np.empty(0, np.uint64)
    inner = octets[1 : int(ends[-1]) + 1]
    sums = np.zeros(len(inner) + 1, np.uint64)
    np.cumsum(inner * _POWERS[: len(inner)], out=sums[1:])
    return _mixed((sums[ends] - sums[starts]) * _INVERSES[starts])


def _characters(text: str) -> _Hashes:
    joined = "".join(text.split())[:MAX_WORDS].encode("utf-32-le", "replace")
    return _mixed(np.frombuffer(joined, np.uint32).astype(np.uint64) * _K[2])


def _mixed(hashes: _Hashes) -> _Hashes:
    """The high bits, which depend on all of the input, brought down."""
    hashes = (hashes ^ (hashes >> np.uint64(31))) * _K[0]
    mixed: _Hashes = hashes ^ (hashes >> np.uint64(29))
    return mixed


def _votes(hashes: _Hashes) -> NDArray[np.int64]:
    """How many hashes have each of the 64 bits, lowest first."""
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    # Eight bits are added at a time, as the octets of one integer, which hold 255.
    lanes = np.add.reduceat(bits.view(np.uint64), np.arange(0, len(hashes), 255), axis=0)
    votes: NDArray[np.int64] = lanes.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    return votes


def distance(a: int, b: int) -> int:
    """Number of bits in which two simhashes differ."""
    return ((a ^ b) & 0xFFFF_FFFF_FFFF_FFFF).bit_count()
