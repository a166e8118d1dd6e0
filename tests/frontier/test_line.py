"""Who is served first when more hosts are ready than there are slots."""

import pytest

from crawl_platform.frontier import line
from crawl_platform.frontier.hosts import Agenda
from crawl_platform.frontier.line import OLDEST, Line
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, url


def entered(**worth: float) -> Line:
    waiting = Line()
    for host, days in worth.items():
        waiting.enter(host, days)
    return waiting


def test_the_host_with_the_best_next_visit_comes_first_and_of_equals_the_one_that_came_first() -> None:
    waiting = entered(a=1.0, b=3.0, c=1.0)

    assert [waiting.next() for _ in range(4)] == ["b", "a", "c", None]


def test_a_host_that_is_looked_at_anew_has_its_new_worth_and_no_second_place() -> None:
    waiting = entered(a=1.0, b=2.0)

    waiting.enter("a", 3.0)

    assert [waiting.next() for _ in range(3)] == ["a", "b", None]


def turns_until_poor(turns: int) -> int | None:
    """Turns after which a host of little worth is served while better ones keep coming; None if it never is."""
    waiting = entered(poor=0.001)
    for turn in range(turns):
        waiting.enter(f"rich{turn}", 1.0)
        waiting.enter("poor", 0.001)
        if waiting.next() == "poor":
            return turn
    return None


def test_a_host_of_little_worth_is_served_late_not_never() -> None:
    assert turns_until_poor(20 * OLDEST) == OLDEST - 1


def test_ablation_without_turns_by_age_it_starves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "OLDEST", 10**9)

    assert turns_until_poor(20 * OLDEST) is None


@pytest.mark.parametrize(("better", "other"), [(A, B), (B, A)])
def test_of_two_hosts_that_are_ready_the_one_with_more_to_gain_is_claimed(better: str, other: str) -> None:
    rig = FrontierRig(A, B)
    rig.discover(url("1", other), value=0.1)
    rig.discover(url("1", better), value=0.9)
    rig.clock.advance(10.0)

    assert rig.claim_page().host == better


def test_a_request_for_one_page_goes_before_all_worth() -> None:
    rig = FrontierRig(A, B)
    rig.discover(url("1", A), value=0.9)
    rig.discover(url("1", B), value=0.1)
    rig.clock.advance(10.0)

    rig.apply(lambda planner: planner.recrawl(url("1", B), "r1"))

    assert rig.claim_page().host == B


def test_where_all_who_are_due_have_a_slot_nobody_is_compared_with_anybody() -> None:
    rig = FrontierRig(A, B)
    for host in (A, B):
        rig.discover(url("1", host))
    rig.clock.advance(10.0)
    looked_at: list[str] = []
    look = rig.frontier._look
    rig.frontier._look = lambda host, **times: (looked_at.append(host), look(host, **times))[1]  # type: ignore[method-assign]

    uncrowded = [rig.frontier.claim(*rig.times(), crowded=False) for _ in range(3)]

    assert {lease.host for lease in uncrowded if lease is not None} == {A, B}
    assert uncrowded[2] is None
    assert looked_at == []


def test_hosts_in_line_come_before_those_that_are_due_when_it_is_not_crowded_any_more() -> None:
    waiting, agenda = entered(a=1.0), Agenda()
    agenda.put("b", 0.0)

    served = [waiting.next_due(agenda, 1.0, lambda host: (0.5, 9.0), crowded=False) for _ in range(3)]

    assert served == ["a", "b", None]
