"""What a host's lastmod is worth: learnt from claims kept and broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.clock import DAY
from crawl_platform.scheduling.lastmod import (
    BELIEVED,
    MEMORY,
    MOST_PULLED,
    PROBES,
    Trust,
    claims_change,
    credible,
    learned,
    stale_index,
)

NOON = 20_000 * DAY + DAY / 2


def after(*claims: bool) -> Trust:
    trust = Trust()
    for kept in claims:
        trust = learned(trust, kept)
    return trust


def test_of_a_new_host_half_of_the_claims_are_believed_and_few_are_acted_on() -> None:
    assert Trust().chance == 0.5
    assert Trust().believed
    assert Trust().most_pulled == PROBES


def test_a_host_that_keeps_its_word_may_call_for_many_visits() -> None:
    assert after(*[True] * 10).most_pulled == MOST_PULLED


def test_a_host_whose_lastmod_always_says_now_is_no_longer_believed_after_some_visits() -> None:
    assert not after(*[False] * 3).believed
    assert after(*[False] * 3).most_pulled == 0


def test_trust_is_lost_and_won_again() -> None:
    trust = after(*[True] * 500, *[False] * 200)
    assert not trust.believed

    for _ in range(40):
        trust = learned(trust, True)
    assert trust.believed


@given(st.lists(st.booleans(), max_size=300))
def test_it_remembers_so_many_claims_and_no_more(claims: list[bool]) -> None:
    trust = after(*claims)

    assert 0.0 <= trust.kept + trust.broken <= MEMORY + 1e-9
    assert 0.0 < trust.chance < 1.0


@given(st.floats(0.0, 1.0).filter(lambda share: abs(share - BELIEVED) > 0.2))
def test_it_settles_at_the_share_of_claims_that_are_kept(share: float) -> None:
    owed, claims = 0.0, []
    for _ in range(300):
        owed += share
        claims.append(owed >= 1.0)
        owed -= claims[-1]

    assert after(*claims).believed == (share > BELIEVED)


@pytest.mark.parametrize(
    ("lastmod", "heard", "visited", "claims"),
    [
        (NOON, 0.0, NOON - 1, True),
        (NOON, 0.0, NOON + 1, False),
        (NOON, NOON, NOON - 1, False),
        (NOON, NOON + 1, NOON - 1, False),
        (NOON - DAY / 2, 0.0, NOON, False),
        (NOON - DAY / 2, NOON - 9 * DAY, NOON, True),
        (NOON - DAY / 2, NOON - 9 * DAY, NOON + DAY, False),
        (NOON, NOON - 9 * DAY, NOON + 1, False),
    ],
)
def test_what_claims_a_change_since_the_last_visit(
    lastmod: float, heard: float, visited: float, claims: bool
) -> None:
    assert claims_change(lastmod, heard, visited) == claims


@pytest.mark.parametrize(
    ("lastmod", "is_credible"), [(NOON, True), (NOON + 60, True), (NOON + DAY, False), (0.0, False)]
)
def test_a_lastmod_from_the_future_or_from_before_the_web_says_nothing(
    lastmod: float, is_credible: bool
) -> None:
    assert credible(lastmod, NOON) == (lastmod if is_credible else 0.0)


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.floats(0.0, 1.0))
def test_a_claim_never_makes_a_visit_worth_less(index: float, oldest: float, chance: float) -> None:
    assert stale_index(index, oldest, chance) >= index * (1 - 1e-12)
