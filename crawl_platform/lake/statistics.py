"""Per-file statistics, so that readers can skip files (Delta protocol, "Per-file Statistics").

A statistic may be left out but must never be wrong: a minimum may lie below the true one, a maximum above.
"""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from crawl_platform.lake.tables import Table

PREFIX = 32
"""Characters kept of a string bound, as other Delta writers do; URLs differ within that or not at all."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_CHARACTER = "\U0010ffff"


def file_statistics(table: Table, data: pa.Table) -> str:
    """Delta statistics (JSON) of a file that holds `data`, for the scalar columns that aren't `large`."""
    minimum: dict[str, object] = {}
    maximum: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for field in table.file_schema:
        if field.name in table.large or pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            continue
        column = data.column(field.name)
        nulls[field.name] = column.null_count
        low, high = _bounds(column)
        if low is not None and high is not None:
            minimum[field.name], maximum[field.name] = low, high
    return msgspec.json.encode(
        {"numRecords": data.num_rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}
    ).decode()


def merge_statistics(parts: Sequence[str]) -> str:
    """Statistics of a file from those of its row groups, each by `file_statistics`.

    A bound holds for the file only if every group that has values in the column gives one. Bounds compare as the
    JSON values that they are: times and days are written so that they sort as text.
    """
    stats = [msgspec.json.decode(part) for part in parts]
    merged = {
        "numRecords": sum(part["numRecords"] for part in stats),
        "minValues": _merged_bounds(stats, "minValues", min),
        "maxValues": _merged_bounds(stats, "maxValues", max),
        "nullCount": {name: sum(part["nullCount"][name] for part in stats) for name in stats[0]["nullCount"]},
    }
    return msgspec.json.encode(merged).decode()


def _merged_bounds(
    stats: list[dict[str, Any]], kind: str, pick: Callable[[list[Any]], Any]
) -> dict[str, Any]:
    bounds = {}
    for name in stats[0]["nullCount"]:
        with_values = [part for part in stats if part["nullCount"][name] < part["numRecords"]]
        given = [part[kind][name] for part in with_values if name in part[kind]]
        if given and len(given) == len(with_values):
            bounds[name] = pick(given)
    return bounds


def _bounds(column: pa.ChunkedArray) -> tuple[object, object]:
    """JSON values of the lowest and highest entry, None where there is none to give."""
    if column.null_count == len(column) or pa.types.is_boolean(column.type):
        return None, None
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None, None
    bounds = pc.min_max(column)
    low, high = bounds["min"], bounds["max"]
    if pa.types.is_timestamp(column.type):
        return _timestamp(low.value), _timestamp(high.value)
    if pa.types.is_string(column.type):
        return low.as_py()[:PREFIX], _string_above(high.as_py())
    return _json_value(low.as_py()), _json_value(high.as_py())


def _string_above(value: str) -> str | None:
    """A short string that sorts at or above `value`, None if there is none of that form."""
    if len(value) <= PREFIX:
        return value
    if value[PREFIX] == LAST_CHARACTER:
        return None
    return value[:PREFIX] + LAST_CHARACTER


def _timestamp(micros: int) -> str | None:
    """ISO 8601 in UTC to the microsecond; None outside the years 1 to 9999, which it can't write."""
    try:
        moment = EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _json_value(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
