"""What is told of a URL where the cells' stores are on other machines."""

from datetime import timedelta
from pathlib import Path

from crawl_platform.cli.explain import in_words
from crawl_platform.clock import ManualClock
from crawl_platform.fleet.explain import Sources, explain_url
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.records import HostRecord, UrlRecord, encode, host_key, url_key
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings
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
