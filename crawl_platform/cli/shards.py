"""`crawl shards`: who owns the shards, what they hold, and how they move."""

import time
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import ShowOrCommand, home_option
from crawl_platform.cli.output import json_option, print_json, print_rows
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.balance import evened_out, fetched_lately, heavy_shards
from crawl_platform.fleet.messages import ShardOwner
from crawl_platform.fleet.ordering import order_moves, order_rebuild, read_table
from crawl_platform.fleet.queues import ShardLoad, shard_loads

LOOK_EVERY = 0.2
SHOWN = 10
HELD = {"hosts": "hosts", "known": "URLs known", "queued": "URLs waiting"}
WATCH = 6.0
"""Seconds without a heartbeat: three of them would have come."""


@click.group(cls=ShowOrCommand)
def shards() -> None:
    """Show who owns the shards (`crawl shards`), or move them between cells (`crawl shards move`)."""


@shards.command("show")
@click.option("--all", "every", is_flag=True, help="Every shard instead of a line per cell.")
@json_option
@home_option
def show_shards(every: bool, as_json: bool, home: Path) -> None:
    """Show who owns the shards, how alive the owners are, and what the shards hold. The default."""
    crawl = Crawl.at(home)
    loads = shard_loads(crawl.home, crawl.lake)
    lately = fetched_lately(crawl.lake, SystemClock().now())
    table = _table(crawl)
    owners, changes = {shard: owner.cell for shard, owner in table.items()}, _changes(table)
    rows = [
        {
            "shard": shard,
            "cell": owners.get(shard),
            **_load(load),
            "fetched": lately.get(shard, 0),
            "state": changes.get(shard),
        }
        for shard, load in loads.items()
    ]
    cells = _per_cell(owners, rows, _ages(crawl) if owners else {})
    heavy = heavy_shards(lately, len(cells))
    if as_json:
        print_json({"cells": cells, "shards": rows, "heavy": heavy})
        return
    held = {**HELD, "fetched": "fetched in an hour"}
    if crawl.running_fleet is None:
        click.echo("no fleet is running: owners stand in its exchange, so only what the shards hold is shown")
    if every or not owners:
        shown = rows if every else [row for row in rows if row["hosts"]]
        print_rows(shown, {"shard": "shard", **({"cell": "cell"} if owners else {}), **held}, "no host yet")
    else:
        columns = {"cell": "cell", "shards": "shards", **held, "heartbeat_age": "heartbeat (s ago)"}
        print_rows(cells, columns, "no cell owns a shard")
    for shard, change in list(changes.items())[:SHOWN]:
        click.echo(f"shard {shard} {change}")
    if len(changes) > SHOWN:
        click.echo(f"(and {len(changes) - SHOWN} more; --json has them all)")
    for shard in heavy:
        share = lately[shard] / sum(lately.values())
        click.echo(
            f"shard {shard} is heavy: {share:.0%} of what was fetched in the last hour, in {owners[shard]}"
        )


def _changes(table: dict[int, ShardOwner]) -> dict[int, str]:
    """What happens to shards that are not simply crawled by their owner."""
    found = {}
    for shard, owner in table.items():
        if owner.lost:
            found[shard] = f"is rebuilt by {owner.cell}: its state was gone"
        elif owner.to:
            found[shard] = f"is on its way from {owner.cell} to {owner.to}"
    return found


def _table(crawl: Crawl) -> dict[int, ShardOwner]:
    """Shard → its record; empty where no fleet runs or its exchange is away."""
    if crawl.running_fleet is None:
        return {}
    try:
        return read_table(_endpoint(crawl))
    except ExchangeError as error:
        click.echo(f"owners can't be asked for, only what the shards hold is shown: {error}", err=True)
        return {}


def _endpoint(crawl: Crawl) -> Path:
    return crawl.home / "run" / "nats.json"


def _load(load: ShardLoad) -> dict[str, int]:
    return {"hosts": load.hosts, "known": load.known, "queued": load.queued}


