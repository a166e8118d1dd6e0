"""Capacity among groups by what they have brought: what it reaches, and what each safeguard is for."""

from functools import cache

import numpy as np
import pytest

from bench import allocation
from bench.allocation import FLAT, in_words, measure, undivided
from crawl_platform.scheduling import bandit
from crawl_platform.scheduling.allocation import allocate
from crawl_platform.scheduling.bandit import FADE, by_chance, expected_cost, worth

SEEDS = range(4)
play = cache(allocation.play)


@pytest.mark.long
def test_it_comes_near_to_one_who_knows_what_every_group_brings():
    assert np.mean([play(seed) for seed in SEEDS]) >= 0.95


@pytest.mark.long
def test_it_follows_when_groups_change_places():
    assert np.mean([play(seed, drift=True) for seed in SEEDS]) >= 0.90


@pytest.mark.long
def test_a_bonus_that_is_not_divided_by_the_cost_buys_what_is_dear():
    """Ablation."""
    assert np.mean([play(seed, undivided) for seed in SEEDS]) < 0.80


@pytest.mark.long
def test_a_group_of_which_little_is_known_does_not_get_a_whole_window_at_once():
    """Ablation: fetches in flight count for nothing."""
    cautious, hasty = ([play(seed, drift=True, cautious=c) for seed in SEEDS] for c in (True, False))

    assert np.mean(cautious) > np.mean(hasty) + 0.005


@pytest.mark.long
def test_the_bench_says_whether_the_lines_are_reached():
    report = measure([0])

    assert report["holds"]
    assert report["verdicts"] == {"stationary": True, "drift": True}
    assert "line drift: 0.90 of the oracle reached (0.9" in in_words(report)
    assert report["of_oracle"]["shipped"]["stationary"]["by_seed"] == [play(0)]
    assert report["of_oracle"]["greedy"]["drift"]["mean"] < report["of_oracle"]["shipped"]["drift"]["mean"]


def test_a_line_that_is_missed_is_told_as_missed():
    report = {
        "of_oracle": {"shipped": {"drift": {"mean": 0.85, "min": 0.8}}},
        "lines": {"drift": 0.9},
        "verdicts": {"drift": False},
    }

    assert in_words(report).endswith("line drift: 0.90 of the oracle NOT reached (0.850)")


def is_found(share: float, monkeypatch) -> bool:
    """Whether a group that was worthless, and has become the best of all, comes to get all that it can use."""
    monkeypatch.setattr(bandit, "RANDOM_SHARE", share)
    n, room = 12, np.full(12, 20)
    mean = np.full(n, 0.5)
    fetches = np.full(n, 40.0)
    reward = mean * fetches
    mean[0], reward[0] = 1.0, 0.0
    so_far = float(fetches.sum())
    for window in range(150):
        drawn = by_chance(room, 100.0, np.random.default_rng(window)).given
        pulls = allocate(
            room, room, np.ones(n), worth(reward, fetches, so_far), 100.0, drawn, width=np.full(n, FLAT)
        )
        if pulls[0] == room[0]:
            return True
        reward, fetches = FADE * reward + pulls * mean, FADE * fetches + pulls
        so_far += float(pulls.sum())
    return False


@pytest.mark.parametrize(("share", "found"), [(bandit.RANDOM_SHARE, True), (0.0, False)])
def test_only_chance_finds_a_group_that_has_become_good(share, found, monkeypatch):
    assert is_found(share, monkeypatch) is found


def test_what_was_never_tried_is_worth_more_than_the_average():
    value = worth([50.0, 0.0], [100.0, 0.0], 100.0)

    assert value[1] > value[0] > 0.5


def test_before_any_fetch_all_groups_are_alike():
    value = worth([0.0, 0.0], [0.0, 0.0], 0.0)

    assert value[0] == value[1] == pytest.approx(bandit.UNTRIED)


# chance


def test_chance_gives_about_its_share_and_says_how_likely_it_was():
    room = np.array([10, 0, 5, 3, 8])
    draws = [by_chance(room, 100.0, np.random.default_rng(seed)) for seed in range(2_000)]

    given = np.array([d.given for d in draws])
    assert given.sum(1).mean() == pytest.approx(2.0, rel=0.1)
    assert np.all(given[:, 1] == 0)
    for group in range(5):
        seen = np.array([d.propensity[group] for d in draws])
        lucky = given[:, group] > 0
        assert np.mean(lucky) == pytest.approx(seen[lucky].mean() if lucky.any() else 0.0, abs=0.04)


def test_few_groups_get_several_at_once_and_none_more_than_it_can_use():
    draw = by_chance([100, 2], 1_000.0, np.random.default_rng(1))

    assert draw.given.tolist() == [10, 2]
    assert draw.propensity.tolist() == [1.0, 1.0]


def test_the_same_seed_draws_the_same():
    first, second = (by_chance([5] * 30, 300.0, np.random.default_rng(9)) for _ in range(2))

    assert np.array_equal(first.given, second.given)


def test_without_room_chance_has_no_part():
    draw = by_chance([0, 0], 100.0, np.random.default_rng(0))

    assert draw.given.tolist() == [0, 0]
    assert draw.propensity.tolist() == [1.0, 1.0]


# cost


def test_a_fetch_of_twice_the_time_and_bytes_costs_twice():
    cost = expected_cost([200_000, 100_000], [4e7, 2e7], [1_000, 1_000])

    assert cost[0] / cost[1] == pytest.approx(2.0, rel=0.02)
    assert cost.mean() == pytest.approx(1.0, rel=0.02)


def test_costs_of_few_fetches_are_hardly_believed_and_extremes_never():
    cost = expected_cost([90_000, 100, 100_000], [9e7, 1e4, 1e7], [1, 1, 1_000])

    assert cost[0] == bandit.DEAREST
    assert cost[1] > 0.8


def test_before_anything_was_measured_every_fetch_costs_the_same():
    assert expected_cost([0, 0], [0, 0], [0, 0]).tolist() == [1.0, 1.0]
