"""The threshold above which a host's pages are visited."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crawl_platform.scheduling.refresh import age_of_change, index_one
from crawl_platform.scheduling.threshold import LEAST_VALUE, floor_of, lowered, raised

POSITIVE = st.floats(1e-6, 1e3)


@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_it_rises_no_further_than_the_index_that_was_seen(threshold, index, late, planned, turn):
    risen = raised(threshold, index, late, planned, turn)

    assert threshold <= risen <= max(threshold, index) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("late", "rises"),
    [(9.0, False), (12.9, False), (13.1, True)],
)
def test_pages_that_are_a_little_late_tell_nothing(late, rises):
    assert (raised(1.0, 5.0, late, planned=100.0, turn=1.0) > 1.0) is rises


def test_a_few_turns_of_the_host_are_no_lateness_however_short_the_interval():
    assert raised(1.0, 5.0, late=2.9, planned=0.5, turn=1.0) == 1.0


def test_the_later_a_page_the_more_is_believed_of_what_it_shows():
    little, much, more = (raised(1.0, 5.0, late, planned=100.0, turn=1.0) for late in (20.0, 100.0, 900.0))

    assert 1.0 < little < much == more


def test_what_the_first_late_page_shows_is_believed_as_it_is():
    assert raised(0.0, 5.0, late=100.0, planned=100.0, turn=1.0) == 5.0


@given(POSITIVE, st.integers(1, 500))
def test_as_many_spare_turns_as_there_are_pages_bring_it_down_by_a_factor_of_e(threshold, pages):
    fallen = threshold
    for _ in range(pages):
        fallen = lowered(fallen, pages)

    assert fallen == pytest.approx(threshold / math.e)


def test_a_host_without_pages_has_a_turn_to_spare_all_the_same():
    assert lowered(1.0, 0) == pytest.approx(1 / math.e)


@given(st.floats(0.1, 20), st.floats(1e-3, 400), st.floats(1e-5, 10.0), st.floats(0.01, 0.3))
def test_at_the_floor_the_other_bounds_hold_a_page_longer(a, b, interval_min, least_change):
    """So a lower floor would change nothing for a page of at least `LEAST_VALUE`."""
    assume(a / b * interval_min < 1.0)
    age = max(interval_min, age_of_change(a, b, least_change))

    assert index_one(a, b, age, LEAST_VALUE) >= floor_of(interval_min, least_change) * 0.5
