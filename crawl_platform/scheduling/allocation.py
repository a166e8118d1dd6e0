"""A window's capacity among groups: max Σ U_g(x_g) with L_g ≤ x_g ≤ H_g, Σ_{g on h} x_g ≤ H_h and Σ C_g x_g ≤ B.

U_g(x) = v_g·w_g·ln(1 + x/w_g): the first fetch of a group is worth v_g, the one after w_g fetches half of that.
For concave U greedy by marginal utility per cost is optimal up to one unit. Instead of dealing units one by one,
a threshold on the marginal is found by bisection, one per host where politeness binds and one for all, and the
rest is dealt singly.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BISECTIONS = 60
"""Halvings of a log scale of 50 orders of magnitude: below one part in 10^15."""
HIGHEST, LOWEST = 1e-9, -50 * np.log(10)
"""Ends of that scale, as logarithms of the marginal over the best first one."""


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
    *,
    host: ArrayLike | None = None,
    host_most: ArrayLike | None = None,
    width: ArrayLike | None = None,
) -> Ints:
    """Fetches for each of G groups; every argument but `budget` and `host_most` has shape (G,).

    `wanted` is eligible work, `most` what politeness allows, `cost` the expected cost of a fetch in the
    units of `budget`, `value` the worth of a group's next fetch, `reserved` what deadlines need first.
    No group gets more than min(wanted, most), and the groups of one host (`host`: its number) together no more
    than its `host_most`. `width`: fetches after which a group's value has halved, by default its wanted work.
    Reservations that don't fit are served by value per cost as far as it goes; see `shortfall`.
    """
    want, price, worth = (np.asarray(v, np.float64) for v in (wanted, cost, value))
    if np.any(price <= 0):
        raise ValueError("every cost must be above 0")
    high = np.floor(np.clip(np.minimum(want, np.asarray(most, np.float64)), 0, None)).astype(np.int64)
    low = np.clip(np.asarray(reserved, np.int64), 0, high)
    number = np.zeros(len(want), np.int64) if host is None else np.asarray(host, np.int64)
    room = np.array([np.inf]) if host_most is None else np.asarray(host_most, np.float64)
    halved = want if width is None else np.broadcast_to(np.asarray(width, np.float64), want.shape)
    program = _Program(np.maximum(halved, 1.0), price, worth, budget, number, room)
    if not program.fits(low):
        low = program.fill(np.zeros_like(low), low)
    return program.fill(low, high)


def shortfall(reserved: ArrayLike, given: Ints) -> Ints:
    """Reserved fetches per group that did not fit: promises to report, loudly."""
    missing: Ints = np.maximum(np.asarray(reserved, np.int64) - given, 0)
    return missing


@dataclass(frozen=True)
class _Program:
    """What is the same for every step: arrays (G,), `room` by host."""

    width: Floats
    price: Floats
    worth: Floats
    budget: float
    host: Ints
    room: Floats

    def fits(self, given: Ints) -> bool:
        return float(given @ self.price) <= self.budget and bool(np.all(self.used(given) <= self.room))

    def used(self, given: Ints) -> Floats:
        """Fetches by host."""
        return np.bincount(self.host, given, len(self.room)).astype(np.float64)

    def fill(self, low: Ints, high: Ints) -> Ints:
        """Raise `low`, which fits, towards `high` by marginal value per cost until a limit is met."""
        given = self._above_threshold(low, high)
        left, room = self.budget - float(given @ self.price), self.room - self.used(given)
        first = self.worth / self.price
        heap = [
            (-first[g] / (1.0 + given[g] / self.width[g]), g)
            for g in np.flatnonzero((given < high) & (self.worth > 0) & (room[self.host] >= 1))
        ]
        heapq.heapify(heap)
        while heap:
            _, g = heapq.heappop(heap)
            if self.price[g] > left + 1e-9 or room[self.host[g]] < 1:
                continue
            given[g] += 1
            left -= self.price[g]
            room[self.host[g]] -= 1
            if given[g] < high[g]:
                heapq.heappush(heap, (-first[g] / (1.0 + given[g] / self.width[g]), g))
        return given

    def _above_threshold(self, low: Ints, high: Ints) -> Ints:
        """All units whose marginal value per cost is above the least thresholds that keep every limit."""
        first = self.worth / self.price
        top = float(first.max(initial=0.0))
        if top <= 0:
            return low.copy()

        def units(log_threshold: Floats) -> Ints:
            count = np.floor(self.width * (first / top / np.exp(log_threshold) - 1.0)) + 1.0
            return np.where(self.worth > 0, np.clip(count, low, high), low).astype(np.int64)

        of_host = _bisect(lambda t: np.asarray(self.used(units(t[self.host])) <= self.room), len(self.room))[
            self.host
        ]
        of_all = _bisect(lambda t: np.array([units(np.maximum(of_host, t)) @ self.price <= self.budget]), 1)
        found = units(np.maximum(of_host, of_all))
        # A threshold just above the top gives a group's reserved units only.
        return found if self.fits(found) else low.copy()


def _bisect(fits: Callable[[Floats], NDArray[np.bool_]], n: int) -> Floats:
    """Least log thresholds (n,) that fit, each on its own; `fits` takes all of them and says which do."""
    above, below = np.full(n, HIGHEST), np.full(n, LOWEST)
    if np.all(fits(below)):
        return below
    for _ in range(BISECTIONS):
        middle = (above + below) / 2
        good = fits(middle)
        above, below = np.where(good, middle, above), np.where(good, below, middle)
    return above
