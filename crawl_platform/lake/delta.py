"""Delta, one level below the `Lake`: data files written ahead of their commit, and the commit itself.

Life of a file:

1. a cell writes it with `write_parquet` under `<table>/_staged/` and syncs it: no reader sees it;
2. the committer checks that it is there (`missing_files`), because a commit that names a missing file
   succeeds and then the whole table can't be read;
3. `DeltaWriter.commit` names it in the log together with the application transactions (incarnation and
   series → manifest number) that make a second commit of the same manifest impossible.

The rule of a writer: refresh → `transaction_version` → commit, without a refresh in between. Delta then
refuses the commit if another writer has moved one of the same transactions since, and `commit` itself
refuses a number that isn't above the recorded one.
"""

import functools
import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from crawl_platform.errors import LakeError, OwnershipLostError
from crawl_platform.lake.conform import conform
from crawl_platform.lake.statistics import file_statistics
from crawl_platform.lake.tables import Table

STAGED = "_staged"
LARGE_ROW_GROUP = 500
"""Rows of up to 250 KB bodies: 125 MB at the very most in one row group, 15 MB as pages go."""
ROW_GROUP = 100_000
COMMIT_RETRIES = 200
"""How often Delta rebases a commit that lost a race to another that doesn't conflict."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")


class StagedFile(msgspec.Struct, frozen=True):
    """One data file that waits for its commit. `path` is relative to its table's root; sizes in bytes.

    `modified` is the file's modification time, milliseconds since 1970; `stats` is Delta statistics (JSON).
    """

    table: str
    path: str
    partition: dict[str, str | None]
    size: int
    rows: int
    modified: int
    stats: str


def split_by_partition(table: Table, data: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """(partition values, rows) for each partition in `data`, in order; one data file holds one partition."""
    data = conform(table, data)
    if not table.partition_by:
        if data.num_rows:
            yield {}, data
        return
    keys = data.select(list(table.partition_by))
    distinct = keys.group_by(keys.schema.names).aggregate([])
    for key in distinct.sort_by([(name, "ascending") for name in keys.schema.names]).to_pylist():
        rows = data if distinct.num_rows == 1 else data.filter(_matches(key))
        yield {name: _partition_value(value) for name, value in key.items()}, rows


def _matches(key: Mapping[str, object]) -> pc.Expression:
    tests = [pc.is_null(pc.field(n)) if v is None else pc.field(n) == v for n, v in key.items()]
    return functools.reduce(operator.and_, tests)


def _partition_value(value: object) -> str | None:
    return None if value is None else str(value)


def write_parquet(table: Table, data: pa.Table, path: Path) -> StagedFile:
    """Write the rows of one partition to `path`, under its table's `_staged`, and sync file and folder.

    Raises `LakeError` if `data` doesn't fit the declaration, is empty or spans partitions.
    """
    relative = _staged_path(path)
    parts = list(split_by_partition(table, data))
    if len(parts) != 1:
        raise LakeError(
            f"one file holds one partition of {table.name}, got {len(parts)} (split_by_partition)"
        )
    partition, rows = parts[0]
    rows = rows.select(table.file_schema.names)
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    with path.open("wb") as file:
        pq.write_table(rows, file, **parquet_options(table))
        file.flush()
        os.fsync(file.fileno())
        status = os.fstat(file.fileno())
    sync_folder(path.parent)
    return StagedFile(
        table=table.name,
        path=relative,
        partition=partition,
        size=status.st_size,
        rows=rows.num_rows,
        modified=status.st_mtime_ns // 1_000_000,
        stats=file_statistics(table, rows),
    )


def _staged_path(path: Path) -> str:
    parts = path.parts
    if STAGED not in parts:
        raise LakeError(f"{path} isn't under a table's {STAGED} folder: other folders are swept by vacuum")
    relative = "/".join(parts[len(parts) - 1 - parts[::-1].index(STAGED) :])
    if not _PLAIN_PATH.fullmatch(relative):
        raise LakeError(f"{relative}: a data file's name is letters, digits, dots, dashes and underscores")
    return relative


def parquet_options(table: Table) -> dict[str, object]:
    """Arguments of `pyarrow.parquet.write_table`.

    Bodies are compressed already; zstd on the text costs 12 µs a page and saves 2/3.
    """
    if not table.large:
        return {"compression": "zstd", "row_group_size": ROW_GROUP}
    small = [name for name in table.file_schema.names if name not in table.large]
    as_it_came = {n for n in table.large if pa.types.is_binary(table.file_schema.field(n).type)}
    return {
        "compression": {n: "none" if n in as_it_came else "zstd" for n in table.file_schema.names},
        "use_dictionary": [n for n in small if not pa.types.is_nested(table.file_schema.field(n).type)],
        "write_statistics": small,
        "row_group_size": LARGE_ROW_GROUP,
    }


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a file's own fsync doesn't cover its directory entry."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def missing_files(table_root: Path, files: Iterable[StagedFile]) -> list[StagedFile]:
    """Those of `files` that aren't staged under `table_root` with the size they were staged with."""
    return [file for file in files if not _is_staged(file) or _size(table_root / file.path) != file.size]


