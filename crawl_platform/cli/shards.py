"""`crawl shards`: who owns the shards, what they hold, and how they move."""

import time
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.frontier import HostOrCommand
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import json_option, print_json, print_rows
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.messages import ShardOwner
from crawl_platform.fleet.ordering import order_moves, read_table
from crawl_platform.fleet.queues import ShardLoad, shard_loads

LOOK_EVERY = 0.2


@click.group(cls=HostOrCommand)
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
    owners = _owners(crawl)
    rows = [{"shard": shard, "cell": owners.get(shard), **_load(load)} for shard, load in loads.items()]
    cells = _per_cell(owners, loads, _ages(crawl) if owners else {})
    if as_json:
        print_json({"cells": cells, "shards": rows})
        return
    held = {"hosts": "hosts", "known": "URLs known", "queued": "URLs waiting"}
    if crawl.running_fleet is None:
        click.echo("no fleet is running: owners stand in its exchange, so only what the shards hold is shown")
    if every or not owners:
        shown = rows if every else [row for row in rows if row["hosts"]]
        print_rows(shown, {"shard": "shard", **({"cell": "cell"} if owners else {}), **held}, "no host yet")
    else:
        columns = {"cell": "cell", "shards": "shards", **held, "heartbeat_age": "heartbeat (s ago)"}
        print_rows(cells, columns, "no cell owns a shard")


def _owners(crawl: Crawl) -> dict[int, str]:
    """Shard → the cell that owns it; empty where no fleet runs or its exchange is away."""
    return {shard: owner.cell for shard, owner in _table(crawl).items()}


def _table(crawl: Crawl) -> dict[int, ShardOwner]:
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
    owners: dict[int, str], loads: dict[int, ShardLoad], ages: dict[str, float]
) -> list[dict[str, Any]]:
    cells: dict[str, dict[str, Any]] = {}
    for shard, cell in sorted(owners.items()):
        row = cells.setdefault(cell, {"cell": cell, "shards": 0, "hosts": 0, "known": 0, "queued": 0})
        row["shards"] += 1
        for name, count in _load(loads[shard]).items():
            row[name] += count
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
        held = {"hosts": "hosts", "known": "URLs known", "queued": "URLs waiting"}
        print_rows(
            rows, {"shard": "shard", "from": "from", "to": "to", **held, "state": ""}, "nothing to move"
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
