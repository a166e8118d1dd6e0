"""`crawl frontier` and `crawl shards`: what waits where, and who owns it."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows, show
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.queues import (
    HostDetail,
    HostQueue,
    ShardLoad,
    host_detail,
    host_queues,
    shard_loads,
)
from crawl_platform.fleet.shards import read_owners
from crawl_platform.frontier.records import LANES
from crawl_platform.web.host import shard_of
from resources.requests import named_host


class HostOrCommand(click.Group):
    """A group whose own work, unless one of its commands is named, is that of `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.command(cls=HostOrCommand)
def frontier() -> None:
    """Show what waits to be fetched (`crawl frontier [HOST]`), or cut it (`crawl frontier trim`)."""


@frontier.command("show")
@click.argument("host", required=False)
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="Hosts, or URLs a lane.")
@json_option
@home_option
def show_frontier(host: str | None, limit: int, as_json: bool, home: Path) -> None:
    """Show what waits to be fetched: the fullest hosts, or the next URLs of HOST, by lane.

    Live where the cells' state is on this machine, else as of the last snapshot in the lake.
    """
    crawl = Crawl.at(home)
    if host is not None:
        _one_host(crawl, named_host(host), limit, as_json)
        return
    now = as_datetime(SystemClock().now())
    queues = host_queues(crawl.home, crawl.lake, now.timestamp())
    if as_json:
        print_json([_as_dict(queue) for queue in queues[:limit]])
        return
    waiting = sum(queue.queued for queue in queues)
    known = sum(queue.known for queue in queues)
    click.echo(
        f"{count_text(len(queues), 'seed host')}, {count_text(known, 'URL')} known, {waiting:,} in a queue"
    )
    lanes = [lane for lane in LANES if any(queue.lanes.get(lane) for queue in queues)]
    columns = {"host": "host", "known": "known", "fetched": "fetched", **{lane: lane for lane in lanes}}
    columns |= {"next_due": "next due", "backed_off_until": "left alone until"}
    rows = [
        {**_as_dict(queue), **{lane: queue.lanes.get(lane, 0) for lane in lanes}, "next_due": _due(queue.next_due, now)}
        for queue in queues
    ]  # fmt: skip
    print_rows(rows[:limit], columns, "the frontier is empty")
    if len(rows) > limit:
        click.echo(f"(the {limit} fullest of {len(rows):,} hosts; --limit shows more)")


def _due(at: datetime | None, now: datetime) -> str:
    """Ranks before now only order the queue: all of these may be fetched as soon as it is their turn."""
    return "now" if at is not None and at <= now else show(at)


def _as_dict(queue: HostQueue) -> dict[str, Any]:
    return {name: getattr(queue, name) for name in queue.__slots__}


def _one_host(crawl: Crawl, host: str, limit: int, as_json: bool) -> None:
    detail = host_detail(crawl.home, crawl.lake, host, shard_of(host, crawl.lake.n_shards), limit)
    if detail is None:
        raise ConfigurationError(
            f"{host} is not in the frontier: only hosts of the seed are (`crawl explain {host}` says more)"
        )
    if as_json:
        print_json({"host": host, "states": detail.states, "next": detail.following})
        return
    _print_host(host, detail, as_datetime(SystemClock().now()))


def _print_host(host: str, detail: HostDetail, now: datetime) -> None:
    states = ", ".join(f"{count:,} {state}" for state, count in detail.states.items() if count)
    click.echo(f"{host}: {states or 'no URL known'}")
    for lane, urls in detail.following.items():
        click.echo(f"\n{lane}")
        for entry in urls:
            click.echo(f"  {_due(entry['due_at'], now):19}  {entry['url']}")


@click.command()
@click.option("--all", "every", is_flag=True, help="Every shard instead of a line per cell.")
@json_option
@home_option
def shards(every: bool, as_json: bool, home: Path) -> None:
    """Show who owns the shards, how alive the owners are, and what the shards hold."""
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
    if crawl.running_fleet is None:
        return {}
    try:
        return read_owners(crawl.home / "run" / "nats.json")
    except ExchangeError as error:
        click.echo(f"owners can't be asked for, only what the shards hold is shown: {error}", err=True)
        return {}


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
