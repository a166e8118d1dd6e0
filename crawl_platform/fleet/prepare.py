"""What has to stand before a cell can start: the lake, and a shard table that names an owner for every shard.

The supervisor does this at each start; where the cells have no supervisor (Kubernetes) a job does, and
whoever needs it waits. All of it may be repeated at will and by several at once.
"""

import asyncio
import logging

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError, ExchangeError, OwnershipLostError
from crawl_platform.fleet.balance import evened_out, fetched_lately
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.ordering import order_move, shard_table
from crawl_platform.fleet.same_exchange import know_exchange
from crawl_platform.fleet.shards import assign_shards, shard_owners
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
LOOK_EVERY = 1.0


def cell_names(cells: int) -> list[str]:
    """Names of the cells of a fleet: they own shards by these, and keep their state in a folder of this name."""
    return [f"cell-{number}" for number in range(cells)]


async def prepare_fleet(
    settings: Settings, endpoint: Endpoint, clock: Clock, cells: int, *, within: float
) -> dict[str, int]:
    """Create the lake, streams and buckets, and give every shard without an owner to one of `cells` cells.

    A cell that has none gets its part of the others': they hand them over once they run (`fleet.handoff`).
    Returns shards per cell, as it is now. Waits up to `within` seconds for NATS, then raises `ExchangeError`. Raises
    `ConfigurationError` when the number of cells does not fit the shard table: a cell too few leaves hosts
    uncrawled, and there have to be as many shards as cells; `LostExchangeError` when NATS has lost its store.
    """
    if cells > settings.fleet.shards:
        raise ConfigurationError(
            f"{settings.fleet.shards} shards are too few for {cells} cells: start {settings.fleet.shards} or less"
        )
    lake = Lake(settings.lake_root)
    lake.create(settings.fleet.shards)
    exchange = await _connect(endpoint, clock, within)
    try:
        await know_exchange(exchange, lake.root)
        counts = await _assign(exchange, settings.fleet.shards, cell_names(cells))
        if not all(counts.values()):
            await _share_out(exchange, lake, clock, cell_names(cells))
    finally:
        await exchange.close()
    return counts


async def _share_out(exchange: Exchange, lake: Lake, clock: Clock, cells: list[str]) -> None:
    """Order moves for cells that have no shard and were promised none."""
    owners = {shard: owner.to or owner.cell for shard, owner in (await shard_table(exchange)).items()}
    idle = set(cells).difference(owners.values())
    if not idle:
        return
    loads = await asyncio.to_thread(fetched_lately, lake, clock.now())
    moves = evened_out(owners, loads, cells)
    log.info("%s: no shard yet, %d are handed over", ", ".join(sorted(idle)), len(moves))
    for shard, cell in moves.items():
        await order_move(exchange, shard, cell)


async def _connect(endpoint: Endpoint, clock: Clock, within: float) -> Exchange:
    deadline = clock.boottime() + within
    while True:
        try:
            return await Exchange.connect(endpoint, "prepare")
        except ExchangeError:
            if clock.boottime() > deadline:
                raise
            await asyncio.sleep(0.1)


async def _assign(exchange: Exchange, n_shards: int, cells: list[str]) -> dict[str, int]:
    """Another may be doing the same: what it has written stands, and is not written again."""
    for _ in range(n_shards):
        try:
            return await assign_shards(exchange, n_shards, cells)
        except OwnershipLostError as error:
            log.info("another assigns shards too: %s", error)
    return await assign_shards(exchange, n_shards, cells)


async def wait_prepared(settings: Settings, endpoint: Endpoint, clock: Clock, *, within: float) -> None:
    """Wait until the lake and a whole shard table are there.

    Raises `ExchangeError` that says what is missing after `within` seconds.
    """
    deadline = clock.boottime() + within
    while missing := await _missing(settings, endpoint):
        if clock.boottime() > deadline:
            raise ExchangeError(f"the fleet is not prepared: {missing}")
        await asyncio.sleep(LOOK_EVERY)


async def _missing(settings: Settings, endpoint: Endpoint) -> str:
    lake = Lake(settings.lake_root)
    if not lake.exists():
        return f"there is no lake at {lake.root}"
    try:
        exchange = await Exchange.connect(endpoint, "wait")
        try:
            owners = await shard_owners(exchange)
        finally:
            await exchange.close()
    except ExchangeError as error:
        return str(error)
    without = lake.n_shards - len(owners)
    return f"{without} of {lake.n_shards} shards have no owner" if without else ""
