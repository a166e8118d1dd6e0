"""Harmonic centrality: Σ over other nodes u of 1/distance(u, v) (Boldi & Vigna, Internet Mathematics 2014).

A node counts as a source only if it has out-links, so a crawl's horizon costs nothing.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

Floats = NDArray[np.float64]

CELLS_AT_ONCE = 4_000_000
"""Distances held at a time (32 MB): sources are taken in chunks of this many cells over n."""


def harmonic(
    src: ArrayLike,
    dst: ArrayLike,
    n: int,
    *,
    max_sources: int = 2_000,
    random: np.random.Generator | None = None,
) -> Floats:
    """Harmonic centrality of n nodes, shape (n,); exact up to `max_sources` linking nodes.

    Beyond that, `max_sources` of them are drawn by `random` without replacement and the sum is scaled up:
    unbiased, with a standard error of about H·sqrt(1/max_sources). Raises ValueError if a draw is needed
    and no generator was given.
    """
    tail, head = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    graph = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(n, n))
    sources = np.unique(tail)
    scale = 1.0
    if len(sources) > max_sources:
        if random is None:
            raise ValueError("more linking nodes than max_sources: a random generator is needed to sample")
        scale = len(sources) / max_sources
        sources = random.choice(sources, max_sources, replace=False)
    total = np.zeros(n)
    step = max(1, CELLS_AT_ONCE // max(n, 1))
    for first in range(0, len(sources), step):
        total += _inverse_distances(graph, sources[first : first + step])
    return total * scale


def _inverse_distances(graph: sparse.csr_array, sources: NDArray[np.int64]) -> Floats:
    """Σ over `sources` of 1/distance to each node; unreachable nodes and the source itself add 0."""
    distance = csgraph.dijkstra(graph, indices=sources, unweighted=True)
    with np.errstate(divide="ignore"):
        inverse = np.where(distance > 0, 1.0 / distance, 0.0)
    total: Floats = inverse.sum(axis=0)
    return total
