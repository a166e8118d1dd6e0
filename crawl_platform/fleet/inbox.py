"""The one door into a shard: messages read in order, applied in the fast epoch's batch.

The sequence that a shard has applied is stored in the same batch as the effects, so a message is applied
once; those that a restart brings again are skipped. Request ids are remembered for a week.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from crawl_platform.admission.hosts import EXCLUDED, SEED
from crawl_platform.commit.outbox import was_ours
from crawl_platform.commit.staging import Row
from crawl_platform.fleet.messages import (
    Admit,
    AdmitMany,
    Appraise,
    Discover,
    DiscoveredUrl,
    HostPolicy,
    InboxMessage,
    Recrawl,
    Redeliver,
    RobotsHop,
    RobotsReply,
    Trim,
    Watch,
    decode_inbox,
    subject_hosts,
)
from crawl_platform.fleet.rows import host_row
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch, OrderedKV, prefix_end
from crawl_platform.frontier.lease import Found, Hop, value_at
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import UrlRecord, decode, shard_key, shard_range, url_of_key
from crawl_platform.frontier.shard_state import applied, ours_now, taken
from crawl_platform.frontier.trim import TrimOrder, order
from crawl_platform.web.url import host_of

log = logging.getLogger(__name__)
WEEK = 7 * 86_400.0
_READ = b"!read"


class Excluded(msgspec.Struct, frozen=True, tag="excluded"):
    """Not from the inbox: a directive has excluded a host that we own, or demoted it; its event row is due."""

    policy: HostPolicy
    host: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message of `shard` at stream `sequence` (0: it did not come through the stream)."""

    shard: int
    sequence: int
    message: InboxMessage | Excluded
    at: float
    reader: int = 0
    """By which reader it came (`Inbox.reader`)."""


