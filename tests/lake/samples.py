"""Rows that fit any declared table, and the short way to commit them."""

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from crawl_platform.lake.delta import STAGED, DeltaWriter, StagedFile, split_by_partition, write_parquet
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import DATE, TABLES, TIME, Table

NOON = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)


def row(table: Table, n: int = 0, **changes: Any) -> dict[str, Any]:
    """The `n`-th sample row of `table`: every column filled, later rows with later times."""
    values = {column.name: _value(column.name, column.type, n) for column in table.columns}
    return {**values, **changes}


def _value(name: str, type_: pa.DataType, n: int) -> Any:
    if type_ == TIME:
        return NOON + timedelta(seconds=n)
    if type_ == DATE:
        return NOON.date()
    if pa.types.is_map(type_):
        return [(name, _value(name, type_.item_type, n)), ("é", _value(name, type_.item_type, n + 1))]
    if pa.types.is_list(type_):
        return [f"{name}-{n}", "é"]
    if pa.types.is_boolean(type_):
        return n % 2 == 0
    if pa.types.is_floating(type_):
        return n + 0.5
    if pa.types.is_binary(type_):
        return bytes([n % 256, 0, 255]) * 10
    return n if pa.types.is_integer(type_) else f"{name}-{n}"


def rows(name: str, count: int = 3, first: int = 0, **changes: Any) -> pa.Table:
    table = TABLES[name]
    return pa.Table.from_pylist(
        [row(table, n, **changes) for n in range(first, first + count)], schema=table.schema
    )


def stage(lake: Lake, name: str, data: pa.Table, file: str) -> list[StagedFile]:
    """Write `data` as staged files named after `file`, one per partition."""
    table, folder = TABLES[name], lake.path(name) / STAGED
    return [
        write_parquet(table, part, folder / f"{file}-{number}.parquet")
        for number, (_, part) in enumerate(split_by_partition(table, data))
    ]


def commit(lake: Lake, name: str, data: pa.Table, manifest: int, app: str = "cell/bulk") -> int:
    """Stage and commit `data` as manifest number `manifest`; returns the version."""
    files = stage(lake, name, data, f"{app.replace('/', '-')}-{manifest}")
    return DeltaWriter(lake.path(name), TABLES[name]).commit(files, {app: manifest}, {})


def publish(lake: Lake, commit_id: int, **versions: int) -> None:
    """Write a row of `commits` with this version vector."""
    vector = pa.Table.from_pylist(
        [row(TABLES["commits"], commit_id, commit_id=commit_id, versions=list(versions.items()))],
        schema=TABLES["commits"].schema,
    )
    lake.append("commits", vector, transaction=("committer", commit_id))


def in_threads(count: int, work: Callable[[int], object]) -> list[Exception]:
    """Run `work(n)` in `count` threads that start together; returns what they raised."""
    barrier, failed = threading.Barrier(count), []

    def run(n: int) -> None:
        barrier.wait()
        try:
            work(n)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def day(n: int) -> date:
    return NOON.date() + timedelta(days=n)
