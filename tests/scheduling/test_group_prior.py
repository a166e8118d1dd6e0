"""Group priors from pages of known rates, checked the way a crawl does: the more a page changes, the oftener."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import digamma

from crawl_platform.scheduling import group_prior
from crawl_platform.scheduling.change_rate import HALF_LIFE, Gamma, naive_rate, observe, posterior, update_one
from crawl_platform.scheduling.group_prior import (
    SHAPE_MAX,
    SHAPE_MIN,
    Estimate,
    History,
    estimate,
    fit_gamma,
    group_rates,
    of_a_new_page,
    pooled,
)

SECOND = 1 / 86_400.0
UNKNOWN = Gamma(0.5, 0.5 / 1_440.0)
"""One change a minute is expected of a page of which nothing is known."""


class Crawl(NamedTuple):
    page: np.ndarray
    tau: np.ndarray
    changed: np.ndarray
    group: np.ndarray
    rate: np.ndarray


def simulated(seed: int, groups: int = 40, seconds: float = 600.0, own: bool = True) -> Crawl:
    """Groups of 1 to 60 pages that change every 12 s to every 5 hours, pages of a group differing threefold.

    A page is checked when its mean time between changes has passed, as believed then, never under 2 s, and
    later by a random wait for its turn. Only pages with a check are counted.
    """
    random = np.random.default_rng(seed)
    rows, group, rate = [], [], []
    for g, typical in enumerate(np.exp(random.uniform(np.log(1 / 18_000), np.log(1 / 12), groups))):
        for _ in range(random.choice([1, 2, 5, 20, 60])):
            true = typical * (random.gamma(3.0, 1 / 3) if own else 1.0)
            checks = _checks(random, true, random.uniform(0, seconds / 2), seconds)
            if checks:
                rows += [(len(group), tau, changed) for tau, changed in checks]
                group.append(g)
                rate.append(true / SECOND)
    page, tau, changed = (np.array(column) for column in zip(*rows, strict=True))
    return Crawl(page, tau, changed, np.array(group), np.array(rate))


def _checks(random, rate: float, at: float, until: float) -> list[tuple[float, bool]]:
    checks, da, db = [], 0.0, 0.0
    while True:
        wait = float(
            np.clip(1 / posterior(UNKNOWN, da, db).mean / SECOND, 2.0, 3_600.0) + random.exponential(6)
        )
        if at + wait > until:
            return checks
        at += wait
        changed = bool(random.random() < -np.expm1(-rate * wait))
        checks.append((wait * SECOND, changed))
        da, db = observe(UNKNOWN, da, db, wait * SECOND, changed)


def history(crawl: Crawl) -> History:
    return History(crawl.page, crawl.tau, crawl.changed, len(crawl.group))


def by_group(crawl: Crawl, values: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(crawl.group, values, n) / np.maximum(np.bincount(crawl.group, minlength=n), 1)


def well_seen(crawl: Crawl, n: int) -> np.ndarray:
    """Groups with at least 20 changed and 20 unchanged checks."""
    of_check = crawl.group[crawl.page]
    changed = np.bincount(of_check, crawl.changed, n)
    return (changed >= 20) & (np.bincount(of_check, minlength=n) - changed >= 20)


def errors(seed: int, estimator) -> np.ndarray:
    """Relative error of each well-seen group's rate."""
    crawl = simulated(seed)
    found, true = estimator(crawl, 40), by_group(crawl, crawl.rate, 40)
    return np.abs(found / true - 1)[well_seen(crawl, 40)]


def by_em(crawl: Crawl, n: int) -> np.ndarray:
    return group_rates(estimate(history(crawl), crawl.group, n), crawl.group).mean


def by_counting(crawl: Crawl, n: int) -> np.ndarray:
    of_check = crawl.group[crawl.page]
    changed, time = np.bincount(of_check, crawl.changed, n), np.bincount(of_check, crawl.tau, n)
    return np.array([naive_rate(1, x, t) if t else 0.0 for x, t in zip(changed, time, strict=True)])


SEEDS = range(6)


@pytest.mark.long
def test_rates_of_well_seen_groups_are_within_a_third_although_busy_pages_are_checked_more():
    found = [errors(seed, by_em) for seed in SEEDS]

    assert min(map(len, found)) >= 4
    assert max(error.mean() for error in found) <= 0.25
    assert np.concatenate(found).mean() <= 0.16


