"""Killed again and again (-9) at random, the fleet loses nothing, doubles nothing and hurries nobody.

A failing test shows its seed; `python -m tests.fleet.campaign --seed N --kills K` repeats it.
"""

from pathlib import Path

import pytest

from tests.fleet.campaign import VICTIMS, Shape, new_seed, run


def test_ten_kills_at_random_moments(tmp_path: Path) -> None:
    outcome = run(Shape(10, new_seed(), pages=45, pause=(0.05, 0.6)), tmp_path)

    print(outcome)  # noqa: T201
    assert outcome.killed.total() == 10
    assert set(outcome.killed) == set(VICTIMS)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_hundred_kills_at_random_moments_dagster_included(tmp_path: Path) -> None:
    outcome = run(Shape(100, new_seed(), pages=1200, dagster=True), tmp_path)

    print(outcome)  # noqa: T201
    assert outcome.killed.total() == 100
    assert set(outcome.killed) == {*VICTIMS, "dagster"}
    assert outcome.after_last > 100, "the last kills had a crawl to hit"


def test_a_seed_repeats_order_and_victims() -> None:
    assert Shape(50, 7, 1).victims == Shape(50, 7, 1).victims
    assert Shape(50, 7, 1).victims != Shape(50, 8, 1).victims
    assert set(Shape(10, 3, 1, dagster=True).victims) == {*VICTIMS, "dagster"}
