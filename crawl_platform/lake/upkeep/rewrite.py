"""Rows of some files into other files, and one commit that puts the new in the place of the old.

delta-rs rebases a commit that lost a race; of two rewrites of the same files it then takes both, and every row is
there twice (tried). So a rewrite is committed without retries: any other commit meanwhile refuses it, and it is
tried again only after a look that the old files are all still there.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from crawl_platform.errors import LakeError
from crawl_platform.lake.conform import conform
from crawl_platform.lake.delta import parquet_options, sync_folder
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.statistics import file_statistics, merge_statistics
from crawl_platform.lake.tables import DATE, TABLES, Table

DAILY = ("date",)
"""Partitioning of every table that is rewritten."""
WRITER_KEY, WRITER = "crawl.writer", "upkeep"
"""Commit metadata by which upkeep's own commits are known."""
TRIES = 20


class LiveFile(NamedTuple):
    """A data file of the current version. `path` is relative to the table, `day` its partition, `size` bytes."""

    path: str
    day: str
    size: int
    rows: int
    modified: int


class NewFile(NamedTuple):
    path: str
    day: str
    size: int
    modified: int
    stats: str


def live_files(delta: DeltaTable, root: Path) -> list[LiveFile]:
    """Data files of a table with daily partitions, oldest first."""
    found = []
    for action in pa.table(delta.get_add_actions(flatten=True)).to_pylist():
        rows = action.get("num_records")
        if rows is None:
            rows = pq.ParquetFile(root / action["path"]).metadata.num_rows
        day = str(action["partition.date"])
        found.append(LiveFile(action["path"], day, action["size_bytes"], rows, action["modification_time"]))
    return sorted(found, key=lambda file: (file.day, file.modified, file.path))


def rows_of(
    table: Table, root: Path, file: LiveFile, kept: pa.ChunkedArray | None = None
) -> Iterator[pa.Table]:
    """The rows of a data file, at most a row group at a time; only those for which `kept` is true, if given."""
    at = 0
    for batch in pq.ParquetFile(root / file.path).iter_batches(batch_size=_group(table)):
        rows = pa.Table.from_batches([batch])
        if kept is not None:
            rows = rows.filter(kept.slice(at, batch.num_rows))
        at += batch.num_rows
        if rows.num_rows:
            yield _as_declared(table, rows, file.day)


def _as_declared(table: Table, rows: pa.Table, day: str) -> pa.Table:
    """Files from before a column was added lack it; others than ours may have written other types."""
    if rows.schema.equals(table.file_schema, check_metadata=False):
        return rows.cast(table.file_schema)
    days = pa.array([day] * rows.num_rows).cast(DATE)
    return conform(table, rows.append_column("date", days)).select(table.file_schema.names)


def _group(table: Table) -> int:
    size = parquet_options(table)["row_group_size"]
    assert isinstance(size, int)
    return size


def write_files(table: Table, root: Path, day: str, rows: Iterable[pa.Table], target: int) -> list[NewFile]:
    """Write `rows` to new files of about `target` bytes, synced; nobody sees them yet. Memory: one row group."""
    folder = root / f"date={day}"
    if not folder.exists():
        folder.mkdir()
        sync_folder(root)
    files: list[NewFile] = []
    open_file: _OpenFile | None = None
    for group in _in_groups(rows, _group(table)):
        open_file = open_file or _OpenFile(table, folder)
        open_file.add(group)
        if open_file.size >= target:
            files.append(open_file.close(day))
            open_file = None
    if open_file is not None:
        files.append(open_file.close(day))
    sync_folder(folder)
    return files


def _in_groups(rows: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of `size` rows, the last one smaller."""
    waiting: list[pa.Table] = []
    count = 0
    for part in rows:
        waiting.append(part)
        count += part.num_rows
        while count >= size:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, size)
            waiting, count = [joined.slice(size)], count - size
    if count:
        yield pa.concat_tables(waiting)


class _OpenFile:
    """A file that is being written, a row group at a time."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table = table
        self._path = folder / f"upkeep-{secrets.token_hex(8)}.parquet"
        options: dict[str, Any] = parquet_options(table)
        self._group = options.pop("row_group_size")
        self._file: BinaryIO = self._path.open("wb")
        self._writer = pq.ParquetWriter(self._file, table.file_schema, **options)
        self._stats: list[str] = []

    @property
    def size(self) -> int:
        return self._file.tell()

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=self._group)
        self._stats.append(file_statistics(self._table, rows))

    def close(self, day: str) -> NewFile:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        status = os.fstat(self._file.fileno())
        self._file.close()
        path = f"{self._path.parent.name}/{self._path.name}"
        modified = status.st_mtime_ns // 1_000_000
        return NewFile(path, day, status.st_size, modified, merge_statistics(self._stats))


def replace_files(
    lake: Lake, name: str, old: Sequence[LiveFile], new: Sequence[NewFile], *, now: float, data_change: bool
) -> None:
    """One commit that names `new` instead of `old`. `now`: UTC seconds.

    Raises `LakeError` if somebody has removed one of `old` meanwhile: the new files then hold rows of a past
    version, and stay unnamed.
    """
    actions: list[AddAction | RemoveAction] = [
        *(RemoveAction(f.path, data_change, int(now * 1000), f.size, {"date": f.day}) for f in old),
        *(AddAction(f.path, f.size, {"date": f.day}, f.modified, data_change, f.stats) for f in new),
    ]
    schema = Schema.from_arrow(TABLES[name].schema)
    properties = CommitProperties(custom_metadata={WRITER_KEY: WRITER}, max_commit_retries=0)
    paths = {file.path for file in old}
    for _ in range(TRIES):
        delta = lake.delta(name)
        present = set(pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist())
        if not paths <= present:
            raise LakeError(
                f"{name} was rewritten by somebody else meanwhile: nothing was changed, run again"
            )
        try:
            delta.create_write_transaction(
                actions, "append", schema, partition_by=list(DAILY), commit_properties=properties
            )
        except CommitFailedError:
            continue
        return
    raise LakeError(f"{name} had other commits {TRIES} times in a row: nothing was changed, run again")
