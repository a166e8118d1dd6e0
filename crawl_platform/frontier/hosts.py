"""The seed hosts of a cell in memory: record, heads of their queues, and when each may be served next.

Only the heads live here; the queues are on disk. `Agenda` is the heap by next possible time: a host is in
it at most once, and not while a request to it is in flight.
"""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import (
    DISCOVERY,
    LANES,
    REFRESH,
    HostRecord,
    Waiting,
    decode,
    guest_key,
    host_key,
    lane_prefix,
    parse_queue_key,
)

HEAD = 32
"""Queue entries read ahead per host and lane."""
LOOK_AHEAD = 512
"""Entries looked at for those whose group may still be fetched in this window; the rest waits for its end."""
CAPPED = (DISCOVERY, REFRESH)
"""Lanes in which a group that has used up its allotment is passed over."""


class Entry(NamedTuple):
    """A place in a queue: due at `rank` (milliseconds)."""

    rank: int
    url: str
    data: bytes

    @property
    def waiting(self) -> Waiting:
        return decode(self.data, Waiting)


@dataclass(slots=True)
class Look:
    """The look through a host's refresh queue for pages that were planned for later than they would be today."""

    cursor: bytes | None = None
    """Where it goes on; None between two looks."""
    threshold: float = math.inf
    """The highest threshold that may have planned what is in the queue."""
    priors: int = 0
    """Version of the priors at the last look."""
    again_at: float = math.inf
    """When (UTC seconds) the first page found in it may be visited."""


@dataclass(slots=True)
class HostState:
    host: str
    shard: int
    record: HostRecord
    leased: set[str] = field(default_factory=set)
    """Claimed and not yet committed."""
    heads: dict[int, list[Entry]] = field(default_factory=dict)
    more: set[int] = field(default_factory=set)
    """Lanes of which there is more than was read ahead."""
    barred: frozenset[int] = frozenset()
    """Groups that are passed over in this window."""
    passed_over: set[int] = field(default_factory=set)
    """Lanes in which something waits for the end of the window."""
    window_used: int = 0
    group_used: dict[int, int] = field(default_factory=dict)
    threshold: float = 0.0
    """Index (days) above which its pages are visited, 0: none yet; written down with the host's next record."""
    look: Look = field(default_factory=Look)
    checks: dict[int, int] = field(default_factory=dict)
    """First checks of its groups since the start, as far as `Revisits` counts them."""
    refresh_turns: int = 0
    rest_until: float = 0.0
    """Boottime before which there is nothing to find for its spare turns."""
    in_flight: bool = False
    unproven: bool = True
    """Not yet seen to answer, or slow or unwell when last asked: such hosts never get all the slots."""
    guest: bool = False
    """Not in the seed: nothing is asked of it but what a robots.txt of the seed has redirected to."""
    ran_errand: bool = False
    """Its last turn went to another host's robots.txt, so the next is for its own pages."""

    @property
    def key(self) -> bytes:
        """Where its record is written down."""
        return (guest_key if self.guest else host_key)(self.shard, self.host)

    def head(self, kv: OrderedKV, lane: int) -> Entry | None:
        """The first entry of `lane` that may be claimed once it is due."""
        return next(iter(self.ahead(kv, lane, 1)), None)

    def ahead(self, kv: OrderedKV, lane: int, count: int) -> list[Entry]:
        """The first entries of `lane` that are not leased and whose group is not barred: `count` at most, and
        at least one if there is any within reach."""
        if lane not in self.heads:
            self._read(kv, lane)
        found = self._free(lane, count)
        if not found and lane in self.more:
            self._read(kv, lane)
            found = self._free(lane, count)
        return found

    def _free(self, lane: int, count: int) -> list[Entry]:
        found: list[Entry] = []
        for entry in self.heads[lane]:
            if entry.url not in self.leased and not self._is_barred(lane, entry):
                found.append(entry)
                if len(found) == count:
                    break
        return found

    def _is_barred(self, lane: int, entry: Entry) -> bool:
        if not self.barred or lane not in CAPPED or entry.waiting.group not in self.barred:
            return False
        self.passed_over.add(lane)
        return True

    def _read(self, kv: OrderedKV, lane: int) -> None:
        prefix = lane_prefix(self.shard, self.host, lane)
        found: list[Entry] = []
        self.more.discard(lane)
        for looked_at, (key, data) in enumerate(kv.scan(prefix, prefix_end(prefix))):
            if len(found) == HEAD or looked_at == LOOK_AHEAD + len(self.leased):
                self.more.add(lane)
                break
            entry = Entry(*parse_queue_key(key, len(prefix)), data)
            if entry.url not in self.leased and not self._is_barred(lane, entry):
                found.append(entry)
        self.heads[lane] = found

    def after(
        self, kv: OrderedKV, lane: int, cursor: bytes | None, count: int
    ) -> tuple[list[Entry], bytes | None]:
        """The claimable among the next `count` entries of `lane` from `cursor` on (None: from the first), and the
        cursor of those that follow; None at the end."""
        prefix = lane_prefix(self.shard, self.host, lane)
        found: list[Entry] = []
        for looked_at, (key, data) in enumerate(kv.scan(cursor or prefix, prefix_end(prefix))):
            if looked_at == count:
                return found, key
            entry = Entry(*parse_queue_key(key, len(prefix)), data)
            if entry.url not in self.leased and not self._is_barred(lane, entry):
                found.append(entry)
        return found, None

    def bar(self, groups: frozenset[int]) -> None:
        """From now on pass over exactly these groups."""
        if self.barred - groups:
            self.queues_changed()
        self.barred = groups

    def next_rank(self, kv: OrderedKV, lanes: Iterable[int] = range(len(LANES))) -> int | None:
        """The least rank (ms) over `lanes`: when the host has work in them."""
        ranks = [head.rank for lane in lanes if (head := self.head(kv, lane)) is not None]
        return min(ranks, default=None)

    def queues_changed(self) -> None:
        self.heads.clear()
        self.more.clear()
        self.passed_over.clear()


class Agenda:
    """Hosts by the boottime (seconds) at which they may be served; of equals, the one served longest ago.

    Hosts at one address become due together, so without the second part one of them would win every time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._at: dict[str, tuple[float, int]] = {}
        self._served: dict[str, int] = {}
        self._turns = 0

    def put(self, host: str, at: float) -> None:
        """Schedule `host`, replacing an earlier entry."""
        self._at[host] = at, self._served.get(host, 0)
        heapq.heappush(self._heap, (*self._at[host], host))

    def served(self, host: str) -> None:
        """A request to `host` was carried out."""
        self._turns += 1
        self._served[host] = self._turns

    def drop(self, host: str) -> None:
        self._at.pop(host, None)

    def forget(self, host: str) -> None:
        """It is served no more: nothing of it is kept."""
        self.drop(host)
        self._served.pop(host, None)

    def __contains__(self, host: str) -> bool:
        return host in self._at

    def next_at(self) -> float | None:
        """When the first host is due; None if no host has work."""
        while self._heap:
            at, turn, host = self._heap[0]
            if self._at.get(host) == (at, turn):
                return at
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> str | None:
        """A host whose time has come, taken out; None if there is none."""
        at = self.next_at()
        if at is None or at > now:
            return None
        _, _, host = heapq.heappop(self._heap)
        del self._at[host]
        return host
