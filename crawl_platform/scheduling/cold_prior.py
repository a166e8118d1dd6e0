"""How often pages of a group change, guessed from what the group looks like, before it has been watched.

A gradient-boosted tree model of ln(rate) on the words of the path template, depth, links and the host's trust.
It is judged on hosts that it has not seen, against the guess that every group is like the mean.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TOKENS = 32
"""Columns that words of templates are hashed to; with a few dozen different words most are alone in theirs."""
FOLDS = 5
LEAST_GROUPS, LEAST_HOSTS = 30, 5
"""Fewer well-watched groups or hosts than this teach nothing that would hold elsewhere."""
SEED = 20_071
_WORD = re.compile(r"[a-z]+|[#*]")


@dataclass(frozen=True)
class Looks:
    """What G groups look like; arrays (G,)."""

    template: Sequence[str]
    depth: Floats
    in_links: Floats
    main_share: Floats
    known_urls: Floats
    trust: Floats

    def features(self) -> Floats:
        """(G, TOKENS + 6); what is unknown is NaN, which the trees take as it is."""
        columns = (
            self.depth,
            np.log1p(self.in_links),
            self.main_share,
            np.log1p(self.known_urls),
            np.log(np.maximum(self.trust, 1e-12)),
            np.array([t.count("/") for t in self.template], np.float64),
        )
        return np.column_stack([_hashed(self.template), *columns])


def _hashed(templates: Sequence[str]) -> Floats:
    counts = np.zeros((len(templates), TOKENS))
    for row, template in enumerate(templates):
        for word in _WORD.findall(template.lower()):
            counts[row, xxhash.xxh32_intdigest(word.encode()) % TOKENS] += 1.0
    return counts


@dataclass(frozen=True)
class Judged:
    """Errors on held-out hosts, mean of |ln(guess/rate)|: of the model, and of the mean of the others."""

    model: float
    baseline: float
    squared: float
    """Mean squared error of the model in ln(rate)."""

    @property
    def better(self) -> bool:
        return self.model < self.baseline


def judge(features: Floats, log_rate: ArrayLike, host: Sequence[str]) -> Judged:
    """Fit on some hosts, guess for the others, in turn, so that each group is guessed once."""
    from sklearn.model_selection import GroupKFold

    target = np.asarray(log_rate, np.float64)
    guess, mean = np.empty(len(target)), np.empty(len(target))
    folds = GroupKFold(n_splits=min(FOLDS, len(set(host))))
    for seen, held_out in folds.split(features, target, groups=np.asarray(host)):
        guess[held_out] = predict(features[seen], target[seen], features[held_out])
        mean[held_out] = target[seen].mean()
    error = guess - target
    return Judged(float(np.abs(error).mean()), float(np.abs(mean - target).mean()), float((error**2).mean()))


def predict(features: Floats, log_rate: ArrayLike, wanted: Floats) -> Floats:
    """ln(rate) of the groups with features `wanted`, learnt from those with `features`."""
    # Imported here: it takes a second, and most processes never learn anything.
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingRegressor(
        max_iter=120, learning_rate=0.08, max_leaf_nodes=8, min_samples_leaf=5, random_state=SEED
    )
    told = ~np.isnan(features).all(axis=0)  # a column of which nothing is known has no bins
    # On a machine that is busy crawling, threads that wait for each other make it a hundred times slower.
    with threadpool_limits(1):
        guess: Floats = model.fit(features[:, told], np.asarray(log_rate)).predict(wanted[:, told])
    return guess
