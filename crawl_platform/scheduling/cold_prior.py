"""How often pages of a group change, guessed from what the group looks like, before it has been watched.

A gradient-boosted tree model of ln(rate) on the words of the path template, the words of links to the group's pages
and where these stand, depth, sitemaps, the types that its pages declare, and the host's trust. It is judged on hosts
that it has not seen, against the guess that every group is like the mean, and against its own previous version.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TOKENS = 32
"""Columns that words of templates are hashed to; with a few dozen different words most are alone in theirs."""
ANCHOR_TOKENS, TYPE_TOKENS = 16, 16
"""The same for words of links, and for declared types (Article, Product): there are fewer that tell much."""
FOLDS = 5
LEAST_GROUPS, LEAST_HOSTS = 30, 5
"""Fewer well-watched groups or hosts than this teach nothing that would hold elsewhere."""
SEED = 20_071
_WORD = re.compile(r"[a-z]+|[#*]")


@dataclass(frozen=True)
class Looks:
    """What G groups look like; texts by group, else arrays (G,).

    `anchors`: words of links to its pages; `types`: what its pages say they are about; `listed`, `dated`: share of its
    URLs that a sitemap or feed lists, and whose lastmod it tells; `linked_by`: mean trust of the hosts that link to its
    pages; `linkers_useful`: share of fetches on these hosts that brought something new.
    """

    template: Sequence[str]
    depth: Floats
    in_links: Floats
    main_share: Floats
    known_urls: Floats
    trust: Floats
    anchors: Sequence[str]
    types: Sequence[str]
    listed: Floats
    dated: Floats
    linked_by: Floats
    linkers_useful: Floats

    def features(self) -> Floats:
        """(G, TOKENS + ANCHOR_TOKENS + TYPE_TOKENS + 10); what is unknown is NaN, which the trees take as it is."""
        columns = (
            self.depth,
            np.log1p(self.in_links),
            self.main_share,
            np.log1p(self.known_urls),
            np.log(np.maximum(self.trust, 1e-12)),
            np.array([t.count("/") for t in self.template], np.float64),
            self.listed,
            self.dated,
            np.log(np.maximum(self.linked_by, 1e-12)),
            self.linkers_useful,
        )
        words = (
            _hashed(self.template, TOKENS),
            _hashed(self.anchors, ANCHOR_TOKENS),
            _hashed(self.types, TYPE_TOKENS),
        )
        return np.column_stack([*words, *columns])


def _hashed(texts: Sequence[str], columns: int) -> Floats:
    counts = np.zeros((len(texts), columns))
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.lower()):
            counts[row, xxhash.xxh32_intdigest(word.encode()) % columns] += 1.0
    return counts


class Known(NamedTuple):
    """Groups that a model learns from: features (G, F), ln(rate) (G,) and host."""

    features: Floats
    log_rate: Floats
    host: Sequence[str]

    def without(self, hosts: set[str]) -> "Known":
        kept = [place for place, host in enumerate(self.host) if host not in hosts]
        return Known(self.features[kept], self.log_rate[kept], [self.host[place] for place in kept])


@dataclass(frozen=True)
class Judged:
    """Errors on held-out hosts, mean of |ln(guess/rate)|: of the model, and of the mean of the others."""

    model: float
    baseline: float
    squared: float
    """Mean squared error of the model in ln(rate)."""
    previous: float | None = None
    """Error of the previous version on the same groups, of whose hosts it had seen as little."""
    chance: float = 0.0
    """What chance can make of the difference between the two: two standard errors of its mean."""

    @property
    def better(self) -> bool:
        return self.model < self.baseline

    @property
    def no_worse(self) -> bool:
        """Whether it may take the place of its previous version."""
        return self.previous is None or self.model <= self.previous + self.chance


def judge(features: Floats, log_rate: ArrayLike, host: Sequence[str], before: Known | None = None) -> Judged:
    """Fit on some hosts, guess for the others, in turn, so that each group is guessed once. `before`: what the previous
    version learnt from."""
    from sklearn.model_selection import GroupKFold

    target, hosts = np.asarray(log_rate, np.float64), np.asarray(host)
    guess, mean, previous = np.empty(len(target)), np.empty(len(target)), np.empty(len(target))
    folds = GroupKFold(n_splits=min(FOLDS, len(set(host))))
    for seen, held_out in folds.split(features, target, groups=hosts):
        guess[held_out] = predict(features[seen], target[seen], features[held_out])
        mean[held_out] = target[seen].mean()
        if before is not None:
            then = before.without(set(hosts[held_out].tolist()))
            if not len(then.host):
                before = None
                continue
            previous[held_out] = predict(then.features, then.log_rate, features[held_out])
    error = guess - target
    judged = Judged(
        float(np.abs(error).mean()), float(np.abs(mean - target).mean()), float((error**2).mean())
    )
    if before is None:
        return judged
    theirs = np.abs(previous - target)
    chance = 2.0 * float(np.std(np.abs(error) - theirs)) / np.sqrt(len(target))
    return replace(judged, previous=float(theirs.mean()), chance=float(chance))


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