def test_counting_changes_per_time_is_not_good_enough():
    """Ablation: what the likelihood is for. Busy pages change more often than they are looked at."""
    assert np.concatenate([errors(seed, by_counting) for seed in SEEDS]).mean() > 0.30


def with_pages_of_the_average(crawl: Crawl, n: int) -> np.ndarray:
    """The safeguard off: every group gets three pages of the mean rate of all pages, whatever groups are like."""
    checks, pages = history(crawl), np.bincount(crawl.group, minlength=n)
    start = crawl.changed.sum() / crawl.tau.sum()
    a, b = np.full(n, 0.6), np.full(n, 0.6 / start)
    for _ in range(60):
        page_a, page_b = checks.replay(a[crawl.group], b[crawl.group])
        moments = [page_a / page_b, digamma(page_a) - np.log(page_b)]
        mean, log = ((np.bincount(crawl.group, m, n) + 3 * m.mean()) / (pages + 3) for m in moments)
        a, b = fit_gamma(mean, log)
    return by_group(crawl, page_a / page_b, n)


def test_the_average_page_must_not_stand_in_every_group():
    """Ablation: seldom-read slow groups become as fast as the average."""
    seldom = [simulated(seed, seconds=200.0) for seed in SEEDS]
    true = [by_group(c, c.rate, 40) for c in seldom]

    def error(estimator) -> float:
        logs = [np.log(estimator(c, 40) / t)[t > 0] for c, t in zip(seldom, true, strict=True)]
        return float(np.abs(np.concatenate(logs)).mean())

    assert error(with_pages_of_the_average) > 1.5 * error(by_em)


@pytest.mark.parametrize(("pages", "runs_away"), [(group_prior.PSEUDO_PAGES, False), (3.0, True)])
def test_a_group_that_nearly_always_had_changed_does_not_run_away(pages, runs_away, monkeypatch):
    """Ablation: with a spread of its own, a group is thought to be half dead and half infinitely fast."""
    monkeypatch.setattr(group_prior, "PSEUDO_PAGES", pages)
    crawl = simulated(9, seconds=200.0)

    ratio = (by_em(crawl, 40) / by_group(crawl, crawl.rate, 40))[well_seen(crawl, 40)].max()

    assert bool(ratio > 5.0) is runs_away


@pytest.mark.long
def test_the_interval_holds_the_truth_four_times_in_five():
    hits = []
    for seed in SEEDS:
        crawl = simulated(seed)
        rates = group_rates(estimate(history(crawl), crawl.group, 40), crawl.group)
        true = by_group(crawl, crawl.rate, 40)
        hits += list(((rates.low <= true) & (true <= rates.high))[true > 0])

    assert 0.70 <= np.mean(hits) <= 0.90


def test_planted_priors_are_found_again():
    random = np.random.default_rng(5)
    planted = [Gamma(4.0, 8.0), Gamma(1.0, 20.0), Gamma(6.0, 4.0)]
    group = np.repeat(range(3), 400)
    rate = np.concatenate([random.gamma(p.a, 1 / p.b, 400) for p in planted])
    page = np.repeat(np.arange(1_200), 25)
    tau = random.exponential(1.0, len(page)) + 0.05
    changed = random.random(len(page)) < -np.expm1(-rate[page] * tau)

    found = estimate(History(page, tau, changed, 1_200), group, 3)

    for g, prior in enumerate(planted):
        assert found.prior_a[g] / found.prior_b[g] == pytest.approx(prior.mean, rel=0.08)
        assert 0.6 < found.prior_a[g] / prior.a < 1.7  # groups lean on each other's spread


def test_a_group_without_pages_believes_what_is_typical():
    crawl = simulated(1, groups=10)

    found = estimate(history(crawl), crawl.group, 11)

    means = found.prior_a / found.prior_b
    assert means[:10].min() < means[10] < means[:10].max()


def test_the_fewer_a_group_has_shown_the_wider_is_what_is_believed():
    crawl = simulated(2)
    found = estimate(history(crawl), crawl.group, 40)
    checks = np.bincount(crawl.group[crawl.page], minlength=40)

    assert found.doubt[checks < 5].min() > found.doubt[checks > 200].max()


