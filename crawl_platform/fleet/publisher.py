"""Steps 3 and 4 of the commit protocol in a cell: publish what the outbox holds, forget what the lake shows.

Publishing repeats until acked; after a start everything unforgotten goes out again. The committer's bell
only makes forgetting prompt: the tables' transactions decide.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawl_platform.commit.faults import FORGOTTEN, PUBLISHED, Faults
from crawl_platform.commit.manifest import SERIES, Manifest, application, encode_manifest
from crawl_platform.commit.outbox import Outbox, OutboxMessage
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.exchange import Exchange, MessageTooLargeError
from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.tables import TABLES

log = logging.getLogger(__name__)
RETRY = 1.0


class Publisher:
    """`forgotten` is called with the manifests that the lake has just confirmed."""

    def __init__(
        self,
        outbox: Outbox,
        exchange: Exchange,
        lake_root: Path,
        faults: Faults,
        forgotten: Callable[[list[Manifest]], Awaitable[None]],
    ) -> None:
        self._forgotten = forgotten
        self._outbox = outbox
        self._exchange = exchange
        self._faults = faults
        self.dropped = 0
        """Messages that NATS will never take, since the start."""
        self._published: set[tuple[str, int]] = set()
        self._wake = asyncio.Event()
        self._all_out = asyncio.Event()
        self._check = asyncio.Event()
        self._tables = {
            t.name: DeltaWriter(lake_root / t.name, t)
            for t in TABLES.values()
            if t.writer in ("fleet", "committer")
        }

    def wake(self) -> None:
        """Something new is in the outbox."""
        self._all_out.clear()
        self._wake.set()

    async def all_published(self) -> None:
        """Wait until NATS has all that the outbox holds."""
        await self._all_out.wait()

    def check(self) -> None:
        """The committer has finished a round."""
        self._check.set()

    def publish_again(self) -> None:
        """The committer misses a manifest of ours: send all that it has not confirmed."""
        self._published.clear()
        self.wake()

    async def publish_forever(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._publish_manifests()
                await self._publish_messages()
            except ExchangeError as error:
                log.warning("publishing waits: %s", error)
                await asyncio.sleep(RETRY)
                continue
            if not self._wake.is_set():
                self._all_out.set()
            await self._wake.wait()

    async def _publish_manifests(self) -> None:
        for manifest in self._outbox.manifests():
            key = (manifest.series, manifest.number)
            if key not in self._published:
                await self._publish(manifest)
                self._published.add(key)

    async def _publish(self, manifest: Manifest) -> None:
        subject = f"manifest.{manifest.incarnation}.{manifest.series}"
        await self._exchange.publish(subject, encode_manifest(manifest))
        self._faults.reached(PUBLISHED)

    async def _publish_messages(self) -> None:
        """A portion at a time: what waits may be days' worth."""
        last = 0
        while portion := self._outbox.portion(last):
            await self._publish_portion(portion)
            last = portion[-1][0]

    async def _publish_portion(self, portion: list[tuple[int, OutboxMessage]]) -> None:
        sent: list[int] = []
        try:
            for sequence, message in portion:
                await self._send(sequence, message)
                sent.append(sequence)
        finally:
            if sent:
                self._outbox.sent(sent)

    async def _send(self, sequence: int, message: OutboxMessage) -> None:
        message_id = self._outbox.message_id(sequence, message)
        try:
            await self._exchange.publish(message.subject, message.data, message_id)
        except MessageTooLargeError as error:  # all messages behind it would wait for ever
            self.dropped += 1
            log.error("message %d is dropped: %s", sequence, error)

    async def forget_forever(self, idle: float) -> None:
        """Compare with the lake at each bell, and every `idle` seconds without one."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._check.wait(), idle)
            self._check.clear()
            await self._forget()

    async def _forget(self) -> None:
        confirmed = self._outbox.confirm(await asyncio.to_thread(self.transactions))
        if confirmed:
            self._faults.reached(FORGOTTEN)
            self._published &= {(left.series, left.number) for left in self._outbox.manifests()}
            await self._forgotten(confirmed)

    def transactions(self) -> dict[str, dict[str, int]]:
        """Table → application → number, as the lake shows them now. Raises `LakeError` if it can't be read."""
        apps = [application(self._outbox.incarnation, series) for series in SERIES]
        shown: dict[str, dict[str, int]] = {}
        for name, table in self._tables.items():
            table.refresh()
            shown[name] = {app: table.transaction_version(app) or 0 for app in apps}
        return shown
