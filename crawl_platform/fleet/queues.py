"""What waits in the frontier, per host and per shard: live beside the cells, else of the last snapshots.

Live means a walk over the keys of the queues: about a second per million URLs that wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from crawl_platform.clock import as_datetime
from crawl_platform.fleet.live import live_stores
from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import (
    FRESHLANE,
    LANES,
    STATES,
    HostRecord,
    UrlRecord,
    decode,
    host_key,
    lane_prefix,
    parse_queue_key,
    shard_range,
    url_key,
    url_prefix,
)
from crawl_platform.lake.lake import Lake

SNAPSHOT_HOSTS = """
SELECT host, any_value(shard) AS shard, count(*) AS known, count(lane) AS queued,
    count(*) FILTER (WHERE state = 'fetched') AS fetched, min(due_at) AS next_due,
    map_from_entries(list_filter([{lanes}], lambda e: e.v > 0)) AS lanes
FROM frontier_now GROUP BY host
""".format(
    lanes=", ".join(f"{{'k': '{lane}', 'v': count(*) FILTER (WHERE lane = '{lane}')}}" for lane in LANES)
)
SNAPSHOT_STATES = "SELECT state, count(*) AS urls FROM frontier_now WHERE host = $1 GROUP BY state ORDER BY 1"
SNAPSHOT_NEXT = """
SELECT lane, due_at, url FROM frontier_now WHERE host = $1 AND lane IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY lane ORDER BY due_at, url) <= $2 ORDER BY lane, due_at, url
"""


@dataclass(slots=True)
class HostQueue:
    """One seed host. `lanes`: URLs that wait, by lane; `next_due` is the earliest of them."""

    host: str
    shard: int
    cell: str | None
    known: int
    fetched: int
    queued: int
    lanes: dict[str, int] = field(default_factory=dict)
    next_due: Any = None
    backed_off_until: Any = None


def host_queues(home: Path, lake: Lake, now: float) -> list[HostQueue]:
    """Every seed host, most URLs waiting first. `now` is UTC seconds."""
    live = {queue.host: queue for cell, kv in live_stores(home) for queue in _of_store(cell, kv, now)}
    found = list(live.values()) if has_stores(home) else _of_snapshot(lake)
    return sorted(found, key=lambda queue: (-queue.queued, queue.host))


def has_stores(home: Path) -> bool:
    """Whether cells keep their state on this machine."""
    return next(home.glob("cells/*/state"), None) is not None


def _of_store(cell: str, kv: OrderedKV, now: float) -> Iterator[HostQueue]:
    found: dict[tuple[int, str], HostQueue] = {}
    for key, value in kv.scan(b"h", prefix_end(b"h")):
        shard, host = int.from_bytes(key[1:3], "big"), key[3:].decode()
        record = decode(value, HostRecord)
        backed_off = as_datetime(record.not_before) if record.not_before > now else None
        found[shard, host] = HostQueue(
            host, shard, cell, record.known, record.fetched, record.queued, backed_off_until=backed_off
        )
    first: dict[str, int] = {}
    for key, _ in kv.scan(b"q", prefix_end(b"q")):
        end = key.index(b"\0", 3)
        host = key[3:end].decode()
        queue = found.get((int.from_bytes(key[1:3], "big"), host))
        if queue is not None:
            lane = LANES[key[end + 1]]
            queue.lanes[lane] = queue.lanes.get(lane, 0) + 1
            rank, _ = parse_queue_key(key, end + 2)
            first[host] = min(rank, first.get(host, rank))
    for (_, host), queue in found.items():
        queue.next_due = as_datetime(first[host] / 1000) if host in first else None
        yield queue


def _of_snapshot(lake: Lake) -> list[HostQueue]:
    return [
        HostQueue(
            r["host"], r["shard"], None, r["known"], r["fetched"], r["queued"], dict(r["lanes"] or []), r["next_due"]
        )
        for r in lake.query(SNAPSHOT_HOSTS).to_pylist()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostDetail:
    """`states`: URLs by state; `following`: lane → the URLs that come next, with when they are due."""

    states: dict[str, int]
    following: dict[str, list[dict[str, Any]]]


def host_detail(home: Path, lake: Lake, host: str, shard: int, most: int) -> HostDetail | None:
    """The queue of one host, at most `most` URLs a lane. None for a host of which nothing is known."""
    if not has_stores(home):
        return _detail_of_snapshot(lake, host, most)
    for _, kv in live_stores(home):
        if kv.get(host_key(shard, host)) is None:
            continue
        states = dict.fromkeys(STATES, 0)
        prefix = url_prefix(shard, host)
        for _, value in kv.scan(prefix, prefix_end(prefix)):
            states[STATES[decode(value, UrlRecord).state]] += 1
        lanes = {lane: _next_in_lane(kv, shard, host, number, most) for number, lane in enumerate(LANES)}
        return HostDetail(states, {lane: urls for lane, urls in lanes.items() if urls})
    return None


def _next_in_lane(kv: OrderedKV, shard: int, host: str, lane: int, most: int) -> list[dict[str, Any]]:
    prefix = lane_prefix(shard, host, lane)
    found = []
    for key, _ in islice(kv.scan(prefix, prefix_end(prefix)), most):
        rank, url = parse_queue_key(key, len(prefix))
        found.append({"url": url, "due_at": as_datetime(rank / 1000)})
    return found


def _detail_of_snapshot(lake: Lake, host: str, most: int) -> HostDetail | None:
    states = {row["state"]: row["urls"] for row in lake.query(SNAPSHOT_STATES, [host]).to_pylist()}
    following: dict[str, list[dict[str, Any]]] = {}
    for row in lake.query(SNAPSHOT_NEXT, [host, most]).to_pylist():
        following.setdefault(row["lane"], []).append({"url": row["url"], "due_at": row["due_at"]})
    return HostDetail(dict.fromkeys(STATES, 0) | states, following) if states else None


@dataclass(slots=True)
class ShardLoad:
    """What a shard holds: seed hosts, URLs known and URLs that wait."""

    shard: int
    hosts: int = 0
    known: int = 0
    queued: int = 0


def shard_loads(home: Path, lake: Lake) -> dict[int, ShardLoad]:
    """The load of every shard; those without a host hold nothing."""
    loads = {shard: ShardLoad(shard) for shard in range(lake.n_shards)}
    if has_stores(home):
        for _, kv in live_stores(home):
            for shard, load in loads.items():
                for _, value in kv.scan(*shard_range(b"h", shard)):
                    record = decode(value, HostRecord)
                    load.hosts, load.known = load.hosts + 1, load.known + record.known
                    load.queued += record.queued
        return loads
    for queue in _of_snapshot(lake):
        load = loads[queue.shard]
        load.hosts, load.known = load.hosts + 1, load.known + queue.known
        load.queued += queue.queued
    return loads


def watched_pages(home: Path) -> Iterator[dict[str, Any]]:
    """The pages that wait for their next visit in the freshlane, by host."""
    for _, kv in live_stores(home):
        for key, _ in kv.scan(b"h", prefix_end(b"h")):
            shard, host = int.from_bytes(key[1:3], "big"), key[3:].decode()
            prefix = lane_prefix(shard, host, FRESHLANE)
            for place, _ in kv.scan(prefix, prefix_end(prefix)):
                rank, url = parse_queue_key(place, len(prefix))
                data = kv.get(url_key(shard, host, url))
                record = decode(data, UrlRecord) if data is not None else UrlRecord()
                if record.every:
                    seen = record.last_success_at
                    yield {
                        "url": url,
                        "every": record.every,
                        "due_at": as_datetime(rank / 1000),
                        "last_success_at": as_datetime(seen) if seen else None,
                    }
