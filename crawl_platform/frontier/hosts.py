"""The seed hosts of a cell in memory: record, heads of their queues, and when each may be served next.

Only the heads live here; the queues are on disk. They are read once and follow the store from then on (`follow`); which
hosts are in memory is up to `known_hosts`. `Agenda` is the heap by next possible
time: a host is in it at most once, and not while a request to it is in flight.
"""

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import (
    DEADLINE,
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
    url_prefix,
)

HEAD = 16
"""Queue entries read ahead per host and lane."""
PREFETCH = HEAD
"""Records of queued URLs read together: one at a time each would cost a look at the disk of its own."""
LOOK_AHEAD = 512
"""Entries looked at for those whose group may still be fetched in this window; the rest waits for its end."""
CAPPED = (DISCOVERY, REFRESH)
"""Lanes in which a group that has used up its allotment is passed over."""


class Move(NamedTuple):
    """An entry that a plan puts into the queue of `lane`, or takes out of it (`data` None)."""

    lane: int
    rank: int
    url: str
    data: bytes | None


class Outlook(msgspec.Struct, frozen=True, gc=False):
    """What is believed of a page that waits for its next visit, under the priors of `version`."""

    version: int
    a: float
    b: float
    """Its rate: Gamma(a, b), b in days."""
    able_at: float
    """From when on (UTC seconds) a visit is worth its cost, were there room for all."""


class Entry(msgspec.Struct, order=True, gc=False):
    """A place in a queue: due at `rank` (milliseconds). What has been found out of it once is kept: a host that waits
    for its turn is looked at again and again."""

    rank: int
    url: str
    data: bytes
    outlook: Outlook | None = None
    index: float = 0.0
    index_until: float = 0.0
    """What a visit is worth (days of freshness), and until when (UTC seconds) that is near enough."""
    _waiting: Waiting | None = None

    @property
    def waiting(self) -> Waiting:
        if self._waiting is None:
            self._waiting = decode(self.data, Waiting)
        return self._waiting


