"""The two open epochs of a cell (bulk and fast) and how one is closed: steps 1 and 2 of the protocol.

Between the start of staging and the commit point the cell goes on fetching into the next epoch. Planning,
the synced write and absorbing happen in one loop step, so nothing can come between them.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path

from crawl_platform.clock import Clock
from crawl_platform.commit.faults import COMMITTED, STAGED, Faults
from crawl_platform.commit.manifest import FAST, Manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.commit.staging import Block, Row, RowBuffer, stage
from crawl_platform.fleet.inbox import Arrival, Inbox
from crawl_platform.fleet.messages import DiscoveredUrl, RobotsHop, RobotsReply, discoveries, encode
from crawl_platform.fleet.rows import host_row
from crawl_platform.fleet.stages import COMMIT, FRONTIER, Stages
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.lease import Found, Lease, PageResult, RobotsResult
from crawl_platform.frontier.overlay import Plan
from crawl_platform.frontier.plan import Planner
from crawl_platform.lake.delta import StagedFile
from crawl_platform.lake.tables import SCHEMA_VERSION
from crawl_platform.settings import Commit
from crawl_platform.web.url import host_of

log = logging.getLogger(__name__)
FOUND_AT_ONCE = 500
"""URLs of long lists planned in one step of the loop: some 40 ms."""
BLOCK_ROW = 200
"""Bytes that a row of a block that is taken back is supposed to weigh."""
LETTER_BYTES = 4_000_000
"""Letters that leave with one epoch, encoded. Each reply about a robots.txt carries the whole file, and thousands of
hosts may have asked for the same one."""


@dataclass(slots=True)
class Epoch:
    """Work since the last commit of its series. `opened_at`: CLOCK_BOOTTIME of the first entry."""

    rows: RowBuffer = field(default_factory=RowBuffer)
    pages: list[PageResult] = field(default_factory=list)
    robots: list[tuple[RobotsResult, float]] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    denied: list[Lease] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    """URLs that a long list names, ahead of the result that ends it."""
    letters: list[tuple[int, RobotsHop | RobotsReply]] = field(default_factory=list)
    """Messages to other cells' shards."""
    files: list[StagedFile] = field(default_factory=list)
    """Rows that were staged ahead: too many to wait in memory."""
    opened_at: float = 0.0
    operations: int = 0

    def __bool__(self) -> bool:
        work = (self.rows, self.pages, self.robots, self.arrivals, self.denied, self.letters, self.found)
        return any(work) or bool(self.files)


