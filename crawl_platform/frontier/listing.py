"""What a sitemap or feed listed when it was last read, in 12 bytes per location, and what is new since then.

So an unchanged entry costs nothing at the next reading: no look into the store, no row. 50,000 entries take 600 KB
beside the 15 MB of their own records.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

SIZE = 12
"""Bytes per location."""
LATEST = 2**32 - 1
"""Seconds: 2106."""


class Difference(NamedTuple):
    """Positions in the new listing: of locations that were not listed before, and of those with a later lastmod.

    `gone`: locations that are listed no more.
    """

    new: list[int]
    moved: list[int]
    gone: int


class Listing:
    """Locations by hash, in order, each with its lastmod (UTC seconds, 0: none)."""

    __slots__ = ("_hashes", "_lastmods", "_positions")

    def __init__(
        self, hashes: NDArray[np.uint64], lastmods: NDArray[np.uint32], positions: NDArray[np.intp]
    ) -> None:
        self._hashes = hashes
        self._lastmods = lastmods
        self._positions = positions

    @classmethod
    def of(cls, urls: Sequence[str], lastmods: Sequence[float]) -> "Listing":
        """A listing of these URLs; of one that is there twice the first counts."""
        hashes = np.fromiter((xxhash.xxh3_64_intdigest(url.encode()) for url in urls), np.uint64, len(urls))
        dates = np.clip(np.asarray(lastmods, np.float64), 0, LATEST).astype(np.uint32)
        unique, first = np.unique(hashes, return_index=True)
        return cls(unique, dates[first], first)

    @classmethod
    def decode(cls, data: bytes | None) -> "Listing":
        """A stored listing; None is one of nothing."""
        count = len(data or b"") // SIZE
        hashes = np.frombuffer(data or b"", np.uint64, count)
        lastmods = np.frombuffer(data or b"", np.uint32, count, count * 8)
        return cls(hashes, lastmods, np.arange(count))

    def encode(self) -> bytes:
        return self._hashes.tobytes() + self._lastmods.tobytes()

    def __len__(self) -> int:
        return len(self._hashes)

    def since(self, before: "Listing") -> Difference:
        """What is news in this listing to one who knows `before`."""
        places = np.searchsorted(before._hashes, self._hashes)
        inside = places < len(before._hashes)
        places = np.where(inside, places, 0)
        known = np.zeros(len(self._hashes), np.bool_)
        later = known.copy()
        if len(before._hashes):
            known = inside & (before._hashes[places] == self._hashes)
            later = known & (self._lastmods > before._lastmods[places])
        new, moved = (sorted(self._positions[which].tolist()) for which in (~known, later))
        return Difference(new, moved, len(before) - int(known.sum()))

    def digest(self) -> int:
        """The same for the same locations and dates."""
        return xxhash.xxh3_64_intdigest(self.encode())
