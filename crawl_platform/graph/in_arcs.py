"""In-arcs of every node, in as little memory as they take: 4 bytes an arc, and 8 more where arcs have weights.

They are made straight from the input by counting sort, chunk by chunk, and nothing else of the input's size is made:
`src` and `dst` can be files mapped into memory. Rows are nodes in another order, those that link first.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawl_platform.graph import kernels

MOST_NODES = 2**32 - 1
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 1 << 22
"""Arcs handled at a time, a sixteenth of all between these: 16 to 32 bytes each, so 1 MB to 128 MB."""
PARTS = 512
"""Ranges of targets into which a chunk is sorted: as many streams as a processor's caches and page table can follow."""

Chunk = tuple[kernels.Nodes, kernels.Nodes, kernels.Floats]


class InArcs(NamedTuple):
    """Arcs by target. Row `rows[node]` is a node's; the first `linking` rows are the nodes with weight to pass on.

    `arcs`: for each row where its arcs end; for each arc the source's row, and its weight (empty: all weigh 1).
    `out` (linking,): weight that leaves a row. `inner` (linking,): of it, what goes to linking rows.
    """

    rows: kernels.Nodes
    arcs: kernels.Arcs
    out: kernels.Floats
    inner: kernels.Floats

    @property
    def linking(self) -> int:
        return len(self.out)


def in_arcs(src: ArrayLike, dst: ArrayLike, n: int, weights: ArrayLike | None = None) -> InArcs:
    """In-arcs of n nodes. Raises ValueError if the arrays don't fit each other, n, or weights ≥ 0."""
    tail, head = _nodes(src), _nodes(dst)
    weight = None if weights is None else np.asarray(weights)
    if tail.shape != head.shape or (weight is not None and weight.shape != tail.shape):
        raise ValueError("src, dst and weights need one length")
    if not 0 <= n <= MOST_NODES:
        raise ValueError(f"n is {n}: nodes are counted with 32 bits")
    out, into = np.zeros(n), np.zeros(n, np.int64)
    for chunk in _chunks(tail, head, weight, n):
        kernels.count(*chunk, out, into)
    linking = int(np.count_nonzero(out > 0))
    rows = np.empty(n, np.uint32)
    kernels.number(out, rows, linking)
    by_row = np.empty(n)
    by_row[rows] = out
    ends = np.empty(n, np.int64)
    ends[rows] = into
    np.cumsum(ends, out=ends)
    np.subtract(ends[rows], into, out=into)
    del out
    sources = np.empty(len(tail), np.uint32)
    values = np.empty(0 if weight is None else len(tail))
    inner = _scattered(_chunks(tail, head, weight, n), (ends, sources, values), rows, into, linking)
    return InArcs(rows, (ends, sources, values), by_row[:linking], inner)


def _scattered(
    chunks: Iterator[Chunk], arcs: kernels.Arcs, rows: kernels.Nodes, place: kernels.Places, linking: int
) -> kernels.Floats:
    """Fill in sources and values; returns the weight that each row passes to linking rows."""
    ends, sources, values = arcs
    n, inner = len(rows), np.zeros(linking)
    bound = int(ends[linking - 1]) if linking else 0
    shift = max(0, (n // PARTS).bit_length())
    starts = np.zeros((n >> shift) + 2, np.int64)
    parts: Chunk | None = None
    for chunk in chunks:
        parts = parts or (np.empty_like(chunk[0]), np.empty_like(chunk[1]), np.empty_like(chunk[2]))
        kernels.partition(*chunk, shift, starts, parts)
        kernels.scatter(parts, len(chunk[0]), rows, place, sources, values, inner, bound)
    return inner


def _chunks(
    src: NDArray[np.integer], dst: NDArray[np.integer], weights: NDArray[np.generic] | None, n: int
) -> Iterator[Chunk]:
    """Arcs by chunks, checked, always in the same arrays."""
    size = min(len(src), max(LEAST_CHUNK, min(MOST_CHUNK, len(src) // 16)))
    tail, head = np.empty(size, np.uint32), np.empty(size, np.uint32)
    weight = np.empty(0 if weights is None else size)
    for begin in range(0, len(src), size or 1):
        part = slice(begin, begin + size)
        count = len(src[part])
        for held, given in ((tail, src[part]), (head, dst[part])):
            if given.min() < 0 or given.max() >= n:
                raise ValueError(f"src and dst name nodes from 0 to {n - 1}")
            np.copyto(held[:count], given, casting="unsafe")
        if weights is not None:
            np.copyto(weight[:count], weights[part], casting="unsafe")
            if not weight[:count].min() >= 0 or not weight[:count].max() < np.inf:
                raise ValueError("weights need finite values ≥ 0")
        yield tail[:count], head[:count], weight[:count]


def _nodes(given: ArrayLike) -> NDArray[np.integer]:
    """The array as it is; what has no values has no type either."""
    nodes = np.asarray(given)
    if nodes.ndim != 1 or (len(nodes) and nodes.dtype.kind not in "iu"):
        raise ValueError("src and dst need whole numbers, in one dimension")
    return nodes