class Series:
    """One numbered series of epochs. `close` is called by one task at a time."""

    def __init__(
        self,
        name: str,
        *,
        lake_root: Path,
        cell: str,
        frontier: Frontier,
        outbox: Outbox,
        inbox: Inbox,
        settings: Commit,
        clock: Clock,
        faults: Faults,
        stages: Stages | None = None,
    ) -> None:
        self.name = name
        self.open = Epoch()
        self.blocked = ""
        """Why the last try to close failed (a full disk), empty when all is well."""
        self._lake_root = lake_root
        self._cell = cell
        self._frontier = frontier
        self._outbox = outbox
        self._inbox = inbox
        self._settings = settings
        self._clock = clock
        self._faults = faults
        self._stages = stages or Stages()
        self._lock = asyncio.Lock()
        self._emptied = asyncio.Event()

    def touch(self, operations: int = 1) -> None:
        """Something was added to the open epoch."""
        if not self.open.opened_at:
            self.open.opened_at = self._clock.boottime()
        self.open.operations += operations

    async def room(self) -> None:
        """Wait until the open epoch takes more."""
        while (
            self.open.operations >= self._settings.epoch_operations
            or self.open.rows.bytes >= self._settings.epoch_bytes
        ):
            self._emptied.clear()
            await self._emptied.wait()

    def is_clear_of(self, shard: int) -> bool:
        """Whether nothing that is not committed yet changes that shard: not in the open epoch, nor in one that is just
        being closed. Links to its hosts don't count: they go wherever the shard is."""
        epoch = self.open
        shards = {arrival.shard for arrival in epoch.arrivals}
        shards |= {page.lease.shard for page in epoch.pages} | {lease.shard for lease in epoch.denied}
        shards |= {result.lease.shard for result, _ in epoch.robots}
        return not self._lock.locked() and shard not in shards

    def due(self, starving: bool) -> bool:
        """Whether the open epoch should be closed now. `starving`: the cell has nothing else to do."""
        epoch = self.open
        if not epoch:
            return False
        age = self._clock.boottime() - epoch.opened_at
        settings = self._settings
        if self.name == FAST:
            return bool(epoch.arrivals) or age >= settings.fast_seconds
        if starving and age >= settings.fast_seconds:
            return True
        return (
            age >= settings.epoch_seconds
            or epoch.rows.bytes >= settings.epoch_bytes
            or epoch.operations >= settings.epoch_operations
        )

    async def close(self) -> Manifest | None:
        """Stage and commit the open epoch. On a full disk nothing is lost: the epoch is taken up again."""
        async with self._lock:
            epoch, self.open = self.open, Epoch()
            self._emptied.set()
            if not epoch:
                return None
            number = self._outbox.next_number(self.name)
            rows, blocks = self._rows(epoch, number)
            try:
                files = (*epoch.files, *await asyncio.to_thread(self._stage, number, rows, blocks))
            except OSError as error:
                self.blocked = f"can't stage rows: {error}"
                log.error("%s: %s; no more pages are claimed until it works", self.name, self.blocked)
                self._take_back(epoch, rows, blocks)
                return None
            self.blocked = ""
            self._faults.reached(STAGED)
            while len(epoch.found) > FOUND_AT_ONCE:
                self._let_in(epoch)
                await asyncio.sleep(0)
            with self._stages.of(FRONTIER):
                return self._commit(epoch, number, files)

    async def stage_ahead(self, rows: dict[str, list[Row]]) -> tuple[StagedFile, ...]:
        """Stage rows that go with an epoch to come: put the files into its `files`. Raises `OSError`. Files of which
        nothing comes are swept by upkeep."""
        return await asyncio.to_thread(self._stage, self._outbox.next_number(self.name), rows, {})

    def _stage(
        self, number: int, rows: dict[str, list[Row]], blocks: dict[str, list[Block]]
    ) -> tuple[StagedFile, ...]:
        with self._stages.elsewhere(COMMIT):
            return stage(self._lake_root, rows, self._outbox.incarnation, self.name, number, blocks)

    def _let_in(self, epoch: Epoch) -> None:
        """Commit some of what long lists name: no rows have to come with it, and the result that ends the list
        comes last."""
        now, boot = self._clock.now(), self._clock.boottime()
        planner = Planner(self._frontier, now)
        self._discover(planner, epoch.found[:FOUND_AT_ONCE])
        del epoch.found[:FOUND_AT_ONCE]
        plan = planner.finish()
        self._post_foreign(plan)
        self._frontier.kv.write(plan.batch, sync=True)
        absorb(self._frontier, plan, now, boot)
        self._tell_traps(plan, now)

    def _discover(self, planner: Planner, listed: list[Found]) -> None:
        for sitemap, found in groupby(listed, attrgetter("sitemap")):
            planner.discover_all(list(found), host_of(sitemap))

    def _rows(self, epoch: Epoch, number: int) -> tuple[dict[str, list[Row]], dict[str, list[Block]]]:
        for message_rows in self._inbox.rows(epoch.arrivals):
            epoch.rows.add(*message_rows)
        rows, blocks = epoch.rows.take(), epoch.rows.take_blocks()
        for row in rows.get("fetches", ()):
            row["manifest"], row["series"] = number, self.name
        return rows, blocks

    def _take_back(self, epoch: Epoch, rows: dict[str, list[Row]], blocks: dict[str, list[Block]]) -> None:
        newer, self.open = self.open, epoch
        for table, table_rows in rows.items():
            if table == "hosts" and epoch.arrivals:
                table_rows = [row for row in table_rows if row["event"] not in Inbox.EVENTS]
            for row in table_rows:
                epoch.rows.add(table, row)
        newer_rows, newer_blocks = newer.rows.take(), newer.rows.take_blocks()
        for table, table_rows in newer_rows.items():
            for row in table_rows:
                epoch.rows.add(table, row)
        for table, some in chain(blocks.items(), newer_blocks.items()):
            for block in some:
                epoch.rows.add_block(table, block, BLOCK_ROW * len(block))
        epoch.pages += newer.pages
        epoch.robots += newer.robots
        epoch.arrivals += newer.arrivals
        epoch.denied += newer.denied
        epoch.found += newer.found
        epoch.letters += newer.letters
        epoch.files += newer.files
        epoch.operations += newer.operations

    def _commit(self, epoch: Epoch, number: int, files: tuple[StagedFile, ...]) -> Manifest | None:
        now, boot = self._clock.now(), self._clock.boottime()
        planner = Planner(self._frontier, now, self.name, number if files else 0)
        self._discover(planner, epoch.found)
        planner.pages(epoch.pages)
        for lease in epoch.denied:
            planner.denied(lease)
        for robots, crawl_delay in epoch.robots:
            planner.robots(robots, crawl_delay)
        self._inbox.apply(planner, epoch.arrivals)
        plan = planner.finish()
        self._post_foreign(plan)
        self._post_letters(plan, epoch)
        manifest = self._manifest(plan, epoch, number, files, now) if files else None
        if manifest is not None:
            self._outbox.add(plan.batch, manifest, self._outbox.fetches)
        with self._stages.of(COMMIT):
            self._frontier.kv.write(plan.batch, sync=True)
        if manifest is not None:
            self._outbox.committed(manifest, self._outbox.fetches)
        absorb(self._frontier, plan, now, boot)
        self._tell_traps(plan, now)
        self._faults.reached(COMMITTED)
        return manifest

    def _tell_traps(self, plan: Plan, now: float) -> None:
        """A host's first link into each kind of trap is an event. It goes with the next epoch: a crash in between
        loses the news, not the count in the host's record."""
        book = self._frontier.book
        for host, reason, url in plan.first_traps:
            record = self._frontier.hosts[host].record
            row = host_row(
                host, book.shard(host), now, "trap", book.state(host), self._cell,
                trusted=record.trusted, known_urls=record.known, detail=f"{reason}: {url[:500]}",
            )  # fmt: skip
            self.open.rows.add("hosts", row)
            self.touch()

    def _manifest(
        self, plan: Plan, epoch: Epoch, number: int, files: tuple[StagedFile, ...], now: float
    ) -> Manifest:
        shards = {lease.shard for lease in plan.released}
        return Manifest(
            self._outbox.incarnation,
            self.name,
            number,
            self._cell,
            SCHEMA_VERSION,
            now,
            tuple(sorted(shards)),
            files,
        )

    def _post_foreign(self, plan: Plan) -> None:
        for shard, found in plan.foreign.items():
            urls = (
                DiscoveredUrl(f.url, f.depth, f.value, f.kind, f.sitemap, f.lastmod, f.vouched, f.level)
                for f in found
            )
            for message in discoveries(urls):
                self._outbox.add_message(plan.batch, f"inbox.{shard}", message)

    def _post_letters(self, plan: Plan, epoch: Epoch) -> None:
        """Those that would make the batch too large go with the next epoch."""
        size = 0
        for number, (shard, letter) in enumerate(epoch.letters):
            data = encode(letter)
            size += len(data)
            if number and size > LETTER_BYTES:
                self.open.letters[:0] = epoch.letters[number:]
                self.touch()
                return
            self._outbox.add_message(plan.batch, f"inbox.{shard}", data)
