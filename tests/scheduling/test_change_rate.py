import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from crawl_platform.scheduling.change_rate import (
    Gamma,
    bias_reduced_rate,
    most_likely_rate,
    naive_rate,
    observe,
    posterior,
    update_one,
    update_page,
)
from tests.scheduling.cases import case_lines

shapes = st.floats(0.1, 50)
rates = st.floats(0.01, 500)
waits = st.floats(0.001, 400)


def test_unchanged_adds_the_time_that_passed():
    assert update_one(2.0, 10.0, 3.0, False) == Gamma(2.0, 13.0)


@pytest.mark.parametrize(("a", "b", "tau"), [(0.6, 12, 1), (2, 3, 40), (5, 0.5, 0.1), (20, 100, 7)])
def test_changed_takes_mean_and_variance_of_the_exact_posterior(a, b, tau):
    prior = stats.gamma(a, scale=1 / b)
    weight = lambda x: prior.pdf(x) * -np.expm1(-x * tau)  # noqa: E731
    top = prior.ppf(1 - 1e-13) + 60 / b
    total, first, second = (
        integrate.quad(lambda x, k=k: x**k * weight(x), 0, top, limit=400, epsabs=1e-14)[0] for k in range(3)
    )

    after = update_one(a, b, tau, True)

    assert after.mean == pytest.approx(first / total, rel=1e-5)
    assert after.a / after.b**2 == pytest.approx(second / total - (first / total) ** 2, rel=1e-4)


@given(shapes, rates, waits)
def test_a_change_raises_the_rate_and_its_absence_lowers_it(a, b, tau):
    before = a / b

    assert update_one(a, b, tau, False).mean < before
    assert update_one(a, b, tau, True).mean >= before * (1 - 1e-9)


@given(shapes, rates, waits)
def test_the_belief_stays_a_proper_gamma(a, b, tau):
    for changed in (False, True):
        after = update_one(a, b, tau, changed)

        assert 0 < after.a < np.inf
        assert 0 < after.b < np.inf


@given(st.lists(st.tuples(shapes, rates, st.floats(0, 400), st.booleans()), min_size=1, max_size=30))
def test_arrays_and_scalars_agree(rows):
    a, b, tau, changed = (np.array(column) for column in zip(*rows, strict=True))

    new_a, new_b = update_page(a, b, tau, changed)

    expected = np.array([update_one(*row) for row in rows])
    np.testing.assert_allclose(new_a, expected[:, 0], rtol=1e-7)
    np.testing.assert_allclose(new_b, expected[:, 1], rtol=1e-7)


def test_a_new_url_behaves_like_its_group_and_then_like_itself():
    prior = Gamma(1.0, 10.0)
    assert posterior(prior, 0.0, 0.0) == prior

    da, db = 0.0, 0.0
    for _ in range(40):
        da, db = observe(prior, da, db, 1.0, True)

    assert posterior(prior, da, db).mean > 1.0


def test_what_was_learnt_halves_in_a_half_life():
    prior = Gamma(1.0, 10.0)
    da, db = 3.0, 20.0

    after = observe(prior, da, db, 60.0, False)

    assert after == pytest.approx((1.5, 10.0 + 60.0))


def test_increments_that_outlive_their_prior_still_mean_a_proper_belief():
    assert posterior(Gamma(0.2, 1.0), -0.5, -4.0).a > 0


def test_many_checks_recover_the_true_rate():
    random = np.random.default_rng(7)
    belief = Gamma(0.6, 12.0)
    for changed in random.random(3_000) < -np.expm1(-0.3 * 2.0):
        belief = update_one(*belief, 2.0, bool(changed))

    assert belief.mean == pytest.approx(0.3, rel=0.06)


def test_published_estimates_of_regular_checks():
    for line in case_lines("change/estimator_regular.shared.jsonl"):
        case = json.loads(line)
        given_ = (case["n"], case["X"], case["interval"])

        assert bias_reduced_rate(*given_) == pytest.approx(case["cho_bias_reduced"], abs=1e-12)
        assert naive_rate(*given_) == pytest.approx(case["naive"], abs=1e-12)
        changed = np.arange(case["n"]) < case["X"]
        likely = math.inf if case["mle_regular"] is None else case["mle_regular"]
        assert most_likely_rate(np.full(case["n"], case["interval"]), changed) == pytest.approx(
            likely, rel=1e-9
        )


def test_published_estimates_of_irregular_checks():
    for line in case_lines("change/estimator_irregular.shared.jsonl"):
        case = json.loads(line)
        likely = math.inf if case["mle"] is None else case["mle"]

        assert most_likely_rate(case["intervals"], case["changed"]) == pytest.approx(likely, rel=1e-9)


def test_a_prior_of_seconds_is_taken_as_it_is():
    """The demo's web changes once a minute: a least rate parameter in days would drown its prior."""
    prior = Gamma(0.5, 0.5 / 1440)

    assert posterior(prior, 0.0, 0.0) == prior
