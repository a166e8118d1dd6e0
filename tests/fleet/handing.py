"""Cells that hand one shard to each other, a step at a time, over real stores and real frontiers but no processes.

`World` is moved by hand: any cell takes its next step, dies, crawls or hears something new at any moment. It notes what
must not be: two cells that crawl at once, a host that is hurried, a page that is fetched twice, a URL that is lost.
"""

from collections.abc import Iterator

from crawl_platform.clock import ManualClock
from crawl_platform.fleet.handoff import Held, drained, next_step, ordered, owned
from crawl_platform.fleet.messages import ShardOwner
from crawl_platform.frontier import shard_state
from crawl_platform.frontier.kv import Batch, MemoryKV
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import (
    NO_LANE,
    UrlRecord,
    decode,
    queue_key,
    shard_key,
    shard_range,
    url_of_key,
)
from crawl_platform.settings import Frontier
from crawl_platform.testing.builders import FrontierRig

HOST, SHARD = "a.test", 0
DELAY = 1.0
NAMES = ("A", "B", "C")
PORTION = 3
Records = list[tuple[bytes, bytes]]


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.owner = ShardOwner("A", "i-A")
        self.revision = 1
        self.stream: list[str] = []
        """URLs sent to the shard; sequences are places in it, from 1 on."""
        self.files: dict[str, Records] = {}
        self.drains = 0
        self.fetched: list[str] = []
        self.ended_at = -DELAY
        self.cells = [Cell(self, name) for name in NAMES]

    def order(self, cell: str) -> None:
        """Somebody wants `cell` to have the shard, or the order to be taken back."""
        if not self.owner.snapshot or cell in (self.owner.cell, self.owner.to):
            self.owner, self.revision = ordered(self.owner, cell), self.revision + 1

    def swap(self, owner: ShardOwner, revision: int) -> None:
        if revision == self.revision:
            self.owner, self.revision = owner, revision + 1

    def send(self) -> None:
        self.stream.append(f"https://{HOST}/{len(self.stream)}")

    def check(self) -> None:
        crawling = [cell.name for cell in self.cells if cell.crawls]
        assert len(crawling) <= 1, f"{crawling} crawl at once"

    def settle(self) -> None:
        """Everybody does what is to be done, and nobody dies."""
        for _ in range(200):
            for cell in self.cells:
                cell.land()
                cell.step()
                self.check()
        assert not any(cell.program for cell in self.cells), "somebody still has something to do"

    def check_end(self) -> None:
        """Of a settled world: the owner has everything, once, and the others nothing."""
        assert not self.owner.to
        owner = next(cell for cell in self.cells if cell.name == self.owner.cell)
        assert owner.crawls
        while owner.read():
            pass
        known = dict(owner.urls())
        assert sorted(known) == sorted(self.stream), "URLs were lost or made up"
        assert sorted(self.fetched) == sorted(u for u, r in known.items() if r.last_success_at), (
            "fetches were lost"
        )
        assert len(set(self.fetched)) == len(self.fetched), "a page was fetched twice"
        assert all(owner.kv.get(key) is not None for key in owner.seen_keys()), (
            "the seen set knows what is not there"
        )
        places = {
            queue_key(SHARD, HOST, r.lane, r.rank, url) for url, r in known.items() if r.lane != NO_LANE
        }
        assert places == {key for key, _ in owner.kv.scan(*shard_range(b"q", SHARD))}, (
            "queues are not what records say"
        )
        for cell in self.cells:
            assert cell is owner or not shard_state.stored(cell.kv, SHARD), f"{cell.name} has kept a copy"
            assert shard_state.taken(cell.kv, SHARD) is None
        assert not self.files, "a file was left behind"


