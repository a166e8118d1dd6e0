"""Which page next: what a fetch now is worth to the freshness of the copy.

With a known rate λ and x = λ·age the index is (importance/(λ·cost))·(1 − (1+x)e^{−x}) (Azar, Horvitz,
Lubetzky, Peres, Shahaf, PNAS 2018). `bayes_index` is that value averaged over the page's Gamma posterior.
Ages are in days.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def index_one(a: float, b: float, age: float, importance: float = 1.0, cost: float = 1.0) -> float:
    """Value of refreshing a page last checked `age` days ago, its rate believed to be Gamma(a, b).

    (imp/C)·{ b/(a−1)·[1 − (b/(b+t))^{a−1}] − t·(b/(b+t))^a }; the first term is b·ln(1 + t/b) at a = 1.
    """
    if age <= 0:
        return 0.0
    decay = math.log1p(age / b)
    exponent = (a - 1.0) * decay
    ratio = -math.expm1(-exponent) / exponent if exponent else 1.0
    return importance / cost * max(0.0, b * decay * ratio - age * math.exp(-a * decay))


def bayes_index(
    a: ArrayLike, b: ArrayLike, age: ArrayLike, importance: ArrayLike = 1.0, cost: ArrayLike = 1.0
) -> Floats:
    """`index_one` for numbers or arrays that broadcast."""
    a, b, importance, cost = (np.asarray(value, np.float64) for value in (a, b, importance, cost))
    age = np.maximum(np.asarray(age, np.float64), 0.0)
    decay = np.log1p(age / b)
    exponent = (a - 1.0) * decay
    safe = np.where(exponent == 0.0, 1.0, exponent)
    ratio = np.where(exponent == 0.0, 1.0, -np.expm1(-safe) / safe)
    value: Floats = importance / cost * np.maximum(0.0, b * decay * ratio - age * np.exp(-a * decay))
    return value


def known_rate_index(
    rate: ArrayLike, age: ArrayLike, importance: ArrayLike = 1.0, cost: ArrayLike = 1.0
) -> Floats:
    """The same value when the rate (changes per day) is known: the yardstick in tests and benchmarks."""
    rate, age, importance, cost = (np.asarray(value, np.float64) for value in (rate, age, importance, cost))
    x = rate * age
    return np.asarray(importance / (rate * cost) * -(np.expm1(-x) + x * np.exp(-x)))


def expected_freshness(rate: ArrayLike, fetch_rate: ArrayLike) -> Floats:
    """Share of time that a copy fetched `fetch_rate` times a day at even intervals is fresh; 0 if it never is."""
    visits = np.asarray(fetch_rate, np.float64)
    per_change = visits / np.asarray(rate, np.float64)
    fresh = per_change * -np.expm1(-1.0 / np.maximum(per_change, 1e-300))
    return np.asarray(np.where(visits > 0, fresh, 0.0))


def change_chance(a: float, b: float, age: float) -> float:
    """Probability that a page believed to be Gamma(a, b) has changed within `age` days: 1 − (b/(b + t))^a."""
    return -math.expm1(-a * math.log1p(age / b)) if age > 0 else 0.0


def age_of_change(a: float, b: float, chance: float) -> float:
    """Age (days) at which `change_chance` reaches `chance`, infinite where that is beyond all numbers."""
    if chance >= 1.0:
        return math.inf
    exponent = -math.log1p(-chance) / a
    return b * math.expm1(exponent) if exponent < 700.0 else math.inf


SOLVED = 1e-3
"""Relative error of an age that `age_of_index` allows itself: an interval is a belief, not a date."""


def age_of_index(a: float, b: float, index: float, oldest: float) -> float:
    """Age (days) at which `index_one(a, b, age)` reaches `index`; `oldest` if it doesn't before that age.

    Newton on ln(age), from the square root that holds for young pages (V ≈ a/b · t²/2), kept within a bracket.
    """
    if index_one(a, b, oldest) <= index:
        return oldest
    low, high = 0.0, oldest
    age = min(math.sqrt(2.0 * index * b / a), oldest)
    for _ in range(60):
        over = index_one(a, b, age) - index
        if over > 0:
            high = age
        else:
            low = age
        slope = age * age * a / (b + age) * math.exp(-a * math.log1p(age / b))  # dV/d ln(age)
        step = over / slope if slope > 0 else math.inf
        if abs(step) < SOLVED:
            break
        guess = age * math.exp(-step) if abs(step) < 3.0 else 0.0
        age = guess if low < guess < high else (low + high) / 2
    return age
