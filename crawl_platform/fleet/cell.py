"""A cell: one process, one event loop, every stage for the hosts of its shards. Shared nothing.

The only place where the stages meet. Tasks: dispatch (claim → worker), close epochs, publish, forget, read
the inbox, obey directives, heartbeat, report. If one of them dies the cell stops: the supervisor starts it
again, and the store knows everything that was committed.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from typing import Any

from crawl_platform.admission.clocks import Clocks
from crawl_platform.admission.hosts import HostBook
from crawl_platform.admission.identities import Identities, pool_of
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.service import Admission
from crawl_platform.admission.wishes import Wishes
from crawl_platform.clock import Clock
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.manifest import BULK, FAST
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ConfigurationError, ExchangeError, OwnershipLostError, PlatformError
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.dns import DnsCache
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.fetch.signing import signer_for
from crawl_platform.fleet.addresses import AddressBook
from crawl_platform.fleet.backpressure import Backpressure
from crawl_platform.fleet.directives import Directives
from crawl_platform.fleet.ending import cancel_all
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.exchange import Exchange, StreamReader
from crawl_platform.fleet.inbox import Inbox
from crawl_platform.fleet.messages import Heartbeat, encode
from crawl_platform.fleet.moving import Moving
from crawl_platform.fleet.parts import Parts
from crawl_platform.fleet.publisher import Publisher
from crawl_platform.fleet.purging import Purging
from crawl_platform.fleet.rows import Origin
from crawl_platform.fleet.same_exchange import require_as_far, require_same
from crawl_platform.fleet.snapshots import Snapshots
from crawl_platform.fleet.spending import Spending
from crawl_platform.fleet.stages import FRONTIER
from crawl_platform.fleet.stops import Watch
from crawl_platform.fleet.telemetry import HELD_BY, Telemetry
from crawl_platform.fleet.trimming import Trimming
from crawl_platform.fleet.worker import Worker
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import OrderedKV
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.promises import renew
from crawl_platform.settings import Settings
from crawl_platform.value.interest import Interest

log = logging.getLogger(__name__)
TICK = 0.05
"""Seconds between looks at the epochs' age and, without an event, at the agenda."""
HEARTBEAT = 2.0
FENCE_MARGIN = 2.0
FORGET_IDLE = 10.0
IDLE_INBOX = 0.5
LANDING = 3.0
"""Seconds that requests in flight get at a stop."""
PUBLISHING = 2.0
"""Seconds that NATS gets at a stop to take what was committed last."""
RESTING = 30.0
"""Seconds beyond the longest request that a shard which is to move gets to come to rest."""
SNAPSHOT_AGAIN = 60.0
"""Seconds until the first snapshot, and until one that did not become whole is tried again."""
STARVING_IDLE = 0.5
"""A cell that has nothing to claim for this long (seconds) closes its epoch early."""


