"""Have we met this URL? URLs met lately → Bloom filter → durable confirm.

A Bloom false positive costs one lookup, never a page: the store has the last word. A set of growing filters, each with
half the error rate of the one before, keeps the sum of their rates below `FALSE_POSITIVES` however many there are
(Almeida et al., "Scalable Bloom Filters", 2007).
"""

from collections.abc import Callable
from operator import index
from typing import NamedTuple

import numpy as np
import xxhash
from rbloom import Bloom

FALSE_POSITIVES = 0.001
"""Rate of the whole set that is promised; twice as much, measured, is an alarm."""
GROWTH = 4
_TAG = 2**64 - 1
_SIGN = 2**127


def digest_of(key: bytes) -> int:
    """The stable 128-bit hash of a key, unsigned: all that is kept of it in memory."""
    digest: int = xxhash.xxh3_128_intdigest(key)
    return digest


class Generation(NamedTuple):
    """One filter: how many keys it is for, how many it has, and its bits."""

    capacity: int
    keys: int
    bits: bytes


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

    def __contains__(self, key: bytes) -> bool:
        digest = xxhash.xxh3_64_intdigest(key)
        return digest in self._newer or digest in self._older


class MetSlots:
    """Keys that are known for certain: 64 bits of the hash in the slot that the other 64 point at. A newer key takes
    the slot of an older one, so `slots` (rounded up to a power of 2) times 8 bytes are all that it takes."""

    def __init__(self, slots: int) -> None:
        size = 1 << max(slots - 1, 0).bit_length()
        self._mask = size - 1
        self._slots = np.zeros(size, np.uint64).data

    def add(self, digest: int) -> None:
        self._slots[(digest >> 64) & self._mask] = digest & _TAG

    def discard(self, digest: int) -> None:
        if digest in self:
            self._slots[(digest >> 64) & self._mask] = 0

    def __contains__(self, digest: int) -> bool:
        return bool(self._slots[(digest >> 64) & self._mask] == digest & _TAG)


class SeenSet:
    """`confirm(key)` asks the durable store. Rolls onto a larger filter before the error rate leaves budget.

    `capacity`: keys of the first filter. `recent`: slots for keys that need neither filter nor store.
    """

    def __init__(self, capacity: int, recent: int, confirm: Callable[[bytes], bool]) -> None:
        self._confirm = confirm
        self._capacity = capacity
        self._filters: list[Bloom] = []
        self._counts: list[int] = []
        self._capacities: list[int] = []
        self._roll(capacity)
        self._met = MetSlots(recent)
        self.confirms = 0
        self.false_positives = 0
        self.absent = 0
        """Lookups of keys that no filter had."""

    def _roll(self, capacity: int) -> None:
        rate = FALSE_POSITIVES / 2 ** (len(self._filters) + 1)
        self._filters.append(Bloom(capacity, rate, index))
        self._counts.append(0)
        self._capacities.append(capacity)

    def add(self, key: bytes) -> None:
        self.enter(digest_of(key))

    def enter(self, digest: int) -> None:
        """The key of that `digest_of` is known from now on."""
        if self._counts[-1] >= self._capacities[-1]:
            self._roll(self._capacities[-1] * GROWTH)
        self._filters[-1].add(digest - _SIGN)
        self._counts[-1] += 1
        self._met.add(digest)

    def forget(self, key: bytes) -> None:
        """It is no longer in the store. A filter can't forget: it costs a lookup from now on."""
        self._met.discard(digest_of(key))

    def __contains__(self, key: bytes) -> bool:
        digest = digest_of(key)
        if digest in self._met:
            return True
        signed = digest - _SIGN
        for bloom in self._filters:
            if signed in bloom:
                break
        else:
            self.absent += 1
            return False
        self.confirms += 1
        if self._confirm(key):
            self._met.add(digest)
            return True
        self.false_positives += 1
        return False

    @property
    def false_positive_rate(self) -> float:
        """Share of the lookups of unknown keys since the start that a filter got wrong; 0 before the first."""
        return self.false_positives / max(self.false_positives + self.absent, 1)

    @property
    def generations(self) -> int:
        return len(self._filters)

    # to be written down

    def dump(self) -> list[Generation]:
        """The filters as they are now."""
        parts = zip(self._capacities, self._counts, self._filters, strict=True)
        return [Generation(capacity, count, bloom.save_bytes()) for capacity, count, bloom in parts]

    def restore(self, generations: list[Generation]) -> None:
        """Take these filters in place of one's own. What is needed from disk is confirmed as it is met."""
        self._filters = [Bloom.load_bytes(one.bits, index) for one in generations]
        self._counts = [one.keys for one in generations]
        self._capacities = [one.capacity for one in generations]
