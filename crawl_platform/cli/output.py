"""How commands print: JSON for programs, a table or sentences for people."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

Rows = Sequence[dict[str, Any]]


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: Any) -> None:
    """Times in ISO 8601 (UTC), as `crawl sql --json` prints them."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


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
    Console().print(table)


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
