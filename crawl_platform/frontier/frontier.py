"""What to fetch next: the claim side of a cell's frontier. Pure over its KV store, clock readings passed in.

A claim takes the host whose turn it is (heap by next allowed time; where more are ready than there are slots, the one
whose next visit is worth most: `line`), then the best page of that host (`lanes`). It writes nothing: a claimed URL
stays in its durable queue until its epoch commits, so a crash redelivers it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

from crawl_platform.admission.hosts import SEED, HostBook
from crawl_platform.admission.pace import Pace
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.service import Admission, Reason
from crawl_platform.frontier.hosts import CAPPED, Agenda, Entry, HostState
from crawl_platform.frontier.known_hosts import KnownHosts
from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.lanes import URGENT, Lanes
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.line import Line
from crawl_platform.frontier.moved_robots import MovedRobots
from crawl_platform.frontier.parameter_order import OrderEvidence
from crawl_platform.frontier.records import (
    ADDRESS,
    DISCOVERY,
    HostRecord,
    RobotsRecord,
    UrlRecord,
    decode,
    shard_range,
    url_key,
)
from crawl_platform.frontier.refusals import Refusals
from crawl_platform.frontier.revisits import Revisits
from crawl_platform.frontier.seen import RecentSet, SeenSet
from crawl_platform.frontier.seen_log import SeenLog
from crawl_platform.frontier.windows import Window, Windows
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import Refresh
from crawl_platform.web.parameters import host_form
from crawl_platform.web.url import host_of, origin_of_canonical

KEYS_AT_ONCE = 10_000
"""Known URLs that are told to the seen set together."""
ADDRESS_PATIENCE = 5.0
"""Seconds after which a host in an address's line looks whether the line still moves."""
CLOCK_STEP = 1.0
"""Seconds that the wall clock leaps between two claims before it counts as stepped."""
HEADS_IN_LINE = 32
"""Hosts in an address's line that keep the heads of their queues in memory (some 10 KB each)."""
DROPS = 256
"""URLs of a host dropped in one claim, at most. Without an end a site that forbids 20,000 of its URLs stops
the loop for 15 s; as it is, the host's next turn comes when these have been absorbed."""


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
        rules: HostRules,
        refresh: Refresh,
        admission: Admission,
    ) -> None:
        self.kv = kv
        self.shards = shards
        self.leaving: set[int] = set()
        """Of our shards, those whose hosts are not served just now: they are on their way to or from another cell."""
        self.book = book
        self.gates = gates
        self.robots = robots
        self.rules = rules
        self.refresh = refresh
        self.admission = admission
        self.revisits = Revisits(refresh, rules.plain.sitemaps)
        self.windows = Windows()
        self.refusals = Refusals(book, rules)
        self.lanes = Lanes(kv, self.windows, self.revisits, refresh, self.backlog, self.delay)
        limits = rules.plain.frontier
        self.hosts = KnownHosts(kv, book.shard, self.windows, self.delay, limits.active_hosts)
        self.moved = MovedRobots(kv, shards, book, rules)
        robots.recall = self.moved.written
        self.agenda = Agenda()
        self.line = Line()
        self.parked: dict[str, None] = {}
        """Unproven hosts whose turn came while enough of them had a slot; a set in order."""
        self.held: dict[str, None] = {}
        """Hosts whose turn came while their domain was paused; a set in order."""
        self.seen = SeenSet(
            limits.bloom_capacity,
            limits.seen_cache,
            lambda keys: [value is not None for value in kv.get_many(keys)],
        )
        self.log = SeenLog(kv, shards)
        self.sent = RecentSet(200_000)
        """Links lately handed to other cells' shards: each is sent once, not from every page that has it."""
        self._utc_at_boot = 0.0
        """UTC less CLOCK_BOOTTIME, as the agenda knows it."""
        self.known = 0
        self.fetched = 0
        self.dead = 0
        self.turned_away: Counter[str] = Counter()
        """Links that did not enter since the start, by reason."""
        self.addresses: dict[str, str] = {}
        """Address pinned per host, as far as known: the address gate is looked at before a claim."""
        self.promised_anew: list[str] = []
        """Hosts of which something else was promised when their pages were queued: for `promises.renew`."""
        self.interest: Callable[[str, str], float] | None = None
        """(URL, anchor) → how much more than another such a new link is worth, by what the crawl is for."""
        self.denied: list[Lease] = []
        """Claimed URLs that are not fetched after all, each with its reason; the next plan drops them."""

    def limits(self, host: str) -> FrontierSettings:
        """What may enter of `host`."""
        return self.rules.of(host).frontier

    def form_of(self, url: str) -> str:
        """The form in which the canonical `url` is known: its host's own, unless it is known as it stands."""
        if "?" not in url:
            return url
        host = host_of(url)
        state = self.hosts.get(host)
        form = self.host_form(host, url, state.record.order if state is not None else OrderEvidence())
        if form == url or url_key(self.book.shard(host), host, url) in self.seen:
            return url
        return form

    def host_form(self, host: str, url: str, order: OrderEvidence) -> str:
        """The form that settings and what was learnt (`order`) give to a URL of `host`."""
        settings = self.rules.of(host).urls
        sort = settings.sort_parameters
        return host_form(url, settings, sort=order.irrelevant if sort == "learned" else sort)

    def load(self, now: float, boot: float) -> None:
        """Read hosts, robots and what is known of our shards from the store (start-up)."""
        if not self.log.recall(self.seen):
            for shard in sorted(self.shards):
                keys = (key for key, _ in self._shard_scan(b"u", shard))
                while some := list(islice(keys, KEYS_AT_ONCE)):
                    self.seen.add(*some)
        self._utc_at_boot = now - boot
        for key, value in self.kv.scan(ADDRESS, prefix_end(ADDRESS)):
            self.gates.paces.recall(key[len(ADDRESS) :].decode(), decode(value, Pace))
        for shard in sorted(self.shards):
            self.load_shard(shard, now, boot)
        self.moved.recall_guests(self.gates, now, boot)

    def load_shard(self, shard: int, now: float, boot: float) -> None:
        """Read the hosts of a shard that is ours. Each waits for its whole delay."""
        for key, value in self._shard_scan(b"r", shard):
            known = decode(value, RobotsRecord)
            self.robots.note(key[3:].decode(), known.rule, known.body)
        for key, value in self._shard_scan(b"h", shard):
            host = key[3:].decode()
            record = decode(value, HostRecord)
            state = HostState(host, shard, record, threshold=record.threshold, stored=hash(value))
            self.hosts[host] = state
            promised = self.rules.of(host).promises
            made = record.within, record.first_within, record.within_by_type
            if made != (promised.within, promised.first_within, promised.types):
                self.promised_anew.append(host)
            self.windows.recall(state)
            self.known += record.known
            self.fetched += record.fetched
            self.dead += record.dead
            # A request may have been written just before we took over: the delay is owed in full.
            owed = max(record.held(now, boot), self.delay(record, host))
            self.gates.hold_host(host, boot + owed)
            self.reschedule(host, now, boot)

    def own(self, shards: frozenset[int]) -> None:
        """From now on exactly these shards are ours; what is in memory of others is the caller's to forget."""
        self.shards = shards
        self.moved.shards = shards
        self.log.own(shards)

    def state(self, host: str) -> HostState | None:
        """A seed host of ours, or a guest."""
        return self.hosts.get(host) or self.moved.guests.get(host)

    def _shard_scan(self, kind: bytes, shard: int) -> Iterator[tuple[bytes, bytes]]:
        return self.kv.scan(*shard_range(kind, shard))

    # claims

    def claim(
        self, now: float, boot: float, room: int = 1 << 30, *, crowded: bool = True
    ) -> Lease | RobotsLease | None:
        """The next URL to fetch now, or None. `now` is UTC, `boot` CLOCK_BOOTTIME (seconds).

        `room`: how many more unproven hosts may have a slot. `crowded`: more hosts may be due than there are slots,
        so the best comes first. The host is reserved in the gates; the caller ends or releases it.
        """
        look = partial(self._look, now=now, boot=boot)
        self._follow_clock(now, boot)
        if self.moved.errands.fresh:
            for wanted in self.moved.newly_wanted(self.hosts, now):
                self.reschedule(wanted, now, boot)
        if self.parked:
            for parked in list(islice(self.parked, max(room, 0))):
                del self.parked[parked]
                self.agenda.put(parked, boot)
        while (host := self.line.next_due(self.agenda, boot, look, crowded=crowded)) is not None:
            if self._stands_still(host):
                self.held[host] = None
                self._let_pass(host, now, boot)
                continue
            state = self.state(host)
            address = self.addresses.get(host)
            answer = self.admission.turn(host, address, boot, self.moved.errands.waits(host))
            if state is None or answer.reason is Reason.NOT_SEED:
                self.moved.errands.drop(host)
                self._let_pass(host, now, boot)
                self._part_with(host)
                continue
            if state.unproven and room <= 0:
                self.parked[host] = None
                continue
            if answer.reason is Reason.ADDRESS:
                self.await_address(answer.gate, host, boot)
                self._let_pass(host, now, boot, but=answer.gate)
            elif answer.reason is Reason.HOST and answer.retry_at != float("inf"):
                self.agenda.put(host, answer.retry_at)
            if answer.reason is not Reason.ADMITTED:
                continue
            lease = self._next(state, now, boot)
            if lease is not None:
                self.gates.take_host(host, boot)
                state.in_flight = True
                return lease
            self._let_pass(host, now, boot)
            self._part_with(host)
        return None

    def _look(self, host: str, now: float, boot: float) -> tuple[float, float]:
        """What the host's next visit is worth (days of freshness; infinite: it is to be seen to at once), and the age
        (seconds) that this comes from."""
        state, address = self.hosts.get(host), self.addresses.get(host)
        if state is None or state.in_flight:
            return math.inf, math.inf
        if address is not None and self.gates.address_ready_at(address) > boot:
            return math.inf, math.inf
        self._keep(state)
        return (math.inf, 0.0) if self.moved.errands.waits(host) else self.lanes.worth(state, now)

    def _let_pass(self, host: str, now: float, boot: float, but: str = "") -> None:
        """`host` makes no use of its turns, except for that at `but`: those behind it in line need not wait until they
        look for themselves."""
        for gate in (self.addresses.get(host), self.gates.clocks.domain(host)):
            called = self.gates.pass_on(gate, host) if gate and gate != but else None
            if called is not None:
                self.reschedule(called, now, boot)

    def resume(self, now: float, boot: float) -> None:
        """Hosts whose domain is no longer paused go on."""
        for host in [host for host in self.held if not self._stands_still(host)]:
            del self.held[host]
            self.reschedule(host, now, boot)

    def _stands_still(self, host: str) -> bool:
        return self.book.stops.holds(host) or (bool(self.leaving) and self.book.shard(host) in self.leaving)

    def _follow_clock(self, now: float, boot: float) -> None:
        """Somebody has stepped the wall clock: hosts that sleep until something is due are looked at anew. A step back
        that is made good would leave them asleep for as long as it was wide."""
        before, self._utc_at_boot = self._utc_at_boot, now - boot
        step = self._utc_at_boot - before
        if abs(step) > CLOCK_STEP:
            for host, _ in self.hosts.resting():  # not read for that: what they wait for has moved by so much
                if (at := self.agenda.at(host)) is not None:
                    self.agenda.put(host, max(self.gates.host_ready_at(host), at - step))
            for host in list(self.hosts.awake):
                self.reschedule(host, now, boot)

    def _next(self, state: HostState, now: float, boot: float) -> Lease | RobotsLease | None:
        """An errand and a turn of the host's own in alternation, while it has both. Hosts outside the seed have no
        turns of their own."""
        own = self.book.state(state.host) == SEED
        errand = None
        if not (own and state.ran_errand) and self.moved.errands.waits(state.host):
            errand = self.moved.errand(state, now)
        state.ran_errand = errand is not None
        if errand is not None or not own:
            return errand
        lease = self._pick(state, now, boot)
        if lease is None and self.moved.errands.waits(state.host):
            lease = self.moved.errand(state, now)
            state.ran_errand = lease is not None
        return lease

    def await_address(self, address: str, host: str, boot: float) -> None:
        """Come back when the address is free: in its line while a request is in flight or others wait, else by
        time.

        Whoever is called out of the line may have nothing to do any more and let its turn pass unused, so those
        behind it also look for themselves now and then: seldom enough that thousands who share an address cost
        a look per turn of it, and no more.
        """
        ready = self.gates.address_ready_at(address)
        if ready == float("inf") or self.gates.stands_in_line(address, host):
            waiting = self.gates.wait_for_address(address, host)
            turns = waiting / self.gates.clocks.limit(address).slots
            ready = boot + max(ADDRESS_PATIENCE, turns * self.gates.paces.delay(address))
            if waiting > HEADS_IN_LINE and (state := self.hosts.get(host)) is not None:
                state.queues_changed()  # its turn is far off: what was read ahead of its queues can be read again
        self.agenda.put(host, ready)

    def _pick(self, state: HostState, now: float, boot: float) -> Lease | RobotsLease | None:
        for _ in range(DROPS):
            choice = self.lanes.choose(state, now)
            if choice is None:
                self._sleep(state, now, boot)
                return None
            lane, entry, share = choice
            url = entry.url
            origin = origin_of_canonical(url)
            answer = self.admission.page(origin, state.host, url, now, boot, state.record.refused)
            if answer.reason is Reason.ROBOTS_FIRST:
                robots = self.moved.next_of(state, origin, now)
                if isinstance(robots, RobotsLease):
                    return robots
                self.agenda.put(state.host, boot + robots)
                return None
            if answer.reason in (Reason.ROBOTS_UNREACHABLE, Reason.IDENTITY):
                self.agenda.put(state.host, answer.retry_at)
                return None
            record = self._record(state, lane, entry)
            state.claim(lane, entry)
            refused = self.refusals.reason(state, url, lane, record, answer, now)
            if refused:
                self.denied.append(Lease(url, state.host, state.shard, lane, record, refused=refused))
                continue
            self.lanes.charge(state, lane, record, share, now)
            return Lease(url, state.host, state.shard, lane, record, share)
        return None

    def _record(self, state: HostState, lane: int, entry: Entry) -> UrlRecord:
        """The record of a URL that is about to be claimed: from the store only if its place does not say it all."""
        if lane == DISCOVERY and (waiting := entry.waiting).whole:
            return waiting.record(entry.rank)
        data = state.record_of(self.kv, lane, entry.url)
        return decode(data, UrlRecord) if data is not None else UrlRecord()

    def delay(self, record: HostRecord, host: str) -> float:
        """Seconds from the end of a request to `host` to the start of the next: the delay in force."""
        return self.gates.delay(host, record.crawl_delay, record.pace)

    def backlog(self) -> int:
        """URLs that wait for their first success."""
        return self.known - self.fetched - self.dead

    def _sleep(self, state: HostState, now: float, boot: float) -> None:
        """Nothing to do for the host now: come back when its next entry ripens or its window ends."""
        self._keep(state)
        urgent, split = state.next_rank(self.kv, URGENT), state.next_rank(self.kv, CAPPED)
        window = self.windows.in_force(state.shard, now)
        spent = self.windows.spent(state, now)
        wakes = [rank / 1000 for rank in (urgent, split) if rank is not None]
        if window is not None and spent and split is not None:
            wakes[-1] = max(wakes[-1], self.windows.next_look(window, now))
        if window is not None and state.passed_over:
            wakes.append(self.windows.next_look(window, now))
        if not wakes:
            return
        at = boot + max(min(wakes) - now, 0.001)
        if not (spent or state.passed_over):
            at = self.revisits.rests(state, boot, at, self.delay(state.record, state.host), boot - now)
        self.agenda.put(state.host, at)

    def _keep(self, state: HostState) -> None:
        if not state.guest:
            self.hosts.keep(state)

    # after a fetch

    def reschedule(self, host: str, now: float, boot: float) -> None:
        """Put the host back on the agenda if it has queued work and no request in flight."""
        state = self.state(host)
        if state is None or state.in_flight:
            return
        ready = self.gates.host_ready_at(host)
        if ready == math.inf:
            return
        self._keep(state)
        rank = state.next_rank(self.kv)
        wake = math.inf if rank is None else rank / 1000
        if self.moved.errands.waits(host):
            wake = min(wake, now)
        window = self.windows.in_force(state.shard, now)
        if window is not None and state.passed_over:
            wake = min(wake, self.windows.next_look(window, now))
        if wake == math.inf:
            self.agenda.drop(host)
            return
        at = max(ready, boot + max(wake - now, 0.0))
        if not (state.passed_over or (window is not None and self.windows.spent(state, now))):
            at = self.revisits.next_look(state, ready, at)
        self.agenda.put(host, at)

    def landed(self, host: str, now: float, boot: float) -> None:
        """The request to `host` has ended and its gate was told: the host may be served again."""
        self.agenda.served(host)
        self.free(host)
        self.reschedule(host, now, boot)

    def free(self, host: str) -> None:
        """No request to `host` is in flight any more."""
        state = self.hosts.get(host)
        if state is not None:
            state.in_flight = False
        if self.moved.guests:
            guest = self.moved.guests.get(host)
            if guest is not None:
                guest.in_flight = False
            self._part_with(host)

    def _part_with(self, host: str) -> None:
        """A guest that has served leaves nothing but its clock: whoever redirects a robots.txt to one made-up name
        after another must not fill memory."""
        if self.moved.leave(host) and host not in self.hosts:
            self.agenda.forget(host)
            self.addresses.pop(host, None)

    def hand_back(self, lease: Lease | RobotsLease) -> None:
        """A claimed URL was not fetched after all (no request was sent): it is claimable again, and its turn
        counts for nothing."""
        if isinstance(lease, RobotsLease):
            self.moved.errands.put_back(lease.host, lease.errand)
        else:
            state = self.hosts[lease.host]
            self.lanes.refund(state, lease)
            state.leased.pop(lease.url, None)
            state.queues_changed()

    def set_aside(self, lease: Lease) -> None:
        """A claimed URL has to wait, and no request was sent: it is not claimable before `call_back`, or before a
        result of it is absorbed; its turn counts for nothing."""
        self.lanes.refund(self.hosts[lease.host], lease)

    def call_back(self, lease: Lease, now: float, boot: float) -> None:
        """A URL that was set aside is claimable again."""
        state = self.hosts[lease.host]
        state.leased.pop(lease.url, None)
        state.queues_changed()
        self.reschedule(lease.host, now, boot)

    def open_windows(self, opened: Mapping[int, Window], now: float, boot: float) -> None:
        """Put the windows of some shards in force; what hosts used of others is forgotten."""
        self.windows.begin(opened, now)
        for host, waits in self.hosts.resting():
            if waits and self.book.shard(host) in opened and host in self.agenda:
                self.agenda.put(host, max(self.gates.host_ready_at(host), boot))
        for state in list(self.hosts.awake.values()):
            if state.shard in opened:
                self.windows.recall(state)
                state.bar(frozenset())
                self.reschedule(state.host, now, boot)
