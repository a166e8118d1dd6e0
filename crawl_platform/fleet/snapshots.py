"""The state of each shard as rows of `frontier`, now and then; after it, inboxes may forget what it has the effects of.

A shard can have millions of URLs: its rows are staged portion by portion, and the files go with one manifest, so that a
reader finds all of the shard or its last snapshot. Small shards go with the rows of the open epoch.
"""

import asyncio
import logging
from itertools import islice

from crawl_platform.clock import Clock
from crawl_platform.commit.manifest import BULK, Manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.fleet.inbox import Inbox
from crawl_platform.fleet.rows import snapshot_rows
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.lake.delta import StagedFile

log = logging.getLogger(__name__)
PORTION = 50_000
"""Rows that are in memory together, some 50 MB of them."""
ROW_BYTES = 1_000
"""What a row weighs until it is staged: a dict of 22 values."""


class Snapshots:
    def __init__(
        self, frontier: Frontier, inbox: Inbox, bulk: Series, outbox: Outbox, exchange: Exchange, clock: Clock
    ) -> None:
        self._frontier = frontier
        self._inbox = inbox
        self._bulk = bulk
        self._outbox = outbox
        self._exchange = exchange
        self._clock = clock
        self._purgeable: tuple[int, dict[int, int]] | None = None
        """Number of the bulk manifest that ends the last snapshot, and what its shards had applied."""

    async def take(self) -> bool:
        """Rows of every shard, with the next bulk epochs. Whether it is whole: a disk may be full."""
        applied, at = self._inbox.stored(), self._clock.now()
        snapshot_id = f"{self._outbox.incarnation[:12]}-{int(at * 1000):x}"
        for shard in sorted(self._frontier.shards):
            try:
                await self._take_shard(shard, snapshot_id, at)
            except OSError as error:
                log.error("the snapshot ends with shard %d, and is tried again: %s", shard, error)
                return False
        # An epoch may be closing just now: the last rows come with the one after it at the latest.
        self._purgeable = (self._outbox.next_number(BULK) + 1, applied)
        return True

    async def _take_shard(self, shard: int, snapshot_id: str, at: float) -> None:
        rows = snapshot_rows(self._frontier, shard, snapshot_id, at)
        files: list[StagedFile] = []
        while len(portion := await asyncio.to_thread(list, islice(rows, PORTION))) == PORTION:
            files += await self._bulk.stage_ahead({"frontier": portion})
        if files and portion:
            files += await self._bulk.stage_ahead({"frontier": portion})
            portion = []
        await self._bulk.room()
        self._bulk.open.rows.add_all("frontier", portion, ROW_BYTES * len(portion))
        self._bulk.open.files += files
        self._bulk.touch()

    async def purge_inbox(self, confirmed: list[Manifest]) -> None:
        """Once a whole snapshot is in the lake, messages that it has the effects of may go."""
        if self._purgeable is None:
            return
        last, applied = self._purgeable
        if all(m.series != BULK or m.number < last for m in confirmed):
            return
        self._purgeable = None
        try:
            for shard, sequence in applied.items():
                await self._exchange.purge_inbox(shard, sequence)
        except ExchangeError as error:
            log.warning("the inbox is purged after the next snapshot: %s", error)
