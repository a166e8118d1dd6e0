"""A window's capacity among groups: max Σ U_g(x_g) with L_g ≤ x_g ≤ H_g and Σ C_g x_g ≤ B (SCHEDULING §1).

U_g(x) = v_g·w_g·ln(1 + x/w_g): the first fetch of a group is worth v_g, the one after its whole wanted work
w_g half of that. For concave U greedy by marginal utility per cost is optimal up to one unit. Instead of
dealing units one by one, a threshold on the marginal is found by bisection and the rest is dealt singly.
"""

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BISECTIONS = 60
"""Halvings of a log scale of 50 orders of magnitude: below one part in 10^15."""


def marginal(x: ArrayLike, wanted: ArrayLike, value: ArrayLike, cost: ArrayLike) -> Floats:
    """Utility per cost of one more fetch for a group that has `x` already."""
    width = np.maximum(np.asarray(wanted, np.float64), 1.0)
    score: Floats = (
        np.asarray(value, np.float64) / (1.0 + np.asarray(x) / width) / np.asarray(cost, np.float64)
    )
    return score


def allocate(
    wanted: ArrayLike,
    most: ArrayLike,
    cost: ArrayLike,
    value: ArrayLike,
    budget: float,
    reserved: ArrayLike,
) -> Ints:
    """Fetches for each of G groups; every argument but `budget` has shape (G,).

    `wanted` is eligible work, `most` what politeness allows, `cost` the expected cost of a fetch in the
    units of `budget`, `value` the worth of a group's next fetch, `reserved` what deadlines need first.
    No group gets more than min(wanted, most). Reservations that don't fit `budget` are served by value per
    cost as far as it goes; see `shortfall`.
    """
    want, price, worth = (np.asarray(v, np.float64) for v in (wanted, cost, value))
    if np.any(price <= 0):
        raise ValueError("every cost must be above 0")
    high = np.floor(np.clip(np.minimum(want, np.asarray(most, np.float64)), 0, None)).astype(np.int64)
    low = np.clip(np.asarray(reserved, np.int64), 0, high)
    if float(low @ price) > budget:
        return _fill(np.zeros_like(low), low, want, price, worth, budget)
    return _fill(low, high, want, price, worth, budget)


def shortfall(reserved: ArrayLike, given: Ints) -> Ints:
    """Reserved fetches per group that did not fit: promises to report, loudly."""
    missing: Ints = np.maximum(np.asarray(reserved, np.int64) - given, 0)
    return missing


def _fill(low: Ints, high: Ints, want: Floats, price: Floats, worth: Floats, budget: float) -> Ints:
    """Raise `low` towards `high` by marginal value per cost until `budget` is spent."""
    given = _above_threshold(low, high, want, price, worth, budget)
    left = budget - float(given @ price)
    width, first = np.maximum(want, 1.0), worth / price
    heap = [
        (-first[g] / (1.0 + given[g] / width[g]), g) for g in np.flatnonzero((given < high) & (worth > 0))
    ]
    heapq.heapify(heap)
    while heap:
        _, g = heapq.heappop(heap)
        if price[g] > left + 1e-9:
            continue
        given[g] += 1
        left -= price[g]
        if given[g] < high[g]:
            heapq.heappush(heap, (-first[g] / (1.0 + given[g] / width[g]), g))
    return given


def _above_threshold(
    low: Ints, high: Ints, want: Floats, price: Floats, worth: Floats, budget: float
) -> Ints:
    """All units whose marginal value per cost is above the least threshold that stays within `budget`."""
    top = float((worth / price).max(initial=0.0))
    if top <= 0:
        return low.copy()
    first = worth / price / top
    width = np.maximum(want, 1.0)

    def units(log_threshold: float) -> Ints:
        count = np.floor(width * (first / np.exp(log_threshold) - 1.0)) + 1.0
        return np.where(worth > 0, np.clip(count, low, high), low).astype(np.int64)

    above, below = 1e-9, -50 * np.log(10)
    for _ in range(BISECTIONS):
        middle = (above + below) / 2
        if float(units(middle) @ price) <= budget:
            above = middle
        else:
            below = middle
    # A threshold just above the top gives a group's reserved units only.
    return units(above) if float(units(above) @ price) <= budget else low.copy()
