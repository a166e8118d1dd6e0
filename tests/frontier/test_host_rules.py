"""What may enter the frontier may differ from host to host."""

from typing import Any

import pytest

from crawl_platform.frontier.records import GONE, QUEUED
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, known, url


@pytest.mark.parametrize(
    ("setting", "path", "depth", "reason"),
    [
        ({"max_depth": 2}, "x", 3, "too_deep"),
        ({"max_url_length": 30}, "x" * 30, 0, "url-too-long"),
        ({"max_repeated_segments": 1}, "a/b/a", 0, "repeated-segments"),
        ({"max_parameters": 1}, "x?a=1&b=2", 0, "too-many-parameters"),
    ],
)
def test_a_limit_holds_for_the_host_that_it_is_set_for(
    setting: dict[str, Any], path: str, depth: int, reason: str
) -> None:
    rig = FrontierRig(A, B, host_rules=(HostRule(A, frontier=setting),))

    plan = rig.discover(url(path), url(path, B), depth=depth)

    assert plan.turned_away == {reason: 1}
    assert known(rig, url(path, B), B).state == QUEUED


def test_budget_and_surface_are_the_hosts_own() -> None:
    rig = FrontierRig(A, B, host_rules=(HostRule(A, frontier={"page_budget": 3, "surface_depth": 1}),))
    for host in (A, B):
        rig.discover(*(url(f"{n}", host) for n in range(4)), depth=1)

    assert rig.discover(url("deep"), url("deep", B), depth=2).turned_away == {"surface_mode": 1}
    assert [rig.frontier.hosts[host].record.surface for host in (A, B)] == [True, False]


def test_attempts_and_their_distance_are_the_hosts_own() -> None:
    rig = FrontierRig(A, host_rules=(HostRule(A, frontier={"max_attempts": 2, "retry_delay": 900.0}),))
    rig.discover(url("x"))

    rig.finish(rig.claim_page(), "retry")
    again = known(rig, url("x")).rank / 1000 - rig.clock.now()
    rig.finish(rig.claim_page(), "retry")

    assert again == pytest.approx(900.0, abs=1.0)
    assert known(rig, url("x")).state == GONE


def test_parameters_are_dropped_where_the_operator_says_so() -> None:
    everywhere = HostRule("*.test", urls={"drop_parameters": ["view"]})
    rig = FrontierRig(A, host_rules=(everywhere,))
    picky = FrontierRig(A, B, host_rules=(everywhere, HostRule(B, urls={"drop_parameters": []})))

    assert rig.discover(url("x?view=1&id=2"), url("x?id=2&view=3")).new_urls == 1
    assert picky.discover(url("x?view=1"), url("x?view=1", B)).new_urls == 2
    assert known(picky, url("x")).state == QUEUED
    assert known(picky, url("x?view=1", B), B).state == QUEUED


def test_a_request_for_a_dropped_parameter_is_a_request_for_the_page() -> None:
    rig = FrontierRig(A, host_rules=(HostRule(A, urls={"drop_parameters": ["view"]}),))
    rig.discover(url("x"))

    rig.apply(lambda planner: planner.recrawl(url("x?view=1"), "r1"))

    assert known(rig, url("x")).request_id == "r1"
    assert rig.frontier.known == 1


def test_a_url_that_was_known_before_the_rule_stays_known_as_it_was() -> None:
    before = FrontierRig(A)
    before.discover(url("x?view=1"))

    after = FrontierRig(A, kv=before.kv, host_rules=(HostRule(A, urls={"drop_parameters": ["view"]}),))

    assert after.frontier.form_of(url("x?view=1")) == url("x?view=1")
    assert after.frontier.form_of(url("x?view=2")) == url("x")
    assert after.discover(url("x?view=1")).turned_away == {"seen": 1}
