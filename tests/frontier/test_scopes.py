"""Scopes are obeyed where URLs enter the frontier, and before each claim: they may have become others since."""

import pytest

from crawl_platform.clock import DAY
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.records import DROPPED, FETCHED, QUEUED, SITEMAP
from crawl_platform.frontier.refusals import Refusals
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of
from tests.frontier.scenes import A, B, known, url

NARROW = (HostRule(A, scope={"exclude": ["/old/"], "depths": {"/forum/": 1}}),)


def test_what_lies_outside_does_not_enter() -> None:
    rig = FrontierRig(A, B, host_rules=NARROW)

    plan = rig.discover(url("old/x"), url("old/x", B), url("new"))

    assert plan.turned_away == {"out_of_scope": 1}
    assert rig.record(A, url("old/x")) is None
    assert known(rig, url("old/x", B), B).state == QUEUED
    assert rig.discover(url("forum/x"), url("blog/x"), depth=2).turned_away == {"too_deep": 1}


def test_what_lies_outside_is_not_sent_to_another_cell() -> None:
    theirs = next(host for n in range(99) if shard_of(host := f"h{n}.test", 2) == 1)
    rules = (HostRule(theirs, scope={"include": ["/in/"]}),)
    rig = FrontierRig(theirs, n_shards=2, shards=frozenset({0}), host_rules=rules)

    plan = rig.discover(url("out/x", theirs), url("in/x", theirs))

    assert [found.url for sent in plan.foreign.values() for found in sent] == [url("in/x", theirs)]


def narrowed(rig: FrontierRig) -> FrontierRig:
    """The same frontier after a restart with a narrower scope."""
    return FrontierRig(A, kv=rig.kv, clock=rig.clock, host_rules=NARROW)


def claimed(rig: FrontierRig) -> list[str]:
    """What is fetched before all that is queued rests."""
    urls = []
    while (lease := rig.next_claim(patience=60.0)) is not None:
        urls.append(lease.url)
        rig.finish(lease)  # type: ignore[arg-type]
    denied, rig.frontier.denied = rig.frontier.denied, []
    rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))
    return urls


def wide() -> FrontierRig:
    """A frontier with a page that was fetched and one that waits, both of which a narrower scope leaves outside."""
    rig = FrontierRig(A)
    rig.discover(url("old/read"))
    rig.finish(rig.claim_page())
    rig.discover(url("old/waits"), url("new"))
    rig.discover(url("forum/deep"), depth=2)
    return rig


def test_a_narrower_scope_drops_what_waits_and_what_was_read() -> None:
    rig = narrowed(wide())

    assert claimed(rig) == [url("new")]
    assert known(rig, url("old/waits")).reason == "out_of_scope"
    assert (known(rig, url("forum/deep")).state, known(rig, url("forum/deep")).reason) == (
        DROPPED,
        "too_deep",
    )

    rig.clock.advance(200 * DAY)
    assert url("old/read") not in claimed(rig)
    assert known(rig, url("old/read")).reason == "out_of_scope"


def test_without_the_look_before_a_claim_it_would_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ablation."""
    monkeypatch.setattr(Refusals, "_outside", lambda *_: "")

    assert url("old/waits") in claimed(narrowed(wide()))


def test_a_wider_scope_takes_up_what_was_dropped() -> None:
    rig = narrowed(wide())
    claimed(rig)

    again = FrontierRig(A, kv=rig.kv, clock=rig.clock)
    again.clock.advance(DAY)

    assert {url("old/waits"), url("forum/deep")} <= set(claimed(again))


def test_a_request_for_one_page_goes_before_the_scope_and_once() -> None:
    rig = FrontierRig(A, host_rules=NARROW)

    rig.apply(lambda planner: planner.admit(A, (), trusted=True, decision_id=""))
    rig.apply(lambda planner: planner.recrawl(url("old/x"), "r1"))
    lease = rig.claim_page()
    rig.finish(lease)
    rig.clock.advance(200 * DAY)

    assert lease.url == url("old/x")
    assert known(rig, url("old/x")).state == FETCHED
    assert claimed(rig) == []
    assert known(rig, url("old/x")).reason == "out_of_scope"


def test_sitemaps_are_read_for_the_pages_that_they_list() -> None:
    rig = FrontierRig(A, host_rules=(HostRule(A, scope={"include": ["/in/"]}),))

    rig.apply(
        lambda planner: planner.discover(Found(url("sitemap.xml"), 1, 1.0, kind=SITEMAP, vouched=(A,)), A)
    )

    assert rig.claim_page().url == url("sitemap.xml")
