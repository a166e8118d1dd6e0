"""What to fetch next: the claim side of a cell's frontier. Pure over its KV store, clock readings passed in.

A claim takes the host whose turn it is (heap by next allowed time), then the best lane of that host:
fastlane > freshlane > deadline > discovery | refresh, the last two by the live split. It writes nothing:
a claimed URL stays in its durable queue until its epoch commits, so a crash redelivers it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from crawl_platform.admission.hosts import SEED, HostBook
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import RobotsCache, Verdict
from crawl_platform.frontier.hosts import Agenda, HostState
from crawl_platform.frontier.kv import OrderedKV
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import (
    DEADLINE,
    DISCOVERY,
    FASTLANE,
    FRESHLANE,
    REFRESH,
    HostRecord,
    RobotsRecord,
    UrlRecord,
    decode,
    shard_range,
    url_key,
)
from crawl_platform.frontier.seen import RecentSet, SeenSet
from crawl_platform.scheduling.split import SplitCredit, target_share
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import Refresh
from crawl_platform.web.traps import trap_reason
from crawl_platform.web.url import host_of, origin_of

URGENT = (FASTLANE, FRESHLANE, DEADLINE)
ADDRESS_PATIENCE = 5.0
"""Seconds after which a host in an address's line looks whether the line still moves."""
DROPS = 256
"""URLs of a host dropped in one claim, at most. Without an end a site that forbids 20,000 of its URLs stops
the loop for 15 s; as it is, the host's next turn comes when these have been absorbed."""


@dataclass(slots=True)
class Window:
    """The schedule window in force: fetches per host until `ends_at` (UTC seconds)."""

    window_id: str
    ends_at: float
    allocations: dict[str, int]


