"""The committer as a process: manifests from the queue into rounds, bells to those who wait for them.

Between rounds it also has upkeep done when somebody asks (`fleet/upkeep.py`).
"""

import asyncio
import contextlib
import logging
from typing import Any

import duckdb
import msgspec
from deltalake.exceptions import DeltaError

from crawl_platform.clock import Clock
from crawl_platform.commit.committer import Committer, Round
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.manifest import Manifest, decode_manifest
from crawl_platform.errors import ExchangeError, LakeError
from crawl_platform.fleet.exchange import Exchange, Respond
from crawl_platform.fleet.lease import Lease, Predecessor
from crawl_platform.fleet.messages import Redeliver, encode
from crawl_platform.fleet.takeover import Takeover
from crawl_platform.fleet.upkeep import SUBJECT, Answer, Child, Order, Task, files_of
from crawl_platform.lake.catalog import CATALOG_NAME, write_catalog
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.maintenance import checkpoint
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
GAP_PATIENCE = 2.0
"""Seconds between requests for a missing manifest."""
CATALOG_SECONDS = 10.0
"""Least time between two writes of the catalogue that plain DuckDB opens."""
LAST_ROUNDS = 5.0
"""Seconds in which the last manifests are committed at a stop."""
UPKEEP_POLL = 0.1
HOLDER = "committer.holder"
"""File in `run/` that says who committed last from this home."""


