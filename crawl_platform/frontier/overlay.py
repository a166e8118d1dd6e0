"""What one plan sees of hosts and URLs: the store, with what the plan has changed so far laid over it.

Nothing here decides anything: records are read, put, taken out of their queue and put into another, and the
counts of their host go along.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from crawl_platform.admission.hosts import SEED
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState, Move
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.records import (
    DEADLINE,
    DISCOVERY,
    DROPPED,
    FETCHED,
    GONE,
    NO_LANE,
    PAGE,
    QUEUED,
    REFRESH,
    HostRecord,
    UrlRecord,
    decode,
    encode,
    host_key,
    queue_key,
    url_key,
    url_prefix,
    waiting,
)
from crawl_platform.settings import Promises

AGE_OF_FULL_VALUE = 3_600.0
"""Seconds in a discovery queue that weigh as much as a value of 1: nothing valuable waits behind
junk for less than that, and nothing starves."""


@dataclass(slots=True)
class Plan:
    """`batch` is for the store; the rest tells the frontier and the cell what it means."""

    batch: Batch = field(default_factory=Batch)
    hosts: dict[str, HostRecord] = field(default_factory=dict)
    released: list[Lease] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    """Of new URLs, for the seen set."""
    moves: dict[str, list[Move]] = field(default_factory=dict)
    """What enters and leaves the queues, by host and in order."""
    rewritten: list[tuple[str, str]] = field(default_factory=list)
    """(host, URL) of records that are in memory and become others."""
    still_queued: set[str] = field(default_factory=set)
    """Hosts of released URLs that have kept their place in a queue."""
    foreign: dict[int, list[Found]] = field(default_factory=dict)
    """Discoveries that belong to shards of other cells."""
    turned_away: dict[str, int] = field(default_factory=dict)
    """Links that did not enter, by reason."""
    first_traps: list[tuple[str, str, str]] = field(default_factory=list)
    """(host, trap filter, URL) for filters that turned a link to the host away for the first time."""
    admitted: set[str] = field(default_factory=set)
    """Hosts that enter the seed with this plan."""
    new_urls: int = 0
    first_fetches: int = 0
    new_dead: int = 0
    """URLs that were given up, dropped or gone before their first success, less those brought back."""

    @property
    def operations(self) -> int:
        return len(self.batch)


@dataclass(slots=True)
class HostView:
    """A host in one plan: what each look at it needs."""

    shard: int
    state: HostState | None
    urls: bytes
    """Beginning of the keys of its URLs."""


class Overlay:
    """The changes of one plan so far. `records` are those it has looked at, by key of the store;
    those of URLs that it has let in are in its batch until then."""

    def __init__(self, frontier: Frontier, now: float) -> None:
        self._frontier = frontier
        self._now = now
        self.records: dict[bytes, UrlRecord] = {}
        self.plan = Plan()
        self._views: dict[str, HostView] = {}

    def view(self, host: str) -> HostView:
        view = self._views.get(host)
        if view is None:
            shard = self._frontier.book.shard(host)
            view = HostView(shard, self._frontier.hosts.get(host), url_prefix(shard, host))
            self._views[host] = view
        return view

    def key(self, host: str, url: str) -> bytes:
        """Of the URL's record in the store."""
        return self.view(host).urls + url.encode()

    def get(self, key: bytes) -> bytes | None:
        return self._frontier.kv.get(key)

    def shard(self, host: str) -> int:
        return self.view(host).shard

    def state(self, host: str) -> str:
        return SEED if host in self.plan.admitted else self._frontier.book.state(host)

    def host(self, host: str) -> HostRecord:
        record = self.plan.hosts.get(host)
        if record is None:
            state = self.view(host).state
            promised = self._frontier.rules.of(host).promises
            record = (
                msgspec.structs.replace(state.record)
                if state is not None
                else HostRecord(
                    since=self._now,
                    within=promised.within,
                    first_within=promised.first_within,
                    within_by_type=promised.types,
                )
            )
            self.plan.hosts[host] = record
        return record

    def load(self, host: str, url: str) -> UrlRecord | None:
        key = self.key(host, url)
        if key not in self.records:
            data = self.plan.batch.changes.get(key) or self._frontier.kv.get(key)
            if data is None:
                return None
            self.records[key] = decode(data, UrlRecord)
        return self.records[key]

    def leased(self, lease: Lease) -> UrlRecord:
        """The record of a leased URL: a copy of what was claimed, unless it has been changed since."""
        view = self.view(lease.host)
        unchanged = view.state is not None and view.state.leased.get(lease.url) is False
        # A sitemap that proved a page is leased as one: its record is another than what was claimed.
        if unchanged and not lease.as_page:
            key = view.urls + lease.url.encode()
            record = self.records.get(key)
            if record is None:
                record = self.records[key] = msgspec.structs.replace(lease.record)
            return record
        return self.load(lease.host, lease.url) or lease.record

    def store(self, host: str, url: str, record: UrlRecord) -> None:
        view = self.view(host)
        key = view.urls + url.encode()
        self.records[key] = record
        self.plan.batch.put(key, encode(record))
        state = view.state
        if state is not None and (url in state.records or url in state.leased):
            self.plan.rewritten.append((host, url))

    def unqueue(self, host: str, url: str, record: UrlRecord) -> None:
        if record.lane == NO_LANE:
            return
        view = self.view(host)
        self.plan.batch.delete(queue_key(view.shard, host, record.lane, record.rank, url))
        self.moves(host).append(Move(record.lane, record.rank, url, None))
        if record.deadline:
            self.plan.batch.delete(queue_key(view.shard, host, DEADLINE, record.deadline, url))
            self.moves(host).append(Move(DEADLINE, record.deadline, url, None))
        self.host(host).queued -= 1
        record.lane, record.deadline = NO_LANE, 0

    def requeue(self, host: str, url: str, record: UrlRecord, lane: int, rank: int) -> None:
        self.unqueue(host, url, record)
        self.enqueue(host, url, record, lane, rank)

    def enqueue(self, host: str, url: str, record: UrlRecord, lane: int, rank: int) -> None:
        view = self.view(host)
        record.lane, record.rank = lane, max(rank, 0)
        record.deadline = deadline_of(record, self._frontier.rules.of(host).promises)
        data = encode(waiting(record))
        self.plan.batch.put(queue_key(view.shard, host, lane, record.rank, url), data)
        self.moves(host).append(Move(lane, record.rank, url, data))
        if record.deadline:
            self.plan.batch.put(queue_key(view.shard, host, DEADLINE, record.deadline, url), data)
            self.moves(host).append(Move(DEADLINE, record.deadline, url, data))
        self.host(host).queued += 1

    def moves(self, host: str) -> list[Move]:
        """Those of the plan so far, to be added to."""
        moves = self.plan.moves.get(host)
        if moves is None:
            moves = self.plan.moves[host] = []
        return moves

    def count_dead(self, host: str, change: int) -> None:
        if change:
            self.host(host).dead += change
            self.plan.new_dead += change

    def revive(self, host: str, record: UrlRecord) -> None:
        """A URL that was gone or dropped is wanted after all."""
        self.count_dead(host, -int(is_dead(record)))
        if record.state in (GONE, DROPPED):
            record.state = FETCHED if record.last_success_at else QUEUED

    def fetch_anew(self, host: str, url: str, record: UrlRecord) -> None:
        """It is not what it was taken for: its content counts as unknown, and it waits as if just found."""
        self.unqueue(host, url, record)
        self.revive(host, record)
        forget_content(record)
        self.enqueue(host, url, record, DISCOVERY, self.discovery_rank(record.value))
        self.store(host, url, record)

    def discovery_rank(self, value: float) -> int:
        """Value first, but age counts: both in milliseconds, so the order never has to be rebuilt."""
        return int((self._now - AGE_OF_FULL_VALUE * value) * 1000)

    def finish(self) -> Plan:
        """The plan, with the records of the hosts it touched in its batch."""
        for host, record in self.plan.hosts.items():
            view = self.view(host)
            if view.state is not None:
                record.threshold = view.state.threshold
                self._frontier.windows.stamp(view.state, record)
            self.plan.batch.put(host_key(view.shard, host), encode(record))
        if self.plan.digests:
            self._frontier.log.note(self.plan.batch, self.plan.digests)
        return self.plan


