"""How turns are shared out: discovery against refresh, and what a schedule window allots."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import DISCOVERY, FASTLANE, REFRESH, HostRecord
from crawl_platform.frontier.windows import Window, Windows
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, hand_back, move, url

# the split


def both_lanes(rig: FrontierRig, count: int) -> None:
    """`count` pages in each of discovery and refresh, all due."""
    rig.discover(*(url(f"old{n}") for n in range(count)))
    for n in range(count):
        move(rig, url(f"old{n}"), REFRESH)
    rig.discover(*(url(f"new{n}") for n in range(count)))


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 2)), min_size=1, max_size=60),
    st.floats(0.05, 0.5),
    st.floats(0.5, 0.95),
)
@settings(deadline=None, max_examples=25)
def test_at_every_step_discovery_has_its_share_within_one(
    turns: list[tuple[float, int]], floor: float, ceiling: float
) -> None:
    rig = FrontierRig(A, refresh=Refresh(split_floor=floor, split_ceiling=ceiling, drain_short=1.0))
    both_lanes(rig, len(turns) + 1)
    taken, owed = 0, 0.0

    for rate, handed_back in turns:
        rig.frontier.lanes.emit_rate = rate
        for _ in range(handed_back):  # claimed, but no request was sent
            hand_back(rig, rig.claim_page())
        share = rig.frontier.lanes.share()
        lease = rig.claim_page()
        taken += lease.lane == DISCOVERY
        owed += share
        rig.finish(lease, "gone")

        assert abs(taken - owed) < 1
    assert rig.frontier.lanes.split.discovery == taken
    assert rig.frontier.lanes.split.lent == 0


@pytest.mark.parametrize("both", [True, False])
def test_a_turn_that_was_handed_back_counts_for_nothing(both: bool) -> None:
    rig = FrontierRig(A)
    both_lanes(rig, 3) if both else rig.discover(url("1"))
    rig.frontier.open_windows({0: Window("w1", rig.clock.now() + 1e6, {A: 2})}, *rig.times())
    split = rig.frontier.lanes.split
    before = (split.credit, split.owed, split.discovery, split.refresh, split.lent)

    for _ in range(50):
        hand_back(rig, rig.claim_page())

    assert (split.credit, split.owed, split.discovery, split.refresh, split.lent) == pytest.approx(before)
    assert rig.frontier.hosts[A].window_used == 0


def test_turns_that_only_one_lane_wanted_are_lent_and_owed_to_nobody() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(20)))
    for _ in range(20):
        rig.finish(rig.claim_page(), "gone")

    split = rig.frontier.lanes.split
    assert (split.lent, split.discovery, split.refresh, split.credit) == (20, 0, 0, 0.0)


def test_urgent_turns_are_charged_to_neither_lane() -> None:
    rig = FrontierRig(A)
    both_lanes(rig, 2)
    rig.apply(lambda planner: planner.recrawl(url("old0"), "r1"))

    lease = rig.claim_page()

    assert lease.lane == FASTLANE
    assert (
        rig.frontier.lanes.split.discovery,
        rig.frontier.lanes.split.refresh,
        rig.frontier.lanes.split.lent,
    ) == (0, 0, 0)


# windows


def test_a_host_gets_what_its_window_allots_and_no_more_until_the_window_ends() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"{n}", host) for n in range(6) for host in (A, B)))
    ends_at = rig.clock.now() + 3_600
    rig.frontier.open_windows({0: Window("w1", ends_at, {A: 2})}, *rig.times())

    fetched: list[tuple[str, bool]] = []
    while isinstance(lease := rig.next_claim(), Lease):
        fetched.append((lease.host, rig.clock.now() < ends_at))
        rig.finish(lease, "gone")

    assert fetched.count((A, True)) == 2
    assert fetched.count((A, False)) == 4
    assert fetched.count((B, True)) == 6  # not named: shares what is left


def test_a_new_window_forgets_what_the_last_one_was_used_for() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(4)))
    for name in ("w1", "w2"):
        rig.frontier.open_windows({0: Window(name, rig.clock.now() + 1e6, {A: 1})}, *rig.times())
        rig.finish(rig.claim_page(), "gone")
        rig.clock.advance(10)
        assert rig.claim() is None


def test_the_fastlane_is_outside_every_window() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"), url("3"))
    rig.frontier.open_windows({0: Window("w1", rig.clock.now() + 1e6, {A: 0})}, *rig.times())
    rig.clock.advance(10)
    assert rig.claim() is None

    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    assert rig.claim_page().lane == FASTLANE


def test_a_fastlane_fetch_uses_up_nothing_of_the_window() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    rig.frontier.open_windows({0: Window("w1", rig.clock.now() + 1e6, {A: 1})}, *rig.times())
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))
    rig.finish(rig.claim_page(), "gone")

    rig.clock.advance(10)

    assert isinstance(rig.claim(), Lease)


def test_an_urgent_entry_that_ripens_later_does_not_wait_for_the_spent_windows_end() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    move(rig, url("2"), FASTLANE, due_in=60)
    rig.frontier.open_windows({0: Window("w1", rig.clock.now() + 1e6, {A: 0})}, *rig.times())

    begun = rig.clock.now()
    lease = rig.claim_page()

    assert lease.url == url("2")
    assert rig.clock.now() - begun == pytest.approx(60, abs=1.1)


def test_a_restart_does_not_give_a_host_its_allotment_again() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(str(n)) for n in range(6)))
    window = Window("w1", rig.clock.now() + 3600, {A: 3})
    rig.frontier.open_windows({0: window}, *rig.times())
    for _ in range(2):
        rig.clock.advance(5)
        rig.finish(rig.claim_page())

    rig.restart()
    rig.frontier.open_windows({0: window}, *rig.times())
    rig.clock.advance(5)

    rig.finish(rig.claim_page())
    rig.clock.advance(5)
    assert rig.claim() is None


def turns_of_b(rig: FrontierRig) -> int:
    """Visits of B in a window that gives A, which has no page, ten of its eleven turns."""
    rig.discover(*(url(f"{n}", B) for n in range(30)))
    ends_at = rig.clock.now() + 3_600
    rig.frontier.open_windows({0: Window("w1", ends_at, {A: 10, B: 1})}, *rig.times())
    turns = 0
    while isinstance(lease := rig.next_claim(ends_at - 1.0 - rig.clock.now()), Lease):
        turns += 1
        rig.finish(lease, "gone")
    return turns


def test_turns_that_a_host_does_not_use_are_lent_to_others_as_time_goes_by() -> None:
    assert 5 <= turns_of_b(FrontierRig(A, B)) <= 11


def test_a_window_that_comes_in_parts_counts_the_turns_of_all_of_them() -> None:
    windows = Windows()
    a, b = HostState(A, 0, HostRecord()), HostState(B, 1, HostRecord())
    windows.begin({0: Window("w1", 100.0, {A: 10})}, 0.0)
    for _ in range(10):
        windows.charge(a, DISCOVERY, 0)

    windows.begin({1: Window("w1", 100.0, {B: 10})}, 1.0)

    windows.charge(b, DISCOVERY, 0)
    assert not windows.lends(54.0), "11 of 20 turns are used: what it would be at 60"
    assert windows.lends(61.0)
    windows.begin({0: Window("w2", 200.0, {A: 10})}, 100.0)
    assert windows.lends(111.0), "the next window counts anew"


def test_ablation_without_lending_they_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Windows, "lends", lambda *_: False)

    assert turns_of_b(FrontierRig(A, B)) == 1
