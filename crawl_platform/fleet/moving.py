"""A cell's part in handoffs (`fleet.handoff`): it watches the shard table and does what the records ask of it.

One shard at a time: while one is on its way the cell serves all its others. Everything that is done twice is done with
the same effect, so an error of NATS or of the disk is met by reading the table anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import msgspec

from crawl_platform.clock import Clock
from crawl_platform.commit.faults import (
    ADOPTED,
    DRAINED,
    FORGOT,
    IMPORTED,
    IMPORTING,
    REBUILT,
    REBUILT_BASE,
    SWAPPED,
    WIPED,
    WRITTEN,
    Faults,
)
from crawl_platform.commit.outbox import Outbox, incarnations, inherit
from crawl_platform.errors import ExchangeError, LakeError, OwnershipLostError
from crawl_platform.fleet import shard_file
from crawl_platform.fleet.directives import Directives
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.exchange import Exchange, Received
from crawl_platform.fleet.handoff import Do, Held, drained, next_step, owned, rebuilt
from crawl_platform.fleet.inbox import Inbox, note_requests, requests_taken
from crawl_platform.fleet.messages import ShardOwner, encode
from crawl_platform.fleet.purging import Purging, purged_in_part, purges_done
from crawl_platform.fleet.rebuild import Rebuild, all_in_lake
from crawl_platform.fleet.shard_file import About
from crawl_platform.frontier import shard_state
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.seen_log import NAMED
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Politeness

log = logging.getLogger(__name__)
LOOK = 0.1
"""Seconds between looks whether a shard has come to rest."""
RETRY = 1.0
AGAIN = 10.0
"""Seconds until a shard that did not come to rest in time, or could not be written, is tried again."""


@dataclass
class Moving:
    """`patience`: seconds that a shard gets to come to rest. `fence` raises if others may own our shards by now;
    `changed` is called when there may be something to claim."""

    cell: str
    frontier: Frontier
    inbox: Inbox
    series: tuple[Series, Series]
    purging: Purging
    directives: Directives
    outbox: Outbox
    exchange: Exchange
    lake_root: Path
    clock: Clock
    faults: Faults
    politeness: Politeness
    patience: float
    fence: Callable[[], None]
    changed: Callable[[], None]
    _table: dict[int, tuple[ShardOwner, int]] = field(default_factory=dict)
    """Shard → its record and that one's revision."""
    _due: dict[int, float] = field(default_factory=dict)
    """Shards to be looked at, from which boottime on."""
    _purged: dict[int, list[str]] = field(default_factory=dict)
    """Purges that were carried out in a shard when it was forgotten."""
    _files: dict[int, str] = field(default_factory=dict)
    """Name of a shard's file, until its record says it."""
    _lake: duckdb.DuckDBPyConnection | None = None
    """Where lost shards are rebuilt from."""

    async def move_forever(self) -> None:
        reader = None
        while True:
            try:
                if reader is None:
                    reader = await self.exchange.bucket_reader("shards")
                    self._table.clear()
                    self._note(await reader.present())
                    await self._sweep()
                await self._look()
                self._note(await reader.fetch())
            except ExchangeError as error:
                log.warning("the shard table waits: %s", error)
                reader = None
                await asyncio.sleep(RETRY)

    def _note(self, news: list[Received]) -> None:
        for entry in news:
            shard = int(entry.key)
            if shard not in self._table or self._table[shard][1] < entry.sequence:
                self._table[shard] = msgspec.json.decode(entry.data, type=ShardOwner), entry.sequence
            self._due[shard] = 0.0

    async def _sweep(self) -> None:
        """Files of shards that are ours: their moves have come to an end, or have been taken back."""
        for shard in await asyncio.to_thread(shard_file.shards_with_files, self.lake_root):
            owner = self._table[shard][0] if shard in self._table else None
            if owner is not None and owner.cell == self.cell and not owner.snapshot:
                await asyncio.to_thread(shard_file.remove_of, self.lake_root, shard)

    def _close_lake(self) -> None:
        lost = any(owner.lost and owner.cell == self.cell for owner, _ in self._table.values())
        if self._lake is not None and not lost:
            self._lake.close()
            self._lake = None

    async def _look(self) -> None:
        for shard in [shard for shard, at in self._due.items() if at <= self.clock.boottime()]:
            del self._due[shard]
            while steps := next_step(self._table[shard][0], self.cell, self._held(shard)):
                if not await self._carry_out(shard, steps):
                    self._due[shard] = self.clock.boottime() + AGAIN
                    break
        self._close_lake()

    def _held(self, shard: int) -> Held:
        kv, owner = self.frontier.kv, self._table[shard][0]
        taken = shard_state.taken(kv, shard)
        return Held(
            shard in self.frontier.shards,
            taken.snapshot if taken is not None and taken.whole else "",
            taken is not None,
            bool(owner.cell != self.cell and owner.handed) and shard_state.stored(kv, shard),
        )

    async def _carry_out(self, shard: int, steps: tuple[Do, ...]) -> bool:
        """Whether to go on with the shard at once."""
        work: dict[Do, Callable[[int], Awaitable[bool]]] = {
            Do.REST: self._rest,
            Do.FORGET: self._forget,
            Do.SNAPSHOT: self._snapshot,
            Do.DRAIN: self._drain,
            Do.WIPE: self._wipe,
            Do.TAKE: self._take,
            Do.OWN: self._own,
            Do.ADOPT: self._adopt,
            Do.REBUILD: self._rebuild,
            Do.GIVE_UP: self._give_up,
        }
        for step in steps:
            if not await work[step](shard):
                return False
        return True

    async def _swap(self, shard: int, owner: ShardOwner) -> bool:
        """Write the record if it is as we know it; else know it as it is."""
        try:
            revision = await self.exchange.swap("shards", str(shard), encode(owner), self._table[shard][1])
        except OwnershipLostError:
            entry = await self.exchange.get("shards", str(shard))
            if entry is None:
                raise
            self._table[shard] = msgspec.json.decode(entry[0], type=ShardOwner), entry[1]
        else:
            self._table[shard] = owner, revision
        return True

    # the cell that has it

    async def _rest(self, shard: int) -> bool:
        log.info("shard %d is to go to %s", shard, self._table[shard][0].to)
        self.frontier.leaving.add(shard)
        self.inbox.leave(shard)
        until = self.clock.boottime() + self.patience
        while not await self._is_at_rest(shard):
            if self.clock.boottime() > until:
                log.warning(
                    "shard %d did not come to rest within %g s: it stays for now", shard, self.patience
                )
                self.inbox.adopt(shard)
                self._serve(shard)
                return False
            await asyncio.sleep(LOOK)
        return True

    async def _is_at_rest(self, shard: int) -> bool:
        """True at the end of one step of the loop: whoever was waiting for it has nothing in between."""
        if shard_state.in_flight(self.frontier, shard) or self.purging.under_way:
            return False
        for series in self.series:
            await series.close()
        return (
            not self.purging.under_way
            and shard_state.at_rest(self.frontier, shard)
            and all(series.is_clear_of(shard) for series in self.series)
        )

    async def _forget(self, shard: int) -> bool:
        self._purged[shard] = purges_done(self.frontier.kv)
        shard_state.leave(self.frontier, shard)
        self.faults.reached(FORGOT)
        return True

    async def _snapshot(self, shard: int) -> bool:
        kv = self.frontier.kv
        about = About(shard, tuple(incarnations(kv)), tuple(self._purged.get(shard, ())), requests_taken(kv))
        name = self._files[shard] = (
            f"{shard}-{self.outbox.incarnation[:8]}-{int(self.clock.now() * 1000):x}.parquet"
        )
        try:
            await asyncio.to_thread(self._write, shard, name, about)
        except OSError as error:
            log.error("shard %d can't be written: %s", shard, error)
            return False
        self.faults.reached(WRITTEN)
        return True

    def _write(self, shard: int, name: str, about: About) -> None:
        shard_file.remove_of(self.lake_root, shard)
        shard_file.write(self.lake_root, name, about, shard_state.records(self.frontier.kv, shard))

    async def _drain(self, shard: int) -> bool:
        owner = self._table[shard][0]
        sequence = shard_state.applied(self.frontier.kv, shard)
        await self._swap(shard, drained(owner, self._files[shard], sequence))
        self.faults.reached(DRAINED)
        return True

    async def _wipe(self, shard: int) -> bool:
        for batch in shard_state.wipe(self.frontier, shard):
            self.frontier.kv.write(batch)
            await asyncio.sleep(0)
        owner = self._table[shard][0]
        if not owner.snapshot:
            log.info("shard %d is %s's: what was left of it here is gone", shard, owner.cell)
            self.faults.reached(WIPED)
        return True

    # the cell that gets it

    async def _take(self, shard: int) -> bool:
        kv, owner = self.frontier.kv, self._table[shard][0]
        try:
            about, portions = await asyncio.to_thread(shard_file.read, self.lake_root, owner.snapshot)
        except OSError as error:
            log.error(
                "shard %d can't be taken: %s; `crawl shards move %d --to %s` gives it back to the cell that has all "
                "of it still", shard, error, shard, owner.cell,
            )  # fmt: skip
            return False
        for batch in shard_state.take(shard, owner.snapshot, portions):
            kv.write(batch)
            self.faults.reached(IMPORTING)
            await asyncio.sleep(0)
        last = shard_state.taken_whole(shard, owner.snapshot, owner.sequence)
        for incarnation in about.incarnations:
            inherit(last, incarnation)
        note_requests(last, about.requests)
        purged_in_part(last, kv, about.purged)
        kv.write(last, sync=True)
        self.faults.reached(IMPORTED)
        return True

    async def _own(self, shard: int) -> bool:
        self.fence()
        await self._swap(shard, owned(self._table[shard][0], self.cell, self.outbox.incarnation))
        self.faults.reached(SWAPPED)
        return True

    async def _adopt(self, shard: int) -> bool:
        owner = self._table[shard][0]
        if owner.incarnation != self.outbox.incarnation:
            await self._swap(shard, msgspec.structs.replace(owner, incarnation=self.outbox.incarnation))
            return True  # as it is now it says more
        for _ in shard_state.meet(self.frontier, shard):
            await asyncio.sleep(0)
        self.frontier.leaving.add(shard)
        self.inbox.adopt(shard)
        shard_state.adopt(self.frontier, shard, self.clock.now(), self.clock.boottime())
        self.purging.look_again()
        log.info("shard %d is ours", shard)
        self.faults.reached(ADOPTED)
        await asyncio.to_thread(shard_file.remove_of, self.lake_root, shard)
        await self._hear_directives()
        self._serve(shard)
        return True

    async def _rebuild(self, shard: int) -> bool:
        owner = self._table[shard][0]
        if shard not in self.frontier.shards and not await self._rebuilt(shard, owner.lost):
            return False
        await self._swap(shard, rebuilt(owner, self.outbox.incarnation))
        if not self._table[shard][0].lost:
            await self._hear_directives()
            self._serve(shard)
        return True

    async def _rebuilt(self, shard: int, lost: str) -> bool:
        """Killed on the way, it begins anew."""
        try:
            if self._lake is None:  # seconds to open: one is used for all that is lost
                await all_in_lake(self.exchange, self.lake_root, lost, self.clock)
                self._lake = await asyncio.to_thread(Lake(self.lake_root).connect)
            work = Rebuild(
                shard, self.frontier, self.outbox, self._lake, self.politeness, self.clock, self.purging.bars
            )
            await self._rebuild_base(shard, lost, work)
        except (LakeError, duckdb.Error) as error:
            log.error("shard %d can't be rebuilt yet: %s", shard, error)
            return False
        self.frontier.leaving.add(shard)
        self.inbox.adopt(shard)
        shard_state.adopt(self.frontier, shard, self.clock.now(), self.clock.boottime())
        done = await work.newer()
        log.warning(
            "shard %d is rebuilt: %d URLs of %d hosts from snapshots, then %d links and %d fetches since %s",
            shard, done.urls, done.hosts, done.links, done.visits, done.since.isoformat(),
        )  # fmt: skip
        self.faults.reached(REBUILT)
        return True

    async def _rebuild_base(self, shard: int, lost: str, work: Rebuild) -> None:
        kv = self.frontier.kv
        for batch in shard_state.wipe(self.frontier, shard):
            kv.write(batch)
            await asyncio.sleep(0)
        await work.base()
        for _ in shard_state.meet(self.frontier, shard):
            await asyncio.sleep(0)
        last = Batch()
        inherit(last, lost)
        last.delete(NAMED)
        kv.write(last)
        self.faults.reached(REBUILT_BASE)

    async def _hear_directives(self) -> None:
        """Windows and priors of other cells' shards were passed over: nothing is claimed before they are known."""
        while True:
            try:
                await self.directives.hear()
                return
            except ExchangeError as error:
                log.warning("a shard that has come waits for its directives: %s", error)
                await asyncio.sleep(RETRY)

    def _serve(self, shard: int) -> None:
        self.frontier.leaving.discard(shard)
        self.frontier.resume(self.clock.now(), self.clock.boottime())
        self.changed()

    async def _give_up(self, shard: int) -> bool:
        self.fence()
        owner = self._table[shard][0]
        raise OwnershipLostError(f"shard {shard} was taken: the table gives it to {owner.cell}")
