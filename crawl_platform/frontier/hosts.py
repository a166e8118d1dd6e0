"""The seed hosts of a cell in memory: record, heads of their queues, and when each may be served next.

Only the heads live here; the queues are on disk. `Agenda` is the heap by next possible time: a host is in
it at most once, and not while a request to it is in flight.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import LANES, HostRecord, lane_prefix, parse_queue_key

HEAD = 32
"""Queue entries read ahead per host and lane."""


@dataclass(slots=True)
class HostState:
    host: str
    shard: int
    record: HostRecord
    leased: set[str] = field(default_factory=set)
    """Claimed and not yet committed."""
    heads: dict[int, deque[tuple[int, str]]] = field(default_factory=dict)
    window_used: int = 0
    in_flight: bool = False
    unproven: bool = True
    """Not yet seen to answer, or slow or unwell when last asked: such hosts never get all the slots."""

    def head(self, kv: OrderedKV, lane: int) -> tuple[int, str] | None:
        """(rank, url) of the first entry of `lane` that is not leased."""
        entries = self.heads.get(lane)
        if not entries:
            entries = self.heads[lane] = self._read(kv, lane)
        while entries and entries[0][1] in self.leased:
            entries.popleft()
            if not entries:
                entries = self.heads[lane] = self._read(kv, lane)
        return entries[0] if entries else None

    def _read(self, kv: OrderedKV, lane: int) -> deque[tuple[int, str]]:
        prefix = lane_prefix(self.shard, self.host, lane)
        found: deque[tuple[int, str]] = deque()
        for key, _ in kv.scan(prefix, prefix_end(prefix)):
            rank, url = parse_queue_key(key, len(prefix))
            if url not in self.leased:
                found.append((rank, url))
                if len(found) >= HEAD:
                    break
        return found

    def next_rank(self, kv: OrderedKV, lanes: Iterable[int] = range(len(LANES))) -> int | None:
        """The least rank (ms) over `lanes`: when the host has work in them."""
        ranks = [head[0] for lane in lanes if (head := self.head(kv, lane)) is not None]
        return min(ranks, default=None)

    def queues_changed(self) -> None:
        self.heads.clear()


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
