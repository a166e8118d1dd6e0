"""What a candidate policy would have brought, from the log of another one that left some choices to chance.

A decision i had k possible actions; the log knows the probability p_i(a) of each, the action that was taken, and what
came of it, r_i. The candidate would have taken a with probability π_i(a). With w_i = π_i(a_i)/p_i(a_i):

    inverse propensity  mean(w r)                          Horvitz & Thompson 1952
    self-normalised     Σ w r / Σ w                        Swaminathan & Joachims 2015
    doubly robust       mean(Σ_a π(a) q(a) + w (r − q))    Dudík, Langford & Li 2011

q_i(a): what a model expects, which must not have seen r_i (`expected_rewards`). Weights above `clip` are cut to it:
less noise for some bias, whose extent `clipped` tells. What the log gave probability 0 it can't value: `unsupported`.
Decisions of one window hang together, so intervals are by window.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONFIDENCE = 0.95
ENOUGH = 30.0
"""Effective decisions below which an estimate is called weak: its interval leans on a few of them."""
NEGLIGIBLE = 0.01
"""Share of a candidate's choices that the log may never have seen: they count as if they brought nothing, or what the
model expects."""
RIDGE = 1.0
FOLDS = 5


@dataclass(frozen=True)
class Log:
    """n decisions. `taken` (n,): number of the action; `reward` (n,); `chance` (n, k): probability of each action in
    the policy that made the log; `window` (n,): number of the decision's window.

    Raises `ValueError` for probabilities that don't add up to 1, or for an action taken that had none.
    """

    taken: Ints
    reward: Floats
    chance: Floats
    window: Ints

    def __post_init__(self) -> None:
        _distribution(self.chance, "logged")
        if len(self.taken) and self.of_taken(self.chance).min() <= 0:
            raise ValueError(
                "an action that was taken has a logged probability of 0: the log is not of this policy"
            )

    def of_taken(self, values: Floats) -> Floats:
        """(n,) of (n, k): those of the actions taken."""
        return np.asarray(values[np.arange(len(self.taken)), self.taken])


@dataclass(frozen=True)
class Estimate:
    """Reward per decision, with the interval that covers it in 95 of 100 logs (NaN: fewer than two windows).

    `gain` is the same less what the log's own policy brought: both had the same decisions, so it is known far better.
    `effective`: of how many decisions of the candidate's own the estimate is worth, (Σw)²/Σw² (Kish 1965).
    `clipped`: the share of the weights' sum that was cut.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    effective: float
    clipped: float


NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, 0.0, 0.0)


def unsupported(log: Log, candidate: Floats) -> float:
    """Share of the candidate's choices that the policy which made the log never takes."""
    _distribution(candidate, "candidate")
    return float(np.where(log.chance <= 0, candidate, 0.0).sum() / max(len(candidate), 1))


def inverse_propensity(log: Log, candidate: Floats, clip: float = np.inf) -> Estimate:
    """`candidate` (n, k): its probability of each action. Unbiased without `clip`, if the logged probabilities are
    right and nothing is unsupported."""
    weight, full = _weights(log, candidate, clip)
    return _mean(log, weight * log.reward, weight, full)


def self_normalised(log: Log, candidate: Floats, clip: float = np.inf) -> Estimate:
    """Divided by the weights instead of their number: slightly biased, and never outside the rewards' range."""
    weight, full = _weights(log, candidate, clip)
    total = float(weight.sum())
    if total <= 0:
        return NOTHING
    value = float(weight @ log.reward) / total
    # Delta method: the ratio's error is that of the mean of these terms.
    return _estimate(log, value, weight * (log.reward - value) * len(weight) / total, weight, full)


def doubly_robust(log: Log, candidate: Floats, expected: Floats, clip: float = np.inf) -> Estimate:
    """`expected` (n, k): what a model expects of each action. Right if either the propensities or the model are; the
    better the model, the less noise."""
    weight, full = _weights(log, candidate, clip)
    terms = (candidate * expected).sum(axis=1) + weight * (log.reward - log.of_taken(expected))
    return _mean(log, terms, weight, full)


