"""`crawl size`: what a crawl of a given rate needs (`fleet/sizing.py`)."""

import click
import msgspec

from crawl_platform.cli.output import bytes_text, json_option, print_json
from crawl_platform.fleet.sizing import Cost, Load, Need, Prices, cost, need

ABOVE_0 = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(min=0, max=1)
LOAD, PRICES = Load(rate=1.0), Prices()


@click.command()
@click.option("--rate", type=ABOVE_0, required=True, help="Fetches per second.")
@click.option(
    "--latency",
    type=ABOVE_0,
    default=LOAD.latency,
    show_default=True,
    help="Seconds from request to end of response.",
)
@click.option("--page", type=click.IntRange(0), default=LOAD.page, show_default=True, help="Bytes of a page.")
@click.option(
    "--delay", type=ABOVE_0, default=LOAD.delay, show_default=True, help="Seconds between requests to a host."
)
@click.option(
    "--links", type=click.FloatRange(0), default=LOAD.links, show_default=True, help="Links of a page."
)
@click.option(
    "--wire", type=SHARE, default=LOAD.wire, show_default=True, help="Bytes over the wire per byte of page."
)
@click.option(
    "--compressed",
    type=SHARE,
    default=LOAD.compressed,
    show_default=True,
    help="Bytes of a kept body per byte of page.",
)
@click.option(
    "--text", type=SHARE, default=LOAD.text, show_default=True, help="Bytes of main text per byte of page."
)
@click.option(
    "--new",
    type=SHARE,
    default=LOAD.new,
    show_default=True,
    help="Share of fetches with content not kept yet.",
)
@click.option("--hosts", type=click.IntRange(1), help="Hosts that are crawled; as many as needed by default.")
@click.option(
    "--warm-bytes",
    type=click.IntRange(0),
    default=LOAD.warm_bytes,
    show_default=True,
    help="Memory of a cell for connections at rest (fetch.warm_bytes).",
)
@click.option(
    "--core-hour", type=click.FloatRange(0), default=PRICES.core_hour, show_default=True, help="Price."
)
@click.option(
    "--gb-month",
    type=click.FloatRange(0),
    default=PRICES.gb_month,
    show_default=True,
    help="Price of storage.",
)
@click.option(
    "--gb-received",
    type=click.FloatRange(0),
    default=PRICES.gb_received,
    show_default=True,
    help="Price of traffic.",
)
@json_option
def size(
    rate: float, latency: float, page: int, delay: float, links: float, wire: float, compressed: float, text: float,
    new: float, hosts: int | None, warm_bytes: int, core_hour: float, gb_month: float, gb_received: float,
    as_json: bool,
) -> None:  # fmt: skip
    """Size a crawl: requests in flight, hosts, connections, cells, memory, bandwidth, disk, money.

    In flight = rate × latency (Little's law). A host gives at most 1 / (delay + latency) pages a second. The prices
    are examples: give your own. What the figures rest on: python -m bench.sizing.
    """
    load = Load(rate, latency, page, delay, wire, compressed, text, links, new, hosts or 0, warm_bytes)
    needed = need(load)
    month = cost(needed, Prices(core_hour, gb_month, gb_received))
    if as_json:
        print_json(
            msgspec.to_builtins(needed)
            | {"cost_per_month": msgspec.to_builtins(month) | {"total": month.total}}
        )
    else:
        _print(load, needed, month)


def _print(load: Load, needed: Need, month: Cost) -> None:
    lines = {
        "requests in flight": f"{needed.in_flight:,.1f}  (set fetch.slots to {needed.slots_per_cell:,} per cell)",
        "hosts in the seed": f"at least {needed.hosts_needed:,}, each asked as often as it may be",
        "connections": f"{needed.connections:,} open at most, in flight and kept warm",
        "cells": f"{needed.cells:,}  ({needed.cores:.2f} cores of CPU time; {bytes_text(needed.memory_bytes_per_cell)} "
        "of memory each)",
        "committer and NATS": f"{needed.committer_cores:.2f} cores",
        "open files": f"{needed.open_files_per_cell:,} per cell (ulimit -n)",
        "bandwidth": f"{needed.bandwidth_bits_per_second / 1e6:,.1f} Mbit/s",
        "disk": f"{bytes_text(needed.disk_bytes_per_day)} a day",
        "money": f"{month.total:,.0f} a month: cores {month.cores:,.0f}, storage {month.storage:,.0f} by its end and "
        f"as much more each month, traffic {month.received:,.0f} (example prices)",
    }
    click.echo(
        f"for {load.rate:g} fetches/s of {bytes_text(load.page)}, {load.latency:g} s each, {load.delay:g} s apart "
        "per host:"
    )
    for what, said in lines.items():
        click.echo(f"  {what:20} {said}")
