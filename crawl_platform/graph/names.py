"""Names (hosts, URLs) as numbers: a 64-bit key that outsiders can't foresee, and a small id that never changes.

Keys are SipHash with a secret, so nobody can make up a URL that is taken for another. By chance two of n names share
a key with probability n²/2⁶⁵: one in 10⁴ among 60 million.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crawl_platform.graph.link_kernels import Keys, Nodes, make_room, siphash

_T = TypeVar("_T", bound=np.generic)
NONE = np.uint64(0)
"""The key of no name."""


def no_names() -> pa.ChunkedArray:
    return pa.chunked_array([], pa.large_string())


def keys_of(names: pa.Array, secret: Keys) -> Keys:
    """Key of each name, shape (N,), `NONE` for null. `secret`: two 64-bit numbers."""
    texts = names.cast(pa.large_string())
    _, starts, octets = texts.buffers()
    found = np.empty(len(texts), np.uint64)
    if len(texts):
        ends = np.frombuffer(starts, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.zeros(1, np.uint8) if octets is None or not octets.size else np.frombuffer(octets, np.uint8)
        siphash(ends, data, secret, found)
    np.maximum(found, 1, out=found)
    if texts.null_count:
        found[~texts.is_valid().to_numpy(zero_copy_only=False)] = NONE
    return found


@dataclass(frozen=True)
class Names:
    """Names with ids 0 … n−1 in the order in which they came. `keys` (sorted) and `ids` lead from one to the other;
    `texts` are the names by id. A name that has left has an empty text and no key: its id isn't given again."""

    keys: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    ids: Nodes = field(default_factory=lambda: np.zeros(0, np.uint32))
    texts: pa.ChunkedArray = field(default_factory=no_names)

    def __len__(self) -> int:
        return len(self.texts)

    def places(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where each key stands or would stand among the sorted ones, and whether it is there."""
        return find(self.keys, keys)

    def of(self, keys: Keys) -> Nodes:
        """Ids of names that are known."""
        return self.ids[self.places(keys)[0]]

    def learnt(self, keys: Keys, names: pa.Array) -> "Names":
        """With these names too: those that are new get the next ids, in the order given. `names` fit `keys`."""
        distinct, first = np.unique(keys, return_index=True)
        place, known = self.places(distinct)
        if known.all():
            return self
        new, at, first = distinct[~known], place[~known], first[~known]
        order = np.argsort(first)
        number = np.empty(len(new), np.uint32)
        number[order] = np.arange(len(self), len(self) + len(new), dtype=np.uint32)
        texts = names.take(pa.array(first[order])).cast(pa.large_string())
        return Names(
            inserted(self.keys, at, new),
            inserted(self.ids, at, number),
            pa.chunked_array([*self.texts.chunks, texts], pa.large_string()),
        )

    def without(self, gone: NDArray[np.bool_]) -> "Names":
        """Without the names of these ids, shape (n,)."""
        if not gone.any():
            return self
        kept = ~gone[self.ids]
        texts = pa.compute.if_else(pa.array(gone), pa.scalar("", pa.large_string()), self.texts)
        return Names(self.keys[kept], self.ids[kept], texts)


def inserted(array: NDArray[_T], at: NDArray[np.int64], values: NDArray[_T] | _T) -> NDArray[_T]:
    """`np.insert` along the first axis, a tenth of the time: `at` is sorted, an element has whole 32-bit words."""
    new = np.empty((len(array) + len(at), *array.shape[1:]), array.dtype)
    width = array.dtype.itemsize // 4 * int(np.prod(array.shape[1:]))
    make_room(_words(array), at, width, _words(new))
    new[at + np.arange(len(at))] = values
    return new


def _words(array: NDArray[Any]) -> Nodes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint32)


def find(among: Keys, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(place where it stands or would stand in `among`, which is sorted; whether it is there) of each key."""
    place = np.searchsorted(among, keys)
    there = np.zeros(len(keys), bool)
    inside = place < len(among)
    there[inside] = among[place[inside]] == keys[inside]
    return place, there


def merged(*keys: Keys) -> Keys:
    """All keys once, sorted."""
    every = np.concatenate(keys)
    every.sort(kind="stable")
    return every[starts_of(every)]


def starts_of(ordered: Keys) -> NDArray[np.int64]:
    """Where each value begins in keys that are sorted."""
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
