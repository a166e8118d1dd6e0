"""Freshness as measured against freshness as it is: pages whose true rates are known."""

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pytest

from crawl_platform.quality.freshness import LEAST, still_equal_as_believed
from crawl_platform.quality.rates import GRID, Checks, gamma_weights, still_equal
from crawl_platform.scheduling.change_rate import SMALLEST, Gamma, observe, posterior
from tests.quality.conftest import NOW, Small

DAY = 86_400.0
PRIOR = Gamma(0.5, 0.5 / 1440)
"""Of the demo: one change a minute, on average."""
SPAN = 240 / DAY
POINTS = 0.03


@dataclass
class Crawled:
    """Pages as a crawl has left them; days."""

    last: np.ndarray
    checks: Checks
    increments: np.ndarray
    rates: np.ndarray

    @property
    def age(self) -> np.ndarray:
        return SPAN - self.last

    @property
    def truth(self) -> float:
        return float(np.mean(np.exp(-self.rates * self.age)))


def crawled(rates: np.ndarray, schedule: str, random: np.random.Generator) -> Crawled:
    """Visit pages for SPAN days, each as `schedule` says, and note what the checks found."""
    last = random.uniform(0, SPAN * 0.3, len(rates))
    page, days, changed, increments = [], [], [], []
    for i, rate in enumerate(rates):
        da = db = 0.0
        while schedule != "once":
            mean = posterior(PRIOR, da, db).mean
            wait = {
                "adaptive": min(max(1 / mean, 2 / DAY), 3_600 / DAY) * random.uniform(1, 1.3),
                "random": random.exponential(20 / DAY) + 2 / DAY,
                "importance": random.exponential((5 + 60 * (i % 3)) / DAY) + 2 / DAY,
            }[schedule]
            if last[i] + wait > SPAN:
                break
            found = random.random() < -math.expm1(-rate * wait)
            da, db = observe(PRIOR, da, db, wait, found)
            last[i] += wait
            page.append(i)
            days.append(wait)
            changed.append(found)
        increments.append((da, db))
    checks = Checks(np.array(page, np.int64), np.array(days), np.array(changed, np.bool_))
    return Crawled(last, checks, np.array(increments), rates)


def rates_of(mix: str, random: np.random.Generator, pages: int = 1_200) -> np.ndarray:
    return {
        "narrow": random.gamma(3, 480, pages),
        "wide": random.gamma(0.5, 2_880, pages),
        "half never change": np.where(random.random(pages) < 0.6, 0.0, 8_640.0),
        "slow": random.gamma(1, 100, pages),
        "fast": random.gamma(2, 7_200, pages),
        "all alike": np.full(pages, 2_880.0),
    }[mix]


MIXES = ("narrow", "wide", "half never change", "slow", "fast", "all alike")


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(
    "schedule",
    [
        "adaptive",
        pytest.param("random", marks=pytest.mark.long),
        pytest.param("importance", marks=pytest.mark.long),
    ],
)
def test_measured_freshness_is_within_three_points_of_the_truth(mix, schedule):
    random = np.random.default_rng(20_077)
    web = crawled(rates_of(mix, random), schedule, random)

    equal = still_equal(web.checks, np.zeros(len(web.age), np.int64), web.age, PRIOR)

    assert float(equal.mean()) == pytest.approx(web.truth, abs=POINTS)


def test_pages_never_checked_again_are_taken_to_be_like_those_of_their_group():
    """Only half of a fast and half of a slow group is ever visited again, the fast one's ten times as often."""
    random = np.random.default_rng(5)
    group = np.repeat([0, 1], 800)
    rates = np.where(group == 0, random.gamma(3, 480, 1_600), random.gamma(3, 10, 1_600))
    seen = np.arange(1_600) % 2 == 0
    web = crawled(rates, "random", random)
    kept = seen[web.checks.page] & (
        (group[web.checks.page] == 0) | (random.random(len(web.checks.page)) < 0.1)
    )
    web.last[~seen] = random.uniform(0, SPAN * 0.3, int((~seen).sum()))
    checks = Checks(*(column[kept] for column in web.checks))

    by_group = still_equal(checks, group, web.age, PRIOR)
    together = still_equal(checks, np.zeros(1_600, np.int64), web.age, PRIOR)

    assert float(by_group.mean()) == pytest.approx(web.truth, abs=POINTS)
    assert abs(float(together.mean()) - web.truth) > POINTS, "the groups matter here"


def test_without_any_check_the_prior_of_the_settings_is_all_there_is():
    nothing = Checks(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_))
    age = np.array([0.1, 1.0, 10.0, 100.0])

    equal = still_equal(nothing, np.zeros(4, np.int64), age, Gamma(0.6, 12.0))

    np.testing.assert_allclose(equal, (12.0 / (12.0 + age)) ** 0.6, atol=0.01)


def test_a_gamma_on_the_grid_keeps_its_mean():
    assert float(gamma_weights(2.0, 4.0) @ GRID) == pytest.approx(0.5, rel=1e-3)


