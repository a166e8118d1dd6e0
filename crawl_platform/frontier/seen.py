"""Have we met these URLs? URLs known for certain → Bloom filter → durable confirm, for many at once.

A Bloom false positive costs one lookup, never a page: the store has the last word. A set of growing filters, each with
half the error rate of the one before, keeps the sum of their rates below `FALSE_POSITIVES` however many there are
(Almeida et al., "Scalable Bloom Filters", 2007).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import xxhash
from rbloom import Bloom

from crawl_platform.frontier.met import MetSlots, halves

FALSE_POSITIVES = 0.001
"""Rate of the whole set that is promised; twice as much, measured, is an alarm."""
GROWTH = 4

Confirm = Callable[[Sequence[bytes]], Sequence[bool]]
"""Whether the durable store has each of these keys, which are in order."""

digest_of = xxhash.xxh3_128_digest
"""The stable hash of a key, 16 bytes: all that is kept of it in memory."""
_number = partial(int.from_bytes, byteorder="big", signed=True)


class Generation(NamedTuple):
    """One filter: how many keys it is for, how many it has, and its bits."""

    capacity: int
    keys: int
    bits: bytes


class Look(NamedTuple):
    """Whether each key is known, and its digest."""

    known: list[bool]
    digests: list[bytes]


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


class SeenSet:
    """`confirm` asks the durable store. Rolls onto a larger filter before the error rate leaves budget.

    `capacity`: keys of the first filter. `recent`: slots for keys that need neither filter nor store.
    """

    def __init__(self, capacity: int, recent: int, confirm: Confirm) -> None:
        self._confirm = confirm
        self._capacity = capacity
        self._filters: list[Bloom] = []
        self._counts: list[int] = []
        self._capacities: list[int] = []
        self._roll(capacity)
        self.met = MetSlots(recent)
        self.confirms = 0
        self.false_positives = 0
        self.absent = 0
        """Lookups of keys that no filter had."""

    def _roll(self, capacity: int) -> None:
        rate = FALSE_POSITIVES / 2 ** (len(self._filters) + 1)
        self._filters.append(Bloom(capacity, rate, _number))
        self._counts.append(0)
        self._capacities.append(capacity)

    def add(self, *keys: bytes) -> None:
        self.enter([digest_of(key) for key in keys])

    def enter(self, digests: Sequence[bytes]) -> None:
        """The keys of these `digest_of` are known from now on."""
        start = 0
        while start < len(digests):
            if self._counts[-1] >= self._capacities[-1]:
                self._roll(self._capacities[-1] * GROWTH)
            some = digests[start : start + self._capacities[-1] - self._counts[-1]]
            self._filters[-1].update(some)
            self._counts[-1] += len(some)
            start += len(some)
        self.met.add(halves(digests))

    def forget(self, *keys: bytes) -> None:
        """They are no longer in the store. A filter can't forget: each costs a lookup from now on."""
        self.met.discard(halves([digest_of(key) for key in keys]))

    def __contains__(self, key: bytes) -> bool:
        return self.look((key,)).known[0]

    def look(self, keys: Sequence[bytes]) -> Look:
        """Whether we have met each of `keys`: one look at the store for all that need it, in order, so that those which
        lie side by side are read together."""
        digests = [digest_of(key) for key in keys]
        known: list[bool] = self.met.known(halves(digests)).tolist()
        unmet = [place for place, met in enumerate(known) if not met]
        if unmet:
            self._settle(keys, digests, self._doubtful(digests, unmet), known)
        return Look(known, digests)

    def _doubtful(self, digests: list[bytes], unmet: list[int]) -> list[int]:
        """Of these places those whose key is in a filter."""
        doubtful: list[int] = []
        for bloom in self._filters:
            hits = {place for place in unmet if digests[place] in bloom}
            doubtful += hits
            unmet = [place for place in unmet if place not in hits] if hits else unmet
        self.absent += len(unmet)
        return doubtful

    def _settle(
        self, keys: Sequence[bytes], digests: list[bytes], doubtful: list[int], known: list[bool]
    ) -> None:
        """Note in `known` which of the `doubtful` the store has."""
        if not doubtful:
            return
        doubtful.sort(key=keys.__getitem__)
        for place, there in zip(doubtful, self._confirm([keys[place] for place in doubtful]), strict=True):
            known[place] = there
            self.false_positives += not there
        self.confirms += len(doubtful)
        self.met.add(halves([digests[place] for place in doubtful if known[place]]))

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

    def restore(self, generations: list[Generation], met: list[bytearray]) -> None:
        """Take these filters and what `met.dump` gave in place of one's own. What else is needed from disk is confirmed
        as it is met."""
        self._filters = [Bloom.load_bytes(one.bits, _number) for one in generations]
        self._counts = [one.keys for one in generations]
        self._capacities = [one.capacity for one in generations]
        self.met.restore(met)
