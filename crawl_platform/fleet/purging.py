"""A purge in a cell: what it knows of the host leaves its store. Every cell hears of every purge (a directive).

    1 bar      nothing of it is claimed, sent or let in from now on
    2 rest     what was in flight has landed, and what it brought is committed
    3 drop     its records are deleted, and the store is compacted: the bytes are gone
    4 tell     the purge's number is written down, and an event row says so in the lake

The row comes after every row that the cell has about the host, so whoever sees it may purge the lake. Killed on the
way the cell begins anew at the next start, since the directive stands and the number is not written down.
"""

import asyncio
import logging
from collections.abc import Collection

from crawl_platform.admission.hosts import EXCLUDED
from crawl_platform.clock import Clock
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.messages import PurgeOrder
from crawl_platform.fleet.rows import host_row
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch, OrderedKV, prefix_end
from crawl_platform.frontier.purge import Dropped, at_rest, drop, key_ranges
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.web.host import matches
from crawl_platform.web.url import host_of

log = logging.getLogger(__name__)
DONE = b"x"
"""Before a purge's id, in the store: when it was done."""
LOOK_EVERY = 0.2
LAKE_PATIENCE = 15.0
"""Seconds for the committer to confirm what is owed; it does so within seconds, or is not well."""
OUTBOX = (b"m", b"p")
"""Manifests and messages."""
PURGED = "purged"


class Purging:
    """`bulk` and `fast` are the cell's open epochs."""

    def __init__(self, cell: str, frontier: Frontier, bulk: Series, fast: Series, clock: Clock) -> None:
        self._cell = cell
        self._frontier = frontier
        self._bulk = bulk
        self._fast = fast
        self._clock = clock
        self._orders: asyncio.Queue[PurgeOrder] = asyncio.Queue()
        self._known: set[str] = set()
        """Ids of those that are not done yet."""
        self.orders: dict[str, PurgeOrder] = {}
        """By id, all that were ever heard of."""

    def hear(self, order: PurgeOrder) -> None:
        """Step 1, unless it was done before: directives come again at every start."""
        self.orders[order.request_id] = order
        if order.request_id in self._known or self._frontier.kv.get(_key(order)) is not None:
            return
        self._known.add(order.request_id)
        self._frontier.book.purging.add(order.pattern)
        self._orders.put_nowait(order)

    async def purge_forever(self) -> None:
        while True:
            order = await self._orders.get()
            dropped = await self._purge(order)
            self._frontier.book.purging.discard(order.pattern)
            self._known.discard(order.request_id)
            log.info("purge %s: %d URLs of %d hosts dropped", order.request_id, dropped.urls, dropped.hosts)

    @property
    def under_way(self) -> bool:
        return bool(self._known)

    def look_again(self) -> None:
        """Something has come into the store: purges that are not done in it begin anew."""
        for order in self.orders.values():
            self.hear(order)

    def bars(self, host: str, url: str) -> bool:
        """Whether a purge has named this URL and it is out still: what the lake has of it must not come back."""
        book = self._frontier.book
        if book.state(host) != EXCLUDED and not book.bars(host, url):
            return False
        return any(
            url.startswith(order.pattern) if "://" in order.pattern else matches(order.pattern, host)
            for order in self.orders.values()
        )

    async def _purge(self, order: PurgeOrder) -> Dropped:
        kv, dropped = self._frontier.kv, Dropped()
        await self._rest(order.pattern)
        ranges = key_ranges(self._frontier, order.pattern)
        for batch in drop(self._frontier, order.pattern, dropped):
            kv.write(batch, sync=True)
            await asyncio.sleep(0)
        await self._confirmed()
        if isinstance(kv, RocksKV):
            await asyncio.to_thread(kv.compact, [*ranges, OUTBOX])
        self._tell(order, dropped)
        await self._committed()
        done = Batch()
        done.put(_key(order), int(self._clock.now()).to_bytes(8, "big"))
        kv.write(done, sync=True)
        return dropped

    async def _rest(self, pattern: str) -> None:
        """Epochs that are open now may hold rows about it also where nothing of it is in flight any more."""
        await self._committed()
        while not at_rest(self._frontier, pattern):
            await asyncio.sleep(LOOK_EVERY)
            await self._committed()

    async def _committed(self) -> None:
        """What is open in both series is committed, however long the disk is full."""
        for series in (self._fast, self._bulk):
            await series.close()
            while series.blocked:
                await asyncio.sleep(1.0)
                await series.close()

    async def _confirmed(self) -> None:
        """Manifests quote URLs and titles: wait until the lake has those that are there now, if it is well."""
        kv = self._frontier.kv
        owed = [key for key, _ in kv.scan(*OUTBOX)]
        for _ in range(int(LAKE_PATIENCE / LOOK_EVERY)):
            if all(kv.get(key) is None for key in owed):
                return
            await asyncio.sleep(LOOK_EVERY)

    def _tell(self, order: PurgeOrder, dropped: Dropped) -> None:
        """Of a domain the row names the domain: its hosts are not to be named any more."""
        name = host_of(order.pattern) if "://" in order.pattern else order.pattern.removeprefix("*.")
        row = host_row(
            name, self._frontier.book.shard(name), self._clock.now(), PURGED, EXCLUDED, self._cell,
            trusted=False, decision_id=order.request_id,
            detail=f"{dropped.urls} URLs of {dropped.hosts} hosts dropped from the frontier",
        )  # fmt: skip
        self._bulk.open.rows.add("hosts", row)
        self._bulk.touch()


def purges_done(kv: OrderedKV) -> list[str]:
    """Ids of the purges that the store has carried out."""
    return [key[len(DONE) :].decode() for key, _ in kv.scan(DONE, prefix_end(DONE))]


def purged_in_part(batch: Batch, kv: OrderedKV, done: Collection[str]) -> None:
    """Something comes into the store in which only the purges `done` are carried out: the others are not any more."""
    for request_id in set(purges_done(kv)).difference(done):
        batch.delete(DONE + request_id.encode())


def _key(order: PurgeOrder) -> bytes:
    return DONE + order.request_id.encode()
