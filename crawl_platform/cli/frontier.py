"""`crawl frontier` and `crawl shards`: what waits where, and who owns it."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import ShowOrCommand, home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows, show
from crawl_platform.cli.trim import trim
from crawl_platform.cli.watch import watch
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.queues import (
    HostDetail,
    HostQueue,
    host_detail,
    host_queues,
)
from crawl_platform.frontier.records import LANES
from crawl_platform.web.host import shard_of
from resources.requests import named_host


@click.command(cls=ShowOrCommand)
def frontier() -> None:
    """Show what waits to be fetched (`crawl frontier [HOST]`), cut it (`crawl frontier trim`), or say which pages
    are watched for new links (`crawl frontier watch`)."""


frontier.add_command(trim)
frontier.add_command(watch)


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