class Cell:
    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        shards: frozenset[int],
        n_shards: int,
        kv: OrderedKV,
        outbox: Outbox,
        exchange: Exchange,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self.name = name
        self._settings = settings
        self._clock = clock
        self._exchange = exchange
        self._outbox = outbox
        rules = HostRules(settings)
        gates = Gates(settings.politeness, clock.boottime(), rules, _clocks(settings, rules, name))
        pool = pool_of(settings)
        robots = RobotsCache(
            settings.identity.agent, settings.politeness, rules=rules, agents=(one.agent for one in pool)
        )
        book = HostBook(n_shards)
        wishes = Wishes(robots, rules)
        identities = Identities(pool, settings.identity_health, _identity_news)
        self.frontier = Frontier(
            kv,
            shards=shards,
            book=book,
            gates=gates,
            robots=robots,
            rules=rules,
            refresh=settings.refresh,
            admission=Admission(book, robots, gates, identities, wishes),
        )
        self._interest = Interest(settings.root, settings.value)
        self.frontier.interest = self._interest.in_force()
        self._inbox = Inbox(kv, self.frontier, name, outbox.incarnation)
        self._telemetry = Telemetry(name, settings.fetch.slots, clock)
        self._bulk, self._fast = (self._series(series, faults) for series in (BULK, FAST))
        self._purging = Purging(name, self.frontier, self._bulk, self._fast, clock)
        self._directives = Directives(exchange, self.frontier, self._fast, clock, self._purging.hear)
        self._moving = Moving(
            name,
            self.frontier,
            self._inbox,
            (self._fast, self._bulk),
            self._purging,
            self._directives,
            outbox,
            exchange,
            settings.lake_root,
            clock,
            faults,
            settings.politeness,
            settings.fetch.total_timeout + RESTING,
            self._check_fence,
            lambda: self._wake.set(),
        )
        self._stops = Watch(settings.root, book.stops, clock, self._stops_changed)
        self._snapshots = Snapshots(self.frontier, self._inbox, self._bulk, outbox, exchange, clock)
        self._publisher = Publisher(outbox, exchange, settings.lake_root, faults, self._snapshots.purge_inbox)
        self._dns = DnsCache(settings.fetch, AddressGuard(settings.fetch.allow_networks), clock)
        self._client = HttpClient(settings.fetch, settings.identity.user_agent, clock)
        self._addresses = AddressBook(name, exchange, gates, clock, settings.fleet.silence_limit, self._call)
        self._worker = Worker(
            Parts(
                settings=settings,
                clock=clock,
                frontier=self.frontier,
                gates=gates,
                dns=self._dns,
                client=self._client,
                outbox=outbox,
                bulk=self._bulk,
                fast=self._fast,
                telemetry=self._telemetry,
                origin=Origin(name, outbox.incarnation),
                addresses=self._addresses,
                signer=signer_for(settings, clock),
                spending=Spending(
                    exchange,
                    lambda host: self.frontier.rules.of(host).payment,
                    settings.payment.day_budget,
                    clock,
                ),
                fence=self._check_fence,
            )
        )
        self._wake = asyncio.Event()
        self._workers: set[asyncio.Task[None]] = set()
        self._unproven: set[asyncio.Task[None]] = set()
        """Those of the workers whose host has not lately been seen to answer."""
        self._crowded = False
        """Slots were last full before all hosts that were due had one."""
        self._failure: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self._on_hold = False
        self._backpressure = Backpressure(
            settings,
            clock,
            self._outbox.spooled_bytes,
            lambda: bool(self._bulk.blocked or self._fast.blocked),
        )
        self._contact_at = clock.boottime()

    def _series(self, name: str, faults: Faults) -> Series:
        return Series(
            name,
            lake_root=self._settings.lake_root,
            cell=self.name,
            frontier=self.frontier,
            outbox=self._outbox,
            inbox=self._inbox,
            settings=self._settings.commit,
            clock=self._clock,
            faults=faults,
            stages=self._telemetry.stages,
        )

    # life

    async def run(self, stop: asyncio.Event) -> None:
        """Crawl until `stop` is set, then end cleanly: no new claims, what is in flight lands, all commits.

        Raises what a task died of (`OwnershipLostError`, `LakeRewoundError`, …).
        """
        self._outbox.confirm(await asyncio.to_thread(self._publisher.transactions))
        await self._directives.read()
        self._stops.look()
        self.frontier.load(self._clock.now(), self._clock.boottime())
        renew(self.frontier, self._clock.now(), self._clock.boottime())
        await self._exchange.on_ring("bell.committed", lambda *_: self._publisher.check())
        await self._exchange.on_ring(
            f"bell.resend.{self._outbox.incarnation}", lambda *_: self._publisher.publish_again()
        )
        await self._exchange.on_ring("bell.resend.all", lambda *_: self._publisher.publish_again())
        await self._addresses.start()
        tasks = [
            self._spawn(work)
            for work in (
                self._dispatch(),
                self._close_epochs(),
                self._publisher.publish_forever(),
                self._publisher.forget_forever(FORGET_IDLE),
                self._read_inbox(),
                self._worker.read_forever(),
                self._directives.obey_forever(self._wake.set),
                self._stops.look_forever(),
                self._purging.purge_forever(),
                Trimming(self.name, self.frontier, self._bulk, self._clock).trim_forever(),
                self._addresses.share_forever(),
                self._moving.move_forever(),
                self._beat(),
                self._report(),
            )
        ]
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        log.info("%s crawls %d shards as %s", self.name, len(self.frontier.shards), self._outbox.incarnation)
        try:
            await asyncio.wait([stopped, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if not self._failure.done():
                await self._drain()
        finally:
            stopped.cancel()
            await cancel_all((*tasks, *self._workers))
            await self._client.close()
            await self._dns.close()
        if self._failure.done():
            self._failure.result()

    def hold(self) -> None:
        """Claim nothing from now on until the process ends; what is in flight lands as always."""
        log.info("%s is on hold: it claims no more", self.name)
        self._on_hold = True

    def look_at_stops(self) -> None:
        """Somebody has written into the file of stop switches."""
        self._stops.ring()

    def _stops_changed(self) -> None:
        self.frontier.resume(self._clock.now(), self._clock.boottime())
        self._wake.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._forever_ended)
        return task

    def _forever_ended(self, task: asyncio.Task[None]) -> None:
        self._task_ended(task)
        if not (task.cancelled() or self._stopping or self._failure.done()):
            self._failure.set_exception(PlatformError("a task of the cell that never ends has ended"))

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _drain(self) -> None:
        """A clean stop within seconds: requests in flight get 3 s to land and to be read, then all is committed."""
        self._stopping = True
        self._wake.set()
        until = self._clock.boottime() + LANDING
        if self._workers:
            await asyncio.wait(set(self._workers), timeout=LANDING)
        read = asyncio.create_task(self._worker.all_read())
        await asyncio.wait({read}, timeout=max(until - self._clock.boottime(), 0.0))
        read.cancel()
        for series in (self._bulk, self._fast):
            await series.close()
        self._publisher.wake()
        with contextlib.suppress(TimeoutError):  # without NATS the outbox keeps it until the next start
            await asyncio.wait_for(self._publisher.all_published(), PUBLISHING)

    # dispatch

    async def _dispatch(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self._claim_all()
            await self._sleep_until_ready()

    def _claim_all(self) -> None:
        self._worker.catch_up()
        if self._on_hold or self.frontier.book.stops.paused or self._backpressure.holds():
            return
        while len(self._workers) < self._settings.fetch.slots:
            room = max(self._settings.fetch.slots // 2, 1) - len(self._unproven)
            with self._telemetry.stages.of(FRONTIER):
                lease = self.frontier.claim(
                    self._clock.now(), self._clock.boottime(), room, crowded=self._crowded
                )
            if self.frontier.denied:
                self._bulk.open.denied += self.frontier.denied
                self.frontier.denied = []
                self._bulk.touch()
            if lease is None:
                self._crowded = False
                return
            self._start(lease)
        self._crowded = True

    def _start(self, lease: Lease | RobotsLease) -> None:
        task = asyncio.create_task(self._worker.run(lease))
        self._workers.add(task)
        state = self.frontier.state(lease.host)
        if state is not None and state.unproven:
            self._unproven.add(task)
        self._count_in_flight()
        task.add_done_callback(self._landed)

    def _count_in_flight(self) -> None:
        """What is read is in flight still: the crawl has not come to rest."""
        self._telemetry.in_flight = max(len(self._workers), self._worker.unread)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        self._unproven.discard(task)
        self._count_in_flight()
        self._wake.set()
        self._task_ended(task)

    def _call(self, hosts: list[str]) -> None:
        """It is the turn of these hosts at an address that we have got."""
        for host in hosts:
            self.frontier.reschedule(host, self._clock.now(), self._clock.boottime())
        self._wake.set()

    async def _sleep_until_ready(self) -> None:
        ready = self.frontier.agenda.next_at()
        wait = TICK * 4
        if ready is not None and len(self._workers) < self._settings.fetch.slots:
            wait = min(max(ready - self._clock.boottime(), 0.001), wait)
        alarm = asyncio.get_running_loop().call_later(wait, self._wake.set)
        try:
            await self._wake.wait()  # `wait_for` would make a task of it, twice a page
        finally:
            alarm.cancel()

    def _check_fence(self) -> None:
        """Out of contact for so long that another cell may own our shards: stop before a request leaves."""
        limit = self._settings.fleet.silence_limit - self._settings.fetch.total_timeout - FENCE_MARGIN
        if self._clock.boottime() > self._contact_at + limit:
            raise OwnershipLostError(
                "no contact with NATS for too long: shards may belong to another cell now"
            )

    # epochs

    async def _close_epochs(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            for series in (self._fast, self._bulk):
                if series.due(self._starving()):
                    await self._close(series)

    async def _close(self, series: Series) -> None:
        manifest = await series.close()
        self._wake.set()
        self._publisher.wake()
        if series.blocked:
            await asyncio.sleep(2.0)
        if manifest is not None:
            log.debug("%s committed, %d files", manifest.label, len(manifest.files))

    def _starving(self) -> bool:
        if self._workers or self._worker.unread:
            return False
        ready = self.frontier.agenda.next_at()
        return ready is None or ready > self._clock.boottime() + STARVING_IDLE

    # inbox

    async def _read_inbox(self) -> None:
        reader, number = None, -1
        while True:
            if self._fast.blocked:  # what is read could not be committed: the stream keeps it
                await asyncio.sleep(1.0)
                continue
            try:
                if reader is None or number != self._inbox.reader:
                    number, reader = self._inbox.reader, await self._open_inbox()
                received = await reader.fetch() if reader is not None else []
            except ExchangeError as error:
                log.warning("the inbox waits: %s", error)
                await asyncio.sleep(1.0)
                reader = None
                continue
            if number != self._inbox.reader:  # another reader brings them again, with what lies before them
                continue
            for message in received:
                arrival = self._inbox.arrival(
                    message.subject, message.sequence, message.data, self._clock.now()
                )
                if arrival is not None:
                    self._fast.open.arrivals.append(arrival)
                    self._fast.touch()

    async def _open_inbox(self) -> StreamReader | None:
        """None for a cell that has no shard yet: a reader of no subject would read them all."""
        if not self.frontier.shards:
            await asyncio.sleep(IDLE_INBOX)
            return None
        await require_same(self._exchange, self._settings.lake_root)  # it may have come back as another
        await require_as_far(self._exchange, max(self._inbox.applied.values(), default=0))
        return await self._exchange.inbox_reader(sorted(self.frontier.shards), self._inbox.resume_after())

    # liveness and reports

    async def _beat(self) -> None:
        while True:
            self._count_in_flight()
            beat = Heartbeat(
                self.name,
                self._outbox.incarnation,
                os.getpid(),
                self._clock.now(),
                self._clock.boottime(),
                self._telemetry.summary(self.frontier)
                | {
                    "spooled_bytes": self._outbox.spooled_bytes(),
                    "held_back": HELD_BY.index(self._backpressure.held_by),
                    "dropped_messages": self._publisher.dropped,
                },
            )
            sent_at = self._clock.boottime()
            try:
                await self._exchange.put("cells", self.name, encode(beat))
                self._check_fence()  # contact that comes back too late brings back nothing that was taken
                self._contact_at = sent_at
            except ExchangeError as error:
                log.warning("heartbeat: %s", error)
            await asyncio.sleep(HEARTBEAT)

    async def _report(self) -> None:
        settings = self._settings.commit
        next_snapshot = self._clock.boottime() + min(settings.snapshot_seconds, SNAPSHOT_AGAIN)
        while True:
            await asyncio.sleep(settings.stats_seconds)
            self.frontier.interest = self._interest.in_force()
            if (
                self._backpressure.spool_full
            ):  # what tells of the crawl is no reason to fill the disk in an outage of days
                continue
            self._bulk.open.rows.add("fleet_stats", self._telemetry.report(self.frontier, self._outbox))
            self._bulk.touch()
            if self.frontier.log.due(self.frontier.known):
                await self._keep_seen()
            if self._clock.boottime() >= next_snapshot:
                whole = await self._snapshots.take()
                wait = settings.snapshot_seconds if whole else min(settings.snapshot_seconds, SNAPSHOT_AGAIN)
                next_snapshot = self._clock.boottime() + wait
                self._inbox.forget_requests(self._clock.now())
                self.frontier.moved.forget_guests(self._clock.now(), self._clock.boottime())

    async def _keep_seen(self) -> None:
        """Write down what the seen set has in memory, so that the next start need not read every URL."""
        for batch in self.frontier.log.checkpoint(self.frontier.seen):
            self.frontier.kv.write(batch, sync=True)
            await asyncio.sleep(0)


def _clocks(settings: Settings, rules: HostRules, name: str) -> Clocks:
    number = name.rpartition("-")[2]
    if settings.fleet.cells > 1 and not number.isdigit():
        raise ConfigurationError(f"a cell's name ends in its number, like cell-0 (not {name})")
    cell = int(number) if number.isdigit() else 0
    return Clocks(settings.politeness, rules, settings.front_ends(), cell, settings.fleet.cells)


def _identity_news(name: str, event: str) -> None:
    log.warning("identity %s: %s", name, event)
