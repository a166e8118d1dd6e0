"""Pages that are watched: visited again and again, and new links on them are fetched at once."""

from itertools import pairwise

import pytest

from crawl_platform.frontier import plan
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.records import FRESHLANE, REFRESH
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, known, url

ROOT = url("")


def watching(every: float = 60.0, refresh: Refresh | None = None) -> FrontierRig:
    """A host with a hundred pages that wait, whose front page is watched and has been visited."""
    rig = FrontierRig(A, refresh=refresh)
    rig.discover(*(url(f"old{n}") for n in range(100)))
    rig.apply(lambda planner: planner.watch(ROOT, every))
    lease = rig.claim_page()
    assert (lease.url, lease.lane) == (ROOT, FRESHLANE)
    rig.finish(lease)
    return rig


def links(*paths: str) -> list[Found]:
    return [Found(url(path), 1, 0.01) for path in paths]


def test_a_watched_page_is_visited_at_its_own_pace_whatever_else_waits() -> None:
    rig = watching(every=60.0)
    visits = [rig.clock.now()]

    while len(visits) < 5:
        lease = rig.claim_page()
        rig.finish(lease, changed=False)
        if lease.url == ROOT:
            visits.append(rig.clock.now())

    assert all(60.0 <= b - a <= 63.0 for a, b in pairwise(visits))


def test_a_new_link_on_it_is_the_hosts_next_page() -> None:
    rig = watching()
    rig.clock.advance(60.0)
    rig.finish(rig.claim_page(), found=links("news", "old3"))

    lease = rig.claim_page()

    assert (lease.url, lease.lane) == (url("news"), FRESHLANE)
    rig.finish(lease)
    assert known(rig, url("news")).lane == REFRESH, "from then on it is a page like others"
    assert rig.claim_page().url != url("old3"), "a link that was known is no news"


def test_what_it_shows_when_it_is_first_seen_is_no_news_and_no_visit_floods_the_lane() -> None:
    rig = FrontierRig(A)
    rig.apply(lambda planner: planner.watch(ROOT, 60.0))
    rig.finish(rig.claim_page(), found=links(*(f"first{n}" for n in range(40))))
    rig.clock.advance(60.0)
    assert rig.claim_page().url == ROOT

    rig = watching()
    rig.clock.advance(60.0)
    rig.finish(rig.claim_page(), found=links(*(f"new{n}" for n in range(50))))

    lanes = [known(rig, url(f"new{n}")).lane for n in range(50)]
    assert lanes.count(FRESHLANE) == plan.FRESH_LINKS


def test_ablation_without_the_freshlane_a_new_link_waits_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "FRESH_LINKS", 0)
    rig = watching()
    rig.clock.advance(60.0)
    rig.finish(rig.claim_page(), found=links("news"))

    assert rig.claim_page().url != url("news")


def test_it_is_not_visited_more_often_than_the_settings_allow_and_ends_when_it_is_told() -> None:
    rig = watching(every=1.0, refresh=Refresh(watch_min=30.0))
    assert known(rig, ROOT).every == 30.0

    rig.apply(lambda planner: planner.watch(ROOT, 0.0))

    assert (known(rig, ROOT).every, known(rig, ROOT).lane) == (0.0, REFRESH)
    assert known(rig, ROOT).rank >= (rig.clock.now() + 86_400.0) * 1000


def test_a_page_that_fails_waits_as_others_do_and_is_watched_again() -> None:
    rig = watching()
    rig.clock.advance(60.0)
    rig.finish(rig.claim_page(), "retry")
    failed = known(rig, ROOT)
    assert failed.rank == int((rig.clock.now() + rig.frontier.limits(A).retry_delay) * 1000)

    while (lease := rig.claim_page()).url != ROOT:
        rig.finish(lease)
    rig.finish(lease)

    assert known(rig, ROOT).lane == FRESHLANE


def test_it_may_be_unknown_or_in_flight_but_of_a_host_in_the_seed() -> None:
    rig = FrontierRig(A)
    rig.discover(ROOT)
    lease = rig.claim_page()

    rig.apply(lambda planner: planner.watch(ROOT, 60.0))
    assert rig.claim() is None, "one request at a time"
    rig.finish(lease)

    assert known(rig, ROOT).lane == FRESHLANE
    verdicts: list[str] = []
    rig.apply(lambda planner: verdicts.append(planner.watch("https://else.test/", 60.0)))
    assert verdicts == ["horizon"]
    assert isinstance(rig.next_claim(), Lease)
