"""Query results for people (a table that fits the terminal) and for programs (JSON, CSV).

JSON is a list of objects: times in ISO 8601 (UTC), maps as objects, bytes in base64, NaN as null. CSV has
the same values; nested ones as JSON.
"""

import csv
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TextIO

import msgspec
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from crawl_platform.errors import QueryError

BATCH_ROWS = 2_000
CELL_WIDTH = 300
"""Characters of one value shown in a table; longer ones are cut."""
NARROWEST = 10
"""Columns that would get fewer characters than this each are shown one below the other instead."""


def write_json(result: pa.RecordBatchReader, out: TextIO) -> None:
    """All rows as one JSON list, one object per line."""
    names = _unique(result.schema.names)
    start = "["
    for row in _rows(result):
        out.write(start + msgspec.json.encode(dict(zip(names, row, strict=True))).decode())
        start = ",\n "
    out.write("[]\n" if start == "[" else "]\n")


def write_csv(result: pa.RecordBatchReader, out: TextIO) -> None:
    """All rows as CSV with a header; null is empty."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_unique(result.schema.names))
    for row in _rows(result):
        writer.writerow([_csv_cell(value) for value in row])


def print_table(result: pa.RecordBatchReader, console: Console, limit: int) -> None:
    """The first `limit` rows, as a table if it fits the console and else one record below the other."""
    names = _unique(result.schema.names)
    rows: list[list[str]] = []
    more = False
    for row in _rows(result):
        if len(rows) == limit:
            more = True
            break
        rows.append([_cell(value) for value in row])
    if names == ["explain_key", "explain_value"]:
        console.print(Text("\n".join(row[1] for row in rows)))
    elif len(names) * (NARROWEST + 3) > max(console.width, 3 * (NARROWEST + 3)):
        _print_records(names, rows, console)
    else:
        _print_grid(names, rows, console, result.schema)
    note = f"the first {limit:,} rows; --csv and --json give all" if more else _counted(len(rows))
    console.print(Text(f"({note})", style="dim"))


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _print_grid(names: list[str], rows: list[list[str]], console: Console, schema: pa.Schema) -> None:
    grid = RichTable(show_lines=False, header_style="bold")
    for name, field in zip(names, schema, strict=True):
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        number = number or pa.types.is_decimal(field.type)
        grid.add_column(Text(name), justify="right" if number else "left", overflow="fold", no_wrap=False)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console.print(grid)


def _print_records(names: list[str], rows: list[list[str]], console: Console) -> None:
    for number, row in enumerate(rows, 1):
        console.rule(Text(f"row {number}"), align="left")
        record = RichTable.grid(padding=(0, 2))
        record.add_column(style="bold", no_wrap=True)
        record.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            record.add_row(Text(name), Text(cell))
        console.print(record)


def _rows(result: pa.RecordBatchReader) -> Iterator[list[Any]]:
    for batch in result:
        columns = [
            _python(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield from ([_plain(value) for value in row] for row in zip(*columns, strict=True))


def _python(name: str, column: pa.Array) -> list[Any]:
    """Python values of a column; an infinite date, say, has none."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, TypeError, OverflowError) as error:
        raise QueryError(f"a value of {name} can't be shown ({error}): CAST({name} AS VARCHAR)") from error
    return values


def _interval(value: Any) -> str:
    """As DuckDB writes and reads it: 1 month 2 days 03:04:05."""
    parts = [f"{value.months} months"] if value.months else []
    parts += [f"{value.days} days"] if value.days else []
    minutes, seconds = divmod(abs(value.nanoseconds) / 1e9, 60)
    sign = "-" if value.nanoseconds < 0 else ""
    clock = f"{sign}{int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:09.6f}".removesuffix(".000000")
    return " ".join([*parts, clock] if value.nanoseconds or not parts else parts)


def _plain(value: Any) -> Any:
    """`value` in types that JSON knows, bytes and times apart (they have an encoding of their own)."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    return value


def _csv_cell(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    text = msgspec.json.encode(value).decode()
    return text if isinstance(value, dict | list) else text.strip('"')


def _cell(value: Any) -> str:
    """`value` for a person: short, on one line where it can be."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    if isinstance(value, date):
        return value.isoformat()
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def _unique(names: list[str]) -> list[str]:
    """Column names with `_1`, `_2` … after repeated ones, so that an object can hold them all."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        unique.append(f"{name}_{count}" if count else name)
    return unique