def test_what_is_believed_follows_from_the_posterior_rule_of_the_scheduler():
    random = np.random.default_rng(2)
    web = crawled(rates_of("wide", random), "adaptive", random)
    a, b = (np.array([posterior(PRIOR, *pair)[i] for pair in web.increments]) for i in (0, 1))

    assert float(still_equal_as_believed(a, b, web.age).mean()) == pytest.approx(web.truth, abs=POINTS)
    assert LEAST == SMALLEST


def test_a_belief_that_is_off_shows_and_the_measure_does_not_share_it():
    """Why there are two: pages of which half never change fit no Gamma."""
    random = np.random.default_rng(1)
    web = crawled(rates_of("half never change", random), "adaptive", random)
    a, b = (np.array([posterior(PRIOR, *pair)[i] for pair in web.increments]) for i in (0, 1))

    assert abs(float(still_equal_as_believed(a, b, web.age).mean()) - web.truth) > 0.08
    measured = still_equal(web.checks, np.zeros(len(web.age), np.int64), web.age, PRIOR)
    assert float(measured.mean()) == pytest.approx(web.truth, abs=POINTS)


# the same through the lake's tables


def visited(small: Small, url: str, agos: list[float], changed: list[bool], **last: object) -> None:
    """Successes `agos` seconds before now, oldest first; `changed` says what each but the first found."""
    small.fetch(url, agos[0], changed=None, **(last if len(agos) == 1 else {}))
    for k in range(1, len(agos)):
        before = NOW - timedelta(seconds=agos[k - 1])
        extra = last if k == len(agos) - 1 else {}
        small.fetch(url, agos[k], changed=changed[k - 1], previous_success_at=before, **extra)


def test_freshness_falls_with_age_and_counts_pages(small):
    small.add("hosts", 20 * DAY, host="a.test")
    for i in range(20):
        visited(small, f"https://a.test/{i}", [3 * DAY, 2 * DAY, DAY], [i % 2 == 0, i % 4 == 0])

    now = small.measure()["freshness"]
    later = small.measure(now=NOW + timedelta(days=5))["freshness"]

    assert now.denominator == 20
    assert 0.4 < now.value < 0.9
    assert later.value < now.value - 0.1


def test_a_page_that_is_gone_or_moved_or_of_an_excluded_host_is_no_copy_any_more(small):
    small.add("hosts", 20 * DAY, host="a.test")
    small.add("hosts", 20 * DAY, host="b.test")
    small.add("hosts", 10, host="b.test", event="excluded", state="excluded")
    for name in ("kept", "gone", "moved", "failing"):
        small.fetch(f"https://a.test/{name}", DAY)
    small.fetch("https://b.test/", DAY)
    small.fetch("https://a.test/gone", 60, outcome="not_found")
    small.fetch("https://a.test/moved", 60, outcome="redirect")
    small.fetch("https://a.test/failing", 60, outcome="unavailable")

    assert small.measure()["freshness"].denominator == 2


def test_believed_freshness_takes_the_models_prior_of_a_cold_group_then_the_groups_then_the_settings(small):
    small.add("hosts", 20 * DAY, host="a.test")
    for group in (1, 2, 3):
        small.fetch(f"https://a.test/{group}", DAY, group_id=group, rate_a=1.0, rate_b=2.0)
    key = {"host": "a.test", "template": "/#"}
    rate = dict.fromkeys(("pages", "checks", "changed", "unchanged"), 1) | {"rate": 1.0}
    small.add("change_rates", group_id=1, prior_a=1.0, prior_b=1.0, **key, **rate)
    small.add("change_rates", group_id=2, prior_a=9.0, prior_b=1.0, **key, **rate)
    small.add("cold_priors", group_id=2, prior_a=3.0, prior_b=2.0, predicted_rate=1.5, **key)

    expected = [(a / (a + 1.0)) ** n for a, n in ((3.0, 2.0), (4.0, 4.0), (0.5 / 0.3 + 2.0, 1.5))]

    assert small.value("freshness_believed") == pytest.approx(sum(expected) / 3, rel=1e-4)


def test_freshness_by_value_looks_at_what_is_valuable(small):
    small.add("hosts", 20 * DAY, host="a.test")
    for i in range(30):
        visited(small, f"https://a.test/old/{i}", [40 * DAY, 30 * DAY], [True], value=1.0, group_id=1)
        visited(small, f"https://a.test/new/{i}", [2 * DAY, 60], [False], value=9.0, group_id=2)

    measures = small.measure()

    assert measures["freshness_by_value"].value > measures["freshness"].value + 0.2


def test_calibration_compares_what_was_expected_with_what_was_found(small):
    for i in range(10):
        small.fetch(f"https://a.test/{i}", 60, changed=i < 4, predicted_change=0.6)
    small.fetch("https://a.test/first", 60, changed=None, predicted_change=None)

    assert small.value("calibration") == pytest.approx(6.0 / 4.0)


def test_checked_share_says_how_much_of_freshness_is_seen_and_not_supposed(small):
    small.add("hosts", 20 * DAY, host="a.test")
    visited(small, "https://a.test/twice", [DAY, 60], [False])
    small.fetch("https://a.test/once", DAY)

    assert small.value("checked_share") == 0.5
