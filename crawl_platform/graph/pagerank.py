"""PageRank with any teleport vector; mass of dangling nodes goes to the teleport vector too.

With dangling mass sent to the teleport vector v, the ranks are the normalised solution of y = v + d·Wᵀy,
where W has one row per linking node, scaled to sum 1, and empty rows for dangling nodes (Del Corso, Gullí,
Romani, Internet Mathematics 2005). So dangling nodes, which in a crawl are most nodes, take no part in the
iteration: they are pulled once at the end.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Floats = NDArray[np.float64]

MAX_ITERATIONS = 1_000
"""At damping .85 the error falls by .85 per step: 1e-12 takes 170 steps. More means damping near 1."""


class ConvergenceError(ArithmeticError):
    """The iteration did not reach its tolerance: damping too near 1, or weights not finite."""


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

    `teleport` (n,) need not be normalised; None is uniform. `weights` has one value ≥ 0 per arc, None is 1;
    a repeated arc counts as often as it is given. `start` is an earlier result to continue from.
    """
    if n == 0:
        return np.zeros(0)
    pull, dangling = _pull_matrix(src, dst, n, weights)
    jump = _distribution(teleport, n)
    linking = ~dangling
    inner = pull[linking][:, linking]
    guess = jump[linking] if start is None else _first_guess(np.asarray(start, np.float64), jump, linking)
    mass = np.zeros(n)
    mass[linking] = _solve(inner, jump[linking], damping, tol, guess)
    mass[dangling] = jump[dangling] + damping * (pull[dangling] @ mass)
    ranks: Floats = mass / mass.sum()
    return ranks


def _pull_matrix(
    src: ArrayLike, dst: ArrayLike, n: int, weights: ArrayLike | None
) -> tuple[sparse.csr_array, NDArray[np.bool_]]:
    """Wᵀ as CSR, and which nodes have no weighted out-link."""
    tail, head = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    weight = np.ones(len(tail)) if weights is None else np.asarray(weights, np.float64)
    out = np.bincount(tail, weights=weight, minlength=n)
    dangling = out <= 0
    share = weight / np.where(dangling, 1.0, out)[tail]
    return sparse.csr_array((share, (head, tail)), shape=(n, n)), dangling


def _distribution(teleport: ArrayLike | None, n: int) -> Floats:
    if teleport is None:
        return np.full(n, 1.0 / n)
    jump = np.asarray(teleport, np.float64)
    total = jump.sum()
    if jump.shape != (n,) or np.any(jump < 0) or not total > 0:
        raise ValueError("teleport needs n values ≥ 0, at least one of them above 0")
    normalised: Floats = jump / total
    return normalised


def _first_guess(start: Floats, jump: Floats, linking: NDArray[np.bool_]) -> Floats:
    """An earlier result is the solution up to a factor: the one that makes its teleport part fit."""
    held = start[linking].sum()
    guess: Floats = start[linking] * (jump[linking].sum() / held) if held > 0 else jump[linking]
    return guess


def _solve(inner: sparse.csr_array, jump: Floats, damping: float, tol: float, guess: Floats) -> Floats:
    """y = jump + damping·inner·y by Jacobi steps.

    inner's columns sum to at most 1, so the error is at most (last change)·damping/(1 − damping); the
    total mass is at least that of `jump`, and normalising at most doubles the relative error.
    """
    enough = tol * (1.0 - damping) / 2.0
    y = guess
    for _ in range(MAX_ITERATIONS):
        following: Floats = jump + damping * (inner @ y)
        change = float(np.abs(following - y).sum())
        y = following
        if change <= enough:
            return y
    raise ConvergenceError(f"change {change:.1e} after {MAX_ITERATIONS} steps, wanted {enough:.1e}")