def expected_rewards(log: Log, features: Floats) -> Floats:
    """(n, k): reward of each action by ridge regression on `features` (n, d), known before the action was taken.

    One model per action, fitted to the windows of the other folds, so that no decision is judged by what came of it.
    """
    scaled = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-12)
    design = np.column_stack((np.ones(len(features)), scaled))
    penalty = RIDGE * np.diag([0.0, *np.ones(features.shape[1])])
    fold = np.unique(log.window, return_inverse=True)[1] % FOLDS
    found = np.full(log.chance.shape, log.reward.mean() if len(log.reward) else 0.0)
    for out in range(FOLDS):
        for action in range(log.chance.shape[1]):
            seen = (fold != out) & (log.taken == action)
            if seen.any():
                x = design[seen]
                fitted = np.linalg.lstsq(x.T @ x + penalty, x.T @ log.reward[seen], rcond=None)[0]
                found[fold == out, action] = design[fold == out] @ fitted
    return found


METHODS: dict[str, Callable[[Log, Floats, Floats, float], Estimate]] = {
    "inverse propensity": lambda log, candidate, _, clip: inverse_propensity(log, candidate, clip),
    "self-normalised": lambda log, candidate, _, clip: self_normalised(log, candidate, clip),
    "doubly robust": doubly_robust,
}
"""By name; all take the log, the candidate, what a model expects, and the clip."""


def verdict(estimate: Estimate, logged: float, beyond: float, windows: int) -> str:
    """What the log says of a candidate, in words; `beyond`: what is `unsupported`, `logged`: what was brought."""
    if beyond > NEGLIGIBLE:
        return (
            f"the log can't say: {beyond:.1%} of the candidate's choices had propensity 0, so what they bring was never"
            " seen; let chance take them now and then, or ask for a candidate within what it does take"
        )
    if windows < 2 or not np.isfinite(estimate.low):
        return "the log can't say: it needs two windows or more to tell chance from difference"
    gained = f"{estimate.gain:+.3g} ({estimate.gain_low:+.3g} to {estimate.gain_high:+.3g}) on {logged:.3g}"
    if beyond > 0:
        gained += f"; {beyond:.2%} of its choices were never seen"
    if estimate.effective < ENOUGH:
        return f"weak: it rests on {estimate.effective:.0f} decisions like the candidate's; {gained}"
    if estimate.gain_low > 0:
        return f"more than what is shipped: {gained}"
    if estimate.gain_high < 0:
        return f"less than what is shipped: {gained}"
    return f"no difference that this log can show: {gained}"


def _weights(log: Log, candidate: Floats, clip: float) -> tuple[Floats, Floats]:
    """Weights (n,) as cut and as they are."""
    _distribution(candidate, "candidate")
    full = log.of_taken(candidate) / log.of_taken(log.chance)
    return np.minimum(full, clip), full


def _mean(log: Log, terms: Floats, weight: Floats, full: Floats) -> Estimate:
    if not len(terms):
        return NOTHING
    value = float(terms.mean())
    return _estimate(log, value, terms - value, weight, full)


def _estimate(log: Log, value: float, around: Floats, weight: Floats, full: Floats) -> Estimate:
    """`around` (n,): each decision's part in the error of `value`, 0 on average."""
    logged = float(log.reward.mean())
    reach = _reach(log, around)
    gain, gain_reach = value - logged, _reach(log, around - (log.reward - logged))
    squares = float((weight**2).sum())
    return Estimate(
        value,
        value - reach,
        value + reach,
        gain,
        gain - gain_reach,
        gain + gain_reach,
        effective=float(weight.sum()) ** 2 / squares if squares > 0 else 0.0,
        clipped=1.0 - float(weight.sum()) / float(full.sum()) if full.sum() > 0 else 0.0,
    )


def _reach(log: Log, around: Floats) -> float:
    """Half of Student's interval of a mean, by windows (cluster robust: Liang & Zeger 1986)."""
    number = np.unique(log.window, return_inverse=True)[1]
    windows = int(number.max()) + 1
    if windows < 2:
        return float(np.nan)
    error = float(np.sqrt(windows / (windows - 1) * (np.bincount(number, around) ** 2).sum())) / len(around)
    return float(student.ppf((1 + CONFIDENCE) / 2, windows - 1)) * error


def _distribution(chance: Floats, whose: str) -> None:
    if chance.ndim != 2 or (chance < 0).any() or not np.allclose(chance.sum(axis=1), 1.0):
        raise ValueError(
            f"the {whose} probabilities of a decision's actions must be 0 or more and add up to 1"
        )
