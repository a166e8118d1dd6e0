"""How commands print: JSON for programs, a table or sentences for people."""

import shutil
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 10_000
Rows = Sequence[dict[str, Any]]


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: Any) -> None:
    """Times in ISO 8601 (UTC), as `crawl sql --json` prints them."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def wide_console() -> Console:
    """As wide as the terminal (or COLUMNS); into a pipe nothing is folded, so that lines can be searched."""
    return Console(width=shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)


def print_rows(rows: Rows, columns: dict[str, str], empty: str) -> None:
    """A table of `columns` (key → heading), or the sentence `empty`."""
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for key, heading in columns.items():
        number = isinstance(rows[0].get(key), int | float)
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(show(row.get(key))) for key in columns))
    wide_console().print(table)


def versions_text(versions: Any) -> str:
    """Input versions of a decision: `links 16, fetches 18`."""
    return ", ".join(f"{table} {version}" for table, version in dict(versions).items())


def count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show(value: Any) -> str:
    """A value for people: short numbers, times without microseconds."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def bytes_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
