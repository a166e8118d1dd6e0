"""The prior of a URL group: what is believed of a page's change rate before it has a history.

Empirical Bayes by EM over single pages: replay each page's checks under its group's present prior, take the
moments of the posteriors, fit a Gamma to them, repeat. How often a page is checked follows from what was seen of
it before; a likelihood taken page by page is not misled by that, counts by length of the interval are. Days
throughout.

What a small group borrows from the others is their spread (shape), and their mean only as far as groups are
alike: ln m ~ Normal over groups, its variance fitted too. Pages of seconds and pages of months share a crawl,
and pages of the average rate put into every group would make the slow ones ten times too fast (decision 0007).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaincinv, polygamma

from crawl_platform.scheduling.change_rate import HALF_LIFE, SMALLEST, Gamma, update_page

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHAPE_MIN, SHAPE_MAX = 0.2, 20.0
"""A flatter prior would believe nearly every page dead or alive; a narrower one nothing that its pages show."""

PSEUDO_PAGES = 30.0
"""So many pages with the spread of all groups stand in every group. Few can tell their own: a group of fast pages
that nearly always had changed passes for one of a few dead pages and others beyond all measure."""

LEAST_SPREAD = 0.25
"""Least variance of ln(mean rate) between groups: a factor of e^½ either way is always thought possible."""

FIRST_SPREAD = 4.0
"""Where the fit of that variance starts: a factor of e² either way."""

FIRST_SHAPE = 2.0
"""Where the fit of shapes starts: pages of a group that differ by a factor of two. Few checks hardly move it."""

STEPS = 100
SETTLED = 1e-3
"""Relative step of every mean below which the fit has settled."""


class History:
    """Checks of P pages, arranged so that the k-th checks of all pages are one slice: a replay is a loop over k.

    `page` (numbers below `n_pages`), `tau` (days since the success before) and `changed` have shape (n,), a page's
    checks in order of time.
    """

    def __init__(self, page: ArrayLike, tau: ArrayLike, changed: ArrayLike, n_pages: int) -> None:
        number = np.asarray(page, np.int64)
        self.count: Ints = np.bincount(number, minlength=n_pages)
        by_count = np.argsort(-self.count, kind="stable")
        place = np.empty(n_pages, np.int64)
        place[by_count] = np.arange(n_pages)
        by_page = np.argsort(number, kind="stable")
        firsts = np.concatenate(([0], np.cumsum(self.count)))[:-1]
        nth = np.empty(len(number), np.int64)
        nth[by_page] = np.arange(len(number)) - np.repeat(firsts, self.count)
        order = np.lexsort((place[number], nth))
        self.tau: Floats = np.asarray(tau, np.float64)[order]
        self.changed = np.asarray(changed, np.bool_)[order]
        self.widths: Ints = np.bincount(nth) if len(number) else np.zeros(0, np.int64)
        self.by_count: Ints = by_count

    def replay(self, prior_a: Floats, prior_b: Floats, half_life: float = HALF_LIFE) -> tuple[Floats, Floats]:
        """Posterior (a, b) of each page under its own prior, as `change_rate.observe` would leave it."""
        base_a, base_b = prior_a[self.by_count], prior_b[self.by_count]
        a, b = base_a.copy(), base_b.copy()
        start = 0
        for width in self.widths:
            tau, changed = self.tau[start : start + width], self.changed[start : start + width]
            start += width
            kept = np.exp2(-np.maximum(tau, 0.0) / half_life)
            now_a = np.maximum(base_a[:width] + (a[:width] - base_a[:width]) * kept, SMALLEST)
            now_b = np.maximum(
                base_b[:width] + (b[:width] - base_b[:width]) * kept, SMALLEST * base_b[:width]
            )
            a[:width], b[:width] = update_page(now_a, now_b, tau, changed)
        page_a, page_b = np.empty_like(a), np.empty_like(b)
        page_a[self.by_count], page_b[self.by_count] = a, b
        return page_a, page_b


class Estimate(NamedTuple):
    """Priors of G groups and of all pages together, and the posteriors of P pages under them.

    `doubt` (G,) is the variance of the belief about ln(prior mean).
    """

    prior_a: Floats
    prior_b: Floats
    doubt: Floats
    everywhere: Gamma
    page_a: Floats
    page_b: Floats


class Rates(NamedTuple):
    """Mean rate of the pages of each group (changes per day), with the 10th and 90th percentile of the belief."""

    mean: Floats
    low: Floats
    high: Floats


def fit_gamma(mean: ArrayLike, mean_log: ArrayLike) -> tuple[Floats, Floats]:
    """Gammas (shapes, rate parameters) with these E[λ] and E[ln λ]; shapes are clipped, means always kept.

    The closed form alone is up to 1.5 % off and drifts when it is repeated daily: hence two Newton steps.
    """
    m = np.asarray(mean, np.float64)
    a = _shape(np.log(m) - np.asarray(mean_log, np.float64))
    return a, a / m


def _shape(spread: ArrayLike) -> Floats:
    """Shape of the Gamma with ln E[λ] − E[ln λ] = spread."""
    s = np.maximum(np.asarray(spread, np.float64), 1e-9)
    a = (3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s)
    for _ in range(2):
        a = a - (np.log(a) - digamma(a) - s) / (1.0 / a - polygamma(1, a))
    shape: Floats = np.clip(a, SHAPE_MIN, SHAPE_MAX)
    return shape


def pooled(prior_a: ArrayLike, prior_b: ArrayLike, weight: ArrayLike) -> Gamma:
    """The Gamma with mean and mean logarithm of a mixture of Gammas: of a host, or of all that is known."""
    a, b, w = (np.asarray(value, np.float64) for value in (prior_a, prior_b, weight))
    mean, mean_log = np.average(a / b, weights=w), np.average(digamma(a) - np.log(b), weights=w)
    shape, rate = fit_gamma(mean, mean_log)
    return Gamma(float(shape), float(rate))


def of_a_new_page(log_mean: ArrayLike, doubt: ArrayLike, shape: ArrayLike) -> tuple[Floats, Floats]:
    """Gammas for a page of which nothing but its group is known: ln m of the group's mean rate m ~ Normal(`log_mean`,
    `doubt`), and λ = m·g with g ~ Gamma(`shape`) of mean 1.

    E[λ] = exp(log_mean + doubt/2), and E[ln λ] is log_mean less what the pages' own spread takes. A group that
    nobody has watched may be one of the fastest or never change: believed to be average, its pages would wait so
    long that nobody found out.
    """
    centre, a = np.asarray(log_mean, np.float64), np.asarray(shape, np.float64)
    return fit_gamma(np.exp(centre + np.asarray(doubt, np.float64) / 2.0), centre + digamma(a) - np.log(a))


def estimate(history: History, group: ArrayLike, n_groups: int) -> Estimate:
    """EM from the page posteriors: `group` (P,) is each page's group, a number below `n_groups`.

    Raises `ValueError` without a single check.
    """
    of_page = np.asarray(group, np.int64)
    if not len(history.tau):
        raise ValueError("no check to estimate from")
    pages = np.bincount(of_page, minlength=n_groups).astype(np.float64)
    start = max(float(history.changed.sum()), 0.5) / max(float(history.tau.sum()), 1e-9)
    a, mean = np.full(n_groups, FIRST_SHAPE), np.full(n_groups, start)
    centre, between = np.log(start), FIRST_SPREAD
    doubt = np.full(n_groups, between)
    page_a, page_b = history.replay(a[of_page], (a / mean)[of_page])
    for _ in range(STEPS):
        before = mean
        doubt = 1.0 / (_information(a, mean, page_a, page_b, of_page) + 1.0 / between)
        a, mean = _maximise(page_a, page_b, of_page, pages, centre, between)
        logs = np.log(mean)
        centre = float(logs[pages > 0].mean())
        between = max(float(((logs - centre) ** 2 + doubt)[pages > 0].mean()), LEAST_SPREAD)
        page_a, page_b = history.replay(a[of_page], (a / mean)[of_page])
        if np.abs(np.log(mean / before)).max() < SETTLED:
            break
    return Estimate(a, a / mean, doubt, pooled(page_a, page_b, np.ones(len(page_a))), page_a, page_b)


def _maximise(
    page_a: Floats, page_b: Floats, of_page: Ints, pages: Floats, centre: float, between: float
) -> tuple[Floats, Floats]:
    """Shapes and means of the groups from the moments of their page posteriors."""
    n_groups, some = len(pages), np.maximum(pages, 1.0)
    means = np.bincount(of_page, page_a / page_b, n_groups) / some
    logs = np.bincount(of_page, digamma(page_a) - np.log(page_b), n_groups) / some
    means = np.where(pages > 0, means, np.exp(centre))
    spread = np.where(pages > 0, np.log(means) - logs, 0.0)
    common = float((pages * spread).sum() / pages.sum())
    a = _shape((pages * spread + PSEUDO_PAGES * common) / (pages + PSEUDO_PAGES))
    return a, _shrunk(means, pages * a, centre, between)


def _shrunk(means: Floats, weight: Floats, centre: float, between: float) -> Floats:
    """argmax over m of the pages' Gamma likelihood times Normal(ln m; centre, between), by Newton in ln m.

    Its derivative is weight·(mean/m − 1) − (ln m − centre)/between with weight = pages·shape.
    """
    x = np.log(means)
    for _ in range(30):
        ratio = weight * np.exp(np.clip(np.log(means) - x, -50.0, 50.0))
        x = x + np.clip((ratio - weight - (x - centre) / between) / (ratio + 1.0 / between), -1.0, 1.0)
    shrunk: Floats = np.exp(x)
    return shrunk


def _information(a: Floats, mean: Floats, page_a: Floats, page_b: Floats, of_page: Ints) -> Floats:
    """Observed information about ln(prior mean) (Louis 1982): that of known rates less what is not known of them."""
    complete = a / mean * np.bincount(of_page, page_a / page_b, len(a))
    missing = (a / mean) ** 2 * np.bincount(of_page, page_a / page_b**2, len(a))
    seen: Floats = np.maximum(complete - missing, 0.0)
    return seen


def group_rates(found: Estimate, group: ArrayLike) -> Rates:
    """Mean of the page posteriors by group (of the prior where there is no page).

    Its variance is that of the pages given the prior, and the prior's own as far as pages lean on it.
    """
    of_page, n_groups = np.asarray(group, np.int64), len(found.prior_a)
    pages = np.bincount(of_page, minlength=n_groups).astype(np.float64)
    some, prior_mean = np.maximum(pages, 1.0), found.prior_a / found.prior_b
    means = np.where(
        pages > 0, np.bincount(of_page, found.page_a / found.page_b, n_groups) / some, prior_mean
    )
    spread = np.bincount(of_page, found.page_a / found.page_b**2, n_groups)
    leaning = np.where(pages > 0, found.prior_b * spread / some, prior_mean)
    variance = spread / some**2 + leaning**2 * found.doubt
    return Rates(means, *_percentiles(means, variance))


def _percentiles(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """10th and 90th percentile of Gammas with these moments."""
    shape = mean**2 / np.maximum(variance, 1e-300)
    low, high = (gammaincinv(shape, p) * mean / shape for p in (0.1, 0.9))
    return low, high
