"""URLs that are known for certain, 8 bytes each: what makes a link to a known page cost no look at the disk.

A digest has two halves of 64 bits. The first points at a bucket, the second is kept in one of its `WIDTH` slots: so a
key that is taken for another agrees with it in 64 bits and in its bucket. A full bucket drops one of its own. The table
grows by a new one of four times the size, the old ones staying in use, until one has as many slots as were allowed: the
slots of all tables are at most 4/3 of that.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIGEST = 16
"""Bytes of a digest."""
WIDTH = 8
"""Slots per bucket: a cache line. At `FULL` one key in 50 finds its bucket full."""
FIRST = 1 << 18
"""Slots of the first table: 2 MB."""
GROWTH = 4
FULL = 0.75
"""Share of a table's slots that is used when a larger one is begun."""

Halves = NDArray[np.uint64]
"""n × 2."""


def halves(digests: Sequence[bytes]) -> Halves:
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


class MetSlots:
    """`most`: slots of the largest table, rounded up to a power of 2."""

    def __init__(self, most: int) -> None:
        self._most = 1 << max(most - 1, 0).bit_length()
        self._tables = [_table(min(FIRST, self._most))]
        self._used = 0

    def add(self, keys: Halves) -> None:
        if self._used >= FULL * self._tables[-1].size and self._tables[-1].size < self._most:
            self._tables.append(_table(min(self._tables[-1].size * GROWTH, self._most)))
            self._used = 0
        table = self._tables[-1]
        for _ in range(WIDTH):
            keys = keys[~_in(table, keys)]
            if not len(keys):
                return
            buckets = _buckets(table, keys)
            free = table[buckets] == 0
            room = free.any(axis=1)
            by_chance = (keys[:, 0] >> np.uint64(60)).astype(np.intp) % table.shape[1]
            table[buckets, np.where(room, free.argmax(axis=1), by_chance)] = keys[:, 1]
            self._used += int(room.sum())
            keys = keys[room]  # two of them may have chosen the same slot: the one that lost it chooses again

    def known(self, keys: Halves) -> NDArray[np.bool_]:
        found = _in(self._tables[-1], keys)
        for table in self._tables[-2::-1]:
            if found.all():
                break
            found |= _in(table, keys)
        return found

    def discard(self, keys: Halves) -> None:
        for table in self._tables:
            buckets = _buckets(table, keys)
            which, slots = np.nonzero(table[buckets] == keys[:, 1:])
            table[buckets[which], slots] = 0

    # to be written down

    def dump(self) -> list[memoryview]:
        """The tables, which change on: what is read of them later knows more, and nothing that is not so."""
        return [table.data.cast("B") for table in self._tables]

    def restore(self, tables: list[bytearray]) -> None:
        """Take these tables in place of one's own, but for those larger than is allowed now."""
        kept = [_shaped(np.frombuffer(data, np.uint64)) for data in tables if len(data) <= 8 * self._most]
        if kept:
            self._tables, self._used = kept, int(np.count_nonzero(kept[-1]))

    @property
    def slots(self) -> int:
        """Of all tables, 8 bytes each."""
        return sum(table.size for table in self._tables)


def _table(slots: int) -> NDArray[np.uint64]:
    return _shaped(np.zeros(slots, np.uint64))


def _shaped(slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return slots.reshape(-1, min(WIDTH, len(slots)))


def _buckets(table: NDArray[np.uint64], keys: Halves) -> NDArray[np.intp]:
    return (keys[:, 0] & np.uint64(len(table) - 1)).astype(np.intp)


def _in(table: NDArray[np.uint64], keys: Halves) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (table[_buckets(table, keys)] == keys[:, 1:]).any(axis=1)
    return found
