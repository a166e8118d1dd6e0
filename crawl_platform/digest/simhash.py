"""64-bit simhash of a text (Charikar 2002; Manku, Jain, Das Sarma, WWW 2007): near-duplicates differ in few bits.

Features are shingles of three words, of at most the first `MAX_WORDS` words: a bounded cost, and the end of a
long page rarely makes it another page. Scripts that write no spaces are cut into characters instead.
"""

import numpy as np
from xxhash import xxh3_64_intdigest

MAX_WORDS = 2_000
# Words of more characters than that on average are no words: the script writes no spaces.
_LONGEST_AVERAGE = 16

# Odd constants (splitmix64), so that a shingle depends on the order of its words.
_K = tuple(np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def simhash(text: str) -> int:
    """Signed 64-bit simhash of `text`; 0 if it has no words."""
    words = _words(text)
    if not words:
        return 0
    table = {word: xxh3_64_intdigest(word) for word in set(words)}
    hashes = np.fromiter(map(table.__getitem__, words), np.uint64, len(words))
    if len(hashes) >= 3:
        mixed = hashes[:-2] * _K[0] ^ hashes[1:-1] * _K[1] ^ hashes[2:] * _K[2]
        hashes = (mixed ^ (mixed >> np.uint64(31))) * _K[0]
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    ones = bits.sum(axis=0, dtype=np.int64) * 2 > len(hashes)
    return int(np.packbits(ones, bitorder="little").view(np.int64)[0])


def _words(text: str) -> list[bytes]:
    # English has 6 characters per word, spaces included; cutting first bounds the split.
    text = text[: MAX_WORDS * 8].lower()
    words = text.encode("utf-8", "replace").split()[:MAX_WORDS]
    if len(words) * _LONGEST_AVERAGE > len(text):
        return words
    return [char.encode("utf-8", "replace") for char in "".join(text.split())[:MAX_WORDS]]


def distance(a: int, b: int) -> int:
    """Number of bits in which two simhashes differ."""
    return ((a ^ b) & 0xFFFF_FFFF_FFFF_FFFF).bit_count()