def _is_staged(file: StagedFile) -> bool:
    """Whether it could have come from `write_parquet`: a forged path leads out of the table, or into its log."""
    folder, _, name = file.path.rpartition("/")
    return folder == STAGED and _PLAIN_PATH.fullmatch(name) is not None and _is_json(file.stats)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


class DeltaWriter:
    """One table's log, held open by its only writer. `root` is the table's own folder."""

    def __init__(self, root: Path, table: Table) -> None:
        self.root = root
        self.table = table
        self._schema = Schema.from_arrow(table.schema)
        self._delta = open_delta(root)

    @property
    def version(self) -> int:
        """Version of the last refresh or own commit."""
        return self._delta.version()

    def refresh(self) -> int:
        """Read what others have committed since; returns the version.

        A purge deletes log entries that a reader at an older version would read next: then it starts anew.
        """
        try:
            self._delta.update_incremental()
        except DeltaError:
            self._delta = open_delta(self.root)
        return self.version

    def transaction_version(self, app: str) -> int | None:
        """Number last committed for `app` as of the last refresh or own commit, None if there is none."""
        return self._delta.transaction_version(app)

    def commit(
        self, files: Sequence[StagedFile], transactions: Mapping[str, int], metadata: Mapping[str, str]
    ) -> int:
        """Add `files` to the table and record `transactions`, all or nothing; returns the new version.

        `files` may be empty (an empty manifest still moves its number). Raises `OwnershipLostError` if one
        of the numbers isn't above the recorded one or somebody has moved it since the last refresh.
        """
        self._check(files, transactions)
        properties = CommitProperties(
            custom_metadata=dict(metadata),
            max_commit_retries=COMMIT_RETRIES,
            app_transactions=[Transaction(app, number) for app, number in transactions.items()],
        )
        before = self.version
        try:
            self._delta.create_write_transaction(
                [_add_action(file) for file in files],
                "append",
                self._schema,
                partition_by=list(self.table.partition_by),
                commit_properties=properties,
            )
        except DeltaError as error:
            self._raise_if_moved(transactions, error)
            raise LakeError(f"{self.table.name} refused the commit: {error}") from error
        self.refresh()
        return self._own_version(before, transactions)

    def _check(self, files: Sequence[StagedFile], transactions: Mapping[str, int]) -> None:
        if not transactions:
            raise LakeError(
                f"a commit to {self.table.name} needs a transaction: without, it could happen twice"
            )
        for app, number in transactions.items():
            recorded = self.transaction_version(app)
            if recorded is not None and recorded >= number:
                raise OwnershipLostError(
                    f"{self.table.name} already has transaction {recorded} of {app}; {number} would repeat it"
                )
        if len({file.path for file in files}) != len(files):
            raise LakeError(
                f"a file is named twice in one commit to {self.table.name}: its rows would double"
            )
        for file in files:
            if file.table != self.table.name or set(file.partition) != set(self.table.partition_by):
                raise LakeError(f"{file.path} was staged for {file.table}, partition {file.partition}")

    def _raise_if_moved(self, transactions: Mapping[str, int], error: DeltaError) -> None:
        """Raise `OwnershipLostError` if one of the transactions has been moved since the last refresh."""
        now = open_delta(self.root)
        moved = [app for app in transactions if now.transaction_version(app) != self.transaction_version(app)]
        if moved:
            raise OwnershipLostError(
                f"another committer has moved {', '.join(moved)} in {self.table.name} since the last refresh"
            ) from error

    def _own_version(self, before: int, transactions: Mapping[str, int]) -> int:
        """The version of the commit just made: others may have come in between and after."""
        if self.version == before + 1:
            return self.version
        app, number = next(iter(transactions.items()))
        for version in range(before + 1, self.version + 1):
            if (app, number) in log_transactions(self.root, version):
                return version
        raise LakeError(f"{self.table.name}: the commit of {app} {number} is not in the log")


def _add_action(file: StagedFile) -> AddAction:
    return AddAction(file.path, file.size, file.partition, file.modified, True, file.stats)


def open_delta(root: Path, version: int | None = None) -> DeltaTable:
    """The Delta table at `root`, or `LakeError` saying what is wrong."""
    try:
        return DeltaTable(str(root), version=version)
    except TableNotFoundError as error:
        raise LakeError(f"there is no table at {root}: create the lake first") from error
    except DeltaError as error:
        raise LakeError(f"{root} can't be read at version {version}: {error}") from error


def log_entry(root: Path, version: int) -> list[dict[str, dict[str, object]]]:
    """The actions of one commit, as in the log. Raises `LakeError` once the entry has been cleaned away."""
    path = root / "_delta_log" / f"{version:020d}.json"
    try:
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError as error:
        raise LakeError(f"{root.name} has no log entry for version {version}") from error


def log_transactions(root: Path, version: int) -> set[tuple[object, object]]:
    """(application, number) of each transaction recorded by that commit."""
    entries = (action["txn"] for action in log_entry(root, version) if "txn" in action)
    return {(txn["appId"], txn["version"]) for txn in entries}
