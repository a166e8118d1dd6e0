"""Have we met this URL? Recent cache → Bloom filter → durable confirm.

A Bloom false positive costs one lookup, never a page: the store has the last word.
"""

from collections.abc import Callable

import xxhash
from rbloom import Bloom

FALSE_POSITIVES = 0.001


def _bloom_hash(data: object) -> int:
    """A stable 128-bit hash, signed, as rbloom wants it."""
    return xxhash.xxh3_128_intdigest(data) - 2**127  # type: ignore[arg-type]


class RecentSet:
    """The last `limit` to 2 × `limit` keys, as 64-bit hashes: two generations, the older one dropped whole."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def add(self, key: bytes) -> None:
        self._newer.add(xxhash.xxh3_64_intdigest(key))
        if len(self._newer) >= self._limit:
            self._older, self._newer = self._newer, set()

    def discard(self, key: bytes) -> None:
        digest = xxhash.xxh3_64_intdigest(key)
        self._newer.discard(digest)
        self._older.discard(digest)

    def __contains__(self, key: bytes) -> bool:
        digest = xxhash.xxh3_64_intdigest(key)
        return digest in self._newer or digest in self._older


class SeenSet:
    """`confirm(key)` asks the durable store. Rolls onto a larger filter before the error rate leaves budget."""

    def __init__(self, capacity: int, recent: int, confirm: Callable[[bytes], bool]) -> None:
        self._confirm = confirm
        self._capacity = capacity
        self._filters = [Bloom(capacity, FALSE_POSITIVES, _bloom_hash)]
        self._counts = [0]
        self._recent = RecentSet(recent)
        self.confirms = 0
        self.false_positives = 0

    def add(self, key: bytes) -> None:
        if self._counts[-1] >= self._capacity:
            self._capacity *= 4
            self._filters.append(Bloom(self._capacity, FALSE_POSITIVES, _bloom_hash))
            self._counts.append(0)
        self._filters[-1].add(key)
        self._counts[-1] += 1
        self._recent.add(key)

    def forget(self, key: bytes) -> None:
        """It is no longer in the store. A filter can't forget: it costs a lookup from now on."""
        self._recent.discard(key)

    def __contains__(self, key: bytes) -> bool:
        if key in self._recent:
            return True
        if not any(key in bloom for bloom in self._filters):
            return False
        self.confirms += 1
        if self._confirm(key):
            self._recent.add(key)
            return True
        self.false_positives += 1
        return False
