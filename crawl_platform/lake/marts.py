"""The marts as their readers see them: one DuckDB file in the crawl's home, replaced whole at each build.

Its tables are materialised, so plain DuckDB reads it by path, without any extension:

    con = duckdb.connect("<home>/marts.duckdb", read_only=True)
    con.sql("FROM host_daily")
"""

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crawl_platform.errors import QueryError
from crawl_platform.lake.extension import literal, silent

MARTS_NAME = "marts.duckdb"
CATALOG = "marts"
"""The name under which `crawl sql` attaches the file: `FROM marts.host_daily`."""

COLUMNS = """
SELECT t.table_name, coalesce(t.comment, ''), c.column_name, c.data_type, coalesce(c.comment, '')
FROM duckdb_tables() t JOIN duckdb_columns() c
    ON t.database_name = c.database_name AND t.table_oid = c.table_oid
WHERE t.database_name = ? AND NOT t.internal ORDER BY t.table_name, c.column_index
"""


_NAMED = re.compile(rf'\b"?{CATALOG}"?\s*\.', re.IGNORECASE)


@dataclass
class Mart:
    """`columns`: name, type and what it says."""

    name: str
    row: str
    columns: list[tuple[str, str, str]]

    @property
    def full_name(self) -> str:
        return f"{CATALOG}.{self.name}"


def attach_marts(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the marts readable as `marts.<name>`. Raises `QueryError` if there are none or they are locked."""
    if not path.exists():
        raise QueryError(
            f"there are no marts at {path} yet: Dagster builds them (group marts; `crawl up` starts it)"
        )
    try:
        connection.execute(f"ATTACH {literal(str(path))} AS {CATALOG} (READ_ONLY)")
    except duckdb.Error as error:
        raise QueryError(
            f"the marts can't be read: {error}. Who opens {path.name} without read_only=True locks out "
            "all others."
        ) from error


def of_marts(sql: str) -> bool:
    """Whether `sql` names something in `marts`; only to explain an error, for it may be a text in quotes."""
    return _NAMED.search(sql) is not None


def describe_marts(path: Path) -> list[Mart]:
    """What can be queried in the file and what a row is; empty if it is not there or can't be read."""
    if not path.exists():
        return []
    with silent(duckdb.connect()) as connection:
        try:
            attach_marts(connection, path)
        except QueryError:
            return []
        return attached_marts(connection)


def attached_marts(connection: duckdb.DuckDBPyConnection) -> list[Mart]:
    """The same of marts that are attached to `connection`."""
    marts: dict[str, Mart] = {}
    for table, row, column, type_, doc in connection.execute(COLUMNS, [CATALOG]).fetchall():
        marts.setdefault(table, Mart(table, _row(row), [])).columns.append((column, type_, doc))
    return list(marts.values())


def _row(comment: str) -> str:
    """What a row is, worded like the tables of the lake: dbt's descriptions begin with "One row: one host"."""
    row = comment.removeprefix("One row: ")
    return row[:1].upper() + row[1:]
