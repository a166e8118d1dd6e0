"""Byte mutations of inputs that are already interesting: the public cases, and what was found before."""

from collections.abc import Callable, Sequence
from random import Random

TOKENS = [
    b"\x00", b"\xff", b"\r\n", b"%", b"<", b">", b"&", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"*", b"/", b"?",
    b";", b"=", b'"', b"-1", b"99999999999999999999", b"://",
]  # fmt: skip
MOST = 200_000
"""Bytes of a mutated input."""


def mutate(rnd: Random, seed: bytes, others: Sequence[bytes]) -> bytes:
    """`seed` after one to four changes."""
    data = seed
    for _ in range(rnd.randint(1, 4)):
        data = rnd.choice(_CHANGES)(rnd, data, others)
    return data[:MOST]


def pump(rnd: Random, seed: bytes) -> bytes:
    """`seed` with a few of its bytes repeated thousands of times: what makes a careless pattern slow is a long run
    of something that it can read in two ways, and an end that fits in none."""
    start = rnd.randint(0, len(seed))
    piece = seed[start : start + rnd.choice([1, 1, 2, 3, 5, 8, 20])] or b"a"
    run = piece * (rnd.choice([2_000, 10_000, 40_000]) // len(piece))
    return (seed[:start] + run + rnd.choice(TOKENS) + seed[start:])[:MOST]


def _flip(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = rnd.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << rnd.randrange(8)),)) + data[at + 1 :]


def _insert(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = rnd.randint(0, len(data))
    return data[:at] + rnd.choice(TOKENS) * rnd.choice([1, 1, 2, 30]) + data[at:]


def _cut(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start = rnd.randint(0, len(data))
    return data[:start] + data[start + rnd.randint(0, 20) :]


def _end(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: rnd.randint(0, len(data))]


def _repeat(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start = rnd.randint(0, len(data))
    piece = data[start : start + rnd.randint(1, 30)]
    return data[:start] + piece * rnd.choice([2, 2, 5, 100]) + data[start:]


def _splice(rnd: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rnd.choice(others)
    return data[: rnd.randint(0, len(data))] + other[rnd.randint(0, len(other)) :]


_CHANGES: list[Callable[[Random, bytes, Sequence[bytes]], bytes]] = [
    _flip,
    _insert,
    _cut,
    _end,
    _repeat,
    _splice,
]
