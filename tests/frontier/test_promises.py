"""What is promised of a host's pages: each is fetched again in time, whatever it is worth."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier import overlay
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import DEADLINE, REFRESH, UrlRecord
from crawl_platform.frontier.windows import Window
from crawl_platform.settings import HostRule, Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, known, url

WITHIN = 1_000.0
PROMISED = (HostRule(A, promises={"within": WITHIN}),)
SLOW = Refresh(interval_min=1.0, interval_max=1e6, prior_rate=1.0)


def promising(*rules: HostRule) -> FrontierRig:
    """A host whose pages hardly change, under these rules."""
    return FrontierRig(A, B, refresh=SLOW, host_rules=rules)


def ages(rig: FrontierRig, seconds: float) -> list[float]:
    """Ages (seconds since the last success) at which pages are visited again."""
    end, found = rig.clock.now() + seconds, []
    while isinstance(lease := rig.next_claim(end - rig.clock.now()), Lease):
        now, last = rig.clock.now(), lease.record.last_success_at
        if last:
            found.append(now - last)
        rig.finish(lease, changed=False, posterior=(lease.record.rate_a, lease.record.rate_b + 1.0))
    return found


def test_a_page_comes_again_within_the_time_that_was_promised_and_not_long_before() -> None:
    rig = promising(*PROMISED)
    rig.discover(*(url(f"{n}") for n in range(20)))

    found = ages(rig, 10 * WITHIN)

    assert len(found) == pytest.approx(20 * 11, abs=22)
    assert 0.85 * WITHIN < min(found) <= max(found) <= WITHIN


def test_ablation_without_the_promise_they_come_when_they_are_worth_it() -> None:
    rig = promising()
    rig.discover(*(url(f"{n}") for n in range(20)))

    assert max(ages(rig, 10 * WITHIN), default=2 * WITHIN) > WITHIN


def test_it_goes_before_pages_that_are_worth_more_and_does_not_ask_for_the_windows_allotment() -> None:
    rig = promising(*PROMISED)
    rig.discover(url("promised"))
    rig.finish(rig.claim_page())
    rig.discover(*(url(f"new{n}") for n in range(2_000)), value=1.0)
    rig.frontier.open_windows({0: Window("w", rig.clock.now() + 1e6, {A: 3})}, *rig.times())

    assert [age for age in ages(rig, 2 * WITHIN) if age <= WITHIN] != []


def test_a_failed_fetch_does_not_reset_the_clock_and_the_retry_keeps_its_distance() -> None:
    rig = promising(*PROMISED)
    rig.discover(url("1"))
    rig.finish(rig.claim_page())
    last = rig.clock.now()

    lease = rig.claim_page()
    rig.finish(lease, "retry")

    again = rig.claim_page()
    assert (lease.lane, again.lane) == (DEADLINE, DEADLINE)
    assert again.record.last_success_at == last
    assert rig.clock.now() >= last + 0.9 * WITHIN + rig.frontier.limits(A).retry_delay


def test_a_page_that_is_visited_before_has_another_deadline() -> None:
    rig = promising(*PROMISED)
    rig.discover(url("1"))
    rig.finish(rig.claim_page())
    rig.clock.advance(500.0)
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    rig.finish(rig.claim_page())

    assert known(rig, url("1")).deadline == int((rig.clock.now() + 0.9 * WITHIN) * 1000)
    rig.claim_page()
    assert rig.claim() is None, "it is in two queues and is claimed once"


@pytest.mark.parametrize("promised", [True, False], ids=["by type", "ablation: of no type"])
def test_pages_of_a_declared_type_come_again_within_what_is_promised_of_it(promised: bool) -> None:
    types = {"NewsArticle": WITHIN} if promised else {"Product": WITHIN}
    rig = promising(HostRule(A, promises={"types": types, "within": 50 * WITHIN}))
    rig.discover(url("news"), url("about"))
    for _ in range(2):
        lease = rig.claim_page()
        rig.finish(lease, types=("NewsArticle",) if lease.url == url("news") else ())
    first = known(rig, url("news")).last_success_at

    found = ages(rig, 1.5 * WITHIN)

    assert ([age for age in found if age <= WITHIN] != []) is promised
    assert (known(rig, url("news")).last_success_at > first) is promised
    assert known(rig, url("news")).types == ("NewsArticle",), "an unchanged page keeps its types"
    rig.settings = msgspec.structs.replace(rig.settings, hosts=())
    rig.restart()
    assert known(rig, url("news")).deadline == 0


FIRST = (HostRule(A, promises={"first_within": WITHIN}),)


def waits(rig: FrontierRig, seconds: float) -> dict[str, float]:
    """Seconds from the discovery to the first visit, by URL, beside a queue of better pages that never ends."""
    end, found = rig.clock.now() + seconds, {}
    while isinstance(lease := rig.next_claim(end - rig.clock.now()), Lease):
        if not lease.record.last_success_at:
            found[lease.url] = rig.clock.now() - lease.record.discovered_at
        rig.finish(lease)
        rig.discover(*(url(f"{lease.url[-4:]}-{n}-{rig.clock.now()}") for n in range(2)), value=1.0)
    return found


@pytest.mark.parametrize(
    ("rules", "kept"), [(FIRST, True), ((), False)], ids=["promised", "ablation: it is not"]
)
def test_a_page_that_never_wins_is_fetched_for_the_first_time_within_the_promise(rules, kept) -> None:  # type: ignore[no-untyped-def]
    rig = promising(*rules)
    rig.discover(url("dull"), value=0.001)
    rig.discover(*(url(f"better{n}") for n in range(200)), value=1.0)

    found = waits(rig, 1.2 * WITHIN)

    assert (found.get(url("dull"), math.inf) <= WITHIN) is kept


def test_a_first_visit_does_not_ask_for_the_windows_allotment_and_a_retry_keeps_its_distance() -> None:
    rig = promising(*FIRST)
    rig.discover(url("1"))
    rig.frontier.open_windows({0: Window("w", rig.clock.now() + 1e6, {A: 0})}, *rig.times())

    lease = rig.claim_page()
    rig.finish(lease, "retry")
    again = rig.claim_page()

    assert (lease.lane, again.lane) == (DEADLINE, DEADLINE)
    assert rig.clock.now() <= lease.record.discovered_at + WITHIN + rig.frontier.limits(A).retry_delay


def test_first_visits_are_queued_by_the_promises_of_a_new_start_and_of_nobody_after_it() -> None:
    rig = promising()
    rig.discover(*(url(f"{n}", host) for n in range(5) for host in (A, B)))

    rig.settings = msgspec.structs.replace(rig.settings, hosts=FIRST)
    rig.restart()

    deadlines = {known(rig, url(f"{n}", host), host).deadline for n in range(5) for host in (A, B)}
    assert {due > 0 for due in deadlines} == {True, False}
    assert all(known(rig, url(f"{n}", B), B).deadline == 0 for n in range(5))

    rig.settings = msgspec.structs.replace(rig.settings, hosts=())
    rig.restart()

    assert all(known(rig, url(f"{n}")).deadline == 0 for n in range(5))


def test_pages_that_wait_are_queued_by_the_promises_of_a_new_start() -> None:
    rig = promising()
    rig.discover(*(url(f"{n}", host) for n in range(5) for host in (A, B)))
    for _ in range(10):
        rig.finish(rig.claim_page())
    assert known(rig, url("0")).deadline == 0

    rig.settings = msgspec.structs.replace(rig.settings, hosts=PROMISED)
    rig.restart()

    assert all(known(rig, url(f"{n}")).deadline > 0 for n in range(5))
    assert all(known(rig, url(f"{n}", B), B).deadline == 0 for n in range(5))
    assert max(ages(rig, 3 * WITHIN)[:5]) <= WITHIN

    rig.settings = msgspec.structs.replace(rig.settings, hosts=())
    rig.restart()

    assert all(known(rig, url(f"{n}")).deadline == 0 for n in range(5))


@given(
    last=st.floats(1.0, 1e9), within=st.floats(1.0, 1e7), lead=st.floats(0.0, 0.99), fails=st.integers(0, 3)
)
@settings(deadline=None)
def test_a_deadline_is_never_later_than_the_promise_unless_a_retry_waits(last, within, lead, fails) -> None:  # type: ignore[no-untyped-def]
    record = UrlRecord(state=1, lane=REFRESH, rank=int(2e12), last_success_at=last, fails=fails)

    due = overlay.deadline_of(record, overlay.Promises(within, lead))

    assert due == record.rank if fails else 0 < due <= (last + within) * 1000