def test_a_new_page_of_an_unwatched_group_may_be_anything_one_of_a_watched_group_is_like_the_others():
    crawl = simulated(3)
    found = estimate(history(crawl), crawl.group, 41)
    watched = int(np.argmin(found.doubt))

    a, b = of_a_new_page(np.log(found.prior_a / found.prior_b), found.doubt, found.prior_a)

    assert a[40] < 0.7
    assert a[40] < found.prior_a[40] / 2
    assert a[40] / b[40] > found.prior_a[40] / found.prior_b[40]
    assert a[watched] == pytest.approx(found.prior_a[watched], rel=0.1)
    assert a[watched] / b[watched] == pytest.approx(found.prior_a[watched] / found.prior_b[watched], rel=0.1)


def test_without_a_check_there_is_nothing_to_estimate():
    with pytest.raises(ValueError, match="no check"):
        estimate(History([], [], [], 3), [0, 0, 1], 2)


def test_nothing_ever_changed_still_gives_proper_priors():
    found = estimate(History([0, 1, 1], [1.0, 1.0, 2.0], [False] * 3, 2), [0, 1], 2)

    assert isinstance(found, Estimate)
    assert np.all(np.isfinite(found.prior_b) & (found.prior_a > 0) & (found.prior_b > 0))


# moments


@pytest.mark.parametrize("a", [0.2, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("b", [1e-3, 1.0, 300.0])
def test_a_gamma_is_found_from_its_moments(a, b):
    shape, rate = fit_gamma(a / b, digamma(a) - np.log(b))

    assert shape == pytest.approx(a, rel=1e-3)
    assert shape / rate == pytest.approx(a / b, rel=1e-9)


def closed_form(mean: float, mean_log: float) -> tuple[float, float]:
    """The safeguard off: no Newton steps."""
    s = np.log(mean) - mean_log
    a = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    return a, a / mean


@pytest.mark.parametrize(("fit", "drifts"), [(fit_gamma, False), (closed_form, True)])
def test_a_fit_repeated_daily_for_a_year_stays_where_it_is(fit, drifts):
    a, b = 0.9, 30.0
    for _ in range(365):
        a, b = fit(a / b, digamma(a) - np.log(b))

    assert bool(abs(a / 0.9 - 1) > 0.05) is drifts


@pytest.mark.parametrize(("spread", "shape"), [(1e-12, SHAPE_MAX), (50.0, SHAPE_MIN)])
def test_shapes_are_clipped_and_means_kept(spread, shape):
    a, b = fit_gamma(3.0, np.log(3.0) - spread)

    assert a == shape
    assert a / b == pytest.approx(3.0)


def test_a_pool_of_one_kind_is_that_kind_and_of_two_is_wider():
    assert pooled([2.0, 2.0], [5.0, 5.0], [1, 3]) == pytest.approx((2.0, 5.0), rel=1e-3)

    both = pooled([4.0, 4.0], [1.0, 100.0], [1, 1])
    assert both.mean == pytest.approx((4.0 + 0.04) / 2)
    assert both.a < 1.0


# replay


def test_a_replay_is_what_the_cell_would_have_learnt():
    random = np.random.default_rng(3)
    page = random.integers(0, 7, 90)
    tau, changed = random.exponential(20.0, 90), random.random(90) < 0.4
    prior_a, prior_b = random.uniform(0.3, 3, 9), random.uniform(1, 30, 9)

    a, b = History(page, tau, changed, 9).replay(prior_a, prior_b)

    for p in range(9):
        prior, da, db = Gamma(prior_a[p], prior_b[p]), 0.0, 0.0
        for wait, seen in zip(tau[page == p], changed[page == p], strict=True):
            da, db = observe(prior, da, db, wait, bool(seen))
        assert (a[p], b[p]) == pytest.approx(posterior(prior, da, db), rel=1e-9)


def test_without_forgetting_a_replay_is_one_update_after_the_other():
    belief = update_one(*update_one(1.0, 2.0, 3.0, True), 5.0, False)

    a, b = History([0, 0], [3.0, 5.0], [True, False], 1).replay(
        np.array([1.0]), np.array([2.0]), half_life=1e9
    )

    assert (a[0], b[0]) == pytest.approx(belief)
    assert History([0, 0], [3.0, 5.0], [True, False], 1).replay(np.ones(1), np.ones(1), HALF_LIFE)[0] != a
