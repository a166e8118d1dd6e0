"""Poisson truth: changes come at the stated rate, whenever and in whatever order one asks."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.simulation.change import Poisson, Stream

START = 1_000.0


@pytest.mark.parametrize("rate", [0.001, 0.2, 5.0])
def test_counts_have_the_mean_and_variance_of_a_poisson_process(rate: float) -> None:
    span = 20 / rate

    counts = [Poisson(key, rate, START).count(START + span) for key in range(400)]

    mean = sum(counts) / len(counts)
    variance = sum((c - mean) ** 2 for c in counts) / (len(counts) - 1)
    assert abs(mean - 20) < 4 * math.sqrt(20 / 400)
    assert 0.75 < variance / 20 < 1.3


def test_gaps_between_changes_are_exponential() -> None:
    times = Poisson(7, 0.5, START).between(START, START + 8_000)

    gaps = [b - a for a, b in itertools.pairwise(times)]
    beyond = sum(g > math.log(2) / 0.5 for g in gaps) / len(gaps)

    assert abs(beyond - 0.5) < 0.04
    assert abs(sum(gaps) / len(gaps) - 2.0) < 0.15


@given(st.integers(0, 2**64 - 1), st.lists(st.floats(0, 500), min_size=1, max_size=8))
def test_the_order_of_questions_does_not_matter(key: int, moments: list[float]) -> None:
    asked = Poisson(key, 0.3, START)

    answers = [asked.count(START + m) for m in moments]

    assert answers == [Poisson(key, 0.3, START).count(START + m) for m in moments]


@given(st.integers(0, 2**64 - 1), st.floats(0, 300), st.floats(0, 300))
def test_changes_in_an_interval_are_the_difference_of_counts(key: int, a: float, b: float) -> None:
    process = Poisson(key, 0.3, START)
    t0, t1 = sorted((START + a, START + b))

    assert len(process.between(t0, t1)) == process.count(t1) - process.count(t0)


def test_nothing_changes_before_the_start_or_at_rate_zero() -> None:
    assert Poisson(1, 5.0, START).count(START - 100) == 0
    assert Poisson(1, 0.0, START).count(START + 1e9) == 0


def test_the_last_change_before_the_start_is_as_old_as_the_rate_lets_expect() -> None:
    ages = [START - Poisson(key, 0.5, START).last(START) for key in range(1_000)]

    assert min(ages) >= 0
    assert abs(sum(ages) / len(ages) - 2.0) < 0.3
    assert Poisson(1, 0.0, START).last(START) == START - 365 * 86_400


def test_an_item_of_a_stream_exists_from_its_birth_on() -> None:
    stream = Stream(Poisson(3, 0.1, START), stock=2)
    later = START + 100

    born = [stream.born(n, later) for n in range(stream.count(later))]

    assert born[:2] == [-math.inf, -math.inf]
    assert all(b is not None and stream.born(n, b - 1e-6) is None for n, b in enumerate(born) if n >= 2)
    assert stream.born(stream.count(later), later) is None
