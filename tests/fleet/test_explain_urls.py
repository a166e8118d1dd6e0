"""`crawl explain` names the rules that made a URL what it is, and the filter that turns it away."""

from pathlib import Path

import pytest

from crawl_platform.cli.explain import in_words
from crawl_platform.clock import ManualClock
from crawl_platform.fleet.explain import Sources, explain_url
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.parameter_order import PROOFS, OrderEvidence
from crawl_platform.frontier.records import HostRecord, UrlRecord, encode, host_key, url_key
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.frontier.series import counted
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Frontier, HostRule, Settings, Urls
from crawl_platform.web.host import shard_of
from crawl_platform.web.traps import series_of

HOST = "a.test"
KNOWN = f"http://{HOST}/list?b=1&a=9"
SHORT = Frontier(max_calendar_pages=3)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """A crawl of which one host has learnt that the order of parameters means nothing, and has met a calendar."""
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    settings = Settings(
        str(tmp_path),
        frontier=SHORT,
        hosts=(HostRule(HOST, urls={"drop_parameters": ["view"]}, scope={"exclude": ["/old/"]}),),
    )
    record = HostRecord(
        known=1, order=OrderEvidence(proofs=tuple(range(PROOFS))), turned_away={"bad-port": 2}
    )
    for month in (1, 2, 3):
        record.series = counted(record.series, series_of(f"http://{HOST}/cal/2024/0{month}", SHORT))
    shard, batch = shard_of(HOST, 4), Batch()
    batch.put(host_key(shard, HOST), encode(record))
    batch.put(url_key(shard, HOST, KNOWN), encode(UrlRecord()))
    kv = RocksKV(tmp_path / "cells" / "cell-0" / "state")
    kv.write(batch, sync=True)
    kv.close()
    return Sources(settings, lake, None, ManualClock().now())


def test_rules_of_all_hosts_and_of_this_one_are_named(sources: Sources) -> None:
    facts = explain_url(sources, f"http://{HOST}/list?view=1&utm_source=x&b=1&a=2#top")

    assert facts["url"] == f"http://{HOST}/list?a=2&b=1"
    assert facts["rules_fired"] == ["fragment", "tracking-parameters", "drop-parameters", "parameter-order"]


def test_another_host_has_its_urls_as_they_are(sources: Sources) -> None:
    facts = explain_url(sources, "http://b.test/list?view=1&a=2")

    assert (facts["url"], facts["rules_fired"]) == ("http://b.test/list?view=1&a=2", [])


def test_a_url_that_is_known_as_it_stands_is_shown_as_it_stands(sources: Sources) -> None:
    assert explain_url(sources, KNOWN)["url"] == KNOWN


@pytest.mark.parametrize(
    ("url", "trap"),
    [
        ("/cal/2024/04", "endless-calendar"),
        ("/calendar/2999/04", "calendar-run"),
        (":25/", "bad-port"),
        ("/cal/today", None),
    ],
)
def test_the_verdict_of_the_trap_filters_is_told(sources: Sources, url: str, trap: str | None) -> None:
    facts = explain_url(sources, f"http://{HOST}{url}")
    words = "\n".join(in_words(facts))

    assert facts["trap"] == trap
    assert ("trap:" in words) == (trap is not None)
    assert "turned away as traps: 2 links (bad-port)" in words


def test_the_crawls_own_settings_hold_where_no_rule_says_otherwise(sources: Sources) -> None:
    settings = Settings(sources.settings.home, urls=Urls(keep_parameters=("a",)))

    facts = explain_url(Sources(settings, sources.lake, None, sources.now), "http://b.test/x?c=1&a=2")

    assert (facts["url"], facts["rules_fired"]) == ("http://b.test/x?a=2", ["keep-parameters"])


def test_a_url_outside_the_scope_is_told_by_which_pattern(sources: Sources) -> None:
    facts = explain_url(sources, f"http://{HOST}/old/x")

    assert facts["scope"] == "scope.exclude has /old/"
    assert "  scope:  outside: scope.exclude has /old/" in in_words(facts)
    assert explain_url(sources, f"http://{HOST}/new/x")["scope"] is None
