"""Chance without a state: every random draw of the web comes from a key, so order and process don't matter."""

import random

import xxhash


def key(seed: int, *parts: object) -> int:
    """64-bit number that belongs to `parts` in the web of this `seed`; the same in every process."""
    text = "\x1f".join(map(str, parts))
    return xxhash.xxh3_64_intdigest(text.encode(), seed & 0xFFFF_FFFF_FFFF_FFFF)


def rng(seed: int, *parts: object) -> random.Random:
    """A generator of its own for `parts`."""
    return random.Random(key(seed, *parts))


def unit(seed: int, *parts: object) -> float:
    """One uniform draw in [0, 1) for `parts`."""
    return key(seed, *parts) / 2**64