class Look(msgspec.Struct, array_like=True):
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
    leased: dict[str, bool] = field(default_factory=dict)
    """Claimed and not yet committed; whether the record has been changed since."""
    records: dict[str, bytes] = field(default_factory=dict)
    """Records of queued URLs that are likely to be claimed next, as they are stored."""
    heads: dict[int, list[Entry]] = field(default_factory=dict)
    """By lane what was read ahead of its queue and is not claimed; a lane without any may be left out."""
    is_read: bool = False
    """The heads are in memory."""
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
    stored: int = 0
    """Hash of its record as it was last read from the store; 0: it was not."""

    @property
    def is_busy(self) -> bool:
        """Whether a request to it is in flight, or a URL of it claimed whose result is not committed."""
        return self.in_flight or bool(self.leased)

    @property
    def key(self) -> bytes:
        """Where its record is written down."""
        return (guest_key if self.guest else host_key)(self.shard, self.host)

    def head(self, kv: OrderedKV, lane: int) -> Entry | None:
        """The first entry of `lane` that may be claimed once it is due."""
        entries = self.heads.get(lane)
        if entries:
            if not self.barred:  # nearly always, and asked a dozen times per page
                return entries[0]
        elif self.is_read and lane not in self.more:
            return None
        return next(iter(self.ahead(kv, lane, 1)), None)

    def may_have(self, lanes: Iterable[int]) -> bool:
        """Whether there may be something in any of `lanes`."""
        none = self.heads.keys().isdisjoint(lanes) and self.more.isdisjoint(lanes)
        return not (self.is_read and none)

    def ahead(self, kv: OrderedKV, lane: int, count: int) -> list[Entry]:
        """The first entries of `lane` that are not leased and whose group is not barred: `count` at most, and
        at least one if there is any within reach."""
        if not self.is_read:
            self._read_all(kv)
        found = self._free(lane, count)
        if not found and lane in self.more:
            self._read(kv, lane, lane)
            found = self._free(lane, count)
        return found

    def _free(self, lane: int, count: int) -> list[Entry]:
        entries = self.heads.get(lane, [])
        if not self.barred:
            return entries[:count]
        return list(islice((entry for entry in entries if not self._is_barred(lane, entry)), count))

    def _is_barred(self, lane: int, entry: Entry) -> bool:
        if not self.barred or lane not in CAPPED or entry.waiting.group not in self.barred:
            return False
        self.passed_over.add(lane)
        return True

    def _read_all(self, kv: OrderedKV) -> None:
        """The heads of all lanes, which lie one after another: an empty lane costs nothing."""
        self.is_read, lane = True, 0
        while lane < len(LANES):
            lane = self._read(kv, lane, len(LANES) - 1)

    def _read(self, kv: OrderedKV, first: int, last: int) -> int:
        """Read the heads of these lanes, up to one of which there is more; returns the lane after that one."""
        start = lane_prefix(self.shard, self.host, first)
        for lane in range(first, last + 1):
            self.heads.pop(lane, None)
            self.more.discard(lane)
        lane, looked_at, length = first, 0, len(start)
        for key, data in kv.scan(start, prefix_end(lane_prefix(self.shard, self.host, last))):
            if key[length - 1] != lane:
                lane, looked_at = key[length - 1], 0
            found = self.heads.get(lane, [])
            if len(found) == HEAD or looked_at == LOOK_AHEAD + len(self.leased):
                self.more.add(lane)
                return lane + 1
            looked_at += 1
            entry = Entry(*parse_queue_key(key, length), data)
            if entry.url not in self.leased and not self._is_barred(lane, entry):
                found.append(entry)
                self.heads[lane] = found
        return last + 1

    def claim(self, lane: int, entry: Entry) -> None:
        """Its URL is leased: it is no head any more, in none of the lanes: one with a deadline is in two."""
        for each in tuple(self.heads) if DEADLINE in self.heads else (lane,):
            entries = self.heads.get(each, [])
            for place, head in enumerate(entries):  # else it was found further back in the queue
                if head.url == entry.url:
                    del entries[place]
                    break
        self.leased[entry.url] = False

    def follow(self, moves: Iterable[Move]) -> None:
        """These have happened in the store."""
        if not self.is_read:
            return
        if self.barred or self.passed_over:  # what was passed over is not in the heads
            self.queues_changed()
            return
        for lane, rank, url, data in moves:
            entries = self.heads.get(lane)
            if entries is None:
                if data is None or lane in self.more:
                    continue
                entries = self.heads[lane] = []
            place = bisect_left(entries, Entry(rank, url, b""))
            if place < len(entries) and entries[place].rank == rank and entries[place].url == url:
                del entries[place]
            if data is None or url in self.leased:  # what is leased will be looked at when it is released
                continue
            if place < len(entries) or lane not in self.more:
                entries.insert(place, Entry(rank, url, data))
                if len(entries) > 2 * HEAD:
                    del entries[HEAD:]
                    self.more.add(lane)

    def record_of(self, kv: OrderedKV, lane: int, url: str) -> bytes | None:
        """The stored record of a URL that is about to be claimed; those that are likely to be next come along."""
        if url not in self.records:
            urls = dict.fromkeys((url, *(entry.url for entry in self._free(lane, PREFETCH))))
            prefix = url_prefix(self.shard, self.host)
            if len(self.records) > PREFETCH:  # of another lane, or overtaken by better ones
                self.records.clear()
            wanted = sorted(prefix + each.encode() for each in urls)
            for key, data in zip(wanted, kv.get_many(wanted), strict=True):
                if data is not None:
                    self.records[key[len(prefix) :].decode()] = data
        return self.records.pop(url, None)

    def changed(self, url: str) -> None:
        """The stored record of `url` is another one now."""
        self.records.pop(url, None)
        if url in self.leased:
            self.leased[url] = True

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
        if not self.is_read:
            self._read_all(kv)
        least = None
        for lane in lanes:
            if lane in self.heads or lane in self.more:
                head = self.head(kv, lane)
                if head is not None and (least is None or head.rank < least):
                    least = head.rank
        return least

    def queues_changed(self) -> None:
        """Whatever is kept of the queues is to be read anew when it is needed."""
        self.is_read = False
        self.heads.clear()
        self.records.clear()
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
        entry = at, self._served.get(host, 0)
        if self._at.get(host) != entry:
            self._at[host] = entry
            heapq.heappush(self._heap, (*entry, host))

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

    def at(self, host: str) -> float | None:
        """When `host` may be served; None if it has no work."""
        entry = self._at.get(host)
        return None if entry is None else entry[0]

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
