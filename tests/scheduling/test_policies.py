"""Published optima of fetch rates, and what holds of any of them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.scheduling.policies import azar, cho, kolobov
from crawl_platform.scheduling.refresh import expected_freshness
from tests.scheduling.cases import case_lines

positive = st.floats(1e-3, 1e3)
pages = st.lists(st.tuples(positive, positive), min_size=1, max_size=20)


def published(name: str) -> Any:
    return json.loads("".join(case_lines("change/published_examples.json")))[name]


def test_the_policies_of_the_literature_are_met_exactly() -> None:
    for line in case_lines("change/policy_cases.shared.jsonl"):
        _is_met(json.loads(line))


def _is_met(case: dict[str, Any]) -> None:
    given_ = (case["mu"], case["delta"], case["R"])
    for found, name, rates, multiplier, objective in (
        (azar(*given_), "azar_poisson", "rho", "nu", "objective"),
        (cho(*given_), "cho_fixed_interval", "f", "multiplier", "objective"),
        (kolobov(*given_), "kolobov_harmonic_incomplete", "rho", "lam", "J"),
        (kolobov(*given_, signalled=True), "kolobov_harmonic_complete", "p", "lam", "J"),
    ):
        wanted = case[name]
        assert found.rates == pytest.approx(wanted[rates], rel=1e-9, abs=1e-12), (case["id"], name)
        assert found.multiplier == pytest.approx(wanted[multiplier], rel=1e-9, abs=1e-12), (case["id"], name)
        assert found.objective == pytest.approx(wanted[objective], rel=1e-9, abs=1e-12), (case["id"], name)


def test_the_published_table_of_five_pages() -> None:
    example = published("cho_garcia_molina_5_elements")
    rate = np.array(example["lambda_"], float)

    best = cho(np.full(5, 0.2), rate, 5.0)

    assert best.rates.round(2).tolist() == [1.15, 1.36, 1.35, 1.14, 0.0]
    assert best.objective == pytest.approx(example["mean_freshness"], rel=1e-9)
    assert expected_freshness(rate, np.ones(5)).mean() == pytest.approx(example["uniform"], rel=1e-9)
    assert expected_freshness(rate, rate / 3).mean() == pytest.approx(example["proportional"], rel=1e-9)


def test_the_published_shares_of_the_web() -> None:
    example = published("cho_web_distribution")
    share, rate = np.array(example["fractions"]), 1.0 / np.array(example["change_interval_days"])

    def freshness(visits: np.ndarray) -> float:
        return float((share * expected_freshness(rate, visits)).sum())

    many = np.repeat(np.arange(5), (share * 100).round().astype(int))
    best = cho(np.full(len(many), 0.01), rate[many], len(many) / 30)

    assert freshness(np.full(5, 1 / 30)) == pytest.approx(example["uniform"], rel=1e-9)
    assert best.objective == pytest.approx(example["optimal"], rel=1e-9)
    assert freshness(rate / (share * rate).sum() / 30) == pytest.approx(example["proportional"], rel=1e-6)


@given(pages, positive)
def test_the_budget_is_spent_and_no_page_could_use_a_bit_of_it_better(
    given_: list[tuple[float, float]], budget: float
) -> None:
    mu, rate = (np.array(column) for column in zip(*given_, strict=True))
    best = azar(mu, rate, budget)

    gain = mu * rate / (best.rates + rate) ** 2
    assert best.rates.sum() == pytest.approx(budget, rel=1e-9)
    assert gain[best.rates > 1e-9 * budget] == pytest.approx(best.multiplier, rel=1e-6)
    assert (gain <= best.multiplier * (1 + 1e-6)).all()


@given(pages, positive)
def test_even_intervals_beat_any_shift_of_a_bit_of_the_budget(
    given_: list[tuple[float, float]], budget: float
) -> None:
    mu, rate = (np.array(column) for column in zip(*given_, strict=True))
    best = cho(mu, rate, budget)

    assert best.rates.sum() == pytest.approx(budget, rel=1e-9)
    taker, giver = int(np.argmax(mu / rate)), int(np.argmax(best.rates))
    shifted = best.rates.copy()
    step = 0.01 * shifted[giver]
    shifted[giver] -= step
    shifted[taker] += step
    assert (mu * expected_freshness(rate, shifted)).sum() <= best.objective * (1 + 1e-9)


@given(pages, positive)
def test_the_harmonic_penalty_starves_no_page(given_: list[tuple[float, float]], budget: float) -> None:
    mu, rate = (np.array(column) for column in zip(*given_, strict=True))

    best, told = kolobov(mu, rate, budget), kolobov(mu, rate, budget, signalled=True)

    assert (best.rates > 0).all()
    assert best.rates.sum() == pytest.approx(budget, rel=1e-9)
    assert (told.rates <= 1).all()
    assert (told.rates * rate).sum() == pytest.approx(min(budget, rate.sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "rate", "budget"),
    [
        ([], [], 1.0),
        ([1.0], [1.0, 2.0], 1.0),
        ([0.0], [1.0], 1.0),
        ([1.0], [-1.0], 1.0),
        ([1.0], [1.0], 0.0),
        ([float("nan")], [1.0], 1.0),
        ([1.0], [float("inf")], 1.0),
    ],
)
def test_what_is_not_positive_is_refused(mu: list[float], rate: list[float], budget: float) -> None:
    for policy in (azar, cho, kolobov):
        with pytest.raises(ValueError, match=r"positive|same length"):
            policy(mu, rate, budget)
