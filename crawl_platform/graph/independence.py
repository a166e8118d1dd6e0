"""Independent support: hosts that belong together have one vote between them.

Any signal that hosts share (address, registrable domain, template, …) is a label per host; hosts that share
a label, directly or through others, form one cluster. Raters see many names, one owner has one voice.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

Ints = NDArray[np.int64]

UNKNOWN = -1
"""Label of a host about which a signal says nothing: it joins nobody by it."""


def related_hosts(labels: Sequence[ArrayLike], n: int) -> Ints:
    """Cluster number of each of n hosts, shape (n,), from label arrays (n,) of ints (`UNKNOWN`: none)."""
    rows, columns, offset = [], [], n
    for label in labels:
        values = np.asarray(label, np.int64)
        known = np.flatnonzero(values != UNKNOWN)
        distinct, index = np.unique(values[known], return_inverse=True)
        rows.append(known)
        columns.append(index + offset)
        offset += len(distinct)
    tail = np.concatenate([np.zeros(0, np.int64), *rows])
    head = np.concatenate([np.zeros(0, np.int64), *columns])
    bipartite = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(offset, offset))
    _, cluster = csgraph.connected_components(bipartite, directed=False)
    return np.asarray(cluster[:n], np.int64)


def support(src: ArrayLike, dst: ArrayLike, n: int) -> Ints:
    """Distinct other hosts that link to each of n hosts, shape (n,)."""
    return independent_support(src, dst, n, np.arange(n))


def independent_support(src: ArrayLike, dst: ArrayLike, n: int, cluster: ArrayLike) -> Ints:
    """Distinct clusters, other than a host's own, that link to each of n hosts, shape (n,)."""
    group = np.asarray(cluster, np.int64)
    head = np.asarray(dst, np.int64)
    voter = group[np.asarray(src, np.int64)]
    outside = voter != group[head]
    votes = np.unique(head[outside] * (int(group.max(initial=0)) + 1) + voter[outside])
    return np.bincount(votes // (int(group.max(initial=0)) + 1), minlength=n).astype(np.int64)
