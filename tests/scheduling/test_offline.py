"""Off-line evaluation: what a log says of another policy is what that policy brings when it is run."""

from functools import cache

import numpy as np
import pytest

from bench.offline import measure
from crawl_platform.scheduling.offline import (
    METHODS,
    Estimate,
    Log,
    doubly_robust,
    expected_rewards,
    inverse_propensity,
    self_normalised,
    unsupported,
    verdict,
)


def situation(n: int, random: np.random.Generator):
    """Contexts (n, 2), what each of three actions brings there on average (n, 3), and what was usually done."""
    x = random.normal(size=(n, 2))
    mean = np.column_stack((1.0 + x[:, 0], 2.0 - x[:, 0], 0.5 + x[:, 1]))
    chance = np.full((n, 3), 0.1)
    chance[np.arange(n), (x[:, 0] + x[:, 1] > 0).astype(int)] = 0.8
    return x, mean, chance


def run(mean, chance, random: np.random.Generator):
    """What a policy does and gets."""
    taken = (random.random(len(mean))[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    return taken, mean[np.arange(len(mean)), taken] + random.normal(size=len(mean))


def candidate(x):
    """Takes the better of the first two actions nine times of ten."""
    chance = np.full((len(x), 3), 0.05)
    chance[np.arange(len(x)), (x[:, 0] < 0.5).astype(int)] = 0.9
    return chance


def log_of(seed: int, n: int = 600, told=None):
    """A log with its contexts; `told` makes the logged probabilities of the true ones."""
    random = np.random.default_rng(seed)
    x, mean, chance = situation(n, random)
    taken, reward = run(mean, chance, random)
    return x, Log(taken, reward, chance if told is None else told(chance), np.arange(n) // 6)


@cache
def true_value() -> float:
    random = np.random.default_rng(99)
    x, mean, _ = situation(200_000, random)
    return float(run(mean, candidate(x), random)[1].mean())


@cache
def estimated(method: str, wrong: bool = False) -> list[Estimate]:
    told = (lambda chance: np.full_like(chance, 1 / 3)) if wrong else None
    logs = [log_of(seed, told=told) for seed in range(60)]
    return [METHODS[method](log, candidate(x), expected_rewards(log, x), np.inf) for x, log in logs]


def spread(method: str) -> float:
    return float(np.std([found.value for found in estimated(method)]))


@pytest.mark.parametrize("method", METHODS)
def test_an_interval_holds_what_the_candidate_brings_when_it_is_run(method):
    held = [found.low <= true_value() <= found.high for found in estimated(method)]

    assert np.mean(held) >= 0.88


def test_a_model_takes_noise_out():
    assert spread("doubly robust") < 0.8 * spread("inverse propensity")


@pytest.mark.parametrize("method", ["inverse propensity", "self-normalised"])
def test_with_wrong_propensities_the_truth_is_missed(method):
    """Ablation: as if every action had been as likely as any other."""
    held = [found.low <= true_value() <= found.high for found in estimated(method, wrong=True)]

    assert np.mean(held) < 0.5


def test_a_good_model_makes_up_for_wrong_propensities_and_right_ones_for_a_bad_model():
    x, log = log_of(1, n=6_000)
    _, wrong = log_of(1, n=6_000, told=lambda chance: np.full_like(chance, 1 / 3))
    nonsense = np.full((6_000, 3), 7.0)

    by_model = doubly_robust(wrong, candidate(x), expected_rewards(wrong, x))
    by_propensity = doubly_robust(log, candidate(x), nonsense)

    assert by_model.low <= true_value() <= by_model.high
    assert by_propensity.low <= true_value() <= by_propensity.high


def test_of_its_own_policy_a_log_tells_what_it_brought():
    _, log = log_of(1)

    for estimate in (inverse_propensity(log, log.chance), self_normalised(log, log.chance)):
        assert estimate.value == pytest.approx(log.reward.mean())
        assert estimate.effective == pytest.approx(600)
        assert (estimate.gain_low, estimate.gain_high) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_gain_is_known_better_than_a_value_since_both_policies_had_the_same_decisions():
    """Nine decisions of ten are as they were; what they brought differs far more than the policies do."""
    random = np.random.default_rng(5)
    n = 4_000
    chance = np.full((n, 2), 0.5)
    taken = (random.random(n) < 0.5).astype(np.int64)
    log = Log(taken, random.normal(50.0, 20.0, n) + taken, chance, np.arange(n) // 20)
    candidate = np.column_stack((np.full(n, 0.45), np.full(n, 0.55)))

    told = self_normalised(log, candidate)

    assert told.gain == pytest.approx(told.value - log.reward.mean())
    assert told.gain_high - told.gain_low < 0.2 * (told.high - told.low)
    assert told.gain_low <= 0.05 <= told.gain_high


def test_clipping_takes_weight_away_and_tells_how_much():
    x, log = log_of(1)

    full, cut = (inverse_propensity(log, candidate(x), clip) for clip in (np.inf, 2.0))

    assert full.clipped == 0.0
    assert 0.1 < cut.clipped < 0.9
    assert cut.effective > full.effective
    assert cut.high - cut.low < full.high - full.low


def test_self_normalised_estimates_stay_within_the_rewards():
    rare = np.array([[0.01, 0.99]] * 20)
    taken = np.array([0] * 2 + [1] * 18)
    log = Log(taken, np.where(taken == 0, 5.0, 1.0), rare, np.arange(20))
    always = np.array([[1.0, 0.0]] * 20)

    assert self_normalised(log, always).value == pytest.approx(5.0)
    assert inverse_propensity(log, always).value > 5.0


def test_decisions_of_one_window_are_no_more_than_one_witness():
    _, log = log_of(1)
    twins = Log(
        np.repeat(log.taken, 4),
        np.repeat(log.reward, 4),
        np.repeat(log.chance, 4, 0),
        np.repeat(log.window, 4),
    )

    apart, together = (inverse_propensity(one, one.chance) for one in (log, twins))

    assert together.high - together.low == pytest.approx(apart.high - apart.low)


def test_a_model_is_not_asked_of_what_it_has_seen():
    """Ablation in one: on noise a model that had seen its own rewards would look as if it knew something."""
    random = np.random.default_rng(0)
    n = 60
    log = Log(np.zeros(n, np.int64), random.normal(size=n), np.array([[0.5, 0.5]] * n), np.arange(n))

    found = expected_rewards(log, random.normal(size=(n, 20)))[:, 0]

    assert np.corrcoef(found, log.reward)[0, 1] < 0.2


# what can't be said


def test_what_the_log_never_did_is_not_valued():
    log = Log(np.array([0, 0]), np.ones(2), np.array([[1.0, 0.0], [1.0, 0.0]]), np.arange(2))
    other = np.array([[0.25, 0.75], [1.0, 0.0]])

    beyond = unsupported(log, other)

    assert beyond == pytest.approx(0.375)
    assert "37.5% of the candidate's choices had propensity 0" in verdict(
        inverse_propensity(log, other), 1.0, beyond, 2
    )


def test_a_log_of_another_policy_is_refused():
    with pytest.raises(ValueError, match="not of this policy"):
        Log(np.array([1]), np.ones(1), np.array([[1.0, 0.0]]), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="add up to 1"):
        Log(np.array([0]), np.ones(1), np.array([[0.5, 0.4]]), np.zeros(1, np.int64))
    _, log = log_of(1)
    with pytest.raises(ValueError, match="candidate"):
        inverse_propensity(log, log.chance * 2)


def gained(gain: float, reach: float, effective: float = 100.0) -> Estimate:
    """An estimate of so much more than 1."""
    return Estimate(
        1.0 + gain, 1.0 + gain - reach, 1.0 + gain + reach, gain, gain - reach, gain + reach, effective, 0.0
    )


@pytest.mark.parametrize(
    ("estimate", "beyond", "windows", "words"),
    [
        (gained(1.0, 0.5), 0.0, 50, "more than what is shipped: +1 (+0.5 to +1.5) on 1"),
        (gained(-0.5, 0.3), 0.0, 50, "less than what is shipped"),
        (gained(0.1, 0.3), 0.0, 50, "no difference that this log can show"),
        (gained(0.1, 0.3), 0.004, 50, "0.40% of its choices were never seen"),
        (gained(1.0, 0.5, effective=4.0), 0.0, 50, "weak: it rests on 4 decisions"),
        (gained(1.0, np.nan), 0.0, 1, "two windows or more"),
    ],
)
def test_the_verdict_is_in_words(estimate, beyond, windows, words):
    assert words in verdict(estimate, 1.0, beyond, windows)


def test_without_a_decision_nothing_is_claimed():
    empty = Log(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2)), np.zeros(0, np.int64))

    assert np.isnan(inverse_propensity(empty, empty.chance).value)
    assert unsupported(empty, empty.chance) == 0.0


@pytest.mark.long
def test_the_shipped_candidates_are_valued_as_they_turn_out_when_they_are_run():
    report = measure(1, 40)

    assert report["holds"], report
