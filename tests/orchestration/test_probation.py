"""Promoted hosts on probation: what is read of them, the verdict, and what the fleet is told."""

from datetime import timedelta

import pyarrow as pa
import pytest

from assets.probation import judge_promoted, resting
from crawl_platform.clock import as_datetime
from crawl_platform.lake.tables import PROBATION, PROMOTIONS
from crawl_platform.settings import Orchestration
from resources.lake import LakeResource
from resources.requests import Request, append_requests
from tests.orchestration.made_up_crawl import small_web

LIMITS = Orchestration(probation_enough=4)
DAY = 86_400.0
WORDS = (
    "river",
    "stone",
    "window",
    "garden",
    "letter",
    "market",
    "silver",
    "winter",
    "harbour",
    "ladder",
    "meadow",
)


def text(number):
    """A page of fifty words and more that no other number has."""
    return " ".join(f"{word}{number} {word} {number}" for word in WORDS * 3)


def promote(lake, clock, host, requested=False, decision="p"):
    row = {
        "decision_id": f"{decision}-{host}", "host": host, "decided_at": as_datetime(clock.now()), "reason": "ranked",
        "requested": requested, "input_versions": [], "date": as_datetime(clock.now()).date(),
    }  # fmt: skip
    lake.append("promotions", pa.Table.from_pylist([row], schema=PROMOTIONS.schema), {})


def judged(lake, limits=LIMITS):
    with LakeResource(root=str(lake.root)).read(
        "hosts", "fetches", "links", "pages", "requests", "promotions", "probation"
    ) as reading:
        return {j.trial.host: j for j in judge_promoted(reading, limits)}


def enter(lake, crawl, clock, *hosts, **columns):
    for host in hosts:
        promote(lake, clock, host, **columns)
        crawl.host(host, trusted=False, event="promoted")
    clock.advance(60)


def test_each_page_is_what_it_is(lake, crawl, clock):
    enter(lake, crawl, clock, "mixed.test", "other.test")
    crawl.page("https://other.test/first", text(0))
    clock.advance(1)
    pages = {"useful": text(1), "copied": text(0), "nearly": text(1) + " more", "thin": "no results found"}
    for path, words in pages.items():
        crawl.page(f"https://mixed.test/{path}", words)
    crawl.gone("https://mixed.test/gone")
    crawl.fetch("https://mixed.test/busy", outcome="rate_limited", status=429, link_set=None)
    crawl.commit()

    trial = judged(lake)["mixed.test"].trial

    assert (trial.tried, trial.failed, trial.copies, trial.thin, trial.stuffed) == (5, 1, 2, 1, 0)


def test_a_page_of_few_words_and_links_to_many_hosts_is_stuffed(lake, crawl, clock):
    enter(lake, crawl, clock, "links.test")
    crawl.page("https://links.test/", text(1))
    fetch = crawl._rows["fetches"][-1]["fetch_id"]
    for i in range(40):
        crawl.link(fetch, "https://links.test/", f"https://made-{i}.test/")
    crawl.commit()

    assert judged(lake)["links.test"].trial.stuffed == 1


def test_useless_hosts_are_demoted_useful_ones_pass_and_new_ones_wait(lake, crawl, clock):
    enter(lake, crawl, clock, "good.test", "useless.test", "new.test")
    for i in range(4):
        crawl.page(f"https://good.test/{i}", text(i))
        crawl.page(f"https://useless.test/{i}", "nothing")
    crawl.visit("https://good.test/", "https://good.test/deep")
    crawl.commit()

    found = judged(lake)

    assert {host: j.outcome.verdict for host, j in found.items()} == {
        "good.test": "passed", "useless.test": "demoted", "new.test": "waiting",
    }  # fmt: skip
    assert found["good.test"].urls == ["https://good.test/deep"]
    assert found["useless.test"].rests_until - as_datetime(clock.now()) == timedelta(days=30)


