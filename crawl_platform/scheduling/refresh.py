"""Which page next: what a fetch now is worth to the freshness of the copy (SCHEDULING §3).

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


def known_rate_index(rate: float, age: float, importance: float = 1.0, cost: float = 1.0) -> float:
    """The same value when the rate (changes per day) is known: the yardstick in tests and benchmarks."""
    x = rate * age
    return importance / (rate * cost) * -(math.expm1(-x) + x * math.exp(-x))


def expected_freshness(rate: float, fetch_rate: float) -> float:
    """Share of time that a copy fetched `fetch_rate` times a day at even intervals is fresh."""
    return fetch_rate / rate * -math.expm1(-rate / fetch_rate)
