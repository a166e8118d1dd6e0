"""Is this the NATS that the crawl has told everything? One that has lost its store looks like one of a new crawl.

What it keeps and nobody else has: exclusions and other host policies, pauses, the shard table, messages on their way
between cells. And its inboxes count from 1 again, below what cells have applied: they would take every new message for
one that they know. So the first start leaves a number in NATS and in the lake; from then on both have to say the same.
"""

import asyncio
import logging
import os
import uuid
from pathlib import Path

from crawl_platform.errors import LostExchangeError, OwnershipLostError
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.lake.delta import sync_folder

log = logging.getLogger(__name__)
KEY = "exchange"
"""In the bucket of directives: it goes when they go."""
NAME = "exchange.id"
"""In the lake's folder."""


async def know_exchange(exchange: Exchange, lake_root: Path) -> None:
    """At the first start: leave the number in both. Later, and for everybody else: `require_same`."""
    file = lake_root / NAME
    if await asyncio.to_thread(file.exists):
        await require_same(exchange, lake_root)
        return
    try:
        await exchange.swap("directives", KEY, uuid.uuid4().hex.encode(), 0)
    except OwnershipLostError:
        log.info("this NATS has its number already")
    said = await exchange.get("directives", KEY)
    if said is not None:
        await asyncio.to_thread(_write, file, said[0])


async def require_same(exchange: Exchange, lake_root: Path) -> None:
    """Raise `LostExchangeError` if NATS is not the one that the lake knows."""
    file = lake_root / NAME
    if not await asyncio.to_thread(file.exists):
        return
    known, said = await asyncio.to_thread(file.read_bytes), await exchange.get("directives", KEY)
    if said is None or said[0] != known:
        raise LostExchangeError(
            f"NATS has lost what it kept (exclusions, the seed, the shard table, messages between cells), or it is "
            f"another crawl's. Put its store back from a backup, or go on without: docs/operating.md, "
            f'"NATS has lost its store" (the lake\'s number is in {file})'
        )


async def require_as_far(exchange: Exchange, applied: int) -> None:
    """Raise `LostExchangeError` if the inboxes end before the message that a cell has applied last (its stream
    sequence): NATS is at an older state than the cell, which would take what comes next for what it knows."""
    end = await exchange.inbox_end()
    if end < applied:
        raise LostExchangeError(
            f"NATS is at an older state than this cell: its last message to a shard is number {end}, and {applied} was "
            "applied here. Put back `nats/`, `cells/` and `lake/` of the same day, or let the cells rebuild their "
            'shards: docs/operating.md, "NATS has lost its store"'
        )


def _write(file: Path, number: bytes) -> None:
    draft = file.with_name(f".{file.name}")
    with draft.open("wb") as opened:
        opened.write(number)
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)
    sync_folder(file.parent)
