"""How fast pages change, from nothing but what their checks found: pages of a group are alike, groups are not.

The scheduler's belief is a Gamma posterior, quick to update and good enough to choose by. What *measures* the
crawl must not lean on it: a prior that is off by some, or pages of which half never change, moves the freshness
it implies by ten points. Here rates live on a fixed grid and every check counts with its exact Poisson likelihood.
A group has a mean rate m, of which the distribution over groups is a histogram fitted by EM (Laird's nonparametric
maximum likelihood, JASA 1978); its pages have rates around m, as far apart as makes the checks of all groups
likeliest (`SHAPES`, `DEAD`). One check a page says how often pages change and nothing about how unlike they are:
were each free to have any rate, those that changed would pass for the fast ones. Days throughout.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID: Floats = np.geomspace(1e-6, 2 * 86_400.0, 72)
"""Changes per day: from practically none to two a second, each 1.4 times the one before."""
MEANS: Floats = np.geomspace(GRID[0], GRID[-1], 3 * len(GRID) - 2)
"""Means of groups, each 1.12 times the one before: many pages know their mean better than one page its rate."""
STEPS = 100
SHAPES = (80.0, 10.0, 5.0, 2.5, 1.2, 0.6, 0.3)
"""Gamma shapes of the rates of a group's pages over their mean: from as good as equal to a thousandfold apart …"""
DEAD = (0.0, 0.1, 0.25, 0.5)
"""… and shares of pages that never change beside them."""
NEGLIGIBLE = 1e-3
PSEUDO_GROUPS = 1.0
"""The prior of a page of which nothing is known weighs like one group."""
CHUNK = 50_000
"""Checks at a time: 30 MB."""


class Checks(NamedTuple):
    """Checks of P pages: `page` (N,) is a number below P, in order; `days` (N,) since the success before; `changed`."""

    page: Ints
    days: Floats
    changed: NDArray[np.bool_]


def gamma_weights(a: float, b: float, rates: Floats = GRID) -> Floats:
    """A Gamma(shape `a`, rate parameter `b` in days) as weights on a grid of rates: its density in the logarithm."""
    logs = a * np.log(rates) - b * rates
    weights: Floats = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def likelihoods(checks: Checks, pages: int) -> Floats:
    """(P, grid): how likely the checks of each page are at each rate, relative to its best; 1 without checks.

    Unchanged over τ: e^{−λτ}; changed: 1 − e^{−λτ}.
    """
    unchanged = np.bincount(checks.page, checks.days * ~checks.changed, pages)
    logs: Floats = -unchanged[:, None] * GRID
    found = np.flatnonzero(checks.changed)
    for start in range(0, len(found), CHUNK):
        part = found[start : start + CHUNK]
        page, first = np.unique(checks.page[part], return_index=True)
        each = np.log(-np.expm1(-np.maximum(checks.days[part], 1e-9)[:, None] * GRID))
        logs[page] += np.add.reduceat(each, first, axis=0)
    relative: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return relative


def around(shape: float, dead: float) -> Floats:
    """(means, grid): distributions of the rates of pages whose group has one of `MEANS`, each of sum 1.

    Gamma(`shape`) about the mean, and a share `dead` that never changes.
    """
    ratio = GRID[None, :] / MEANS[:, None]
    logs = shape * (np.log(ratio) - ratio)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights *= (1.0 - dead) / weights.sum(axis=1, keepdims=True)
    weights[:, 0] += dead
    return np.asarray(weights)


class Fit(NamedTuple):
    """`belief` (G, means): how likely each mean rate is for each group, if the rates of a group's pages lie `around`
    it as in `kernel` (means, grid); `evidence` is the logarithm of how likely that makes all checks."""

    belief: Floats
    kernel: Floats
    evidence: float


def fitted(likelihood: Floats, kernel: Floats, prior: Floats, group: Ints, groups: int) -> Fit:
    """Means of G groups from the likelihoods of P pages (P, grid); `prior` (means,) is believed of a group before any
    other. Pages that are alone in their group (front pages, sections) and pages of many (articles) are different
    crowds: each has its own distribution over groups, found by EM, which leans on that of all.
    """
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    of_page = np.log(np.maximum(likelihood[order] @ kernel.T, 1e-300))
    logs = np.zeros((groups, len(MEANS)))
    logs[present] = np.add.reduceat(of_page, first, axis=0)
    best = logs.max(axis=1, keepdims=True)
    relative = np.exp(logs - best)
    everywhere = _over_groups(relative, prior)
    alone = np.bincount(group, minlength=groups) < 2
    joint = np.empty_like(relative)
    for kind in (alone, ~alone):
        joint[kind] = relative[kind] * _over_groups(relative[kind], everywhere)
    total = joint.sum(axis=1, keepdims=True)
    return Fit(joint / total, kernel, float((best + np.log(total)).sum()))


def _over_groups(relative: Floats, prior: Floats) -> Floats:
    """The distribution of means (means,) over groups with these likelihoods (G, means), by EM from `prior`."""
    found = prior
    for _ in range(STEPS):
        share = relative * found
        share /= share.sum(axis=1, keepdims=True)
        found = (share.sum(axis=0) + PSEUDO_GROUPS * prior) / (len(relative) + PSEUDO_GROUPS)
    return found


def still_equal(checks: Checks, group: Ints, age: Floats, prior: tuple[float, float]) -> Floats:
    """(P,): probability that each page has not changed for `age` (P,) days since its last success.

    `group` (P,) numbers the groups from 0. Pages never checked are taken to be like those of their group that
    were, and as far as none was, like a page of any group; without any check `prior` (Gamma, days) is all there is.
    How unlike pages of a group are is averaged over, each `around` by its evidence.
    """
    if not len(group):
        return np.zeros(0)
    likelihood = likelihoods(checks, len(group))
    start, groups = gamma_weights(*prior, MEANS), int(group.max()) + 1
    fits = [fitted(likelihood, around(*spread), start, group, groups) for spread in product(SHAPES, DEAD)]
    evidence = np.array([fit.evidence for fit in fits])
    weight = np.exp(evidence - evidence.max()) if len(checks.page) else np.eye(len(fits))[0]
    equal = likelihood * np.exp(-np.maximum(age, 0.0)[:, None] * GRID)
    survives: Floats = np.zeros(len(group))
    for fit, part in zip(fits, weight / weight.sum(), strict=True):
        if part > NEGLIGIBLE:
            share = (equal @ fit.kernel.T) / np.maximum(likelihood @ fit.kernel.T, 1e-300)
            survives += part * (fit.belief[group] * share).sum(axis=1)
    return survives
