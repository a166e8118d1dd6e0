"""Loops over arcs, as machine code: what `in_arcs` and `pagerank` are made of.

Nodes and sources are 32-bit without a sign (an index with one is checked at each use), places among arcs 64-bit.
`values` is empty where every arc weighs 1. A call handles one chunk of arcs, so that they can come from anywhere. All
arrays are written in place.
"""

import numpy as np
from numpy.typing import NDArray

from crawl_platform.machine_code import compiled

Nodes = NDArray[np.uint32]
Places = NDArray[np.int64]
Floats = NDArray[np.float64]
Arcs = tuple[Places, Nodes, Floats]
"""Ends of rows, sources, values."""


@compiled
def count(src: Nodes, dst: Nodes, weights: Floats, out: Floats, into: Places) -> None:
    """Add up the weight that leaves each node, and the arcs that reach it."""
    for e in range(len(src)):
        out[src[e]] += weights[e] if len(weights) > 0 else 1.0
        into[dst[e]] += 1


@compiled
def number(out: Floats, rows: Nodes, linking: int) -> None:
    """Linking nodes come first, each kind in the order that it was given in (neighbours by name are often linked)."""
    first, second = 0, linking
    for node in range(len(out)):
        if out[node] > 0:
            rows[node] = first
            first += 1
        else:
            rows[node] = second
            second += 1


@compiled
def partition(
    src: Nodes, dst: Nodes, weights: Floats, shift: int, starts: Places, to: tuple[Nodes, Nodes, Floats]
) -> None:
    """Sort a chunk by dst >> shift, so that writing it out goes from one small range of places to the next: at random,
    each write would wait for memory and for the page table."""
    starts[:] = 0
    for e in range(len(dst)):
        starts[(dst[e] >> shift) + 1] += 1
    for b in range(1, len(starts)):
        starts[b] += starts[b - 1]
    for e in range(len(dst)):
        b = dst[e] >> shift
        at = starts[b]
        starts[b] = at + 1
        to[0][at] = src[e]
        to[1][at] = dst[e]
        if len(weights) > 0:
            to[2][at] = weights[e]


@compiled
def scatter(
    part: tuple[Nodes, Nodes, Floats],
    size: int,
    rows: Nodes,
    place: Places,
    sources: Nodes,
    values: Floats,
    inner: Floats,
    bound: int,
) -> None:
    """Write each arc's source at the next place of its target. Places below `bound` are those of linking targets:
    `inner` (by linking row) sums the weight that goes to them. Other rows have arcs of weight 0 only: any row does as
    their source."""
    for e in range(size):
        row, node = rows[part[0][e]], part[1][e]
        at = place[node]
        place[node] = at + 1
        if row >= len(inner):
            row = 0
        sources[at] = row
        weight = 1.0
        if len(values) > 0:
            weight = part[2][e]
            values[at] = weight
        if at < bound:
            inner[row] += weight


@compiled
def block_end(ends: Places, first: int, last: int, arcs: int, rows: int) -> int:
    """Where a block that begins at row `first` ends: with at most `arcs` arcs and `rows` rows, or as one row."""
    begin = ends[first - 1] if first > 0 else 0
    end = first + 1
    while end < last and end - first < rows and ends[end] - begin <= arcs:
        end += 1
    return end


@compiled
def pull(arcs: Arcs, share: Floats, first: int, last: int, held: Floats, totals: Floats) -> None:
    """totals[i] = Σ share·value over the arcs into row first + i. Shares are fetched for all rows in one run, into
    `held`: the processor then waits for many at once, for it can't look past the ends of rows. What `held` has no room
    for is the end of a row that stands alone."""
    ends, sources, values = arcs
    begin = ends[first - 1] if first > 0 else 0
    known = min(ends[last - 1], begin + len(held))
    for e in range(begin, known):
        held[e - begin] = share[sources[e]] * (values[e] if len(values) > 0 else 1.0)
    at = begin
    for row in range(first, last):
        total = 0.0
        for e in range(at, min(ends[row], known)):
            total += held[e - begin]
        for e in range(max(at, known), ends[row]):
            total += share[sources[e]] * (values[e] if len(values) > 0 else 1.0)
        at = ends[row]
        totals[row - first] = total


@compiled
def sweep(
    arcs: Arcs,
    share: Floats,
    out: Floats,
    keep: Floats,
    jump: Floats,
    damping: float,
    room: tuple[Floats, Floats],
) -> tuple[float, float, float]:
    """One Gauss-Seidel step over the linking rows: share = (jump + damping·pull)/out, in place, block by block.

    Returns the change of Σ|share·out|, its sum, and Σ share·keep.
    """
    held, totals = room
    change = mass = kept = 0.0
    first, linking = 0, len(share)
    while first < linking:
        last = block_end(arcs[0], first, linking, len(held), len(totals))
        pull(arcs, share, first, last, held, totals)
        for row in range(first, last):
            value = jump[row] + damping * totals[row - first]
            new = value / out[row]
            change += abs(new - share[row]) * out[row]
            share[row] = new
            mass += value
            kept += new * keep[row]
        first = last
    return change, mass, kept


@compiled
def pull_rest(
    arcs: Arcs, share: Floats, jump: Floats, damping: float, room: tuple[Floats, Floats], result: Floats
) -> None:
    """result[row] = jump + damping·pull for the rows behind the linking ones."""
    held, totals = room
    first, rows = len(share), len(result)
    while first < rows:
        last = block_end(arcs[0], first, rows, len(held), len(totals))
        pull(arcs, share, first, last, held, totals)
        for row in range(first, last):
            result[row] = jump[row] + damping * totals[row - first]
        first = last
