"""All that a cell knows of one shard: out of its memory and its store, and into them.

What belongs to a shard lies under the keys of `KINDS`. What is there of a shard that is not ours yet is marked as
`Taken`; the mark goes in the batch that puts it to use, so whoever finds a mark knows that these keys are a mere copy.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.frontier.promises import renew
from crawl_platform.frontier.purge import forget_host, forgotten
from crawl_platform.frontier.records import shard_key, shard_range
from crawl_platform.frontier.seen_log import NAMED
from crawl_platform.frontier.trim import TRIM
from crawl_platform.web.url import host_of

KINDS = (b"g", b"h", b"l", b"q", b"r", b"s", TRIM, b"u")
APPLIED = b"a"
"""Kind of the inbox sequence that a shard has applied."""
PORTION = 2_000
"""Keys written at once: some 10 ms of the loop."""
_TAKEN = b"!taken/"


class Taken(msgspec.Struct, frozen=True):
    """`snapshot` is in the store, all of it if `whole`."""

    snapshot: str
    whole: bool


def taken(kv: OrderedKV, shard: int) -> Taken | None:
    """What was taken in and is not in use yet."""
    data = kv.get(_taken_key(shard))
    return None if data is None else msgspec.msgpack.decode(data, type=Taken)


def stored(kv: OrderedKV, shard: int) -> bool:
    """Whether anything of the shard is in the store."""
    return any(next(kv.scan(*shard_range(kind, shard)), None) is not None for kind in (*KINDS, APPLIED))


def applied(kv: OrderedKV, shard: int) -> int:
    """The inbox sequence whose effects the store has."""
    return int.from_bytes(kv.get(shard_key(APPLIED, shard)) or b"", "big")


# out


def at_rest(frontier: Frontier, shard: int) -> bool:
    """Whether nothing of the shard is claimed, in flight or fetched and not committed."""
    return not any(state.in_flight or state.leased for state in _awake(frontier, shard))


def in_flight(frontier: Frontier, shard: int) -> bool:
    """Whether a request to a host of the shard is."""
    return any(state.in_flight for state in _awake(frontier, shard))


def leave(frontier: Frontier, shard: int) -> None:
    """Forget a shard at rest; the store keeps it. From now on links to its hosts are another cell's."""
    errands, shard_of = frontier.moved.errands, frontier.book.shard
    for host in [host for host in (*frontier.hosts, *frontier.moved.guests) if shard_of(host) == shard]:
        for state in (frontier.moved.guests.get(host), frontier.hosts.get(host)):
            if state is not None:
                forget_host(frontier, state)
    errands.chains = {o: hop for o, hop in errands.chains.items() if shard_of(host_of(o)) != shard}
    errands.lost = [hop for hop in errands.lost if shard_of(host_of(hop.origin)) != shard]
    errands.replies = [reply for reply in errands.replies if shard_of(host_of(reply.origin)) != shard]
    frontier.own(frontier.shards - {shard})
    frontier.leaving.discard(shard)


def _awake(frontier: Frontier, shard: int) -> list[HostState]:
    """Hosts and guests of the shard that may have something claimed or in flight: of the others nothing is."""
    every = (*frontier.hosts.awake.values(), *frontier.moved.guests.values())
    return [state for state in every if state.shard == shard]


def records(kv: OrderedKV, shard: int) -> Iterator[tuple[bytes, bytes]]:
    """Everything that the store has of the shard, but for how far its inbox was read."""
    for kind in KINDS:
        yield from kv.scan(*shard_range(kind, shard))


def wipe(frontier: Frontier, shard: int) -> Iterator[Batch]:
    """Batches that delete a shard that is not ours from the store; what tells that there is any goes last."""
    batch = Batch()
    for key, _ in records(frontier.kv, shard):
        batch.delete(key)
        if len(batch) >= PORTION:
            yield forgotten(frontier, batch)
            batch = Batch()
    batch.delete(shard_key(APPLIED, shard))
    batch.delete(_taken_key(shard))
    yield forgotten(frontier, batch)


# in


def take(shard: int, snapshot: str, portions: Iterable[list[tuple[bytes, bytes]]]) -> Iterator[Batch]:
    """Batches that bring a snapshot's records. They count only once `taken_whole` is on the disk."""
    begun = Batch()
    begun.put(_taken_key(shard), msgspec.msgpack.encode(Taken(snapshot, False)))
    yield begun
    for portion in portions:
        batch = Batch()
        for key, value in portion:
            batch.put(key, value)
        yield batch


def taken_whole(shard: int, snapshot: str, sequence: int) -> Batch:
    """The last batch of a snapshot: to be synced. The seen set's checkpoint does not have these URLs."""
    batch = Batch()
    batch.put(shard_key(APPLIED, shard), sequence.to_bytes(8, "big"))
    batch.put(_taken_key(shard), msgspec.msgpack.encode(Taken(snapshot, True)))
    batch.delete(NAMED)
    return batch


def meet(frontier: Frontier, shard: int) -> Iterator[int]:
    """Tell the seen set the shard's URLs, a portion at a time; before the shard is ours."""
    keys, met = (key for key, _ in frontier.kv.scan(*shard_range(b"u", shard))), 0
    while some := list(islice(keys, PORTION)):
        frontier.seen.add(*some)
        met += len(some)
        yield met


def adopt(frontier: Frontier, shard: int, now: float, boot: float) -> None:
    """The shard is ours: read its hosts, each of which waits for its whole delay."""
    frontier.own(frontier.shards | {shard})
    frontier.load_shard(shard, now, boot)
    renew(frontier, now, boot)
    frontier.moved.recall_guests(frontier.gates, now, boot)


def ours_now(batch: Batch, shard: int) -> None:
    """What was taken in is in use from this batch on."""
    batch.delete(_taken_key(shard))


def _taken_key(shard: int) -> bytes:
    return shard_key(_TAKEN, shard)
