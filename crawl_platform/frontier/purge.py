"""What a frontier forgets of a host, or of some of its URLs, on legal request: from the store and from memory.

Nothing of it may be claimed or in flight meanwhile, and none of it may enter: the book says so (`HostBook.purging`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch, prefix_end
from crawl_platform.frontier.listed import sitemap_group
from crawl_platform.frontier.overlay import is_dead
from crawl_platform.frontier.records import (
    NO_LANE,
    PAGE,
    UrlRecord,
    decode,
    encode,
    guest_key,
    host_key,
    listing_key,
    places_of,
    shard_key,
    shard_range,
    sitemap_key,
    url_of_key,
    url_prefix,
)
from crawl_platform.frontier.trim import TRIM
from crawl_platform.web.host import matches
from crawl_platform.web.url import host_of

PORTION = 2_000
"""Keys deleted at once: some 10 ms of the loop."""


@dataclass(slots=True)
class Dropped:
    """What is gone so far."""

    hosts: int = 0
    urls: int = 0


def hosts_named(frontier: Frontier, pattern: str) -> list[HostState]:
    """Our hosts that a pattern (a host, `*.domain` or the beginning of URLs) means."""
    if "://" in pattern:
        pattern = host_of(pattern)
    if not pattern.startswith("*."):
        state = frontier.state(pattern)
        return [] if state is None else [state]
    named = dict.fromkeys(
        host for host in (*frontier.moved.guests, *frontier.hosts) if matches(pattern, host)
    )
    return [state for host in named if (state := frontier.state(host)) is not None]


def at_rest(frontier: Frontier, pattern: str) -> bool:
    """Whether nothing that the pattern names is claimed, in flight or fetched and not committed."""
    return not any(state.in_flight or state.leased for state in hosts_named(frontier, pattern))


def key_ranges(frontier: Frontier, pattern: str) -> list[tuple[bytes, bytes]]:
    """Where in the store the keys are that `drop` deletes: to be asked for before it, and compacted after it."""
    found: dict[tuple[bytes, bytes], None] = {}
    for state in hosts_named(frontier, pattern):
        for kind in (b"u", b"q", b"s", b"l"):
            prefix = shard_key(kind, state.shard) + state.host.encode() + b"\0"
            found[prefix, prefix_end(prefix)] = None
        for kind in (b"h", b"g", b"r", TRIM):
            found[shard_range(kind, state.shard)] = None
    return list(found)


def drop(frontier: Frontier, pattern: str, dropped: Dropped) -> Iterator[Batch]:
    """Forget what the pattern names. Each batch has to be written before the next is asked for; killed between
    two of them, it goes on when it is run again."""
    for state in hosts_named(frontier, pattern):
        if "://" in pattern:
            yield from _drop_urls(frontier, state, pattern, dropped)
        else:
            yield from _drop_host(frontier, state, dropped)


def _drop_host(frontier: Frontier, state: HostState, dropped: Dropped) -> Iterator[Batch]:
    batch = Batch()
    for key in _keys_of_host(frontier, state):
        dropped.urls += key[:1] == b"u"
        batch.delete(key)
        if len(batch) == PORTION:
            yield forgotten(frontier, batch)
            batch = Batch()
    # The records of the host itself go last: a run that is cut off finds the host again.
    batch.delete(host_key(state.shard, state.host))
    batch.delete(guest_key(state.shard, state.host))
    batch.delete(shard_key(TRIM, state.shard) + state.host.encode())
    yield forgotten(frontier, batch)
    dropped.hosts += 1
    forget_host(frontier, state)


def forgotten(frontier: Frontier, batch: Batch) -> Batch:
    """A batch that is about to be written: the seen set forgets the URLs that it deletes."""
    frontier.seen.forget(*(key for key, value in batch.changes.items() if key[:1] == b"u" and value is None))
    frontier.log.forgotten(batch)
    return batch


def forget_host(frontier: Frontier, state: HostState) -> None:
    """Nothing of a seed host or guest is left in memory, but for its clock."""
    if not state.guest:
        frontier.known -= state.record.known
        frontier.fetched -= state.record.fetched
        frontier.dead -= state.record.dead
    frontier.hosts.pop(state.host, None)
    frontier.moved.guests.pop(state.host, None)
    frontier.moved.errands.drop(state.host)
    frontier.agenda.forget(state.host)
    frontier.addresses.pop(state.host, None)
    frontier.parked.pop(state.host, None)
    frontier.held.pop(state.host, None)


def _keys_of_host(frontier: Frontier, state: HostState) -> Iterator[bytes]:
    name = state.host.encode() + b"\0"
    for kind in (b"q", b"s", b"l", b"u"):
        prefix = shard_key(kind, state.shard) + name
        for key, _ in frontier.kv.scan(prefix, prefix_end(prefix)):
            yield key
    for key, _ in frontier.kv.scan(*shard_range(b"r", state.shard)):
        if host_of(key[3:].decode()) == state.host:
            yield key


def _drop_urls(frontier: Frontier, state: HostState, pattern: str, dropped: Dropped) -> Iterator[Batch]:
    prefix = url_prefix(state.shard, state.host) + pattern.encode()
    batch = Batch()
    for key, value in frontier.kv.scan(prefix, prefix_end(prefix)):
        _drop_url(frontier, state, url_of_key(key)[1], decode(value, UrlRecord), batch)
        batch.delete(key)
        dropped.urls += 1
        if len(batch) >= PORTION:
            yield from _with_host(state, forgotten(frontier, batch))
            batch = Batch()
    if len(batch):
        yield from _with_host(state, forgotten(frontier, batch))


def _with_host(state: HostState, batch: Batch) -> Iterator[Batch]:
    """The host's counts go along with what they count."""
    batch.put(state.key, encode(state.record))
    yield batch
    state.queues_changed()


def _drop_url(frontier: Frontier, state: HostState, url: str, record: UrlRecord, batch: Batch) -> None:
    host = state.record
    for place in places_of(state.shard, state.host, url, record):
        batch.delete(place)
    host.queued -= record.lane != NO_LANE
    if record.kind != PAGE:
        group = sitemap_group(state.host, url)
        batch.delete(sitemap_key(state.shard, state.host, group))
        batch.delete(listing_key(state.shard, state.host, group))
        host.sitemaps -= 1
    fetched, dead = record.last_success_at > 0, is_dead(record)
    host.pulled -= record.pulled
    host.known, frontier.known = host.known - 1, frontier.known - 1
    host.fetched, frontier.fetched = host.fetched - fetched, frontier.fetched - fetched
    host.dead, frontier.dead = host.dead - dead, frontier.dead - dead
