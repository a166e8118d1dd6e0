"""What a graph looks like in numbers: degrees, and how much of it hangs together."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from crawl_platform.graph.link_kernels import Nodes

Ints = NDArray[np.int64]


class Shape(NamedTuple):
    """Of the nodes with an arc: arcs that reach and that leave each, and nodes per component (largest first), where
    arcs count in both directions."""

    reach: Ints
    leave: Ints
    components: Ints


def shape(src: Nodes, dst: Nodes, n: int) -> Shape:
    """The shape of n nodes, of which those without an arc are left out."""
    reach, leave = np.bincount(dst, minlength=n), np.bincount(src, minlength=n)
    there = reach + leave > 0
    graph = sparse.csr_array((np.ones(len(src), np.int8), (src, dst)), shape=(n, n))
    _, component = csgraph.connected_components(graph, directed=False)
    sizes = np.bincount(component[there])
    return Shape(reach[there], leave[there], -np.sort(-sizes[sizes > 0]))
