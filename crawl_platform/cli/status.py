"""`crawl status` and `crawl top`: what the fleet does now."""

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import bytes_text, json_option, print_json, print_rows, show
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.report import fleet_report

HELD = {
    "spool": "the lake does not confirm what it brings, and the spool is full (is the committer well?)",
    "staging": "rows can't be staged (is the disk full?)",
    "disk": "less than fleet.min_free_disk is free",
}
"""Of `telemetry.HELD_BY`, for people."""
RECENT = """
    SELECT outcome, count(*) AS fetches, round(avg(duration_ms)) AS ms, sum(wire_bytes)::BIGINT AS bytes
    FROM fetches WHERE started_at > now() - INTERVAL 1 MINUTE GROUP BY ALL ORDER BY fetches DESC LIMIT 12
"""
BUSIEST = """
    SELECT host, count(*) AS fetches, round(avg(duration_ms)) AS ms, sum(wire_bytes)::BIGINT AS bytes
    FROM fetches WHERE started_at > now() - INTERVAL 1 MINUTE GROUP BY ALL ORDER BY fetches DESC, host LIMIT 8
"""


@click.command()
@json_option
@home_option
def status(as_json: bool, home: Path) -> None:
    """Say whether the fleet runs, how its processes are, and how far the lake is.

    Exit status 0: all well; 1: something is not running as it should.
    """
    crawl = Crawl.at(home)
    report = _report(crawl)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if not report["well"]:
        raise SystemExit(1)


def _report(crawl: Crawl) -> dict[str, Any]:
    report = fleet_report(crawl.settings, crawl.lake, crawl.running_fleet, SystemClock().now())
    if report["trouble"]:
        click.echo(report["trouble"], err=True)
    return report


def _beats(crawl: Crawl) -> list[Heartbeat]:
    try:
        return sorted(crawl.fleet.heartbeats(), key=lambda beat: beat.cell)
    except ExchangeError as error:
        click.echo(f"the cells can't be asked: {error}", err=True)
        return []


def _print_report(report: dict[str, Any]) -> None:
    paused = ", PAUSED: no pages are claimed (`crawl resume` goes on)" if report["paused"] else ""
    click.echo(f"{report['home']}: {report['state']}{paused}")
    if report["paused_domains"]:
        click.echo(f"  paused: {', '.join(report['paused_domains'])} (`crawl resume DOMAIN` goes on)")
    if report["state"] == "died":
        click.echo("  the fleet ended without being stopped: `crawl up` goes on where it was")
    columns = {"name": "process", "state": "state", "pid": "pid", "restarts": "restarts", "detail": ""}
    if report["processes"]:
        print_rows([{**p, "pid": str(p["pid"] or "–")} for p in report["processes"]], columns, "")
    cells = {"cell": "cell", "pages": "pages", "errors": "errors", "rate": "fetches/s", "latency": "s each",
             "expected": "rate × s", "in_flight": "in flight", "slots": "slots", "known_urls": "URLs known",
             "hosts": "hosts"}  # fmt: skip
    if report["cells"]:
        click.echo("")
        rows = [{**c, "expected": c.get("rate", 0.0) * c.get("latency", 0.0)} for c in report["cells"]]
        print_rows(rows, cells, "")
    for cell in report["cells"]:
        if cell["silent"]:
            click.echo(
                f"{cell['cell']} is silent: its last sign of life is of {show(cell['last_heartbeat'])}"
            )
        if cell["held_by"]:
            click.echo(f"{cell['cell']} claims nothing: {HELD[cell['held_by']]}")
    commit = report["commit"]
    click.echo("")
    click.echo(
        f"lake: commit {commit['commit_id']} at {show(commit['committed_at'])}"
        if commit
        else "lake: nothing committed yet"
    )
    if report["dagster"]:
        click.echo(f"dagster: {report['dagster']}")


@click.command()
@click.option(
    "--every", type=click.FloatRange(0.5), default=2.0, show_default=True, help="Seconds between updates."
)
@click.option("--once", is_flag=True, help="Print one picture and end.")
@json_option
@home_option
def top(every: float, once: bool, as_json: bool, home: Path) -> None:
    """Watch the crawl live: cells, rates, outcomes of the last minute, the busiest hosts."""
    crawl = Crawl.at(home)
    if as_json:
        print_json(
            {
                "cells": [beat.report | {"cell": beat.cell} for beat in _beats(crawl)],
                "last_minute": crawl.lake.query(RECENT).to_pylist(),
                "busiest_hosts": crawl.lake.query(BUSIEST).to_pylist(),
            }
        )
        return
    with Live(_picture(crawl), auto_refresh=False, screen=not once) as live:
        while not once:
            try:
                time.sleep(every)
                live.update(_picture(crawl), refresh=True)
            except KeyboardInterrupt:
                return


def _picture(crawl: Crawl) -> Group:
    beats = _beats(crawl)
    total: dict[str, float] = {}
    for beat in beats:
        for key, value in beat.report.items():
            total[key] = total.get(key, 0) + value
    head = Text.from_markup(
        f"[bold]{total.get('rate', 0):.1f}[/] fetches/s   [bold]{total.get('pages', 0):,.0f}[/] pages   "
        f"[bold]{total.get('errors', 0):,.0f}[/] errors   [bold]{total.get('known_urls', 0):,.0f}[/] URLs known   "
        f"{bytes_text(total.get('bytes', 0))} read"
    )
    cells = Table(title="cells", title_justify="left", box=None, pad_edge=False)
    for heading in ("cell", "fetches/s", "s each", "in flight", "pages", "errors", "hosts"):
        cells.add_column(heading, justify="left" if heading == "cell" else "right")
    for beat in beats:
        r = beat.report
        cells.add_row(
            beat.cell,
            f"{r.get('rate', 0):.1f}",
            f"{r.get('latency', 0):.2f}",
            *(f"{r.get(k, 0):,.0f}" for k in ("in_flight", "pages", "errors", "hosts")),
        )
    outcomes = _last_minute(crawl, "outcomes of the last minute", "outcome", RECENT)
    busiest = _last_minute(crawl, "busiest hosts of the last minute", "host", BUSIEST)
    return Group(head, Text(""), cells, Text(""), outcomes, Text(""), busiest)


def _last_minute(crawl: Crawl, title: str, by: str, sql: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in (by, "fetches", "ms", "bytes"):
        table.add_column(heading, justify="left" if heading == by else "right")
    for row in crawl.lake.query(sql).to_pylist():
        table.add_row(
            Text(row[by]), show(row["fetches"]), show(row["ms"]), bytes_text(float(row["bytes"] or 0))
        )
    return table
