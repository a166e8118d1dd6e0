import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.scheduling.allocation import allocate, marginal, shortfall


@st.composite
def windows(draw):
    n = draw(st.integers(1, 8))
    column = lambda elements: np.array(draw(st.lists(elements, min_size=n, max_size=n)))  # noqa: E731
    wanted = column(st.integers(0, 60))
    return {
        "wanted": wanted,
        "most": column(st.integers(0, 60)),
        "cost": column(st.sampled_from([1.0, 1.5, 4.0])),
        "value": column(st.floats(0, 10)),
        "budget": draw(st.floats(0, 200)),
        "reserved": np.minimum(column(st.integers(0, 20)), wanted),
    }


def one_by_one(wanted, most, cost, value, budget, reserved):
    """The definition: deal single units to the best marginal value per cost that still fits."""
    high = np.minimum(wanted, most)
    given = np.minimum(reserved, high)
    left = budget - float(given @ cost)
    while True:
        score = np.where((given < high) & (cost <= left + 1e-9), marginal(given, wanted, value, cost), 0.0)
        if score.max(initial=0.0) <= 0:
            return given
        given[score.argmax()] += 1
        left -= cost[score.argmax()]


def utility(given, wanted, value):
    width = np.maximum(wanted, 1.0)
    return sum(v * np.sum(1 / (1 + np.arange(x) / w)) for x, w, v in zip(given, width, value, strict=True))


@given(windows())
def test_it_never_spends_more_than_the_budget_nor_exceeds_a_limit(window):
    given_ = allocate(**window)

    assert np.all(given_ >= 0)
    assert np.all(given_ <= np.minimum(window["wanted"], window["most"]))
    assert float(given_ @ window["cost"]) <= window["budget"] + 1e-6


@given(windows())
def test_reservations_that_fit_are_kept(window):
    low = np.minimum(window["reserved"], np.minimum(window["wanted"], window["most"]))
    given_ = allocate(**window)

    if float(low @ window["cost"]) <= window["budget"]:
        assert np.all(given_ >= low)


@given(windows())
def test_at_unit_cost_it_is_worth_as_much_as_dealing_single_units(window):
    window["cost"] = np.ones(len(window["wanted"]))
    low = np.minimum(window["reserved"], np.minimum(window["wanted"], window["most"]))
    if low.sum() > window["budget"]:
        return

    bulk, single = allocate(**window), one_by_one(**window)

    assert utility(bulk, window["wanted"], window["value"]) == pytest.approx(
        utility(single, window["wanted"], window["value"]), rel=1e-9
    )


def test_capacity_is_not_left_idle_while_work_waits():
    given_ = allocate([500, 500], [400, 400], [1, 1], [5.0, 0.1], 600, [0, 0])

    assert given_.sum() == 600
    assert given_[0] == 400


def test_twice_the_cost_needs_twice_the_value():
    given_ = allocate([100, 100], [100, 100], [1, 2], [1.0, 2.0], 90, [0, 0])

    assert abs(given_[0] - given_[1]) <= 1


def test_promises_that_do_not_fit_are_reported():
    given_ = allocate([50, 50], [50, 50], [1, 1], [1.0, 2.0], 60, [40, 40])

    assert given_.sum() == 60
    assert shortfall([40, 40], given_).sum() == 20


def test_a_promise_beyond_politeness_is_a_shortfall_too():
    given_ = allocate([50], [10], [1], [1.0], 60, [40])

    assert shortfall([40], given_).tolist() == [30]


def test_a_group_without_value_gets_what_is_reserved_and_no_more():
    assert allocate([50, 50], [50, 50], [1, 1], [0.0, 1.0], 100, [5, 0]).tolist() == [5, 50]


def test_a_fetch_without_cost_is_refused():
    with pytest.raises(ValueError, match="cost"):
        allocate([1], [1], [0], [1.0], 1, [0])


# hosts


@st.composite
def windows_of_hosts(draw):
    window = draw(windows())
    n = len(window["wanted"])
    hosts = draw(st.integers(1, 3))
    return {
        **window,
        "host": np.array(draw(st.lists(st.integers(0, hosts - 1), min_size=n, max_size=n))),
        "host_most": np.array(draw(st.lists(st.integers(0, 60), min_size=hosts, max_size=hosts))),
    }


@given(windows_of_hosts())
def test_the_groups_of_a_host_share_its_politeness(window):
    given_ = allocate(**window)

    used = np.bincount(window["host"], given_, len(window["host_most"]))
    assert np.all(used <= window["host_most"])
    assert float(given_ @ window["cost"]) <= window["budget"] + 1e-6
    assert np.all(given_ <= np.minimum(window["wanted"], window["most"]))


@given(windows_of_hosts())
def test_with_hosts_it_is_worth_as_much_as_dealing_single_units(window):
    window["cost"] = np.ones(len(window["wanted"]))
    window["reserved"] = 0 * window["reserved"]

    bulk, single = allocate(**window), one_by_one_on_hosts(**window)

    assert utility(bulk, window["wanted"], window["value"]) == pytest.approx(
        utility(single, window["wanted"], window["value"]), rel=1e-9
    )


def one_by_one_on_hosts(wanted, most, cost, value, budget, reserved, host, host_most):
    """The definition with hosts: the best next unit on a host that still has room."""
    high, given = np.minimum(wanted, most), np.array(reserved)
    while True:
        room = host_most - np.bincount(host, given, len(host_most))
        free = (given < high) & (room[host] >= 1) & (given.sum() + 1 <= budget + 1e-9)
        score = np.where(free, marginal(given, wanted, value, cost), 0.0)
        if score.max(initial=0.0) <= 0:
            return given
        given[score.argmax()] += 1


def test_reservations_on_a_full_host_are_served_by_value_and_reported():
    given_ = allocate([9, 9], [9, 9], [1, 1], [1.0, 2.0], 100, [9, 9], host=[0, 0], host_most=[12])

    assert given_.sum() == 12
    assert given_[1] > given_[0]
    assert shortfall([9, 9], given_).sum() == 6


def test_without_its_reservation_a_deadline_of_little_value_is_missed():
    """Ablation: value alone gives a dull group nothing."""
    window = ([5, 500], [5, 500], [1, 1], [0.01, 1.0], 100)

    assert allocate(*window, [5, 0]).tolist() == [5, 95]
    assert allocate(*window, [0, 0])[0] == 0


def test_a_wide_group_does_not_fade():
    assert allocate([50, 50], [50, 50], [1, 1], [1.0, 0.99], 50, [0, 0], width=1e9).tolist() == [50, 0]
