"""A queue is cut: from its end, in portions, and what is dropped stays known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier import trim
from crawl_platform.frontier.records import DROPPED, QUEUED
from crawl_platform.frontier.trim import TRIMMED, TrimOrder, orders, portion, preview
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, known, url


def rig_with(count: int, depth: int = 1) -> FrontierRig:
    """So many URLs wait, `0` first."""
    rig = FrontierRig(A, B)
    for n in range(count):
        rig.discover(url(f"{n}"), depth=depth, value=1.0 - n / 100)
    return rig


def give(rig: FrontierRig, keep: int = -1, deepest: int = -1) -> None:
    rig.apply(lambda planner: trim.order(planner, 0, A, TrimOrder(keep, deepest, "r1")))


def step(rig: FrontierRig) -> TrimOrder | None:
    """One portion; what was done once all is."""
    ((shard, host, wanted),) = orders(rig.kv)
    plan, wanted, done = portion(rig.frontier, shard, host, wanted, rig.clock.now())
    rig.write(plan)
    return wanted if done else None


def carry_out(rig: FrontierRig) -> TrimOrder:
    while (done := step(rig)) is None:
        pass
    return done


def waiting(rig: FrontierRig, count: int) -> list[int]:
    return [n for n in range(count) if known(rig, url(f"{n}")).state == QUEUED]


def test_the_end_of_the_queue_is_dropped_and_stays_known() -> None:
    rig = rig_with(10)
    give(rig, keep=4)

    done = carry_out(rig)

    assert (done.kept, done.dropped, done.request_id) == (4, 6, "r1")
    assert waiting(rig, 10) == [0, 1, 2, 3]
    assert (known(rig, url("9")).state, known(rig, url("9")).reason) == (DROPPED, TRIMMED)
    assert (rig.frontier.known, rig.frontier.dead, rig.frontier.backlog()) == (10, 6, 4)
    assert rig.frontier.hosts[A].record.queued == 4
    assert rig.discover(url("9")).turned_away == {"seen": 1}
    assert list(orders(rig.kv)) == []


def test_what_lies_deeper_is_dropped_wherever_it_waits() -> None:
    rig = rig_with(3)
    rig.discover(url("deep"), depth=5, value=1.0)
    give(rig, deepest=4)

    assert carry_out(rig).dropped == 1
    assert known(rig, url("deep")).state == DROPPED
    assert waiting(rig, 3) == [0, 1, 2]


def test_pages_that_were_fetched_in_flight_or_asked_for_are_left_alone() -> None:
    rig = rig_with(4)
    rig.finish(rig.claim_page())  # 0
    lease = rig.claim_page()  # 1
    rig.apply(lambda planner: planner.recrawl(url("2"), "r"))
    give(rig, keep=0)

    assert carry_out(rig).dropped == 1
    assert known(rig, url("3")).state == DROPPED
    rig.finish(lease)
    assert rig.claim_page().url == url("2")


def test_other_hosts_are_left_alone() -> None:
    rig = rig_with(2)
    rig.discover(url("x", B))
    give(rig, keep=0)
    carry_out(rig)

    assert known(rig, url("x", B), B).state == QUEUED


def test_a_preview_tells_what_will_be_and_changes_nothing() -> None:
    rig = rig_with(10)
    rig.finish(rig.claim_page())
    before = list(rig.kv.scan(b"", b"\xff"))

    told = preview(rig.kv, 0, A, TrimOrder(keep=4))

    assert list(rig.kv.scan(b"", b"\xff")) == before
    give(rig, keep=4)
    done = carry_out(rig)
    assert (told.kept, told.dropped) == (done.kept, done.dropped) == (4, 5)


def test_a_dropped_page_comes_back_when_it_is_asked_for() -> None:
    rig = rig_with(1)
    give(rig, keep=0)
    carry_out(rig)
    rig.apply(lambda planner: planner.recrawl(url("0"), "r"))

    assert rig.claim_page().url == url("0")


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 5), st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_in_portions_and_with_a_restart_it_is_the_same(
    count: int, keep: int, size: int, killed_after: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trim, "PORTION", size)
        rig = rig_with(count)
        give(rig, keep=keep)
        done = None
        for _ in range(killed_after):
            done = done or step(rig)

        rig.restart()

        done = done or carry_out(rig)
    assert (done.kept, done.dropped) == (min(count, keep), max(count - keep, 0))
    assert waiting(rig, count) == list(range(min(count, keep)))


def test_ablation_an_order_that_does_not_say_how_far_it_has_come_drops_nothing_of_a_long_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trim, "PORTION", 3)
    rig = rig_with(10)
    give(rig, keep=4)
    step(rig)
    give(rig, keep=4)  # as if the walk had been forgotten at a restart, again and again
    step(rig)

    assert waiting(rig, 10) == list(range(10))
