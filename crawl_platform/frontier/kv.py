"""The small ordered key-value interface that all durable frontier state goes through.

Two stores implement it: RocksDB (`rocks.py`) and memory (here; tests and virtual time). Keys order as
bytes. A batch is atomic; with `sync` it has reached the disk when `write` returns.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sortedcontainers import SortedDict


class Batch:
    """Puts and deletes that become visible together. A later entry for a key replaces an earlier one."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: dict[bytes, bytes | None] = {}

    def put(self, key: bytes, value: bytes) -> None:
        self.changes[key] = value

    def delete(self, key: bytes) -> None:
        self.changes[key] = None

    def merge(self, other: "Batch") -> None:
        self.changes.update(other.changes)

    def __len__(self) -> int:
        return len(self.changes)


class OrderedKV(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None for those that are not there: one call is much cheaper than many `get`s,
        most of all if `keys` are in order."""
        ...

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with start <= key < stop in key order, as of the call."""
        ...

    def write(self, batch: Batch, *, sync: bool = False) -> None: ...

    def close(self) -> None: ...


class MemoryKV:
    """In memory; the same contract without durability."""

    def __init__(self) -> None:
        self._data: SortedDict = SortedDict()

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._data.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._data.get(key) for key in keys]

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = list(self._data.irange(start, stop, inclusive=(True, False)))
        return iter([(key, self._data[key]) for key in keys])

    def write(self, batch: Batch, *, sync: bool = False) -> None:
        for key, value in batch.changes.items():
            if value is None:
                self._data.pop(key, None)
            else:
                self._data[key] = value

    def close(self) -> None:
        """Nothing to release."""


def prefix_end(prefix: bytes) -> bytes:
    """The least key above every key that starts with `prefix` (whose last byte is below 255)."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))
