"""The tables that cells and assets would have written, in memory: what the assets' queries read."""

from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa

from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import VIEWS
from resources.lake import Reading

NAMES = (
    *("fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "host_ranks", "near_duplicates"),
    *("url_groups", "change_rates", "cold_priors", "group_work", "crawl_schedule", "page_values"),
)


class MemoryTables:
    """`reading` is what an asset gets from the lake."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'UTC'")
        for name in NAMES:
            self._show("empty", TABLES[name].schema.empty_table())
            self._connection.execute(f"CREATE TABLE {name} AS FROM empty")
        for view in VIEWS.values():
            if set(NAMES).issuperset(view.reads):
                self._connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        self.reading = Reading(self._connection, dict.fromkeys(NAMES, 0))

    def _show(self, name: str, table: pa.Table) -> None:
        self._connection.register(name, table)

    def append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Rows of some of the table's columns; the others are null."""
        found = list(rows)
        if found:
            schema = TABLES[name].schema
            fields = [schema.field(column).with_nullable(True) for column in found[0]]
            self.insert(name, pa.Table.from_pylist(found, schema=pa.schema(fields)))

    def insert(self, name: str, rows: pa.Table) -> None:
        self._show("news", rows)
        self._connection.execute(f"INSERT INTO {name} BY NAME FROM news")

    def overwrite(self, name: str, rows: pa.Table) -> None:
        self._connection.execute(f"DELETE FROM {name}")
        self.insert(name, rows)

    def close(self) -> None:
        self._connection.close()
