"""Orders to move shards, from outside of the cells (`fleet.handoff` carries them out), and the table as it is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from crawl_platform.errors import ConfigurationError, OwnershipLostError
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.handoff import ordered, taken_from_the_dead
from crawl_platform.fleet.messages import ShardOwner, encode

T = TypeVar("T")
TRIES = 10
"""Writes of one record; a cell that starts writes into it, too."""


def read_table(endpoint_file: Path) -> dict[int, ShardOwner]:
    """Shard → its record. Raises `ExchangeError` if NATS is away."""
    return _run(endpoint_file, shard_table)


def order_moves(endpoint_file: Path, moves: Mapping[int, str]) -> None:
    """Tell the owners of shards (keys) to hand them over to cells (values). An order to the present owner takes an
    earlier one back, as long as the other cell doesn't have the shard.

    Raises `ConfigurationError` for a shard without an owner, or on its way to a third cell.
    """

    async def work(exchange: Exchange) -> None:
        for shard, cell in moves.items():
            await order_move(exchange, shard, cell)

    _run(endpoint_file, work)


def order_rebuild(endpoint_file: Path, dead: str, takers: Sequence[str], watch: float) -> dict[int, str]:
    """Give the shards of a cell that is gone for good, disk and all, to `takers`, who make them anew from the lake.
    Returns shard → taker. Shards that were on their way to another cell arrive there, and are left out.

    Raises `ConfigurationError` if the cell gives a sign of life within `watch` seconds.
    """

    async def work(exchange: Exchange) -> dict[int, str]:
        before = await exchange.get("cells", dead)
        await asyncio.sleep(watch)
        after = await exchange.get("cells", dead)
        if (before and before[1]) != (after and after[1]):
            raise ConfigurationError(
                f"{dead} is alive: it rebuilds by itself what it finds lost at its start"
            )
        return await take_over(exchange, dead, takers)

    return _run(endpoint_file, work)


async def take_over(exchange: Exchange, dead: str, takers: Sequence[str]) -> dict[int, str]:
    """As `order_rebuild`, of a cell that is known to be gone."""
    owned = [
        shard for shard, one in (await shard_table(exchange)).items() if one.cell == dead and not one.snapshot
    ]
    given = {shard: takers[number % len(takers)] for number, shard in enumerate(owned)}
    for shard, cell in given.items():
        await _change(exchange, shard, lambda owner, cell=cell: taken_from_the_dead(owner, cell))  # type: ignore[misc]
    return given


async def shard_table(exchange: Exchange) -> dict[int, ShardOwner]:
    entries = await exchange.items("shards")
    return {int(key): msgspec.json.decode(value, type=ShardOwner) for key, value in sorted(entries.items())}


async def order_move(exchange: Exchange, shard: int, cell: str) -> None:
    """As `order_moves`, of one shard."""

    def wanted(owner: ShardOwner) -> ShardOwner:
        try:
            return ordered(owner, cell)
        except ConfigurationError as error:
            raise ConfigurationError(f"shard {shard} can't be moved: {error}") from error

    await _change(exchange, shard, wanted)


async def _change(exchange: Exchange, shard: int, change: Callable[[ShardOwner], ShardOwner]) -> None:
    for _ in range(TRIES):
        entry = await exchange.get("shards", str(shard))
        if entry is None:
            raise ConfigurationError(f"shard {shard} has no owner: there is nothing to hand over")
        owner = msgspec.json.decode(entry[0], type=ShardOwner)
        wanted = change(owner)
        if wanted == owner:
            return
        try:
            await exchange.swap("shards", str(shard), encode(wanted), entry[1])
        except OwnershipLostError:
            continue
        return
    raise OwnershipLostError(f"the record of shard {shard} changes all the time")


def _run(endpoint_file: Path, work: Callable[[Exchange], Awaitable[T]]) -> T:
    async def session() -> T:
        exchange = await Exchange.connect(Endpoint.read(endpoint_file), "shards")
        try:
            return await work(exchange)
        finally:
            await exchange.close()

    return asyncio.run(session())
