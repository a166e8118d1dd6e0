"""What is told of a URL where the cells' stores are on other machines."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crawl_platform.cli.explain import in_words
from crawl_platform.clock import DAY, ManualClock, as_datetime
from crawl_platform.fleet.explain import Sources, explain_url
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.records import (
    DISCOVERY,
    FETCHED,
    REFRESH,
    HostRecord,
    UrlRecord,
    encode,
    host_key,
    url_key,
)
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.lake import Lake
from crawl_platform.scheduling.refresh import bayes_index
from crawl_platform.settings import HostRule, Politeness, Settings
from crawl_platform.web.host import shard_of
from tests.lake.samples import NOON, commit, rows

URL = "http://a.test/x"


def sources(home: Path, lake: Lake) -> Sources:
    return Sources(Settings(str(home)), lake, None, ManualClock().now())


def snapshot(lake: Lake) -> None:
    due = NOON + timedelta(hours=1)
    commit(
        lake,
        "frontier",
        rows("frontier", 1, url=URL, host="a.test", state="fetched", lane="refresh", due_at=due),
        1,
    )


def test_the_state_comes_from_the_last_snapshot(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    snapshot(lake)

    facts = explain_url(sources(tmp_path, lake), URL)

    assert facts["state"]["state"] == "fetched"
    assert facts["state"]["lane"] == "refresh"
    assert facts["state"]["due_at"] == NOON + timedelta(hours=1)
    assert explain_url(sources(tmp_path, lake), "http://a.test/y")["state"] is None


def test_the_group_of_a_url_is_told_with_its_change_rate(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    where = {"url": URL, "host": "a.test", "group_id": 7}
    commit(lake, "frontier", rows("frontier", 1, **where, state="fetched", lane="refresh"), 1)
    lake.append("url_groups", rows("url_groups", 1, host="a.test", group_id=7, template="/story/*", pages=12))
    lake.append("change_rates", rows("change_rates", 1, host="a.test", group_id=7, rate=3.0))

    facts = explain_url(sources(tmp_path, lake), URL)

    assert facts["group"]["template"] == "/story/*"
    assert facts["group"]["rate"] == 3.0
    assert "/story/*, 12 pages, each changes 3 times a day" in "\n".join(in_words(facts))
    assert explain_url(sources(tmp_path, lake), "http://a.test/y")["group"] is None


def test_what_a_page_is_worth_is_told_signal_by_signal(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    worth = {
        "business": 0.5,
        "ir": 0.75,
        "corpus": None,
        "technical": 1.0,
        "exploration": 0.25,
        "importance": 0.9,
    }
    row = rows(
        "page_values", 1, url=URL, host="a.test", base=0.5, value=1.5, told=1.5, reason="about wind", **worth
    )
    lake.append("page_values", row)

    facts = explain_url(sources(tmp_path, lake), URL)

    assert {name: facts["signals"][name] for name in worth} == worth
    said = (
        "1.5 beside 0.5 by depth, told to its cell as 1.5: about wind (business 0.50, ir 0.75, technical 1.00"
    )
    assert said in "\n".join(in_words(facts))
    assert explain_url(sources(tmp_path, lake), "http://a.test/y")["signals"] is None


def test_a_store_on_this_machine_beats_the_snapshot(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    snapshot(lake)
    shard = shard_of("a.test", 4)
    kv, batch = RocksKV(tmp_path / "cells" / "cell-0" / "state"), Batch()
    batch.put(host_key(shard, "a.test"), encode(HostRecord(known=1)))
    batch.put(url_key(shard, "a.test", URL), encode(UrlRecord(state=2, reason="gone now")))
    kv.write(batch, sync=True)
    kv.close()

    facts = explain_url(sources(tmp_path, lake), URL)

    assert (facts["host"]["cell"], facts["host"]["known_urls"]) == ("cell-0", 1)
    assert (facts["state"]["state"], facts["state"]["reason"]) == ("gone", "gone now")


def test_an_excluded_host_is_excluded_also_while_no_fleet_runs(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    shard = shard_of("a.test", 4)
    kv = RocksKV(tmp_path / "cells" / "cell-0" / "state")
    batch = Batch()
    batch.put(host_key(shard, "a.test"), encode(HostRecord(admitted=True, excluded=True)))
    kv.write(batch, sync=True)
    kv.close()

    facts = explain_url(sources(tmp_path, lake), URL)

    assert facts["host"]["state"] == "excluded"
    assert "nothing: its host is excluded" in "\n".join(in_words(facts))


def test_the_hosts_next_allowed_moment_is_told_as_a_time_and_from_now(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    now, shard = ManualClock().now(), shard_of("a.test", 4)
    at = {"kind": "page", "shard": 0, "address": "192.0.2.1", "lane": "refresh", "outcome": "ok"}
    for number, (host, ago, took) in enumerate((("a.test", 12.0, 2.0), ("b.test", 1.0, 0.5)), 1):
        when = {"started_at": as_datetime(now - ago), "duration_ms": 1e3 * took}
        commit(lake, "fetches", rows("fetches", 1, **at, **when, host=host, url=f"https://{host}/"), number)
    kv, batch = RocksKV(tmp_path / "cells" / "cell-0" / "state"), Batch()
    batch.put(host_key(shard, "a.test"), encode(HostRecord(known=1)))
    kv.write(batch, sync=True)
    kv.close()

    def told(**politeness: float) -> dict[str, Any]:
        settings = Settings(str(tmp_path), politeness=Politeness(**politeness))
        return explain_url(Sources(settings, lake, None, now), URL)

    slow = told(host_delay=70.0)
    assert slow["host"]["next_allowed_at"] == as_datetime(now + 60.0)
    assert "allow the next request from" in "\n".join(in_words(slow))
    assert "in 60 s" in "\n".join(in_words(slow))
    assert told(host_delay=1.0, address_delay=4.5)["host"]["next_allowed_in"] == 4.0
    assert "allow the next request now" in "\n".join(in_words(told(host_delay=1.0, address_delay=0.1)))


def test_a_promise_of_the_first_visit_is_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    now, shard = ManualClock().now(), shard_of("a.test", 4)
    record = UrlRecord(lane=DISCOVERY, rank=1, deadline=int((now + 3_600) * 1000), discovered_at=now - DAY)
    kv, batch = RocksKV(tmp_path / "cells" / "cell-0" / "state"), Batch()
    batch.put(host_key(shard, "a.test"), encode(HostRecord(known=1)))
    batch.put(url_key(shard, "a.test", URL), encode(record))
    kv.write(batch, sync=True)
    kv.close()
    promising = Settings(str(tmp_path), hosts=(HostRule("a.test", promises={"first_within": 2 * DAY}),))

    words = "\n".join(in_words(explain_url(Sources(promising, lake, None, now), URL)))

    assert "fetched within 2 days of its discovery: in the deadline lane from" in words


def test_what_is_believed_of_a_page_and_what_is_promised_are_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    lake.append(
        "change_rates", rows("change_rates", 1, host="a.test", group_id=7, prior_a=2.0, prior_b=4.0, rate=0.5)
    )
    now, shard = ManualClock().now(), shard_of("a.test", 4)
    record = UrlRecord(
        state=FETCHED, lane=REFRESH, rank=int((now + 60) * 1000), deadline=int((now + 3_600) * 1000), value=0.5,
        group=7, rate_a=1.0, rate_b=2.0, last_success_at=now - DAY,
    )  # fmt: skip
    kv, batch = RocksKV(tmp_path / "cells" / "cell-0" / "state"), Batch()
    batch.put(host_key(shard, "a.test"), encode(HostRecord(known=1, threshold=0.2)))
    batch.put(url_key(shard, "a.test", URL), encode(record))
    kv.write(batch, sync=True)
    kv.close()
    promising = Settings(str(tmp_path), hosts=(HostRule("a.test", promises={"within": 2 * DAY}),))

    facts = explain_url(Sources(promising, lake, None, now), URL)

    belief = facts["belief"]
    assert (belief["a"], belief["b"]) == (3.0, 6.0)
    assert belief["index"] == pytest.approx(bayes_index(3.0, 6.0, 1.0, 0.5, 1.0))
    assert facts["state"]["deadline_at"] == as_datetime(now + 3_600)
    words = "\n".join(in_words(facts))
    assert "it changes 0.5 times a day, and has changed since the last visit with 37%" in words
    assert "its host visits pages from 0.2 on" in words
    assert "fetched again within 2 days of its last success: in the deadline lane from" in words
