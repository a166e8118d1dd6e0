"""Carries out the orders to cut hosts' queues (`frontier.trim`), a portion per step of the loop."""

import asyncio
import logging

from crawl_platform.clock import Clock
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.rows import host_row
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.trim import TrimOrder, orders, portion

log = logging.getLogger(__name__)
LOOK_EVERY = 0.5
"""Seconds between two looks for new orders: one short scan."""


class Trimming:
    """`bulk` takes the event row that says what was dropped."""

    def __init__(self, cell: str, frontier: Frontier, bulk: Series, clock: Clock) -> None:
        self._cell = cell
        self._frontier = frontier
        self._bulk = bulk
        self._clock = clock

    async def trim_forever(self) -> None:
        while True:
            for shard, host, wanted in list(orders(self._frontier.kv)):
                if shard in self._frontier.shards:
                    await self._trim(shard, host, wanted)
            await asyncio.sleep(LOOK_EVERY)

    async def _trim(self, shard: int, host: str, wanted: TrimOrder) -> None:
        done = False
        while not done:
            if shard not in self._frontier.shards:  # it goes on where the shard is now
                return
            now, boot = self._clock.now(), self._clock.boottime()
            plan, wanted, done = portion(self._frontier, shard, host, wanted, now)
            self._frontier.kv.write(plan.batch, sync=True)
            absorb(self._frontier, plan, now, boot)
            await asyncio.sleep(0)
        self._tell(shard, host, wanted)

    def _tell(self, shard: int, host: str, done: TrimOrder) -> None:
        """The event goes with the next epoch; a crash in between loses the news, not what it tells of."""
        log.info("%s: %d URLs dropped from the queue, %d kept", host, done.dropped, done.kept)
        state = self._frontier.hosts.get(host)
        self._bulk.open.rows.add(
            "hosts",
            host_row(
                host, shard, self._clock.now(), "trimmed", self._frontier.book.state(host), self._cell,
                trusted=state is not None and state.record.trusted,
                known_urls=state.record.known if state is not None else 0,
                decision_id=done.request_id or None,
                detail=f"{done.dropped} URLs dropped from the queue, {done.kept} kept",
            ),
        )  # fmt: skip
        self._bulk.touch()
