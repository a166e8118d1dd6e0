"""What it has cost that one identity asked and not another: on planted answers."""

import random

import pytest

POOL = ("good", "bad")
SHARE = 0.2
"""Of hosts that the day's draw gives to any of the two."""


def plant(small, hosts: int, rates: dict[str, float], own: str, seed: int = 1) -> float:
    """Each host is asked ten times by the identity that it was given; returns the share of requests answered."""
    chance, answered = random.Random(seed), []
    for n in range(hosts):
        drawn = chance.random() < SHARE
        identity = chance.choice(POOL) if drawn else own
        propensity = SHARE / 2 + (1 - SHARE if identity == own else 0.0)
        for k in range(10):
            well = chance.random() < rates[identity]
            answered.append(well)
            small.fetch(
                f"https://h{n}.example.test/{k}", 60, outcome="ok" if well else "unauthorized", identity=identity,
                admission_reason="drawn" if identity != own else "sticky", admission_propensity=propensity,
            )  # fmt: skip
    return sum(answered) / len(answered)


def test_the_regret_is_what_the_better_identity_would_have_obtained_besides(small):
    got = plant(small, 400, {"good": 0.9, "bad": 0.6}, own="bad")

    assert small.value("admission_regret") == pytest.approx(0.9 - got, abs=0.03)


def test_there_is_none_where_the_best_identity_was_the_usual_one(small):
    got = plant(small, 400, {"good": 0.9, "bad": 0.6}, own="good")

    assert small.value("admission_regret") == pytest.approx(0.9 - got, abs=0.03)
    assert small.value("admission_regret") < 0.05


def test_hosts_of_different_worth_do_not_deceive_it(small):
    """Easy hosts are mostly asked by one identity and hard ones by the other, which are equally good at both: the
    plain shares differ by far, the weighted ones do not."""
    chance = random.Random(7)
    plain: dict[str, list[bool]] = {name: [] for name in POOL}
    for n in range(600):
        own, rate = ("good", 0.95) if n % 2 else ("bad", 0.45)
        identity = chance.choice(POOL) if chance.random() < SHARE else own
        propensity = SHARE / 2 + (1 - SHARE if identity == own else 0.0)
        for k in range(10):
            plain[identity].append(chance.random() < rate)
            small.fetch(
                f"https://h{n}.example.test/{k}", 60, outcome="ok" if plain[identity][-1] else "read_timeout",
                identity=identity, admission_reason="sticky", admission_propensity=propensity,
            )  # fmt: skip

    difference = sum(plain["good"]) / len(plain["good"]) - sum(plain["bad"]) / len(plain["bad"])
    assert difference > 0.3
    assert small.value("admission_regret") < 0.06


def test_an_identity_alone_has_nothing_to_regret(small):
    for n in range(50):
        small.fetch(
            f"https://a.test/{n}", 60, identity="default", admission_reason="only", admission_propensity=1.0
        )

    assert small.value("admission_regret") is None
