"""PageRank with any teleport vector; mass of dangling nodes goes to the teleport vector too.

With dangling mass sent to the teleport vector v, the ranks are the normalised solution of y = v + d·Wᵀy,
where W has one row per linking node, scaled to sum 1, and empty rows for dangling nodes (Del Corso, Gullí,
Romani, Internet Mathematics 2005). So dangling nodes, which in a crawl are most nodes, take no part in the
iteration: they are pulled once at the end.

The iteration is Gauss-Seidel's. Between steps y is scaled so that as much mass comes in as goes out: the total
alone would take steps of factor d, while what is left after scaling falls as fast as the graph mixes.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from crawl_platform.graph.in_arcs import InArcs

Floats = NDArray[np.float64]

MAX_STEPS = 1_000
"""At damping .85 the error falls by .85 per step or faster: 1e-12 takes 170 steps. More means damping near 1."""
PATIENCE = 3
"""Steps that fall by less than d after which scaling is given up: without it, they fall by d in the long run."""
HELD_ARCS, HELD_ROWS = 4_096, 1_024
"""Of a block of rows: 40 KB, which stay in the second cache at least."""


class ConvergenceError(ArithmeticError):
    """The iteration did not reach its tolerance: damping too near 1."""


def pagerank(
    src: ArrayLike,
    dst: ArrayLike,
    n: int,
    damping: float = 0.85,
    teleport: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-10,
    start: ArrayLike | None = None,
) -> Floats:
    """Ranks of n nodes, shape (n,), summing to 1, within `tol` of the exact ones in L1.

    `src`, `dst`: integers, of any width, mapped from a file if you like: no copy is made of them. `teleport` (n,) need
    not be normalised; None is uniform. `weights` has one finite value ≥ 0 per arc, None is 1; a repeated arc counts as
    often as it is given. `start` is an earlier result to continue from. Memory: 4 bytes an arc, 8 more with weights,
    and at most 72 a node. Raises ValueError for arrays that don't fit.
    """
    # Here, because numba takes a second to import and 60 MB, and most that import this module don't rank.
    from crawl_platform.graph.in_arcs import in_arcs

    if not 0 <= damping < 1:
        raise ValueError(f"damping is {damping}: from 0 to below 1")
    if n == 0:
        return np.zeros(0)
    jump = _distribution(teleport, n)
    graph = in_arcs(src, dst, n, weights)
    if not graph.linking:
        return jump
    return _ranks(graph, jump, damping, tol, None if start is None else np.asarray(start, np.float64))


def _distribution(teleport: ArrayLike | None, n: int) -> Floats:
    if teleport is None:
        return np.full(n, 1.0 / n)
    jump = np.asarray(teleport, np.float64)
    total = jump.sum()
    if jump.shape != (n,) or np.any(jump < 0) or not 0 < total < np.inf:
        raise ValueError("teleport needs n values ≥ 0, at least one of them above 0")
    normalised: Floats = jump / total
    return normalised


def _ranks(graph: "InArcs", given: Floats, damping: float, tol: float, start: Floats | None) -> Floats:
    from crawl_platform.graph import kernels

    jump = np.empty_like(given)
    jump[graph.rows] = given
    result = np.empty_like(jump)
    if start is not None:
        result[graph.rows] = start
    begin = result if start is not None and result[: graph.linking].sum() > 0 else jump
    share = begin[: graph.linking] / graph.out
    room = (np.empty(HELD_ARCS), np.empty(HELD_ROWS))
    _solve(graph, share, jump, damping, tol, room)
    np.multiply(share, graph.out, out=result[: graph.linking])
    kernels.pull_rest(graph.arcs, share, jump, damping, room, result)
    result /= result.sum()
    ranks: Floats = result[graph.rows]
    return ranks


def _solve(
    graph: "InArcs", share: Floats, jump: Floats, damping: float, tol: float, room: tuple[Floats, Floats]
) -> None:
    """share·out = y, the solution of y = jump + damping·Wᵀy over the linking rows, in place.

    What a step changes is all that its result still lacks at most, times damping: the error is at most
    change·damping/(1 − damping), for W's rows sum to at most 1. Normalising doubles the relative error at most.
    """
    from crawl_platform.graph import kernels

    keep = graph.out - damping * graph.inner
    source = float(jump[: graph.linking].sum())
    scale, previous, slow = _balance(source, float(share @ keep)), np.inf, 0
    for _ in range(MAX_STEPS):
        if slow < PATIENCE:
            share *= scale
        change, mass, kept = kernels.sweep(graph.arcs, share, graph.out, keep, jump, damping, room)
        if 2.0 * damping * change <= tol * (1.0 - damping) * (mass + 1.0 - source):
            return
        slow += change > damping * previous
        scale, previous = _balance(source, kept), change
    raise ConvergenceError(f"change {change:.1e} of {mass:.1e} after {MAX_STEPS} steps, wanted {tol:.1e}")


def _balance(comes: float, goes: float) -> float:
    """Summed over all rows, y − damping·(what stays among them) is what jumps in: the factor that makes it so."""
    return comes / goes if goes > 0 else 1.0


def warm() -> None:
    """Have the machine code that ranks are made with: from where it is kept, or compiled now."""
    for weights in (None, [1.0, 1.0]):
        pagerank([0, 0], [1, 0], 2, weights=weights)
