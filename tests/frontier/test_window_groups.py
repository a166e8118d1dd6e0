"""What a schedule window allots to URL groups within their host."""

import pytest

from crawl_platform.frontier import hosts
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import REFRESH
from crawl_platform.frontier.windows import Window, Windows
from crawl_platform.scheduling.templates import group_id
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, hand_back, move, url

STORIES, TAGS = group_id(A, "/story/#"), group_id(A, "/tag/#")


def both_groups(count: int, story_value: float = 0.9) -> FrontierRig:
    """`count` stories, and as many tags that come after them."""
    rig = FrontierRig(A)
    rig.discover(*(url(f"story/{n}") for n in range(count)), value=story_value)
    rig.discover(*(url(f"tag/{n}") for n in range(count)), value=0.1)
    return rig


def open_window(rig: FrontierRig, groups: dict[int, int], most: int = 1_000, name: str = "w1") -> Window:
    window = Window(name, rig.clock.now() + 3_600, {A: most}, {A: groups})
    rig.frontier.open_windows({0: window}, *rig.times())
    return window


def fetched(rig: FrontierRig, until: float) -> list[str]:
    """Paths in the order in which they are fetched before `until` (UTC seconds)."""
    paths = []
    while isinstance(lease := rig.next_claim(max(until - rig.clock.now(), 0.0)), Lease):
        paths.append(lease.url.split("/", 3)[3])
        rig.finish(lease, "gone")
    return paths


def test_a_group_gets_what_its_window_allots_and_the_others_share_what_the_host_has() -> None:
    rig = both_groups(6)
    window = open_window(rig, {STORIES: 2}, most=5)

    assert fetched(rig, window.ends_at - 1.0) == ["story/0", "story/1", "tag/0", "tag/1", "tag/2"]


def test_when_the_window_ends_nothing_is_held_back_any_more() -> None:
    rig = both_groups(4)
    window = open_window(rig, {STORIES: 0, TAGS: 1})

    assert fetched(rig, window.ends_at - 1.0) == ["tag/0"]
    assert len(fetched(rig, window.ends_at + 3_600)) == 7


def test_ablation_without_the_caps_the_first_group_takes_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Windows, "spent_groups", lambda *_: frozenset())
    rig = both_groups(6)
    window = open_window(rig, {STORIES: 2}, most=5)

    assert fetched(rig, window.ends_at - 1.0) == [f"story/{n}" for n in range(5)]


def test_pages_due_for_a_visit_are_held_back_like_new_ones() -> None:
    rig = both_groups(3)
    for path in ("story/0", "story/1", "tag/0"):
        move(rig, url(path), REFRESH)
    window = open_window(rig, {STORIES: 1})

    assert sorted(path.split("/")[0] for path in fetched(rig, window.ends_at - 1.0)) == [
        "story",
        *["tag"] * 3,
    ]


def test_the_fastlane_takes_what_a_spent_group_may_not() -> None:
    rig = both_groups(2)
    open_window(rig, {STORIES: 0, TAGS: 0})

    rig.apply(lambda planner: planner.recrawl(url("story/1"), "r1"))

    assert rig.claim_page().url == url("story/1")
    assert rig.frontier.hosts[A].group_used == {}


def test_a_turn_that_was_handed_back_counts_for_no_group() -> None:
    rig = both_groups(3)
    open_window(rig, {STORIES: 1})

    for _ in range(20):
        lease = rig.claim_page()
        assert lease.url == url("story/0")
        hand_back(rig, lease)

    assert rig.frontier.hosts[A].group_used == {STORIES: 0}


def test_a_restart_does_not_give_a_group_its_allotment_again() -> None:
    rig = both_groups(4)
    window = open_window(rig, {STORIES: 2})
    rig.finish(rig.claim_page(), "gone")

    rig.restart()
    rig.frontier.open_windows({0: window}, *rig.times())

    assert [path for path in fetched(rig, window.ends_at - 1.0) if "story" in path] == ["story/1"]


def test_a_new_window_starts_from_nothing() -> None:
    rig = both_groups(4)
    for name in ("w1", "w2"):
        open_window(rig, {STORIES: 1, TAGS: 0}, name=name)
        assert "story" in rig.claim_page().url
        rig.frontier.hosts[A].in_flight = False
        rig.gates.release_host(A)


def test_groups_that_no_window_names_are_not_counted() -> None:
    rig = both_groups(3)
    open_window(rig, {STORIES: 1})

    for _ in range(3):
        rig.finish(rig.claim_page(), "gone")

    assert rig.frontier.hosts[A].group_used == {STORIES: 1}
    assert rig.frontier.hosts[A].record.window_groups == {STORIES: 1}


def test_behind_many_entries_of_a_spent_group_the_others_are_still_found() -> None:
    rig = both_groups(5 * hosts.HEAD)
    window = open_window(rig, {STORIES: 0})

    assert len(fetched(rig, window.ends_at - 1.0)) == 5 * hosts.HEAD


def test_the_look_past_a_spent_group_is_bounded_and_ends_with_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "LOOK_AHEAD", 10)
    rig = both_groups(20)
    window = open_window(rig, {STORIES: 0})

    assert fetched(rig, window.ends_at - 1.0) == []
    assert len(fetched(rig, window.ends_at + 3_600)) == 40


def test_what_is_held_back_is_not_forgotten_when_an_epoch_ends_meanwhile() -> None:
    rig = FrontierRig(A)
    rig.discover(url("story/1"), url("story/2"))
    window = open_window(rig, {STORIES: 1})
    rig.finish(rig.claim_page(), "gone")
    rig.clock.advance(10.0)
    assert rig.claim() is None

    rig.apply(lambda planner: planner.appraise(url("story/2"), 0.3, "why not"))

    assert fetched(rig, window.ends_at + 10.0) == ["story/2"]
