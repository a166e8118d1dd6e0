"""The shard table: a durable record per shard in the bucket `shards`. A table, not a modulo over cells.

The revision of a record is the fencing token. A cell may only take shards whose record names it, and writes
its incarnation into them when it starts; who owns a shard changes only in this table.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from crawl_platform.errors import ConfigurationError, OwnershipLostError
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.messages import ShardOwner, encode

log = logging.getLogger(__name__)


async def assign_shards(exchange: Exchange, n_shards: int, cells: list[str]) -> dict[str, int]:
    """Give every shard that has no record to one of `cells`, evenly. Returns shards per cell of the table.

    Raises `ConfigurationError` when the table names a cell that is not in `cells`: its shards would never
    be crawled.
    """
    known = await exchange.items("shards")
    counts = dict.fromkeys(cells, 0)
    for value in known.values():
        owner = msgspec.json.decode(value, type=ShardOwner).cell
        if owner not in counts:
            raise ConfigurationError(
                f"the shard table gives shards to {owner}, which is not part of this fleet: "
                f"start at least as many cells as before"
            )
        counts[owner] += 1
    for shard in range(n_shards):
        if str(shard) not in known:
            cell = min(cells, key=lambda name: counts[name])
            await exchange.swap("shards", str(shard), encode(ShardOwner(cell, "")), 0)
            counts[cell] += 1
    return counts


def _nothing_lost(shard: int, owner: ShardOwner) -> bool:
    return False


async def claim_shards(
    exchange: Exchange,
    cell: str,
    incarnation: str,
    is_lost: Callable[[int, ShardOwner], bool] = _nothing_lost,
) -> frozenset[int]:
    """Take the shards that the table gives to `cell`, writing our incarnation into their records. Those that are on
    their way to another cell (`fleet.handoff`) are not asked for anything any more, nor are those yet whose state
    `is_lost`: their records say so, and `fleet.moving` sees to it.

    Raises `OwnershipLostError` if a record moves meanwhile.
    """
    mine: set[int] = set()
    gone: set[int] = set()
    for key, value in (await exchange.items("shards")).items():
        owner = msgspec.json.decode(value, type=ShardOwner)
        if owner.cell != cell or owner.snapshot:
            continue
        lost = owner.lost or (owner.incarnation if is_lost(int(key), owner) else "")
        if (owner.incarnation, owner.lost) != (incarnation, lost):
            current = await exchange.get("shards", key)
            if current is None or current[0] != value:
                raise OwnershipLostError(f"shard {key} moved while {cell} was starting")
            ours = msgspec.structs.replace(owner, incarnation=incarnation, lost=lost)
            await exchange.swap("shards", key, encode(ours), current[1])
        (gone if lost else mine).add(int(key))
    if gone:
        log.error(
            "%s finds nothing of %d shards that it owns: its state is gone. They are rebuilt from the lake: %s",
            cell, len(gone), ", ".join(map(str, sorted(gone))),
        )  # fmt: skip
    elif not mine:
        log.warning("the shard table gives no shard to %s: it waits for some", cell)
    return frozenset(mine)


async def shard_owners(exchange: Exchange) -> dict[int, str]:
    """The table: shard → name of the cell that owns it."""
    entries = await exchange.items("shards")
    return {int(key): msgspec.json.decode(value, type=ShardOwner).cell for key, value in entries.items()}


def read_owners(endpoint_file: Path) -> dict[int, str]:
    """The table, for those who are not in an event loop. Raises `ExchangeError` if NATS is away."""

    async def read() -> dict[int, str]:
        exchange = await Exchange.connect(Endpoint.read(endpoint_file), "owners")
        try:
            return await shard_owners(exchange)
        finally:
            await exchange.close()

    return asyncio.run(read())
