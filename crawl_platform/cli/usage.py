"""`crawl usage`: what the crawl has used, per day and host, and what lies on the disk; below it `import`, for how its
pages are used."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import ShowOrCommand, home_option
from crawl_platform.cli.output import bytes_text, json_option, print_json, print_rows
from crawl_platform.cli.usage_import import import_usage
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from resources.requests import named_host

SUMS = """
count(*) AS fetches, count(*) FILTER (WHERE kind = 'page' AND outcome IN ('ok', 'not_modified')) AS pages,
coalesce(sum(wire_bytes), 0)::BIGINT AS wire_bytes, coalesce(sum(body_bytes), 0)::BIGINT AS body_bytes,
round(coalesce(sum(duration_ms), 0) / 1000, 3) AS request_seconds,
round(coalesce(sum(charged), 0), 6)::DOUBLE AS paid
"""
PER_DAY = f"SELECT date, {SUMS} FROM fetches WHERE date >= $1 AND ($2 IS NULL OR host = $2) GROUP BY date ORDER BY date"
PER_HOST = f"""
SELECT host, {SUMS} FROM fetches WHERE date >= $1 AND ($2 IS NULL OR host = $2)
GROUP BY host ORDER BY wire_bytes DESC, host LIMIT $3
"""
CPU = """
SELECT date, round(sum(cpu_seconds), 3) AS cpu_seconds, max(rss_bytes) AS most_memory_of_a_cell
FROM fleet_stats WHERE date >= $1 GROUP BY date
"""
BESIDE = ("cells", "nats", "dagster", "logs", "marts")
"""Folders of the home that grow, apart from the lake."""


@click.command(cls=ShowOrCommand)
def usage() -> None:
    """Say what the crawl has used (`crawl usage`), or import how pages were used (`crawl usage import FILE`)."""


usage.add_command(import_usage)


@usage.command("show")
@click.option(
    "--days", type=click.IntRange(1), default=7, show_default=True, help="Days to look back, today included."
)
@click.option("--host", help="Only this host (CPU is not told apart by host).")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Hosts to list.")
@json_option
@home_option
def show_usage(days: int, host: str | None, limit: int, as_json: bool, home: Path) -> None:
    """Say what the crawl has used: bytes, seconds and CPU by day and host, disk by table.

    Wire bytes are body bytes as they came over the network; days are UTC.
    """
    crawl = Crawl.at(home)
    since = as_datetime(SystemClock().now()).date() - timedelta(days=days - 1)
    name = None if host is None else named_host(host)
    by_day = _by_day(crawl.lake, since, name)
    by_host = crawl.lake.query(PER_HOST, [since, name, limit]).to_pylist()
    disk = [*_tables(crawl.lake), *_folders(crawl.home)]
    if as_json:
        print_json({"since": since, "by_day": by_day, "by_host": by_host, "disk": disk})
        return
    used = {"fetches": "fetches", "pages": "pages", "wire": "over the wire", "body": "inflated",
            "request_seconds": "request s"}  # fmt: skip
    if any(row["paid"] for row in by_day):
        used["paid"] = f"paid ({crawl.settings.payment.currency})"
    click.echo(f"since {since}:")
    day_columns = {"date": "day", **used}
    if name is None:
        day_columns |= {"cpu_seconds": "CPU s", "memory": "most memory of a cell"}
    print_rows(list(map(_shown, by_day)), day_columns, "nothing was fetched")
    click.echo("")
    print_rows(list(map(_shown, by_host)), {"host": "host", **used}, "no host was asked")
    click.echo("")
    print_rows(
        list(map(_shown, disk)),
        {"name": "on disk", "rows": "rows", "current": "current", "all": "in all"},
        "",
    )


def _by_day(lake: Lake, since: date, host: str | None) -> list[dict[str, Any]]:
    cpu = {row.pop("date"): row for row in lake.query(CPU, [since]).to_pylist()} if host is None else {}
    days: list[dict[str, Any]] = lake.query(PER_DAY, [since, host]).to_pylist()
    return [{**day, **cpu.get(day["date"], {})} for day in days]


def _tables(lake: Lake) -> Iterator[dict[str, Any]]:
    """Current rows and bytes of each table from its log, and all that lies in its folder (history, staged files)."""
    for name in TABLES:
        rows, current = lake.rows_and_bytes(name)
        yield {
            "name": name,
            "rows": rows,
            "current_bytes": current,
            "all_bytes": _folder_bytes(lake.path(name)),
        }


def _folders(home: Path) -> Iterator[dict[str, Any]]:
    for name in BESIDE:
        if (home / name).is_dir():
            yield {
                "name": f"{name}/",
                "rows": None,
                "current_bytes": None,
                "all_bytes": _folder_bytes(home / name),
            }


def _folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; what goes away meanwhile counts no longer."""
    total = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        total += status.st_size
    return total


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes for people beside the numbers."""
    names = {"wire_bytes": "wire", "body_bytes": "body", "current_bytes": "current", "all_bytes": "all",
             "most_memory_of_a_cell": "memory"}  # fmt: skip
    return {**row, **{new: bytes_text(row[old]) for old, new in names.items() if row.get(old) is not None}}
