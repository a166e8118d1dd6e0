"""The best constant fetch rates under a budget, where change rates are known: what a policy could reach at most.

Each takes importances μ, change rates λ (Poisson) and a budget R, in one unit of time, and returns what each page
gets. Pages that cost more freshness than they bring get nothing, except with the harmonic penalty of Kolobov et al.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw

from crawl_platform.scheduling.refresh import expected_freshness

Floats = NDArray[np.float64]

BISECTIONS = 100
NEAR = 10.0
"""λ/f up to which Lambert's W, taken near its branch point, can be improved upon."""


class Best(NamedTuple):
    """`rates` (pages,): fetches per unit of time, or probabilities of a fetch per signalled change. `multiplier`:
    what one more fetch would bring. `objective`: the sum that was maximised (a penalty: minimised)."""

    rates: Floats
    multiplier: float
    objective: float


def azar(importance: ArrayLike, change_rate: ArrayLike, budget: float) -> Best:
    """Fetches at random times (Poisson, rate ρ): maximise Σ μρ/(ρ + λ) with Σρ = R.

    ρ = max(0, √(μλ/ν) − λ); the pages with ρ > 0 are a prefix by μ/λ. Azar, Horvitz, Lubetzky, Peres, Shahaf,
    PNAS 2018. Raises `ValueError` for what is not positive.
    """
    mu, rate = _checked(importance, change_rate, budget)
    order = np.argsort(-mu / rate, kind="stable")
    roots = (budget + np.cumsum(rate[order])) / np.cumsum(np.sqrt(mu * rate)[order])
    served = np.sqrt(mu / rate)[order] * roots > 1.0
    root = roots[np.flatnonzero(served)[-1]]
    rho = np.maximum(np.sqrt(mu * rate) * root - rate, 0.0)
    return Best(rho, float(root**-2), float((mu * rho / (rho + rate)).sum()))


def cho(importance: ArrayLike, change_rate: ArrayLike, budget: float) -> Best:
    """Fetches at even intervals 1/f: maximise Σ μ·(f/λ)(1 − e^{−λ/f}) with Σf = R.

    Where f > 0: (μ/λ)(1 − (1 + r)e^{−r}) = ν with r = λ/f. Cho and Garcia-Molina, TODS 28(4), 2003. Raises
    `ValueError` for what is not positive.
    """
    mu, rate = _checked(importance, change_rate, budget)
    low, high = -745.0, float(np.log((mu / rate).max())) + 1e-12  # at `high` no page gets anything
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _even_rates(mu, rate, np.exp(middle)).sum() > budget:
            low = middle
        else:
            high = middle
    more, less = (_even_rates(mu, rate, np.exp(end)) for end in (low, high))
    between = more.sum() - less.sum()
    visits = less + (more - less) * ((budget - less.sum()) / between if between > 0 else 0.0)
    return Best(visits, float(np.exp(high)), float((mu * expected_freshness(rate, visits)).sum()))


def _even_rates(mu: Floats, rate: Floats, multiplier: float) -> Floats:
    """f of each page at which one more fetch brings just `multiplier`; 0 where none brings as much.

    (1 + r)e^{−r} = 1 − ν·λ/μ by the lower branch of Lambert's W, near whose branch point by its series; then Newton.
    """
    wanted = multiplier * rate / mu
    served = wanted < 1.0
    part = np.where(served, wanted, 0.5)
    root = np.sqrt(2.0 * part)
    ratio = np.where(part < 1e-3, root + root * root / 3.0, -1.0 - lambertw((part - 1.0) / np.e, -1).real)
    near = ratio < NEAR
    for _ in range(3):
        over = -np.expm1(-ratio[near]) - ratio[near] * np.exp(-ratio[near]) - part[near]
        ratio[near] -= over / (ratio[near] * np.exp(-ratio[near]))
    return np.asarray(np.where(served, rate / ratio, 0.0))


def kolobov(importance: ArrayLike, change_rate: ArrayLike, budget: float, *, signalled: bool = False) -> Best:
    """Minimise the harmonic staleness penalty, which never leaves a page alone for good. Kolobov, Peres, Lu, Horvitz,
    NeurIPS 2019.

    Without change signals: Σ μ·ln((λ + ρ)/ρ) with Σρ = R. `signalled`: every change is told of, and is followed by
    a fetch with probability p: −Σ μ·ln p with Σ pλ = R (p = 1, multiplier 0 where the budget is enough for all).
    Raises `ValueError` for what is not positive.
    """
    mu, rate = _checked(importance, change_rate, budget)
    if signalled and rate.sum() <= budget:
        return Best(np.ones(len(rate)), 0.0, 0.0)
    low, high = -745.0, 709.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        chosen = _harmonic(mu, rate, np.exp(middle), signalled=signalled)
        if (chosen * rate if signalled else chosen).sum() > budget:
            low = middle
        else:
            high = middle
    multiplier = float(np.exp(high))
    chosen = _harmonic(mu, rate, multiplier, signalled=signalled)
    penalty = -np.log(chosen) if signalled else np.log1p(rate / chosen)
    return Best(chosen, multiplier, float((mu * penalty).sum()))


def _harmonic(mu: Floats, rate: Floats, multiplier: float, *, signalled: bool) -> Floats:
    """ρ (or p) at this multiplier; without the difference of nearly equal numbers that the root would be."""
    reach = mu / multiplier
    if signalled:
        return np.asarray(np.minimum(1.0, reach / rate))
    return np.asarray(2.0 * reach / (1.0 + np.sqrt(1.0 + 4.0 * reach / rate)))


def _checked(importance: ArrayLike, change_rate: ArrayLike, budget: float) -> tuple[Floats, Floats]:
    mu, rate = np.asarray(importance, np.float64), np.asarray(change_rate, np.float64)
    if mu.ndim != 1 or mu.shape != rate.shape or not len(mu):
        raise ValueError(
            "importances and change rates must be two lists of the same length, of one page or more"
        )
    if not (np.isfinite(mu) & (mu > 0)).all() or not (np.isfinite(rate) & (rate > 0)).all() or not budget > 0:
        raise ValueError("importances, change rates and the budget must be positive and finite")
    return mu, rate