class CommitterProcess:
    def __init__(
        self,
        settings: Settings,
        lake: Lake,
        exchange: Exchange,
        clock: Clock,
        faults: Faults,
        holder: str,
        upkeep_fault: str = "",
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._exchange = exchange
        self._clock = clock
        self._holder = holder
        self._lease = Lease(exchange, "committer", holder, clock)
        self._loop = asyncio.get_running_loop()
        self._committer = Committer(
            lake,
            clock,
            redeliver=self._redeliver,
            max_age=settings.commit.manifest_max_age,
            faults=faults,
        )
        self._waiting: list[tuple[Manifest, Any]] = []
        self._asked: dict[str, float] = {}
        self._catalog_at = 0.0
        self._upkeep_fault = upkeep_fault
        """Tests only: where the first upkeep is killed."""
        self._orders: list[tuple[bytes, Respond]] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Commit rounds until `stop`. Raises `OwnershipLostError` when another committer has taken over."""
        with Predecessor(self._settings.root / "run" / HOLDER) as predecessor:
            if not await self._acquire(stop, predecessor.ended):
                return
            predecessor.succeeded_by(self._holder)
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        log.info("this process commits to %s", self._lake.root)
        queue = await self._exchange.manifest_queue()
        # What a killed predecessor had taken and not acked comes back late by itself; a repeat is harmless.
        await self._exchange.ring("bell.resend.all")
        await self._exchange.serve(SUBJECT, self._take_order)
        watching = self._watch_cells()
        try:
            await self._rounds(queue, stop, watching)
        finally:
            if watching is not None:
                watching.cancel()
        await self._commit_rest(queue)
        await self._lease.release()

    def _watch_cells(self) -> asyncio.Task[None] | None:
        patience = self._settings.fleet.takeover_seconds
        if not patience:
            return None
        return asyncio.create_task(Takeover(self._exchange, self._clock, patience).watch_forever())

    async def _rounds(self, queue: Any, stop: asyncio.Event, watching: asyncio.Task[None] | None) -> None:
        while not stop.is_set():
            if watching is not None and watching.done():
                watching.result()
            try:
                await self._commit_next(queue)
            except ExchangeError as error:
                log.warning("manifests wait: %s", error)
                await asyncio.sleep(1.0)
                continue
            if self._orders:
                await self._upkeep(*self._orders.pop(0), stop)

    async def _acquire(self, stop: asyncio.Event, ended: str) -> bool:
        """Wait for the lease, which one that died elsewhere keeps for seconds; False if we are told to stop before."""
        tasks = asyncio.ensure_future(self._lease.acquire(ended)), asyncio.ensure_future(stop.wait())
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if not task.done():
                task.cancel()
        if tasks[0].done():
            tasks[0].result()
            return True
        return False

    async def _commit_next(self, queue: Any) -> bool:
        """One round over what has arrived; whether anything had."""
        await self._lease.renew()
        arrived = await self._take(await queue.fetch(wait=0.25))
        if arrived or self._waiting:
            await self._round()
        return arrived

    async def _commit_rest(self, queue: Any) -> None:
        """At a stop the cells have ended before us: what they published last is still committed."""
        until = self._clock.boottime() + LAST_ROUNDS
        try:
            while self._clock.boottime() < until and await self._commit_next(queue):
                pass
        except ExchangeError as error:
            log.warning("what was published last waits for the next start: %s", error)

    def _take_order(self, data: bytes, respond: Respond) -> None:
        self._orders.append((data, respond))

    async def _upkeep(self, data: bytes, respond: Respond, stop: asyncio.Event) -> None:
        """Have one portion done by a child and answer with its report; rounds wait meanwhile."""
        try:
            order = msgspec.json.decode(data, type=Order)
            waiting = await self._waiting_files()
        except msgspec.DecodeError as error:
            log.error("not an order for upkeep: %s", error)
            await respond(msgspec.json.encode(Answer(error=f"that is not an order: {error}")))
            return
        except ExchangeError as error:
            await respond(msgspec.json.encode(Answer(error=str(error))))
            return
        child = Child(self._settings.root, Task(order, waiting), self._upkeep_fault)
        self._upkeep_fault = ""
        log.info("upkeep begins, pid %d", child.pid)
        try:
            while (answer := child.poll()) is None and not stop.is_set():
                await self._lease.renew()
                await asyncio.sleep(UPKEEP_POLL)
        finally:
            child.end()
        answer = answer or Answer(error="the committer is being stopped")
        if answer.report is None:
            log.error("upkeep failed: %s", answer.error)
        else:
            log.info("upkeep: %d things done, %d left", len(answer.report.done), answer.report.left)
        if not stop.is_set():
            await self._publish_versions()
        await respond(msgspec.json.encode(answer))

    async def _waiting_files(self) -> dict[str, list[str]]:
        manifests = []
        for data in await self._exchange.waiting_manifests():
            with contextlib.suppress(msgspec.DecodeError):  # the queue's reader drops it, and says so
                manifests.append(decode_manifest(data))
        return files_of(manifests)

    async def _publish_versions(self) -> None:
        """Also after an upkeep that failed: what it had committed until then is whole."""
        commit_id = await asyncio.to_thread(self._committer.publish_versions)
        if commit_id is not None:
            await self._exchange.ring("bell.committed", str(commit_id).encode())
            await self._refresh_catalog()

    async def _take(self, messages: list[Any]) -> bool:
        for message in messages:
            try:
                manifest = decode_manifest(bytes(message.data))
            except msgspec.DecodeError as error:
                log.error("not a manifest, dropped from the queue: %s", error)
                await message.term()
                continue
            self._waiting.append((manifest, message))
            self._committer.offer([manifest])
        return bool(messages)

    async def _round(self) -> None:
        started = self._clock.boottime()
        done = await asyncio.to_thread(self._committer.round)
        if done is not None and done.commit_id:
            await self._exchange.ring("bell.committed", str(done.commit_id).encode())
            took = self._clock.boottime() - started
            log.info(
                "commit %d: %d manifests, %s, %.0f ms",
                done.commit_id,
                len(done.manifests),
                done.rows,
                took * 1e3,
            )
            await self._refresh_catalog()
            for manifest in done.quarantined:
                log.error("manifest %s is quarantined: a staged file is missing or too old", manifest.label)
        await self._ack()
        if done is not None:
            await self._ask_for_gaps(done)

    async def _refresh_catalog(self) -> None:
        now = self._clock.boottime()
        if now - self._catalog_at >= CATALOG_SECONDS:
            self._catalog_at = now
            await asyncio.to_thread(self._conveniences)

    def _conveniences(self) -> None:
        """Conveniences: when one fails the crawl goes on, and it is tried again at the next interval."""
        try:
            self._catalog_and_checkpoints()
        except (OSError, LakeError, duckdb.Error, DeltaError) as error:
            log.error("catalogue or checkpoint failed and is tried again: %s", error)

    def _catalog_and_checkpoints(self) -> None:
        write_catalog(self._lake, self._settings.root / CATALOG_NAME)
        for name in TABLES:
            checkpoint(self._lake, name)

    async def _ack(self) -> None:
        still: list[tuple[Manifest, Any]] = []
        for manifest, message in self._waiting:
            if self._committer.done(manifest):
                await message.ack()
                self._committer.acked()
            else:
                await message.in_progress()
                still.append((manifest, message))
        self._waiting = still

    async def _ask_for_gaps(self, done: Round) -> None:
        now = self._clock.boottime()
        for app, number in done.gaps.items():
            if now - self._asked.get(app, -GAP_PATIENCE) >= GAP_PATIENCE:
                self._asked[app] = now
                log.warning("manifest %d of %s is missing: asking for it again", number, app)
                await self._exchange.ring(f"bell.resend.{app.partition('/')[0]}")

    def _redeliver(self, manifest: Manifest) -> None:
        """Tell the shards of a quarantined manifest, from the round's thread, before its number is used up."""
        asyncio.run_coroutine_threadsafe(self._announce(manifest), self._loop).result()

    async def _announce(self, manifest: Manifest) -> None:
        message = encode(Redeliver(manifest.incarnation, manifest.series, manifest.number))
        for shard in manifest.shards:
            await self._exchange.publish(f"inbox.{shard}", message)
