"""The lake's views as plain DuckDB tables: what measures look at, without Delta underneath."""

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import VIEWS
from crawl_platform.quality.catalog import measured
from crawl_platform.quality.measure import Look, Value

NOW = datetime(2024, 5, 2, 12, tzinfo=UTC)
DEFAULTS = {
    "fetches": {
        "shard": 0, "kind": "page", "lane": "discovery", "outcome": "ok", "cell": "c", "incarnation": "i",
        "manifest": 1, "series": "bulk", "duration_ms": 100.0, "wire_bytes": 1_000, "address": "192.0.2.1",
    },
    "hosts": {"shard": 0, "cell": "c", "event": "seeded", "state": "seed"},
    "frontier": {"snapshot_id": "s1", "shard": 0, "snapshot_at": NOW},
    "fleet_stats": dict.fromkeys((c.name for c in TABLES["fleet_stats"].columns if c.required), 0) | {"cell": "c"},
    "requests": {"requested_by": "ada", "via": "exchange", "kind": "recrawl"},
}  # fmt: skip
WHEN = {"fetches": "started_at", "hosts": "happened_at", "links": "seen_at", "pages": "fetched_at",
        "frontier": "snapshot_at", "fleet_stats": "reported_at", "commits": "committed_at",
        "requests": "requested_at"}  # fmt: skip


class Small:
    """Collects rows and measures them. Times are seconds before NOW."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._fetches = 0

    def add(self, table: str, ago: float = 0.0, **values: Any) -> None:
        at = NOW - timedelta(seconds=ago)
        dated = {WHEN[table]: at, "date": at.date()} if table in WHEN else {}
        self.rows[table].append({**DEFAULTS.get(table, {}), **dated, **values})

    def fetch(self, url: str, ago: float, **values: Any) -> str:
        self._fetches += 1
        name = f"f{self._fetches}"
        self.add("fetches", ago, fetch_id=name, url=url, host=url.split("/")[2], **values)
        return name

    def page(self, url: str, ago: float, text: str | None, *, links: int = 3, **values: Any) -> str:
        """A fetch that brought content."""
        name = self.fetch(url, ago, **values)
        host = url.split("/")[2]
        self.add("pages", ago, fetch_id=name, url=url, host=host, text_hash=text, links=links)
        return name

    def connect(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in TABLES.items():
            rows = pa.Table.from_pylist(self.rows[name], schema=table.schema)
            connection.register(f"{name}_rows", rows)
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_rows")
        for view in VIEWS.values():
            connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        return connection

    def measure(self, **changes: Any) -> dict[str, Value]:
        with self.connect() as connection:
            return measured(connection, look(**changes))

    def value(self, name: str, **changes: Any) -> float | None:
        return self.measure(**changes)[name].value


def look(**changes: Any) -> Look:
    promises: dict[str, Any] = {
        "now": NOW, "delay": 1.0, "address_delay": 1.0, "robots_ttl": 86_400.0, "interval_max": 30 * 86_400.0,
        "prior_a": 0.5, "prior_b": 0.5 / 0.3,
    }  # fmt: skip
    return Look(**(promises | changes))


@pytest.fixture
def small() -> Small:
    return Small()