def test_nobody_else_is_judged(lake, crawl, clock):
    """Chosen by an operator, asked for by a customer, excluded since, judged before, or with probation switched off."""
    enter(lake, crawl, clock, "asked.test", requested=True)
    enter(lake, crawl, clock, "barred.test", "known.test", "chosen.test", "wanted.test")
    append_requests(lake, [Request("r1", clock.now(), "promote", "wanted.test", "ada", "table", "", 1.0)])
    crawl.host("barred.test", "excluded", trusted=False, event="excluded")
    crawl.host("chosen.test")
    crawl.visit("https://known.test/")
    verdict(lake, clock, "known.test", "passed")
    crawl.commit()

    assert judged(lake) == {}
    promote(lake, clock, "known.test", decision="q")
    assert set(judged(lake)) == {"known.test"}
    assert judged(lake, Orchestration(probation_pages=0)) == {}


def verdict(lake, clock, host, says, rest=None, decision="p"):
    at = as_datetime(clock.now())
    row = {
        "decision_id": f"v-{decision}-{host}", "host": host, "promotion": f"{decision}-{host}", "decided_at": at,
        "verdict": says, "reason": "4 of 4 pages are useless", "days": 1.0, "tried": 4, "failed": 4, "copies": 0,
        "thin": 0, "stuffed": 0, "demotions": 0, "rests_until": at + timedelta(days=rest) if rest else None,
        "urls": [], "input_versions": [], "date": at.date(),
    }  # fmt: skip
    lake.append("probation", pa.Table.from_pylist([row], schema=PROBATION.schema), {})


def test_a_demoted_host_rests_and_the_next_rest_is_twice_as_long(lake, crawl, clock):
    enter(lake, crawl, clock, "useless.test")
    verdict(lake, clock, "useless.test", "demoted", rest=30)
    promote(lake, clock, "useless.test", decision="again")
    for i in range(4):
        crawl.page(f"https://useless.test/{i}", "nothing")
    crawl.commit()

    assert judged(lake)["useless.test"].outcome.rest == 60.0
    with LakeResource(root=str(lake.root)).read("fetches", "probation") as reading:
        assert set(resting(reading)) == {"useless.test"}
    clock.advance(31 * DAY)
    crawl.visit("https://elsewhere.test/")
    crawl.commit()
    with LakeResource(root=str(lake.root)).read("fetches", "probation") as reading:
        assert resting(reading) == {}


def reasons(lake, host):
    rows = lake.query("SELECT verdict, reason FROM decisions WHERE subject = ? ORDER BY decided_at", [host])
    return [(row["verdict"], row["reason"]) for row in rows.to_pylist()]


@pytest.mark.long
def test_from_promotion_by_demotion_and_rest_to_promotion(harness, crawl, lake, fleet, clock):
    small_web(crawl)
    harness.decide()
    harness.sense("promotion")
    hosts = sorted(fleet.promoted)
    useless, good = hosts[0], hosts[1]
    assert {fleet.bounds[host] for host in hosts} == {20}

    clock.advance(3_600)
    for host in (useless, good):
        crawl.host(host, trusted=False, event="promoted")
        for i in range(10):
            crawl.page(f"https://{host}/{i}", "nothing" if host == useless else text(i))
    crawl.commit()
    harness.decide()
    harness.sense("promotion")
    assert set(fleet.demoted) == {useless}
    assert fleet.bounds[good] == 0
    assert "10 of 10 pages are useless (10 say next to nothing)" in fleet.demoted[useless]

    judged_before = lake.query("SELECT * FROM probation ORDER BY ALL")
    harness.decide()
    assert lake.query("SELECT * FROM probation ORDER BY ALL").equals(judged_before), "the same inputs again"

    clock.advance(3_600)
    crawl.host(useless, "horizon", trusted=False, event="demoted")
    crawl.commit()
    harness.decide()
    held = [reason for verdict_, reason in reasons(lake, useless) if verdict_ == "held"]
    assert len(held) == 1
    assert "on probation 10 of 10 pages are useless" in held[0]

    clock.advance(40 * DAY)
    crawl.visit("https://seed-0.test/later", "https://unheard-of.test/")
    crawl.commit()
    harness.decide()
    harness.sense("promotion")
    assert [said for said, _ in reasons(lake, useless)].count("promoted") == 2
    assert fleet.bounds[useless] == 20
