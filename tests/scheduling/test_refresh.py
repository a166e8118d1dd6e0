import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from crawl_platform.scheduling.refresh import (
    age_of_change,
    age_of_index,
    bayes_index,
    change_chance,
    expected_freshness,
    index_one,
    known_rate_index,
)
from tests.scheduling.cases import case_lines


@pytest.mark.parametrize("a", [0.4, 1.0, 1.0 + 1e-12, 1.0 + 1e-6, 2.5, 30.0])
@pytest.mark.parametrize(("b", "age"), [(0.3, 2.0), (12.0, 0.5), (80.0, 400.0)])
def test_it_is_the_known_rate_index_averaged_over_the_belief(a, b, age):
    belief = stats.gamma(a, scale=1 / b)
    # Over quantiles the integrand is bounded: the index never exceeds the age.
    average, _ = integrate.quad(lambda p: known_rate_index(belief.ppf(p), age), 1e-13, 1 - 1e-13, limit=400)

    assert index_one(a, b, age) == pytest.approx(average, rel=2e-5)


@given(st.floats(0.05, 60), st.floats(0.02, 500), st.floats(0, 500), st.floats(0, 500))
def test_waiting_never_lowers_the_index(a, b, young, old):
    young, old = sorted((young, old))

    assert 0 <= index_one(a, b, young) <= index_one(a, b, old) * (1 + 1e-9) + 1e-9


@given(st.lists(st.tuples(*[st.floats(0.05, 60)] * 5), min_size=1, max_size=30))
def test_arrays_and_scalars_agree(rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]

    np.testing.assert_allclose(
        bayes_index(*columns), [index_one(*row) for row in rows], rtol=1e-9, atol=1e-12
    )


def test_importance_multiplies_and_cost_divides():
    assert index_one(2, 5, 3, importance=6, cost=2) == pytest.approx(3 * index_one(2, 5, 3))


def test_a_page_just_checked_is_worth_nothing():
    assert index_one(2, 5, 0.0) == 0.0


def test_a_page_that_changes_constantly_is_not_worth_chasing():
    """What the gain score gets wrong: it would fetch the page that is stale again at once."""
    hopeless, useful = index_one(2_000, 10, 1.0), index_one(10, 10, 1.0)

    assert hopeless < useful


def test_at_the_published_optimum_all_active_pages_have_the_same_index():
    """At Cho & Garcia-Molina's optimum the index at the end of each interval is the multiplier."""
    for line in case_lines("change/policy_cases.shared.jsonl"):
        case = json.loads(line)
        fetch_rates = case["cho_fixed_interval"]["f"]
        multiplier = case["cho_fixed_interval"]["multiplier"]
        pages = list(zip(case["mu"], case["delta"], fetch_rates, strict=True))

        for importance, rate, fetch_rate in pages:
            if fetch_rate > 1e-9:
                assert known_rate_index(rate, 1 / fetch_rate, importance) == pytest.approx(
                    multiplier, rel=1e-5
                )
        objective = sum(i * expected_freshness(rate, f) for i, rate, f in pages if f > 1e-9)
        assert objective == pytest.approx(case["cho_fixed_interval"]["objective"], rel=1e-5)


# ages


@given(st.floats(0.05, 60), st.floats(1e-4, 500), st.floats(1e-5, 300), st.floats(1e-3, 400))
def test_at_its_age_the_index_is_reached(a, b, index, oldest):
    age = age_of_index(a, b, index, oldest)

    assert 0 < age <= oldest
    if age < oldest:
        assert index_one(a, b, age * 1.002) >= index * (1 - 1e-9)
        assert index_one(a, b, age / 1.002) <= index * (1 + 1e-9)
    else:
        assert index_one(a, b, oldest) <= index * 1.003


def test_an_index_that_no_age_reaches_is_met_at_the_oldest():
    assert age_of_index(3.0, 1.0, 0.6, 180.0) == 180.0, "b/(a − 1) = ½ is all that it ever gets to"


@given(st.floats(0.05, 60), st.floats(1e-4, 500), st.floats(0.01, 0.9))
def test_at_its_age_a_change_has_its_chance(a, b, chance):
    age = age_of_change(a, b, chance)

    if age < 1e200:
        assert change_chance(a, b, age) == pytest.approx(chance, rel=1e-6)


def test_the_chance_of_a_change_is_the_belief_averaged():
    belief = stats.gamma(2.0, scale=1 / 5.0)
    average, _ = integrate.quad(lambda rate: -math.expm1(-rate * 3.0) * belief.pdf(rate), 0, np.inf)

    assert change_chance(2.0, 5.0, 3.0) == pytest.approx(average, rel=1e-6)
    assert change_chance(2.0, 5.0, 0.0) == 0.0
