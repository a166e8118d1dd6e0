"""The lake as a Dagster resource, and what Dagster shows of a table (reserved metadata keys).

No IO manager: an asset reads at named versions and says which in what it writes.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa

from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES, Table
from crawl_platform.lake.views import VIEWS, create_views


@dataclass(frozen=True)
class Reading:
    """An open look at the lake. `inputs` are the versions of the tables that were named."""

    connection: duckdb.DuckDBPyConnection
    inputs: dict[str, int]

    def table(self, sql: str, parameters: list[Any] | None = None) -> pa.Table:
        """Result of one statement as an Arrow table."""
        return self.connection.execute(sql, parameters).to_arrow_table()

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[dict[str, Any]]:
        """Result of one statement, a dict per row."""
        rows: list[dict[str, Any]] = self.table(sql, parameters).to_pylist()
        return rows

    def number(self, sql: str) -> int:
        """The single number that a statement returns."""
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row and row[0] is not None else 0


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The Delta tables under `root`."""

    root: str

    def open(self) -> Lake:
        return Lake(self.root)

    @contextmanager
    def read(
        self, *tables: str, also: Collection[str] = (), at: Mapping[str, int] | None = None
    ) -> Iterator[Reading]:
        """Look at the lake at one consistent version vector; `at` overrides the version of single tables.

        Only these tables, and the derived views that need no others, can be queried: `tables` are inputs of
        what the caller computes, `also` are others, like the rows that it wrote before.
        """
        lake = self.open()
        named = frozenset(tables).union(also)
        vector, commit_id = lake.vector(tables=named)
        versions = {**vector, **{name: version for name, version in (at or {}).items() if name in named}}
        views = named.union(view.name for view in VIEWS.values() if named.issuperset(view.reads))
        with open_duckdb() as connection:
            create_views(connection, lake.root, versions, commit_id, views)
            yield Reading(connection, {name: versions[name] for name in tables})


def column_schema(table: Table) -> dg.TableSchema:
    """A table's declaration as Dagster shows it."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name, str(c.type), c.doc, constraints=dg.TableColumnConstraints(nullable=not c.required)
            )
            for c in table.columns
        ]
    )


def table_metadata(root: str | Path, name: str) -> dict[str, Any]:
    """What is known of a table from its declaration and place alone."""
    return {
        "dagster/column_schema": column_schema(TABLES[name]),
        "dagster/table_name": name,
        "dagster/uri": (Path(root) / name).as_uri(),
    }


def version_metadata(lake: Lake, name: str, version: int, inputs: Mapping[str, int]) -> dict[str, Any]:
    """What is known of one version of a table; `inputs` are the versions that it was computed from.

    Its columns and place are in the asset's definition: every event is kept for ever, some of them three times.
    """
    rows, size = lake.rows_and_bytes(name, version)
    return {
        "dagster/row_count": rows,
        "bytes": size,
        "delta_version": version,
        "inputs": dg.MetadataValue.json(dict(sorted(inputs.items()))),
    }
