"""What waits, told from the lake where the cells' stores are on other machines."""

from datetime import timedelta
from pathlib import Path

import pytest

from crawl_platform.fleet.queues import host_detail, host_queues, shard_loads
from crawl_platform.lake.lake import Lake
from tests.lake.samples import NOON, commit, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two hosts in a snapshot: three URLs of a.test (two wait), one of b.test."""
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    urls = [
        ("a.test", 1, "http://a.test/", "fetched", "refresh", 60),
        ("a.test", 1, "http://a.test/new", "queued", "discovery", 0),
        ("a.test", 1, "http://a.test/gone", "gone", None, None),
        ("b.test", 2, "http://b.test/", "fetched", "refresh", 30),
    ]
    for number, (host, shard, url, state, lane, due) in enumerate(urls):
        due_at = None if due is None else NOON + timedelta(seconds=due)
        facts = {"snapshot_id": f"s-{shard}", "snapshot_at": NOON, "host": host, "shard": shard, "url": url}
        commit(
            lake, "frontier", rows("frontier", 1, **facts, state=state, lane=lane, due_at=due_at), number + 1
        )
    return lake


def test_hosts_come_from_the_last_snapshot(tmp_path: Path, lake: Lake) -> None:
    queues = host_queues(tmp_path, lake, now=0.0)

    assert [(q.host, q.cell, q.known, q.queued, q.fetched) for q in queues] == [
        ("a.test", None, 3, 2, 1),
        ("b.test", None, 1, 1, 1),
    ]
    assert queues[0].lanes == {"discovery": 1, "refresh": 1}
    assert queues[0].next_due == NOON


def test_a_host_tells_its_states_and_what_comes_next(tmp_path: Path, lake: Lake) -> None:
    detail = host_detail(tmp_path, lake, "a.test", 1, most=5)

    assert detail is not None
    assert detail.states == {"queued": 1, "fetched": 1, "gone": 1, "dropped": 0}
    assert [entry["url"] for entry in detail.following["refresh"]] == ["http://a.test/"]
    assert host_detail(tmp_path, lake, "c.test", 1, most=5) is None


def test_shards_hold_what_their_hosts_hold(tmp_path: Path, lake: Lake) -> None:
    loads = shard_loads(tmp_path, lake)

    assert [(load.hosts, load.known, load.queued) for load in loads.values()] == [
        (0, 0, 0),
        (1, 3, 2),
        (1, 1, 1),
        (0, 0, 0),
    ]