def _ages(crawl: Crawl) -> dict[str, float]:
    """Seconds since each cell's last heartbeat."""
    fleet, now = crawl.running_fleet, SystemClock().now()
    try:
        return {} if fleet is None else {beat.cell: now - beat.at for beat in fleet.heartbeats()}
    except ExchangeError as error:
        click.echo(f"the cells can't be asked: {error}", err=True)
        return {}


def _per_cell(
    owners: dict[int, str], shards: list[dict[str, Any]], ages: dict[str, float]
) -> list[dict[str, Any]]:
    """A row per cell that owns shards or lives."""
    counted = ("hosts", "known", "queued", "fetched")
    empty = {"shards": 0, **dict.fromkeys(counted, 0)}
    cells: dict[str, dict[str, Any]] = {
        cell: {"cell": cell, **empty} for cell in {*owners.values(), *ages} if owners
    }
    for shard in shards:
        if (cell := owners.get(shard["shard"])) is not None:
            cells[cell]["shards"] += 1
            for name in counted:
                cells[cell][name] += shard[name]
    return [{**row, "heartbeat_age": ages.get(cell)} for cell, row in sorted(cells.items())]


# moving


class Shards(click.ParamType):  # type: ignore[type-arg]
    """`3` or `3,5,8`."""

    name = "SHARD[,SHARD…]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if not all(part.isdecimal() for part in value.split(",")):
            self.fail(f"{value!r} is no list of shards: write their numbers, like 3 or 3,5,8", param, ctx)
        return sorted({int(part) for part in value.split(",")})


@shards.command("move")
@click.argument("numbers", type=Shards(), metavar="SHARD[,SHARD…]")
@click.option("--to", "cell", required=True, metavar="CELL", help="Name of the cell, like cell-1.")
@click.option("--dry-run", is_flag=True, help="Only say what would move.")
@click.option("--wait", default=120.0, show_default=True, help="Seconds to wait for it; 0: only order it.")
@json_option
@home_option
def move_shards(numbers: list[int], cell: str, dry_run: bool, wait: float, as_json: bool, home: Path) -> None:
    """Hand shards over to another cell, while both go on crawling.

    A shard rests for some seconds on its way. Ordered back to the cell that has it, a move that has not come to its end
    is taken back. Exit status 1 if a shard has not arrived within --wait.
    """
    crawl = Crawl.at(home)
    if crawl.running_fleet is None:
        raise ConfigurationError(
            "no fleet is running here (`crawl up` starts it): shards move between running cells"
        )
    move(crawl, dict.fromkeys(numbers, cell), dry_run=dry_run, wait=wait, as_json=as_json)


@shards.command("balance")
@click.option("--dry-run", is_flag=True, help="Only say what would move.")
@click.option("--wait", default=120.0, show_default=True, help="Seconds to wait for it; 0: only order it.")
@json_option
@home_option
def balance_shards(dry_run: bool, wait: float, as_json: bool, home: Path) -> None:
    """Move shards so that all cells have about as much to do, by what was fetched in the last hour."""
    crawl = Crawl.at(home)
    if crawl.running_fleet is None:
        raise ConfigurationError(
            "no fleet is running here (`crawl up` starts it): shards move between running cells"
        )
    now = SystemClock().now()
    owners = {shard: owner.to or owner.cell for shard, owner in read_table(_endpoint(crawl)).items()}
    limit = crawl.settings.fleet.silence_limit
    alive = sorted(cell for cell, age in _ages(crawl).items() if age < limit)
    moves = evened_out(owners, fetched_lately(crawl.lake, now), alive)
    move(crawl, moves, dry_run=dry_run, wait=wait, as_json=as_json)


