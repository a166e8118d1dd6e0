"""Cutting a host's queue of new pages: what waits at the end of it, or lies deep, is dropped and stays known.

Theory of operation. An order is written down with the inbox message that brings it, under a key of its own. From then
on the queue is walked in portions, each of them one batch that also says how far the walk has come; the last one
deletes the order. So a queue of millions never stops the loop, and a cell that is killed goes on where it was.
Only URLs that wait for their first fetch are dropped; requests and pages that are in flight are left alone.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.overlay import Plan, records_of
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    lane_prefix,
    parse_queue_key,
    shard_key,
)

TRIMMED = "trimmed"
"""Why such a page is dropped. It stays so until somebody asks for it (`crawl recrawl`)."""
TRIM = b"t"
PORTION = 1_000
"""Entries looked at in one step of the loop: some 30 ms if all are dropped."""


class TrimOrder(msgspec.Struct, array_like=True, frozen=True):
    """Keep the first `keep` URLs of a host's discovery queue, and of these none deeper than `deepest` clicks; −1: no
    such bound. The rest: how far the walk has come."""

    keep: int = -1
    deepest: int = -1
    request_id: str = ""
    kept: int = 0
    dropped: int = 0
    cursor: bytes = b""

    def keeps(self, depth: int) -> bool:
        """Whether the next URL of the queue, so many clicks deep, stays in it."""
        return (self.keep < 0 or self.kept < self.keep) and (self.deepest < 0 or depth <= self.deepest)

    def after(self, kept: bool) -> "TrimOrder":
        return msgspec.structs.replace(self, kept=self.kept + kept, dropped=self.dropped + (not kept))


def order(planner: Planner, shard: int, host: str, wanted: TrimOrder) -> None:
    """Write the order down; a later one about the same host takes its place."""
    planner.plan.batch.put(shard_key(TRIM, shard) + host.encode(), msgspec.msgpack.encode(wanted))


def orders(kv: OrderedKV) -> Iterator[tuple[int, str, TrimOrder]]:
    """(shard, host, order) of all that are not carried out yet."""
    for key, value in kv.scan(TRIM, prefix_end(TRIM)):
        yield int.from_bytes(key[1:3], "big"), key[3:].decode(), msgspec.msgpack.decode(value, type=TrimOrder)


def portion(
    frontier: Frontier, shard: int, host: str, wanted: TrimOrder, now: float
) -> tuple[Plan, TrimOrder, bool]:
    """The plan of the next step (to be written and absorbed), what is left then, and whether that was all."""
    planner = Planner(frontier, now)
    plan = planner.plan
    walked = list(islice(_entries(frontier.kv, shard, host, wanted.cursor), PORTION))
    state = frontier.hosts.get(host)
    leased: Mapping[str, bool] = state.leased if state is not None else {}
    records = records_of(frontier.kv, shard, host, [url for _, url in walked])
    for _, url in walked:
        record = records.get(url)
        if record is None or url in leased or record.last_success_at:
            continue
        kept = wanted.keeps(record.depth)
        wanted = wanted.after(kept)
        if not kept:
            planner.drop(host, url, record, TRIMMED)
    done = len(walked) < PORTION
    if done:
        plan.batch.delete(shard_key(TRIM, shard) + host.encode())
    else:
        wanted = msgspec.structs.replace(wanted, cursor=walked[-1][0] + b"\0")
        order(planner, shard, host, wanted)
    return planner.finish(), wanted, done


def preview(kv: OrderedKV, shard: int, host: str, wanted: TrimOrder) -> TrimOrder:
    """What an order would come to if it were given now: its `kept` and `dropped`."""
    entries = _entries(kv, shard, host, b"")
    while walked := list(islice(entries, PORTION)):
        records = records_of(kv, shard, host, [url for _, url in walked])
        for _, url in walked:
            record = records.get(url)
            if record is not None and not record.last_success_at:
                wanted = wanted.after(wanted.keeps(record.depth))
    return wanted


def _entries(kv: OrderedKV, shard: int, host: str, cursor: bytes) -> Iterator[tuple[bytes, str]]:
    """(key, URL) of the host's discovery queue from `cursor` on, in order."""
    prefix = lane_prefix(shard, host, DISCOVERY)
    for key, _ in kv.scan(cursor or prefix, prefix_end(prefix)):
        yield key, parse_queue_key(key, len(prefix))[1]
