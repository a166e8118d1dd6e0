"""Reliability: of the checks that were thought to find a change with some probability, how many found one.

`calibration` (in `quality.freshness`) sets all expected changes beside all found: errors in both directions cancel out
there. Here they don't. Both numbers are computed over the same checks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawl_platform.quality.measure import Measure

BINS = 10
SIGMAS = 3.0
"""Standard deviations that chance is given."""

_CHECKS = "FROM recent WHERE kind = 'page' AND changed IS NOT NULL AND predicted_change IS NOT NULL"
_MISSING = "no page has been checked against an expectation in the look back"

MEASURES = (
    Measure(
        "brier_score",
        "freshness",
        "score",
        "Mean squared difference between the probability of a change that the scheduler believed in before a check and "
        "what the check found (1 or 0), over the checks of the look back: 0 is perfect, 0.25 is what a coin gets.",
        _MISSING,
        f"SELECT sum(pow(predicted_change - changed::INT, 2)) AS numerator, count(*) AS denominator {_CHECKS}",
    ),
    Measure(
        "calibration_error",
        "freshness",
        "share",
        "How far, on average over the checks of the look back, the probability of a change that was believed in lies "
        "from the share of checks with such a probability (in tenths) that found one.",
        _MISSING,
        "SELECT sum(abs(expected - found)) AS numerator, sum(checks) AS denominator FROM (SELECT "
        f"sum(predicted_change) AS expected, count(*) FILTER (changed) AS found, count(*) AS checks {_CHECKS} "
        f"GROUP BY least(floor({BINS} * predicted_change), {BINS - 1}))",
    ),
)


@dataclass(frozen=True)
class Reliability:
    """By bin of the predicted probability (`BINS` of equal width): checks, mean prediction, share that found a change
    (NaN where there is no check), and how far chance alone may move that share.

    `brier`: mean squared error (Brier 1950); `brier_of_mean`: that of always predicting the overall share; `error`: the
    expected calibration error, mean of |predicted − realised| over checks (Naeini et al. 2015). NaN without a check.
    """

    checks: NDArray[np.int64]
    predicted: NDArray[np.float64]
    realised: NDArray[np.float64]
    chance: NDArray[np.float64]
    brier: float
    brier_of_mean: float
    error: float

    def off(self, tolerance: float) -> NDArray[np.bool_]:
        """Bins whose share lies further from the prediction than `tolerance` and than chance explains."""
        distance = np.abs(self.predicted - self.realised)
        with np.errstate(invalid="ignore"):
            return np.asarray((distance > tolerance) & (distance > self.chance))


def reliability(predicted: ArrayLike, changed: ArrayLike) -> Reliability:
    """`predicted` (n,) probabilities of a change, and whether it had come (n,)."""
    p, came = np.asarray(predicted, np.float64), np.asarray(changed, np.bool_)
    bin_of = np.minimum((BINS * p).astype(np.int64), BINS - 1)
    checks = np.bincount(bin_of, minlength=BINS)
    expected, found, noise = (np.bincount(bin_of, w, BINS) for w in (p, came, p * (1 - p)))
    with np.errstate(invalid="ignore", divide="ignore"):
        n = len(p)
        return Reliability(
            checks=checks.astype(np.int64),
            predicted=expected / checks,
            realised=found / checks,
            chance=SIGMAS * np.sqrt(noise) / checks,
            brier=float(np.mean((p - came) ** 2)) if n else np.nan,
            brier_of_mean=float(came.mean() * (1 - came.mean())) if n else np.nan,
            error=float(np.abs(expected - found).sum()) / n if n else np.nan,
        )