@shards.command("rebuild")
@click.option("--cell", required=True, help="The cell whose machine is gone, like cell-1.")
@click.option("--to", help="The cell that takes its shards; all others in turn by default.")
@click.option("--dry-run", is_flag=True, help="Only say what would be rebuilt.")
@json_option
@home_option
def rebuild_shards(cell: str, to: str | None, dry_run: bool, as_json: bool, home: Path) -> None:
    """Make the shards of a lost cell anew, from the lake, in cells that live.

    For a cell that will not come back. One that only lost its disk does this by itself when it is started again.
    Refused while the cell gives signs of life, and until it has been silent for `fleet.silence_limit`.
    """
    crawl = Crawl.at(home)
    if crawl.running_fleet is None:
        raise ConfigurationError(
            "no fleet is running here (`crawl up` starts it): other cells take the shards"
        )
    takers = _takers(crawl, cell, to)
    table = read_table(_endpoint(crawl))
    given = {shard: "" for shard, owner in table.items() if owner.cell == cell and not owner.snapshot}
    if not dry_run:
        given = order_rebuild(_endpoint(crawl), cell, takers, WATCH)
    rows = [{"shard": shard, "from": cell, "to": taker or None} for shard, taker in given.items()]
    if as_json:
        print_json({"dry_run": dry_run, "shards": rows})
        return
    print_rows(rows, {"shard": "shard", "from": "from", "to": "to"}, f"{cell} owns no shard")


def _takers(crawl: Crawl, dead: str, to: str | None) -> list[str]:
    limit, ages = crawl.settings.fleet.silence_limit, _ages(crawl)
    if ages.get(dead, limit) < limit:
        raise ConfigurationError(
            f"{dead} was heard of {ages[dead]:.0f} s ago: it may still crawl. Its shards are free after "
            f"{limit:g} s of silence (fleet.silence_limit)"
        )
    alive = sorted(cell for cell, age in ages.items() if age < limit and cell != dead)
    if to is not None and to not in alive:
        raise ConfigurationError(f"{to} is no cell that lives: {', '.join(alive) or 'none does'}")
    if not alive:
        raise ConfigurationError("no other cell lives that could take its shards")
    return [to] if to is not None else alive


def move(crawl: Crawl, wanted: dict[int, str], *, dry_run: bool, wait: float, as_json: bool) -> None:
    """Order the moves, wait for them and say what became of each."""
    table = read_table(_endpoint(crawl))
    _refuse_unknown(crawl, table, wanted)
    loads = shard_loads(crawl.home, crawl.lake)
    came_from = {shard: owner.cell for shard, owner in table.items()}
    if not dry_run:
        order_moves(_endpoint(crawl), wanted)
        table = _wait_for(crawl, wanted, wait)
    rows = [
        {
            "shard": shard,
            "from": came_from[shard],
            "to": cell,
            **_load(loads[shard]),
            "state": _where(table[shard], cell, dry_run),
        }
        for shard, cell in wanted.items()
    ]
    if as_json:
        print_json({"dry_run": dry_run, "shards": rows})
    else:
        print_rows(
            rows, {"shard": "shard", "from": "from", "to": "to", **HELD, "state": ""}, "nothing to move"
        )
    if not dry_run and wait and any(table[shard].cell != cell for shard, cell in wanted.items()):
        raise SystemExit(1)


def _refuse_unknown(crawl: Crawl, table: dict[int, ShardOwner], wanted: dict[int, str]) -> None:
    for shard in wanted:
        if shard not in table:
            raise ConfigurationError(
                f"there is no shard {shard}: the lake has 0 to {crawl.lake.n_shards - 1}"
            )
    alive = _ages(crawl)
    for cell in dict.fromkeys(wanted.values()):
        if cell not in alive:
            raise ConfigurationError(f"{cell} is no cell of this fleet: there are {', '.join(sorted(alive))}")


def _wait_for(crawl: Crawl, wanted: dict[int, str], wait: float) -> dict[int, ShardOwner]:
    until = time.monotonic() + wait
    while True:
        table = read_table(_endpoint(crawl))
        there = all((table[shard].cell, table[shard].to) == (cell, "") for shard, cell in wanted.items())
        if there or time.monotonic() > until:
            return table
        time.sleep(LOOK_EVERY)


def _where(owner: ShardOwner, cell: str, dry_run: bool) -> str:
    if owner.cell == cell:
        return "is there" if not owner.to else f"is on its way to {owner.to}"
    if dry_run:
        return "would move"
    return "waits to be taken" if owner.snapshot else f"is still with {owner.cell}"