class Frontier:
    """State of the shards that one cell owns."""

    def __init__(
        self,
        kv: OrderedKV,
        *,
        shards: frozenset[int],
        book: HostBook,
        gates: Gates,
        robots: RobotsCache,
        settings: FrontierSettings,
        refresh: Refresh,
    ) -> None:
        self.kv = kv
        self.shards = shards
        self.book = book
        self.gates = gates
        self.robots = robots
        self.settings = settings
        self.refresh = refresh
        self.hosts: dict[str, HostState] = {}
        self.agenda = Agenda()
        self.parked: dict[str, None] = {}
        """Unproven hosts whose turn came while enough of them had a slot; a set in order."""
        self.seen = SeenSet(settings.bloom_capacity, 200_000, lambda key: kv.get(key) is not None)
        self.sent = RecentSet(200_000)
        """Links lately handed to other cells' shards: each is sent once, not from every page that has it."""
        self.split = SplitCredit()
        self.emit_rate = 0.0
        self.known = 0
        self.fetched = 0
        self.dead = 0
        self.window: Window | None = None
        self.addresses: dict[str, str] = {}
        """Address pinned per host, as far as known: the address gate is looked at before a claim."""
        self.robots_redirects: dict[str, tuple[str, int]] = {}
        """Origin → (where its robots.txt redirected to on the same host, hops so far)."""
        self.denied: list[Lease] = []
        """Claimed URLs that robots forbids or that lie below a host's surface; the next plan drops them."""

    def load(self, now: float, boot: float) -> None:
        """Read hosts, robots and known URLs of our shards from the store (start-up)."""
        for shard in sorted(self.shards):
            for key, value in self._shard_scan(b"h", shard):
                host = key[3:].decode()
                self.hosts[host] = HostState(host, shard, record := decode(value, HostRecord))
                self.hosts[host].window_used = self._used(record)
                self.known += record.known
                self.fetched += record.fetched
                self.dead += record.dead
            for key, value in self._shard_scan(b"r", shard):
                known = decode(value, RobotsRecord)
                self.robots.store(key[3:].decode(), known.rule, known.body, known.expires_at)
            for key, _ in self._shard_scan(b"u", shard):
                self.seen.add(key)
        for state in self.hosts.values():
            # A request may have been written just before we took over: a crawl-delay is owed in full.
            owed = max(state.record.not_before - now, state.record.crawl_delay)
            self.gates.hold_host(state.host, boot + owed)
            self.reschedule(state.host, now, boot)

    def _shard_scan(self, kind: bytes, shard: int) -> Iterator[tuple[bytes, bytes]]:
        return self.kv.scan(*shard_range(kind, shard))

    # claims

    def claim(self, now: float, boot: float, room: int = 1 << 30) -> Lease | RobotsLease | None:
        """The next URL to fetch now, or None. `now` is UTC, `boot` CLOCK_BOOTTIME (seconds).

        `room`: how many more unproven hosts may have a slot. The host is reserved in the gates; the caller
        ends or releases it.
        """
        for parked in list(islice(self.parked, max(room, 0))):
            del self.parked[parked]
            self.agenda.put(parked, boot)
        while (host := self.agenda.pop_due(boot)) is not None:
            state = self.hosts[host]
            if self.book.state(host) != SEED:
                continue
            if state.unproven and room <= 0:
                self.parked[host] = None
                continue
            ready = self.gates.host_ready_at(host)
            if ready > boot:
                if ready != float("inf"):
                    self.agenda.put(host, ready)
                continue
            address = self.addresses.get(host)
            if address is not None and not self._address_free(address, host, boot):
                continue
            lease = self._pick(state, now, boot)
            if lease is not None:
                self.gates.take_host(host, boot)
                state.in_flight = True
                return lease
        return None

    def _address_free(self, address: str, host: str, boot: float) -> bool:
        if self.gates.address_ready_at(address) <= boot:
            return True
        self.await_address(address, host, boot)
        return False

    def await_address(self, address: str, host: str, boot: float) -> None:
        """Come back when the address is free: in its line while a request is in flight, else by time.

        Whoever is called out of the line may have nothing to do any more and let its turn pass unused, so
        those behind it also look for themselves now and then.
        """
        ready = self.gates.address_ready_at(address)
        if ready == float("inf"):
            self.gates.wait_for_address(address, host)
            ready = boot + ADDRESS_PATIENCE
        self.agenda.put(host, ready)

    def _pick(self, state: HostState, now: float, boot: float) -> Lease | RobotsLease | None:
        for _ in range(DROPS):
            choice = self._choose(state, now)
            if choice is None:
                self._sleep(state, now, boot)
                return None
            lane, url, both = choice
            origin = origin_of(url)
            verdict, retry_at = self.robots.verdict(origin, url, now)
            if verdict is Verdict.FETCH_FIRST:
                target, hops = self.robots_redirects.get(origin, (origin + "/robots.txt", 0))
                return RobotsLease(origin, state.host, state.shard, target, hops)
            if verdict is Verdict.UNREACHABLE and not self.robots.reachable(state.host):
                self.agenda.put(state.host, boot + max(retry_at - now, 0.001))
                return None
            record = self._record(state, url)
            state.leased.add(url)
            lease = Lease(url, state.host, state.shard, lane, record)
            if verdict is not Verdict.ALLOWED or self.below_surface(lease):
                self.denied.append(lease)
                continue
            return replace(lease, share=self._charge(state, lane, both))
        return None

    def below_surface(self, lease: Lease) -> bool:
        """Whether the host is in surface mode and this page lies too deep (a request goes through)."""
        deep = lease.record.depth > self.settings.surface_depth
        return deep and self.hosts[lease.host].record.surface and lease.lane != FASTLANE

    def _choose(self, state: HostState, now: float) -> tuple[int, str, bool] | None:
        """(lane, url, both lanes had work) for a host whose turn it is."""
        limit = int(now * 1000)
        for lane in URGENT:
            head = state.head(self.kv, lane)
            if head is not None and head[0] <= limit:
                return lane, head[1], False
        if self._window_spent(state, now):
            return None
        new = self._ripe(state, DISCOVERY, limit)
        old = self._ripe(state, REFRESH, limit)
        if new is not None and old is not None:
            lane = DISCOVERY if self.split.next_lane(self.share()) == "discovery" else REFRESH
            return lane, (new if lane == DISCOVERY else old), True
        if new is not None:
            return DISCOVERY, new, False
        return None if old is None else (REFRESH, old, False)

    def _ripe(self, state: HostState, lane: int, limit: int) -> str | None:
        head = state.head(self.kv, lane)
        return head[1] if head is not None and head[0] <= limit else None

    def share(self) -> float:
        """Discovery's present share of the turns that both lanes want."""
        refresh = self.refresh
        return target_share(
            self.backlog(),
            self.emit_rate,
            floor=refresh.split_floor,
            ceiling=refresh.split_ceiling,
            drain_short=refresh.drain_short,
            drain_long=refresh.drain_long,
        )

    def backlog(self) -> int:
        """URLs that wait for their first success."""
        return self.known - self.fetched - self.dead

    def _charge(self, state: HostState, lane: int, both: bool) -> float | None:
        """Count the turn; returns the share at which the split was charged, None if it was not."""
        if lane != FASTLANE:
            state.window_used += 1
        if lane in URGENT:
            return None
        if not both:
            self.split.lend()
            return None
        share = self.share()
        self.split.charge(share)
        return share

    def _used(self, record: HostRecord) -> int:
        """What a host has used of the window in force, before a restart too."""
        return record.window_used if self.window and record.window == self.window.window_id else 0

    def _refund(self, state: HostState, lease: Lease) -> None:
        if lease.lane != FASTLANE:
            state.window_used = max(state.window_used - 1, 0)
        if lease.lane not in URGENT:
            self.split.take_back("discovery" if lease.lane == DISCOVERY else "refresh", lease.share)

    def _record(self, state: HostState, url: str) -> UrlRecord:
        data = self.kv.get(url_key(state.shard, state.host, url))
        return decode(data, UrlRecord) if data is not None else UrlRecord()

    def _window_spent(self, state: HostState, now: float) -> bool:
        window = self.window
        if window is None or now >= window.ends_at:
            return False
        allotted = window.allocations.get(state.host)
        return allotted is not None and state.window_used >= allotted

    def _sleep(self, state: HostState, now: float, boot: float) -> None:
        """Nothing to do for the host now: come back when its next entry ripens or its window ends."""
        urgent, split = state.next_rank(self.kv, URGENT), state.next_rank(self.kv, (DISCOVERY, REFRESH))
        wakes = [rank / 1000 for rank in (urgent, split) if rank is not None]
        if split is not None and self.window is not None and self._window_spent(state, now):
            wakes[-1] = max(wakes[-1], self.window.ends_at)
        if wakes:
            self.agenda.put(state.host, boot + max(min(wakes) - now, 0.001))

    # after a fetch

    def reschedule(self, host: str, now: float, boot: float) -> None:
        """Put the host back on the agenda if it has queued work and no request in flight."""
        state = self.hosts.get(host)
        if state is None or state.in_flight:
            return
        rank = state.next_rank(self.kv)
        if rank is None:
            self.agenda.drop(host)
            return
        ready = self.gates.host_ready_at(host)
        if ready != float("inf"):
            self.agenda.put(host, max(ready, boot + max(rank / 1000 - now, 0.0)))

    def landed(self, host: str, now: float, boot: float) -> None:
        """The request to `host` has ended and its gate was told: the host may be served again."""
        self.hosts[host].in_flight = False
        self.agenda.served(host)
        self.reschedule(host, now, boot)

    def hand_back(self, lease: Lease | RobotsLease) -> None:
        """A claimed URL was not fetched after all (no request was sent): it is claimable again, and its turn
        counts for nothing."""
        state = self.hosts[lease.host]
        if isinstance(lease, Lease):
            self._refund(state, lease)
            state.leased.discard(lease.url)
            state.queues_changed()

    def follow_robots(self, lease: RobotsLease, target: str | None, hop_limit: int) -> bool:
        """Whether a redirected robots.txt is followed: on the same host, up to `hop_limit` hops, one per
        turn of the host. Another host's clock is not ours to use; RFC 9309 2.3.1.2 then allows all."""
        self.robots_redirects.pop(lease.origin, None)
        if target is None or host_of(target) != lease.host or lease.hops >= hop_limit:
            return False
        if trap_reason(target, self.settings) is not None:
            return False
        self.robots_redirects[lease.origin] = (target, lease.hops + 1)
        return True

    def open_window(self, window: Window, now: float, boot: float) -> None:
        """Put a schedule window in force; what hosts used of another one is forgotten."""
        self.window = window
        for state in self.hosts.values():
            state.window_used = self._used(state.record)
            self.reschedule(state.host, now, boot)
