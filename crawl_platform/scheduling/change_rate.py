"""How often a page changes: a Gamma posterior over its Poisson rate.

`a` is the shape (a count of changes) and `b` the rate parameter in days, so the mean is a/b changes a day.
Per URL only the increments `(da, db)` over the group's prior are stored; a new URL starts at (0, 0) and so
behaves like its group until it has a history of its own. Each rule has a scalar form for the cell's loop
and a vectorised form for whole tables.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

HALF_LIFE = 60.0
"""Days after which what was learnt counts half (rates drift)."""

SMALLEST = 0.02
"""Least shape, and least rate parameter as a share of the prior's: a group's prior may move under stored
increments. In days it would be no bound but a belief: half an hour is for ever on a web that changes in seconds."""


class Gamma(NamedTuple):
    """Belief about a change rate: shape `a`, rate parameter `b` in days."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        """Expected changes per day."""
        return self.a / self.b


INSTANT = 1e-9
"""Days (0.1 ms): no two checks of a page are closer, and below it q0 underflows."""


def update_one(a: float, b: float, tau: float, changed: bool) -> Gamma:
    """Posterior after one check `tau` days after the last one.

    "Unchanged" is exact. "Changed" (at least once within τ) has no Gamma posterior: the Gamma with the same
    mean and variance is taken; where rounding leaves no variance the belief stays as it was.
    """
    if tau < INSTANT:
        return Gamma(a, b)
    if not changed:
        return Gamma(a, b + tau)
    decay = math.log1p(tau / b)
    q0 = -math.expm1(-a * decay)
    q1 = -math.expm1(-(a + 1) * decay)
    q2 = -math.expm1(-(a + 2) * decay)
    mean = a / b * q1 / q0
    variance = a * (a + 1) / (b * b) * q2 / q0 - mean * mean
    if not (variance > 0 and math.isfinite(variance)):
        return Gamma(a, b)
    return Gamma(mean * mean / variance, mean / variance)


def update_page(a: ArrayLike, b: ArrayLike, tau: ArrayLike, changed: ArrayLike) -> tuple[Floats, Floats]:
    """Posteriors after one check each, `tau` days after the last: numbers or arrays that broadcast.

    `a` and `b` are totals (prior and increments); no drift is applied. The same rule as `update_one`.
    """
    a, b, tau = (np.asarray(value, np.float64) for value in (a, b, tau))
    changed = np.asarray(changed, np.bool_)
    tau = np.where(tau < INSTANT, 0.0, tau)
    with np.errstate(divide="ignore", invalid="ignore"):
        decay = np.log1p(tau / b)
        q0, q1, q2 = (-np.expm1(-(a + j) * decay) for j in range(3))
        mean = a / b * q1 / q0
        variance = a * (a + 1) / (b * b) * q2 / q0 - mean * mean
        matched = changed & (tau > 0) & (variance > 0) & np.isfinite(variance)
        new_a = np.where(matched, mean * mean / variance, a)
        new_b = np.where(matched, mean / variance, np.where(changed, b, b + tau))
    return new_a, new_b


def posterior(prior: Gamma, da: float, db: float) -> Gamma:
    """The belief that stored increments stand for under a group's present prior."""
    return Gamma(max(prior.a + da, SMALLEST), max(prior.b + db, SMALLEST * prior.b))


def observe(
    prior: Gamma, da: float, db: float, tau: float, changed: bool, half_life: float = HALF_LIFE
) -> tuple[float, float]:
    """New increments `(da, db)` after a check `tau` days after the last success.

    What was learnt fades first (half in `half_life` days), so the page drifts back to its group.
    """
    kept = 2.0 ** (-max(tau, 0.0) / half_life)
    before = posterior(prior, da * kept, db * kept)
    after = update_one(before.a, before.b, tau, changed)
    return after.a - prior.a, after.b - prior.b


def bias_reduced_rate(checks: int, changes: int, interval: float) -> float:
    """Cho & Garcia-Molina (TOIT 2003): −ln((n − X + ½)/(n + ½))/τ̄, changes per day.

    Finite also when every check found a change, where the maximum-likelihood estimate is not.
    """
    return -math.log((checks - changes + 0.5) / (checks + 0.5)) / interval


def naive_rate(checks: int, changes: int, interval: float) -> float:
    """X/T, changes per day: saturates at one change per check. For comparison only."""
    return changes / (checks * interval)


def most_likely_rate(intervals: ArrayLike, changed: ArrayLike) -> float:
    """Maximum-likelihood rate (changes per day) from checks after any `intervals` (days): the root of
    Σ_changed τ/(e^{λτ} − 1) = Σ_unchanged τ. 0 if nothing changed, infinite if everything did. For comparison only.

    Cho & Garcia-Molina, TOIT 2003; −ln(1 − X/n)/τ where all intervals are equal.
    """
    tau, found = np.asarray(intervals, np.float64), np.asarray(changed, np.bool_)
    still = float(tau[~found].sum())
    if not found.any():
        return 0.0
    if still == 0.0:
        return math.inf
    hits = tau[found]
    low, high = -60.0, math.log(len(tau) / still) + 1.0  # Σ τ/(e^{λτ} − 1) < X/λ
    for _ in range(200):
        middle = (low + high) / 2
        if float((hits / np.expm1(np.minimum(math.exp(middle) * hits, 700.0))).sum()) > still:
            low = middle
        else:
            high = middle
    return math.exp(high)
