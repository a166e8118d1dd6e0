"""What a fetch of a group is thought to bring: a sleeping bandit with costs.

    score_g = ( (S + n0·m0)/(N + n0) + sqrt(α·ln t/(N + n0)) ) / Ĉ_g

S: rewards and N: fetches of the group, both fading per window; m0: mean reward of all groups; t: 1 + fetches so
far; Ĉ: expected cost. The *whole* score is divided by the cost: an undivided bonus buys whatever is dear.
`worth` is the numerator, `allocation.allocate` divides. Groups without eligible work sleep: nobody asks for them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FADE = 0.99
"""What a reward and a fetch still count one window later: what was learnt halves in 69 windows."""
PSEUDO_FETCHES = 1.5
BONUS = 0.05
"""α; 0.02 to 0.1 do alike."""
UNTRIED = 0.5
"""Mean reward expected before any fetch."""
RANDOM_SHARE = 0.02
"""Share of a window's fetches that goes to groups by chance, so that one that has become good is found."""
COST_FETCHES = 5.0
CHEAPEST, DEAREST = 0.2, 5.0
"""A measured cost is believed within these bounds, in fetches of average cost."""


def worth(reward: ArrayLike, fetches: ArrayLike, so_far: float) -> Floats:
    """Expected reward of a group's next fetch with the bonus for what is not known of it, in [0, ~2].

    `reward` and `fetches` are the faded sums (G,), `so_far` all fetches ever made.
    """
    s, n = np.asarray(reward, np.float64), np.asarray(fetches, np.float64)
    usual = float(s.sum() / n.sum()) if n.sum() > 0 else UNTRIED
    weight = n + PSEUDO_FETCHES
    bonus = np.sqrt(BONUS * np.log(1.0 + so_far) / weight)
    value: Floats = (s + PSEUDO_FETCHES * usual) / weight + bonus
    return value


def width(fetches: ArrayLike) -> Floats:
    """Fetches in one window after which a group's worth counts half: twice what is known of it.

    Fetches in flight count as made, and have brought nothing yet. Without this, a group of which nothing is known
    would get a whole window on the bonus of its first fetch.
    """
    halved: Floats = 2.0 * (np.asarray(fetches, np.float64) + PSEUDO_FETCHES)
    return halved


def expected_cost(duration: ArrayLike, size: ArrayLike, fetches: ArrayLike) -> Floats:
    """Cost of a fetch of each group, 1 = the average fetch: half by time, half by bytes.

    `duration` and `size` are sums over the `fetches` measured; few fetches lean on the average.
    """
    n = np.asarray(fetches, np.float64)
    parts = [_relative(np.asarray(total, np.float64), n) for total in (duration, size)]
    cost: Floats = np.clip((sum(parts) / 2 * n + COST_FETCHES) / (n + COST_FETCHES), CHEAPEST, DEAREST)
    return cost


def _relative(total: Floats, n: Floats) -> Floats:
    if total.sum() <= 0:
        return np.ones(len(n))
    relative: Floats = total / np.maximum(n, 1.0) * (n.sum() / total.sum())
    return relative


class Draw(NamedTuple):
    """Fetches given by chance (G,), and the probability with which each group got just that."""

    given: Ints
    propensity: Floats


def by_chance(room: ArrayLike, usable: float, random: np.random.Generator) -> Draw:
    """About `RANDOM_SHARE` of the `usable` fetches, to groups with `room`, each with the same chance.

    Every such group draws for itself, so that the propensity is exact: where there are fewer groups than
    fetches to give, a group gets several at once.
    """
    free = np.asarray(room, np.int64)
    awake = free > 0
    wanted, n = RANDOM_SHARE * usable, int(awake.sum())
    if not n or wanted <= 0:
        return Draw(np.zeros(len(free), np.int64), np.ones(len(free)))
    unit = int(np.ceil(wanted / n))
    chance = wanted / n / unit
    lucky = random.random(len(free)) < chance
    given = np.where(awake & lucky, np.minimum(unit, free), 0)
    return Draw(given, np.where(awake, np.where(lucky, chance, 1.0 - chance), 1.0))
