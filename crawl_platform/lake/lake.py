"""The lake: a folder of Delta tables, read at one consistent version vector.

There is no transaction across Delta tables. The committer writes a row into `commits` once all tables of
a round are in place; its `versions` are the vector at which the fleet's tables agree with each other, and
readers stand there. Tables that Dagster or people write are read at their current version, unless a past
commit is asked for that names theirs too.
"""

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from crawl_platform.errors import ConfigurationError, LakeError, StateTooNewError
from crawl_platform.lake.commits import CommitRow, find_commit, last_commit
from crawl_platform.lake.conform import conform
from crawl_platform.lake.delta import COMMIT_RETRIES, log_entry, open_delta, sync_folder
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.history import require_readable
from crawl_platform.lake.tables import COMMITS, SCHEMA_VERSION, TABLES, Table
from crawl_platform.lake.views import ALL_VIEWS, create_views, views_named

INPUTS_KEY = "crawl.inputs"
"""Commit metadata: the versions a commit's rows were computed from, as JSON."""
CARD_NAME = "lake.json"
LOCK_NAME = ".create.lock"


class Card(msgspec.Struct, frozen=True):
    """What is fixed when a lake is created; kept in `lake.json`, written last."""

    n_shards: int
    schema_version: int


class Lake:
    """The tables under `root`. Holds no open files; safe to use from several threads and processes."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()

    # --- the lake as a whole ---

    def exists(self) -> bool:
        """Whether the lake has been created in full."""
        return (self.root / CARD_NAME).exists()

    def create(self, n_shards: int) -> None:
        """Create what is missing of the declared tables and nullable columns.

        Safe to repeat, and to do in several processes at once. Raises `ConfigurationError` if the lake
        exists with another number of shards, `LakeError` if a table was declared otherwise, `StateTooNewError` if
        a newer release has made it.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with _alone(self.root / LOCK_NAME):
            if self.exists():
                self._require_shards(n_shards)
                self._require_known()
            for table in TABLES.values():
                self._create_table(table)
            if not self.exists():
                self._write_card(Card(n_shards, SCHEMA_VERSION))

    @property
    def n_shards(self) -> int:
        """Number of shards that hosts are spread over, fixed at creation."""
        return self._card().n_shards

    def _card(self) -> Card:
        path = self.root / CARD_NAME
        try:
            return msgspec.json.decode(path.read_bytes(), type=Card)
        except FileNotFoundError as error:
            raise LakeError(
                f"there is no lake at {self.root}: name the crawl's folder, or start a crawl"
            ) from error
        except msgspec.DecodeError as error:
            raise LakeError(f"{path} is damaged: {error}") from error

    def _require_shards(self, n_shards: int) -> None:
        if self.n_shards != n_shards:
            raise ConfigurationError(
                f"the lake at {self.root} has {self.n_shards} shards and can't change: "
                f"set fleet.shards = {self.n_shards}, or start a new lake"
            )

    def _require_known(self) -> None:
        version = self._card().schema_version
        if version > SCHEMA_VERSION:
            raise StateTooNewError(
                f"the lake at {self.root} has schema version {version}, this release knows {SCHEMA_VERSION}: "
                "run the newer release"
            )

    def _write_card(self, card: Card) -> None:
        """Whole or not at all, and durable."""
        draft = self.root / f".{CARD_NAME}"
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(card))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.root / CARD_NAME)
        sync_folder(self.root)

    def _create_table(self, table: Table) -> None:
        path = str(self.root / table.name)
        if DeltaTable.is_deltatable(path):
            _add_columns(table, self.delta(table.name))
            return
        try:
            DeltaTable.create(
                path,
                Schema.from_arrow(table.schema),
                partition_by=list(table.partition_by) or None,
                name=table.name,
                description=table.row,
                configuration={"delta.enableExpiredLogCleanup": "false"},
            )
        except DeltaError as error:
            raise LakeError(f"{table.name} can't be created at {path}: {error}") from error

    # --- one table ---

    def path(self, name: str) -> Path:
        """Folder of the table `name`."""
        return self.root / _declared(name).name

    def delta(self, name: str, version: int | None = None) -> DeltaTable:
        """The Delta table `name` at `version`, by default the current one."""
        if version is not None:
            require_readable(self.root, {name: version})
        return open_delta(self.path(name), version)

    def version(self, name: str) -> int:
        """Current Delta version of the table `name`."""
        return int(self.delta(name).version())

    def versions(self) -> dict[str, int]:
        """Current Delta version of every table: not a consistent vector, see `latest_commit`."""
        return {name: self.version(name) for name in TABLES}

    def rows_and_bytes(self, name: str, version: int | None = None) -> tuple[int, int]:
        """Rows and bytes of the data files of a version (default: the current one), from the log alone."""
        files = pa.table(self.delta(name, version).get_add_actions(flatten=True))
        if not files.num_rows:
            return 0, 0
        return sum(files["num_records"].to_pylist()), sum(files["size_bytes"].to_pylist())

    def inputs_of(self, name: str, version: int | None = None) -> dict[str, int]:
        """The versions that a commit says its rows were computed from; empty if it says none."""
        version = self.version(name) if version is None else version
        for action in log_entry(self.path(name), version):
            text = action.get("commitInfo", {}).get(INPUTS_KEY)
            if isinstance(text, str):
                return msgspec.json.decode(text, type=dict[str, int])
        return {}

    # --- writing ---

    def append(
        self,
        name: str,
        data: pa.Table,
        inputs: Mapping[str, int] | None = None,
        transaction: tuple[str, int] | None = None,
    ) -> int:
        """Append rows to a table that isn't the fleet's; returns the version that holds them.

        With a `transaction` (application, number) a repeated call changes nothing and returns the current
        version. Concurrent appends all succeed. Raises `LakeError` for rows that don't fit the declaration.
        """
        table = _writable(name)
        rows = conform(table, data)
        handle = self.delta(name)
        if transaction and _already(handle, transaction):
            return int(handle.version())
        try:
            return _write(handle, rows, "append", inputs, transaction)
        except CommitFailedError as error:
            fresh = self.delta(name)
            if transaction and _already(fresh, transaction):
                return int(fresh.version())
            raise LakeError(f"{name} refused the rows: {error}") from error

    def overwrite(self, name: str, data: pa.Table, inputs: Mapping[str, int] | None = None) -> int:
        """Replace all rows of a table that isn't the fleet's; returns the version that holds them."""
        rows = conform(_writable(name), data)
        try:
            return _write(self.delta(name), rows, "overwrite", inputs, None)
        except CommitFailedError as error:
            raise LakeError(f"{name} was replaced by another writer meanwhile, run again: {error}") from error

    # --- reading ---

    def latest_commit(self) -> CommitRow | None:
        """The last row of `commits`, None before the first."""
        return last_commit(self.delta(COMMITS.name), self.path(COMMITS.name))

    def commit(self, commit_id: int) -> CommitRow:
        """The row of `commits` with that id. Raises `LakeError` if there is none."""
        return find_commit(self.delta(COMMITS.name), self.path(COMMITS.name), commit_id)

    def vector(
        self, at: int | None = None, tables: Collection[str] = tuple(TABLES)
    ) -> tuple[dict[str, int], int | None]:
        """(version of each table, commit it belongs to) as seen at commit `at` (default: the last).

        Tables that the commit doesn't name, and all before the first, are at their current version.
        """
        self._card()
        row = self.latest_commit() if at is None else self.commit(at)
        named = {} if row is None else row.versions
        versions: dict[str, int] = {}
        for name in TABLES.keys() & set(tables):
            bound = at is not None or TABLES[name].writer == "fleet"
            pinned = name in named and name != COMMITS.name and bound
            versions[name] = named[name] if pinned else self.version(name)
        return versions, None if row is None else row.commit_id

    def connect(
        self, at: int | None = None, versions: Mapping[str, int] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with a view per table and derived state, at commit `at` (default: the last).

        `versions` overrides single tables. The caller closes the connection.
        """
        connection = open_duckdb()
        try:
            self._create_views(connection, at, versions or {}, ALL_VIEWS)
        except LakeError:
            connection.close()
            raise
        return connection

    def query(self, sql: str, params: Sequence[Any] | None = None, at: int | None = None) -> pa.Table:
        """Result of one statement at commit `at` (default: the last).

        Raises `LakeError` with DuckDB's message if the statement is wrong or a file can't be read.
        """
        try:
            return self._query(sql, params, at)
        except duckdb.InterruptException:  # somebody pressed Ctrl-C: the lake is well
            raise
        except duckdb.Error as error:
            raise LakeError(f"the lake can't be queried: {error}") from error

    def _query(self, sql: str, params: Sequence[Any] | None, at: int | None) -> pa.Table:
        with open_duckdb() as connection:
            views = views_named(connection, sql)
            self._create_views(connection, at, {}, views)
            try:
                return connection.execute(sql, params).to_arrow_table()
            except duckdb.CatalogException:
                if views == ALL_VIEWS:
                    raise
        with self.connect(at) as connection:
            return connection.execute(sql, params).to_arrow_table()

    def _create_views(
        self,
        connection: duckdb.DuckDBPyConnection,
        at: int | None,
        versions: Mapping[str, int],
        views: frozenset[str],
    ) -> None:
        vector, last = self.vector(at, views)
        create_views(connection, self.root, {**vector, **versions}, last, views)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes out: of two creations of one Delta table both succeed, the second as a change of
    its metadata that upsets every open writer. The lock goes with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _add_columns(table: Table, delta: DeltaTable) -> None:
    """Add the nullable columns that were declared since the table was created; nothing else may change."""
    present = {field.name: field for field in delta.schema().fields}
    declared = {field.name: field for field in Schema.from_arrow(table.schema).fields}
    clashes = [name for name, field in present.items() if declared.get(name) != field]
    new = [field for name, field in declared.items() if name not in present]
    if clashes or not all(field.nullable for field in new):
        names = ", ".join(clashes or [field.name for field in new])
        raise LakeError(
            f"{table.name} was created with other columns ({names}): only nullable ones can be added"
        )
    if new:
        delta.alter.add_columns(new)


def _declared(name: str) -> Table:
    try:
        return TABLES[name]
    except KeyError:
        raise LakeError(f"there is no table {name}: {', '.join(TABLES)}") from None


def _writable(name: str) -> Table:
    table = _declared(name)
    if table.writer == "fleet":
        raise LakeError(f"{name} is the fleet's: the committer alone writes it, from staged files")
    return table


def _already(handle: DeltaTable, transaction: tuple[str, int]) -> bool:
    app, number = transaction
    recorded = handle.transaction_version(app)
    return recorded is not None and recorded >= number


def _write(
    handle: DeltaTable,
    rows: pa.Table,
    mode: Literal["append", "overwrite"],
    inputs: Mapping[str, int] | None,
    transaction: tuple[str, int] | None,
) -> int:
    properties = CommitProperties(
        custom_metadata={INPUTS_KEY: msgspec.json.encode(inputs or {}).decode()},
        max_commit_retries=COMMIT_RETRIES,
        app_transactions=[Transaction(*transaction)] if transaction else None,
    )
    write_deltalake(handle, rows, mode=mode, commit_properties=properties)
    return int(handle.version())
