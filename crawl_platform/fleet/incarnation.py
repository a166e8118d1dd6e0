"""At a cell's start: is its state as new as what others have of it?

RocksDB opens after a torn or damaged log with what came before, and says nothing; a state folder may have been
restored from a backup. Such a cell would number its next epoch like one that it has published already: the committer
skips it as a repeat, the cell finds its number in the lake, and the rows are lost. So the numbers that the lake shows
and that wait in NATS are compared with the cell's own. If it has forgotten some, it goes on as another incarnation;
what it forgot is in the lake and is fetched once more.
"""

import asyncio
import logging

import msgspec

from crawl_platform.commit.manifest import SERIES, application, decode_manifest, encode_manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES

log = logging.getLogger(__name__)
LOOK_AGAIN = 1.0
"""Seconds between looks at a lake that still has to show what we know of."""


async def settle_incarnation(
    outbox: Outbox, exchange: Exchange, lake: Lake, new: str, stop: asyncio.Event
) -> None:
    """Give the outbox the incarnation `new` if its state has forgotten epochs that it had published.

    Before that the lake has to show all that the state still owes. Raises `ExchangeError` if told to stop meanwhile.
    """
    published = await _published(
        outbox, exchange
    )  # first: what leaves the queue afterwards is in the lake by then
    commits = await asyncio.to_thread(DeltaWriter, lake.path("commits"), TABLES["commits"])
    known = _highest(_shown(outbox, commits), published)
    if not outbox.forgot(known):
        return
    log.error(
        "the cell's state is older than what it has published: restored, or its last records lost; %s", known
    )
    while not _all_shown(outbox, _shown(outbox, commits)):
        await _publish_again(outbox, exchange)
        await asyncio.sleep(LOOK_AGAIN)
        if stop.is_set():
            raise ExchangeError("told to stop before the lake had all that this cell owes")
        await asyncio.to_thread(commits.refresh)
    old = outbox.incarnation
    outbox.renew(new)
    log.warning("%s goes on as %s; what it has forgotten is in the lake and is fetched once more", old, new)


def _shown(outbox: Outbox, commits: DeltaWriter) -> dict[str, int]:
    return {s: commits.transaction_version(application(outbox.incarnation, s)) or 0 for s in SERIES}


async def _published(outbox: Outbox, exchange: Exchange) -> dict[str, int]:
    """Series → number of the newest manifest of ours that waits in NATS."""
    found: dict[str, int] = {}
    for series in SERIES:
        data = await exchange.last_manifest(f"manifest.{outbox.incarnation}.{series}")
        try:
            found[series] = decode_manifest(data).number if data else 0
        except msgspec.DecodeError as error:  # somebody else's: the committer drops it
            log.error("what waits as our newest manifest isn't one: %s", error)
    return found


def _highest(*known: dict[str, int]) -> dict[str, int]:
    return {series: max(numbers.get(series, 0) for numbers in known) for series in SERIES}


def _all_shown(outbox: Outbox, shown: dict[str, int]) -> bool:
    return all(shown[series] >= outbox.next_number(series) - 1 for series in SERIES)


async def _publish_again(outbox: Outbox, exchange: Exchange) -> None:
    try:
        for manifest in outbox.manifests():
            await exchange.publish(
                f"manifest.{manifest.incarnation}.{manifest.series}", encode_manifest(manifest)
            )
    except ExchangeError as error:
        log.warning("publishing what is owed waits: %s", error)
