"""When a page is visited again and which comes first: index, threshold, spare turns, priors."""

import math

import pytest

from crawl_platform.clock import DAY
from crawl_platform.frontier import revisits
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import REFRESH
from crawl_platform.frontier.revisits import CHOICE
from crawl_platform.scheduling.change_rate import Gamma
from crawl_platform.scheduling.refresh import index_one
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.changing import SECONDS, ChangingHost
from tests.frontier.scenes import A, known, url

HOURLY = (3.0, 3.0 / 24)
"""Gamma of pages that change once an hour (24 a day), as (shape, days)."""
MONTHLY = (3.0, 90.0)


def visited(rig: FrontierRig, *paths: str, value: float = 0.5) -> None:
    """Discover pages and visit each once."""
    rig.discover(*(url(path) for path in paths), value=value)
    for _ in paths:
        rig.finish(rig.claim_page())


def tell(
    rig: FrontierRig, groups: dict[str, tuple[float, float]], default: tuple[float, float] = MONTHLY
) -> None:
    """Priors of the groups that these URLs belong to."""
    by_group = {known(rig, url(path)).group: prior for path, prior in groups.items()}
    rig.frontier.revisits.priors.tell(0, default, {}, {A: by_group})


def due_in(rig: FrontierRig, path: str) -> float:
    record = known(rig, url(path))
    return record.rank / 1000 - record.last_success_at


# due times


def test_a_page_is_due_when_its_index_reaches_the_threshold() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=60.0, prior_rate=24.0))
    visited(rig, "1")
    lease = rig.claim_page()

    rig.frontier.hosts[A].threshold = 0.005
    rig.finish(lease)

    belief = rig.frontier.revisits.belief(0, A, known(rig, url("1")))
    assert index_one(*belief, due_in(rig, "1") / DAY, 0.5) == pytest.approx(0.005, rel=0.01)


def test_the_dearer_of_two_pages_that_change_alike_is_due_sooner() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=60.0, prior_rate=24.0))
    for path, value in (("dear", 1.0), ("dull", 0.1)):
        visited(rig, path, value=value)
    rig.frontier.hosts[A].threshold = 0.002

    for path in ("dear", "dull"):
        rig.apply(lambda planner, path=path: planner.recrawl(url(path), path))
        rig.finish(rig.claim_page())

    assert due_in(rig, "dear") < due_in(rig, "dull")


def test_a_worthless_page_is_visited_as_seldom_as_the_bounds_allow() -> None:
    rig = FrontierRig(A, refresh=SECONDS)

    visited(rig, "1", value=0.0)

    assert due_in(rig, "1") == pytest.approx(SECONDS.interval_max, abs=0.01)


def test_a_page_is_not_visited_before_a_change_is_likely_enough() -> None:
    for least in (0.05, 0.2):
        rig = FrontierRig(A, refresh=Refresh(interval_min=1.0, least_change=least))
        rig.discover(url("1"))
        lease = rig.claim_page()
        rig.frontier.hosts[A].threshold = rig.frontier.revisits.floor
        rig.finish(lease)

        a, b = rig.frontier.revisits.belief(0, A, known(rig, url("1")))
        assert 1 - (b / (b + due_in(rig, "1") / DAY)) ** a == pytest.approx(least, abs=1e-3)


# which comes first


def due_together(rig: FrontierRig, count: int) -> None:
    """`count` pages due now, alike but for their values, which grow with their number."""
    for n in range(count):
        visited(rig, f"{n}", value=(n + 1) / count)
    rig.clock.advance(SECONDS.interval_max)


