"""dbt-duckdb's hook: gives dbt's connection the lake, offline, at the versions of one order.

Named in `dbt/profiles.yml` and loaded by dbt's own process. The lake's tables are views in a database in
memory, made from the same declarations as everywhere else (`crawl_platform/lake/views.py`): what a model reads
as `hosts` is what the ranks read, and the file that is built holds no view that needs the extension.
"""

from pathlib import Path
from typing import Any

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

from crawl_platform.lake.extension import extension_path, literal
from crawl_platform.lake.views import VIEWS, create_views
from resources.marts_order import Order, read_order

DATABASE = "lake"


class Plugin(BasePlugin):
    """Without an order (dbt only parses) it does nothing."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        path = plugin_config.get("order")
        self._order = read_order(path) if path else None

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Once, on the connection that all others are made from."""
        if self._order is not None:
            conn.execute(f"LOAD {literal(str(extension_path()))}")
            attach_lake(conn, self._order)

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """On each connection of a thread: variables and the time zone are its own."""
        cursor.execute("SET TimeZone = 'UTC'")
        if self._order is not None:
            set_variables(cursor, self._order)


def attach_lake(connection: duckdb.DuckDBPyConnection, order: Order) -> None:
    """A database `lake` in memory with a view per table that was ordered, and the table `built_from`."""
    tables = frozenset(order.versions)
    views = tables.union(view.name for view in VIEWS.values() if tables.issuperset(view.reads))
    (before,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    connection.execute(f"ATTACH ':memory:' AS {DATABASE}")
    connection.execute(f"USE {DATABASE}")
    create_views(connection, Path(order.root), order.versions, order.commit_id, views)
    connection.execute(
        "CREATE TABLE built_from (table_name VARCHAR, version BIGINT, commit_id BIGINT, as_of TIMESTAMPTZ)"
    )
    rows = [(name, version, order.commit_id, order.as_of) for name, version in order.versions.items()]
    connection.executemany("INSERT INTO built_from VALUES (?, ?, ?, ?)", rows)
    connection.execute(f'USE "{before}"')


def set_variables(connection: duckdb.DuckDBPyConnection, order: Order) -> None:
    """Values that models read with `getvariable`: DuckDB takes them for constants, so they prune files."""
    for name in ("as_of", "first_day", "snapshot_day", "prior_a", "prior_b"):
        connection.execute(f"SET VARIABLE {name} = ?", [getattr(order, name)])