def records_of(kv: OrderedKV, shard: int, host: str, urls: Iterable[str]) -> dict[str, UrlRecord]:
    """The stored records of these URLs of a host, looked up at once; those that are not known are left out."""
    wanted = sorted((url_key(shard, host, url), url) for url in urls)
    found = kv.get_many([key for key, _ in wanted])
    return {
        url: decode(data, UrlRecord) for (_, url), data in zip(wanted, found, strict=True) if data is not None
    }


def deadline_of(record: UrlRecord, promised: Promises) -> int:
    """When (milliseconds) a page that waits for its next visit, or its first one, comes up in the deadline lane;
    0: never."""
    if record.lane == REFRESH and record.state == FETCHED:
        since, within = record.last_success_at, promised_within(record, promised)
    elif record.lane == DISCOVERY and record.state == QUEUED:
        since, within = record.discovered_at, promised.first_within
    else:
        return 0
    if within <= 0.0 or since <= 0.0 or record.kind != PAGE:
        return 0
    due = int((since + within * (1.0 - promised.lead)) * 1000)
    return max(due, record.rank if record.fails else 1)


def promised_within(record: UrlRecord, promised: Promises) -> float:
    """Seconds after a success within which the page is promised to be fetched again; 0: nothing is promised."""
    by_type = [promised.types[name] for name in record.types if name in promised.types]
    return min((seconds for seconds in (promised.within, *by_type) if seconds > 0.0), default=0.0)


def is_dead(record: UrlRecord) -> bool:
    return record.state in (GONE, DROPPED) and record.last_success_at == 0.0


def forget_content(record: UrlRecord) -> None:
    """The rows of the last content are lost: the next fetch must bring them all, not "unchanged"."""
    record.body_hash = record.links_hash = 0
    record.etag = record.last_modified = record.fingerprint = record.link_set = ""