def order(rig: FrontierRig, count: int) -> list[str]:
    """The next `count` pages in the order of their visits; none becomes due again."""
    urls = []
    for _ in range(count):
        lease = rig.claim_page()
        urls.append(lease.url)
        rig.finish(lease, "gone")
    return urls


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough has been seen of all groups."""
    monkeypatch.setattr(revisits, "WATCHED", 0)


@pytest.mark.usefixtures("watched")
def test_among_pages_that_are_due_the_one_with_the_highest_index_is_visited() -> None:
    rig = FrontierRig(A, refresh=SECONDS)
    due_together(rig, CHOICE)

    assert order(rig, CHOICE) == [url(f"{n}") for n in reversed(range(CHOICE))]


def first_checks(rig: FrontierRig, turns: int) -> list[str]:
    """Facets visited in so many turns, while articles that are worth ten times as much are always due."""
    visited(rig, *(f"article/{n}" for n in range(4)), value=0.5)
    visited(rig, *(f"facet?size={n}" for n in range(4)), value=0.05)
    found = []
    for _ in range(turns):
        rig.clock.advance(SECONDS.interval_max)
        lease = rig.claim_page()
        rig.finish(lease)
        found += [lease.url] if "facet" in lease.url else []
    return found


def test_the_first_checks_of_a_group_come_before_pages_that_are_worth_more() -> None:
    assert len(first_checks(FrontierRig(A, refresh=SECONDS), 20)) == revisits.WATCHED


@pytest.mark.usefixtures("watched")
def test_ablation_without_first_checks_nobody_learns_how_pages_of_little_value_change() -> None:
    assert first_checks(FrontierRig(A, refresh=SECONDS), 20) == []


def test_a_host_that_invents_groups_gets_no_more_first_checks_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(revisits, "MOST_WATCHED", 2)
    rig = FrontierRig(A, refresh=SECONDS)
    visited(rig, *(f"{kind}/{kind}/x" for kind in ("b", "c", "d", "e")), value=0.05)
    visited(rig, *(f"article/{n}" for n in range(4)), value=0.5)
    poor = 0
    for _ in range(30):
        rig.clock.advance(SECONDS.interval_max)
        lease = rig.claim_page()
        rig.finish(lease)
        poor += "article" not in lease.url

    assert len(rig.frontier.hosts[A].checks) == 2
    assert poor <= 2 * revisits.WATCHED + 1


def worst_wait(share: float) -> int:
    """Turns that the worst of many pages waits while better ones are always due."""
    rig = FrontierRig(A, refresh=Refresh(interval_min=2.0, interval_max=3_600.0, oldest_first_share=share))
    visited(rig, "worst", value=0.001)
    visited(rig, *(f"{n}" for n in range(6)), value=1.0)
    rig.clock.advance(3_600.0)
    for turn in range(200):
        lease = rig.claim_page()
        rig.finish(lease)
        rig.clock.advance(3_600.0)
        if lease.url == url("worst"):
            return turn
    return 200


def test_now_and_then_the_page_due_longest_is_visited_so_that_nothing_starves() -> None:
    assert worst_wait(0.05) <= 20


@pytest.mark.usefixtures("watched")
def test_ablation_without_oldest_first_a_poor_page_waits_for_as_long_as_better_ones_are_due() -> None:
    assert worst_wait(0.0) == 200


# the threshold


def test_until_a_host_shows_what_its_visits_are_worth_pages_are_due_after_the_mean_time_between_changes() -> (
    None
):
    rig = FrontierRig(A, refresh=Refresh(interval_min=1.0, prior_shape=2.0, prior_rate=4.0))

    visited(rig, "1")

    assert due_in(rig, "1") == pytest.approx(DAY / 4.0, rel=0.01)


def test_a_host_without_room_raises_its_threshold_and_one_with_room_lowers_it() -> None:
    rates = {url(f"{n}"): 1 / 30 for n in range(200)}
    crowded = ChangingHost(rates, dict.fromkeys(rates, 0.5), 1)
    crowded.run(600.0)
    risen = crowded.threshold

    for page in list(rates)[20:]:
        crowded.rig.apply(lambda planner, page=page: planner.appraise(page, 0.0, "left out"))
    crowded.run(2_400.0)

    assert risen > 50 * crowded.rig.frontier.revisits.floor
    assert crowded.threshold < risen / 3


def test_a_host_with_room_visits_fast_pages_as_often_as_a_visit_is_worth_its_cost() -> None:
    rates = {url("fast"): 1 / 10, url("slow"): 1 / 2_000}
    host = ChangingHost(rates, dict.fromkeys(rates, 0.5), 1)

    host.run(4_000.0, count_after=1_000.0)

    assert host.visits[url("fast")] > 1_000
    assert host.visits[url("slow")] < 100


def test_a_page_that_changes_faster_than_it_can_be_followed_is_left_to_the_others() -> None:
    rates = {url(f"{n}"): 1 / 120 for n in range(80)} | {url("hopeless"): 20.0}
    host = ChangingHost(rates, dict.fromkeys(rates, 0.5), 1)

    host.run(4_000.0, count_after=1_500.0)

    assert host.visits[url("hopeless")] < 2_500 / len(rates)


def test_idle_turns_are_used_for_pages_that_were_planned_when_there_was_no_room() -> None:
    rig = FrontierRig(A, refresh=SECONDS)
    visited(rig, *(f"{n}" for n in range(20)))
    state = rig.frontier.hosts[A]
    state.threshold = 0.04  # as after a time without room: 3,456 s
    rig.clock.advance(60.0)
    planned = []
    for _ in range(20):
        lease = rig.claim_page()
        rig.finish(lease)
        planned.append(due_in(rig, lease.url.rpartition("/")[2]))
    assert min(planned) > 1_000.0

    rig.clock.advance(120.0)
    begun = rig.clock.now()
    for _ in range(20):
        rig.finish(rig.claim_page())

    assert rig.clock.now() - begun < 60.0
    assert state.threshold < 0.04


def test_an_idle_host_with_nothing_worth_a_visit_sleeps() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=3_600.0))
    visited(rig, *(f"{n}" for n in range(30)))
    rig.frontier.hosts[A].threshold = 100.0
    turns = 0

    end = rig.clock.now() + 3_000.0
    while (at := rig.frontier.agenda.next_at()) is not None and rig.clock.now() < end:
        rig.clock.advance(max(at - rig.clock.boottime(), 0.001))
        assert rig.claim() is None or rig.clock.now() >= end
        turns += 1

    assert turns < 30, "it has looked through its queue, and knows when the first page is worth a visit"


def test_the_threshold_survives_a_restart() -> None:
    rig = FrontierRig(A, refresh=SECONDS)
    visited(rig, "1")
    rig.frontier.hosts[A].threshold = 0.01
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    rig.restart()

    assert rig.frontier.hosts[A].threshold == 0.01


# priors


def test_a_new_page_is_believed_to_change_like_its_group() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=1.0))
    visited(rig, "hour/1", "month/1")
    tell(rig, {"hour/1": HOURLY, "month/1": MONTHLY})

    visited(rig, "hour/2", "month/2")

    assert known(rig, url("hour/2")).group == known(rig, url("hour/1")).group
    assert due_in(rig, "month/2") > 500 * due_in(rig, "hour/2")


@pytest.mark.parametrize(
    ("hosts", "groups", "expected"),
    [
        ({A: HOURLY}, {A: {7: MONTHLY}}, MONTHLY),
        ({A: HOURLY}, {A: {8: MONTHLY}}, HOURLY),
        ({"b.test": HOURLY}, {}, (1.0, 2.0)),
        ({A: (0.0, -1.0)}, {A: {7: (math.nan, 1.0)}}, (1.0, 2.0)),
    ],
)
def test_the_prior_is_that_of_the_group_else_of_the_host_else_of_all(
    hosts: dict[str, tuple[float, float]],
    groups: dict[str, dict[int, tuple[float, float]]],
    expected: tuple[float, float],
) -> None:
    priors = FrontierRig(A).frontier.revisits.priors

    priors.tell(0, (1.0, 2.0), hosts, groups)

    assert priors.of(0, A, 7) == Gamma(*expected)


def test_until_something_is_told_the_settings_are_believed() -> None:
    rig = FrontierRig(A, refresh=Refresh(prior_shape=2.0, prior_rate=4.0))

    rig.frontier.revisits.priors.tell(1, HOURLY, {}, {})

    assert rig.frontier.revisits.priors.of(0, A, 7) == Gamma(2.0, 0.5)


def test_news_about_a_group_reaches_pages_that_were_planned_before_it() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=1.0))
    rig.frontier.revisits.priors.tell(0, MONTHLY, {}, {})
    visited(rig, *(f"{n}/x" for n in range(3)))
    assert due_in(rig, "0/x") > DAY

    tell(rig, {"0/x": HOURLY})
    rig.clock.advance(3_600.0)
    rig.discover(url("another"))
    rig.finish(rig.claim_page())  # the host's next turn, whatever it is for

    begun = rig.clock.now()
    lease = rig.claim_page()
    assert (lease.lane, rig.clock.now() - begun < 60.0) == (REFRESH, True)
    assert isinstance(lease, Lease)