class Cell:
    """`program`: the steps that it is about to take; it is between two of them."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.kv = MemoryKV()
        self.program: Iterator[None] | None = None
        self.lease: Lease | None = None
        self.start()

    def start(self) -> None:
        """As after a kill: all memory is gone."""
        owner = self.world.owner
        ours = owner.cell == self.name and not owner.snapshot
        self.program, self.lease = None, None
        shards = frozenset({SHARD}) if ours else frozenset()
        small = Frontier(bloom_capacity=100, seen_cache=64)
        self.rig = FrontierRig(HOST, kv=self.kv, clock=self.world.clock, shards=shards, settings=small)
        if ours:
            self._use()

    @property
    def crawls(self) -> bool:
        return SHARD in self.rig.frontier.shards

    # crawling

    def read(self) -> bool:
        """Apply the next message of the shard's inbox."""
        sequence = shard_state.applied(self.kv, SHARD)
        frontier = self.rig.frontier
        if not self.crawls or SHARD in frontier.leaving or sequence >= len(self.world.stream):
            return False
        batch = Batch()
        batch.put(shard_key(b"a", SHARD), (sequence + 1).to_bytes(8, "big"))
        self.rig.discover(self.world.stream[sequence])
        self.kv.write(batch)
        return True

    def claim(self) -> None:
        if self.lease is not None or not self.crawls:
            return
        lease = self.rig.claim()
        if isinstance(lease, Lease):
            assert self.world.clock.boottime() - self.world.ended_at >= DELAY, "the host is hurried"
            self.lease = lease

    def land(self) -> None:
        """What is in flight ends, and is committed."""
        if self.lease is not None:
            self.world.ended_at = self.world.clock.boottime()
            self.world.fetched.append(self.lease.url)
            self.rig.finish(self.lease)
            self.lease = None

    def die(self) -> None:
        if self.lease is not None:  # the socket is open still
            self.world.ended_at = self.world.clock.boottime()
        self.start()

    def urls(self) -> Iterator[tuple[str, UrlRecord]]:
        for key, value in self.kv.scan(*shard_range(b"u", SHARD)):
            yield url_of_key(key)[1], decode(value, UrlRecord)

    def seen_keys(self) -> list[bytes]:
        keys = [key for key, _ in self.kv.scan(*shard_range(b"u", SHARD))]
        assert all(key in self.rig.frontier.seen for key in keys), "a known URL counts as new"
        return keys

    # moving

    def step(self) -> None:
        """One step of what the record asks for; nothing if it asks for nothing."""
        if self.program is None:
            self.program = self._carry_out()
        if next(self.program, self) is self:
            self.program = None

    def _carry_out(self) -> Iterator[None]:
        self.known, self.at = self.world.owner, self.world.revision
        held = shard_state.taken(self.kv, SHARD)
        facts = Held(
            self.crawls,
            held.snapshot if held and held.whole else "",
            held is not None,
            shard_state.stored(self.kv, SHARD),
        )
        for do in next_step(self.known, self.name, facts):
            yield from getattr(self, f"_{do.replace('-', '_')}")()

    def _rest(self) -> Iterator[None]:
        self.rig.frontier.leaving.add(SHARD)
        while self.lease is not None or not shard_state.at_rest(self.rig.frontier, SHARD):
            yield

    def _forget(self) -> Iterator[None]:
        shard_state.leave(self.rig.frontier, SHARD)
        yield

    def _snapshot(self) -> Iterator[None]:
        self.world.drains += 1
        self.file = f"{SHARD}-{self.name}-{self.world.drains}"
        self.world.files.clear()
        self.world.files[self.file] = list(shard_state.records(self.kv, SHARD))
        yield

    def _drain(self) -> Iterator[None]:
        self.world.swap(drained(self.known, self.file, self._sequence()), self.at)
        yield

    def _sequence(self) -> int:
        return shard_state.applied(self.kv, SHARD)

    def _wipe(self) -> Iterator[None]:
        for batch in shard_state.wipe(self.rig.frontier, SHARD):
            self.kv.write(batch)
            yield

    def _take(self) -> Iterator[None]:
        records = self.world.files.get(self.known.snapshot)
        if records is None:  # the move was taken back
            yield
            return
        portions = [records[n : n + PORTION] for n in range(0, len(records), PORTION)]
        for batch in shard_state.take(SHARD, self.known.snapshot, portions):
            self.kv.write(batch)
            yield
        self.kv.write(shard_state.taken_whole(SHARD, self.known.snapshot, self.known.sequence))
        yield

    def _own(self) -> Iterator[None]:
        self.world.swap(owned(self.known, self.name, f"i-{self.name}"), self.at)
        yield

    def _adopt(self) -> Iterator[None]:
        for _ in shard_state.meet(self.rig.frontier, SHARD):
            yield
        shard_state.adopt(self.rig.frontier, SHARD, *self.rig.times())
        self._use()
        yield

    def _use(self) -> None:
        batch = Batch()
        shard_state.ours_now(batch, SHARD)
        self.kv.write(batch)
        self.rig.allow_all(HOST)
        self.world.files.clear()

    def _give_up(self) -> Iterator[None]:
        raise AssertionError(f"{self.name} crawls what is {self.known.cell}'s")