class Inbox:
    """Applies arrivals. `incarnation` tells which redeliveries are ours."""

    EVENTS = ("seeded", "promoted", "excluded", "demoted")

    def __init__(self, kv: OrderedKV, frontier: Frontier, cell: str, incarnation: str) -> None:
        self._kv = kv
        self._frontier = frontier
        self._cell = cell
        self._incarnation = incarnation
        self.applied = {shard: self._stored(shard) for shard in frontier.shards}
        self.ignored = 0
        self.reader = 0
        """Number of the reader that reads all of our shards; another one is needed when it grows."""
        for shard in frontier.shards:
            if taken(kv, shard) is not None:  # the cell died just before it put the shard to use
                self.adopt(shard)

    # shards that come and go

    def leave(self, shard: int) -> None:
        """Take no more messages of a shard; what was taken is still applied."""
        del self.applied[shard]

    def adopt(self, shard: int) -> None:
        """The shard is ours: its messages may lie before those that we have read of others. What this reader has
        brought no longer says how far all of them were read."""
        self.applied[shard] = self._stored(shard)
        self.reader += 1
        batch = Batch()
        ours_now(batch, shard)
        batch.put(_READ, min(self.resume_after(), self.applied[shard]).to_bytes(8, "big"))
        self._kv.write(batch, sync=True)

    def _stored(self, shard: int) -> int:
        return applied(self._kv, shard)

    def resume_after(self) -> int:
        """The stream sequence above which there may be something to read: shards are read together, in order."""
        return int.from_bytes(self._kv.get(_READ) or b"", "big")

    def stored(self) -> dict[int, int]:
        """Sequence that each shard has durably applied; shards without one are left out."""
        found = {shard: self._stored(shard) for shard in self._frontier.shards}
        return {shard: sequence for shard, sequence in found.items() if sequence}

    def arrival(self, subject: str, sequence: int, data: bytes, at: float) -> Arrival | None:
        """Decode one stream message; None if it was applied before, is not for us or can't be read.

        One that can't be read stays in the stream for whoever looks into it; waiting for it would stop
        the shard.
        """
        shard = int(subject.rpartition(".")[2])
        if sequence <= self.applied.get(shard, sequence):
            return None
        self.applied[shard] = sequence
        try:
            message = decode_inbox(data)
            self._refuse_stray(shard, message)
        except msgspec.DecodeError as error:
            log.error("inbox message %d of shard %d can't be read and is skipped: %s", sequence, shard, error)
            self.ignored += 1
            return None
        return Arrival(shard, sequence, message, at, self.reader)

    def _refuse_stray(self, shard: int, message: InboxMessage) -> None:
        """A host of another shard may be another cell's: two would crawl it."""
        for host in subject_hosts(message):
            if self._frontier.book.shard(host) != shard:
                raise msgspec.ValidationError(f"{host} is not a host of this shard")

    def rows(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[str, Row]]:
        """Event rows of hosts that enter or leave the seed with these arrivals."""
        told: set[tuple[str, str]] = set()
        for row in chain.from_iterable(map(self._events, arrivals)):
            if (row["host"], row["event"]) not in told:
                told.add((row["host"], row["event"]))
                yield "hosts", row

    def _events(self, arrival: Arrival) -> Iterator[Row]:
        message = arrival.message
        parts = message.each() if isinstance(message, AdmitMany) else (message,)
        return filter(None, (self._event(arrival, part) for part in parts))

    def _event(self, arrival: Arrival, message: InboxMessage | Excluded) -> Row | None:
        host = getattr(message, "host", "")
        state = self._frontier.hosts.get(host)
        if isinstance(message, Admit):
            known = state is not None and state.record.in_seed
            if known or self._frontier.book.state(host) == EXCLUDED:
                return None
            event = "seeded" if message.trusted else "promoted"
            return host_row(
                host, arrival.shard, arrival.at, event, SEED, self._cell,
                trusted=message.trusted, decision_id=message.decision_id or None, detail=message.reason or None,
            )  # fmt: skip
        if isinstance(message, Excluded) and state is not None and not state.record.excluded:
            event = "excluded" if message.policy.state == EXCLUDED else "demoted"
            return host_row(
                host, arrival.shard, arrival.at, event, message.policy.state, self._cell,
                trusted=False, decision_id=message.policy.decision_id or None, detail=message.policy.reason or None,
            )  # fmt: skip
        return None

    def apply(self, planner: Planner, arrivals: Iterable[Arrival]) -> None:
        """Put the effects of `arrivals` and the sequences they bring into the plan."""
        for arrival in arrivals:
            self._apply(planner, arrival)
            if arrival.sequence:
                sequence = arrival.sequence.to_bytes(8, "big")
                planner.plan.batch.put(shard_key(b"a", arrival.shard), sequence)
                if arrival.reader == self.reader:
                    planner.plan.batch.put(_READ, sequence)

    def _apply(self, planner: Planner, arrival: Arrival) -> None:
        message = arrival.message
        if isinstance(message, Discover):
            planner.discover_all([_found(url) for url in message.urls], "")
        elif isinstance(message, Admit):
            _admit(planner, message)
        elif isinstance(message, AdmitMany):
            for one in message.each():
                _admit(planner, one)
        elif isinstance(message, Recrawl):
            self._recrawl(planner, message, arrival.at)
        elif isinstance(message, Redeliver):
            self._redeliver(planner, message, arrival.shard)
        elif isinstance(message, Appraise):
            for worth in message.urls:
                planner.appraise(worth.url, worth.value, worth.reason)
        elif isinstance(message, Watch):
            planner.watch(message.url, message.every)
        elif isinstance(message, Trim):
            order(
                planner,
                arrival.shard,
                message.host,
                TrimOrder(message.keep, message.deepest, message.request_id),
            )
        elif isinstance(message, Excluded):
            planner.exclude(message.host)
        elif isinstance(message, RobotsHop):
            hop = Hop(message.origin, message.url, message.hops, message.until)
            self.ignored += not self._frontier.moved.errands.wait_at(host_of(message.url), hop, arrival.at)
        elif isinstance(message, RobotsReply):
            self._frontier.moved.errands.replies.append(message.reply())

    def _recrawl(self, planner: Planner, message: Recrawl, at: float) -> None:
        key = b"d" + message.request_id.encode()
        if self._kv.get(key) is not None or key in planner.plan.batch.changes:
            self.ignored += 1
            return
        planner.plan.batch.put(key, int(at).to_bytes(8, "big"))
        if planner.recrawl(message.url, message.request_id) != "queued":
            self.ignored += 1

    def _redeliver(self, planner: Planner, message: Redeliver, shard: int) -> None:
        """Quarantined rows: every URL of the shard with rows in that manifest that still count goes again."""
        if message.incarnation != self._incarnation and not was_ours(self._kv, message.incarnation):
            return
        for key, value in self._kv.scan(*shard_range(b"u", shard)):
            if decode(value, UrlRecord).rows_in(message.series, message.number):
                planner.redeliver(*url_of_key(key))

    def forget_requests(self, now: float) -> int:
        """Drop request ids older than a week; returns how many."""
        batch = Batch()
        for key, value in self._kv.scan(b"d", prefix_end(b"d")):
            if int.from_bytes(value, "big") < now - WEEK:
                batch.delete(key)
        self._kv.write(batch)
        return len(batch)


def requests_taken(kv: OrderedKV) -> dict[str, int]:
    """Ids of the recrawls that were taken lately, with when (UTC seconds)."""
    return {key[1:].decode(): int.from_bytes(value, "big") for key, value in kv.scan(b"d", prefix_end(b"d"))}


def note_requests(batch: Batch, requests: Mapping[str, int]) -> None:
    """Another cell has taken these, and what came of them comes into the store."""
    for request_id, at in requests.items():
        batch.put(b"d" + request_id.encode(), at.to_bytes(8, "big"))


def _admit(planner: Planner, message: Admit) -> None:
    urls = [_found(url) for url in message.urls]
    planner.admit(message.host, urls, trusted=message.trusted, decision_id=message.decision_id)


def _found(url: DiscoveredUrl) -> Found:
    return Found(
        url.url, url.depth, url.value or value_at(url.depth), 0,
        url.kind, url.sitemap, url.lastmod, url.vouched, url.level,
        anchor=None if url.value > 1.0 else "",
    )  # fmt: skip
