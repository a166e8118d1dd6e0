import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.scheduling.split import SplitCredit, target_share

HOUR, WEEK = 3_600.0, 7 * 86_400.0


def test_a_backlog_that_drains_within_the_hour_gets_the_floor():
    assert target_share(100, 1.0) == 0.10
    assert target_share(HOUR, 1.0) == 0.10


def test_a_backlog_of_a_week_and_more_gets_the_ceiling():
    assert target_share(WEEK, 1.0) == pytest.approx(0.90)
    assert target_share(1e12, 1.0) == pytest.approx(0.90)


def test_the_share_is_linear_in_the_logarithm_of_the_drain_time():
    assert target_share(math.sqrt(HOUR * WEEK), 1.0) == pytest.approx(0.50)


def test_a_standing_cell_with_a_backlog_turns_to_discovery_and_without_one_to_refresh():
    assert target_share(5, 0.0) == 0.90
    assert target_share(0, 0.0) == 0.10


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0.001, 1e4))
def test_more_backlog_never_means_less_discovery(less, more, rate):
    less, more = sorted((less, more))

    assert target_share(less, rate) <= target_share(more, rate) + 1e-12


@given(st.lists(st.floats(0, 1), max_size=400), st.floats(-0.5, 0.499))
def test_realised_discovery_stays_within_a_half_of_what_is_owed(shares, start):
    credit = SplitCredit(start)
    for share in shares:
        credit.charge(share)

        assert -0.5 - 1e-9 <= credit.credit < 0.5
        assert abs(credit.discovery - credit.owed) <= 1.0 + 1e-9
        assert credit.discovery + credit.refresh <= len(shares)


@given(st.lists(st.floats(0, 1), max_size=400))
def test_from_a_fresh_start_the_error_is_at_most_one_half(shares):
    credit = SplitCredit()
    for share in shares:
        credit.charge(share)

        assert abs(credit.discovery - credit.owed) <= 0.5 + 1e-9


def test_lent_turns_leave_the_credit_alone():
    credit = SplitCredit()
    for _ in range(1_000):
        credit.lend()

    assert (credit.credit, credit.lent, credit.discovery) == (0.0, 1_000, 0)


class ChargingLentTurns(SplitCredit):
    """The safeguard off: refresh's turns alone still earn discovery its share."""

    def lend(self) -> None:
        self.credit += 0.9


@pytest.mark.parametrize(("kind", "burst"), [(SplitCredit, 1), (ChargingLentTurns, 91)])
def test_after_a_spell_alone_the_other_lane_is_not_owed_a_burst(kind, burst):
    credit = kind()
    for _ in range(100):
        credit.lend()

    lanes = [credit.charge(0.1) for _ in range(200)]

    longest = max(len(run) for run in "".join(lane[0] for lane in lanes).split("r"))
    assert longest == 1 if burst == 1 else longest >= burst - 1


def test_asking_for_the_lane_does_not_charge_it():
    credit = SplitCredit()

    assert [credit.next_lane(0.5) for _ in range(3)] == ["discovery"] * 3
    assert credit.credit == 0.0


def test_a_credit_out_of_range_is_refused():
    with pytest.raises(ValueError, match="credit"):
        SplitCredit(0.5)
