"""`crawl size`: what a crawl of a given rate needs, by Little's law and a few measured figures."""

import math

import click

from crawl_platform.cli.output import bytes_text, json_option, print_json

CPU_PER_PAGE, CPU_PER_BYTE = 0.0032, 1.2e-7
"""CPU seconds of a cell: a line through two crawls that were measured, 4.0 ms for pages of 7 KB (the demo's) and
15 ms for link-dense manuals of 95 KB (python3.11-doc, some 290 links each). Lighter pages cost less."""
MEMORY_PER_CONNECTION = 200_000
BASE_MEMORY = 300_000_000
"""A cell of one host and one of 64 hosts both peaked at 280-290 MB."""
KEPT_PER_PAGE = 0.35
"""Bytes in the lake per byte of page (compressed body, text, rows): 0.24 seen on 95 KB manuals, 0.54 on 7 KB pages."""


@click.command()
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), required=True, help="Pages per second.")
@click.option(
    "--latency",
    type=click.FloatRange(min=0, min_open=True),
    default=0.5,
    show_default=True,
    help="Seconds from request to end of response.",
)
@click.option("--page", type=int, default=100_000, show_default=True, help="Bytes of a page.")
@click.option(
    "--delay", type=float, default=1.0, show_default=True, help="Seconds between requests to a host."
)
@json_option
def size(rate: float, latency: float, page: int, delay: float, as_json: bool) -> None:
    """Size a crawl: requests in flight, hosts, cells, memory, bandwidth, disk.

    In flight = rate × latency (Little's law). A host gives at most 1 / (delay + latency) pages a second.
    """
    in_flight = rate * latency
    cells = max(1, math.ceil(rate * (CPU_PER_PAGE + page * CPU_PER_BYTE) / 0.8))
    hosts = math.ceil(rate * (delay + latency))
    need = {
        "in_flight": math.ceil(in_flight),
        "slots_per_cell": math.ceil(1.5 * in_flight / cells),
        "hosts_needed": hosts,
        "cells": cells,
        "open_files_per_cell": math.ceil((1.5 * in_flight + hosts) / cells) + 512,
        "memory_bytes_per_cell": int(BASE_MEMORY + MEMORY_PER_CONNECTION * hosts / cells),
        "bandwidth_bits_per_second": int(rate * page * 8 * 0.3),
        "disk_bytes_per_day": int(rate * page * KEPT_PER_PAGE * 86_400),
    }
    if as_json:
        print_json(need)
        return
    click.echo(f"for {rate:g} pages/s of {bytes_text(page)}, {latency:g} s each, {delay:g} s apart per host:")
    click.echo(
        f"  requests in flight   {need['in_flight']:,}  (set fetch.slots to {need['slots_per_cell']:,} per cell)"
    )
    click.echo(f"  hosts in the seed    at least {hosts:,}, each asked as often as it may be")
    click.echo(
        f"  cells                {cells:,}  (one core each, {bytes_text(need['memory_bytes_per_cell'])} of memory)"
    )
    click.echo(f"  open files           {need['open_files_per_cell']:,} per cell (ulimit -n)")
    click.echo(
        f"  bandwidth            {need['bandwidth_bits_per_second'] / 1e6:,.0f} Mbit/s with compression"
    )
    click.echo(f"  disk                 {bytes_text(need['disk_bytes_per_day'])} a day if every page is new")
