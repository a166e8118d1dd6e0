"""The DuckDB views that readers query: one per table at a fixed version, and the states derived from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crawl_platform.errors import LakeError
from crawl_platform.lake.extension import literal
from crawl_platform.lake.history import require_readable
from crawl_platform.lake.tables import (
    COMMITS,
    CRAWL_SCHEDULE,
    F64,
    I64,
    PAGE_VALUES,
    PAGES,
    TABLES,
    Column,
    S,
    Table,
)

SUCCESSES = "('ok', 'not_modified')"


@dataclass(frozen=True)
class View:
    """A derived state: what a row is, and the query.

    `columns_of` names the table whose columns it shows, unless it declares its `own`; `reads` all tables that it
    needs.
    """

    name: str
    row: str
    sql: str
    columns_of: str
    reads: tuple[str, ...]
    own: tuple[Column, ...] = ()

    @property
    def shows(self) -> Table:
        """The declaration of its columns."""
        table = TABLES[self.columns_of]
        return Table(self.name, self.row, table.writer, self.own, ()) if self.own else table


FRONTIER_NOW = View(
    "frontier_now",
    "One known URL in the last snapshot of its shard.",
    """
    SELECT f.* FROM frontier f
    SEMI JOIN (SELECT shard, arg_max(snapshot_id, snapshot_at) AS snapshot_id FROM frontier GROUP BY shard) s
    ON f.shard = s.shard AND f.snapshot_id = s.snapshot_id
    """,
    "frontier",
    ("frontier",),
)

LINKS_NOW = View(
    "links_now",
    "One link that a page showed at its last successful fetch.",
    f"""
    SELECT l.* FROM links l
    SEMI JOIN (
        SELECT url, arg_max_null(link_set, started_at) AS link_set FROM fetches
        WHERE kind = 'page' AND outcome IN {SUCCESSES} GROUP BY url
    ) p ON l.src_url = p.url AND l.fetch_id = p.link_set
    """,
    "links",
    ("links", "fetches"),
)

PAGES_NOW = View(
    "pages_now",
    "One page at the last version kept of its content.",
    """
    SELECT p.* FROM pages p
    SEMI JOIN (SELECT url, arg_max(fetch_id, fetched_at) AS fetch_id FROM pages GROUP BY url) v
    ON p.url = v.url AND p.fetch_id = v.fetch_id
    """,
    "pages",
    ("pages",),
)

HOSTS_NOW = View(
    "hosts_now",
    "One host with its last event; delay, robots_status, trusted, known_urls and preferences are the last reported.",
    """
    WITH ordered AS (SELECT *, row(happened_at, event) AS moment FROM hosts)
    SELECT
        host,
        arg_max(shard, moment) AS shard,
        max(happened_at) AS happened_at,
        arg_max(event, moment) AS event,
        arg_max(state, moment) AS state,
        arg_max(trusted, moment) AS trusted,
        arg_max_null(decision_id, moment) AS decision_id,
        arg_max_null(detail, moment) AS detail,
        arg_max(delay, moment) AS delay,
        arg_max(robots_status, moment) AS robots_status,
        arg_max(known_urls, moment) AS known_urls,
        arg_max(preferences, moment) FILTER (event = 'preferences') AS preferences,
        arg_max(cell, moment) AS cell,
        max(date) AS date
    FROM ordered GROUP BY host
    """,
    "hosts",
    ("hosts",),
)
"""`moment` tells events of the same instant apart, so that all columns speak of one of them."""

PAGE_USES = View(
    "page_uses",
    "One page with what its site said about uses of it when its last version was kept; null: it says nothing.",
    """
    SELECT url, host, fetched_at, preferences['search'] AS search, preferences['ai-input'] AS ai_input,
        preferences['ai-train'] AS ai_train, preferences['ai-images'] AS ai_images, preferences['tdm'] AS tdm,
        preferences['archive'] AS archive, preferences_from, refused, kept
    FROM pages_now
    """,
    "pages",
    ("pages", "pages_now"),
    own=(
        *(c for c in PAGES.columns if c.name in ("url", "host", "fetched_at")),
        Column("search", S, "An index that leads people to the page."),
        Column("ai_input", S, "Input of a generative model, as for answers."),
        Column("ai_train", S, "Training of generative models."),
        Column("ai_images", S, "Training on the page's images."),
        Column("tdm", S, "Text and data mining, which includes training."),
        Column("archive", S, "Keeping the page's bytes."),
        *(c for c in PAGES.columns if c.name in ("preferences_from", "refused", "kept")),
    ),
)

ALLOCATIONS = View(
    "allocations",
    "One group's allocation in the last schedule window decided.",
    """
    SELECT * FROM crawl_schedule
    WHERE window_id = (SELECT arg_max(window_id, starts_at) FROM crawl_schedule)
    """,
    "crawl_schedule",
    ("crawl_schedule",),
)

QUALITY_NOW = View(
    "quality_now",
    "One measure of the crawl as it was last measured (definitions: docs/quality.md).",
    """
    SELECT * FROM crawl_quality WHERE measured_at = (SELECT max(measured_at) FROM crawl_quality)
    """,
    "crawl_quality",
    ("crawl_quality",),
)

WINDOW_USE = View(
    "window_use",
    "What one group was promised in one schedule window, and what was made of it.",
    """
    WITH named AS (SELECT window_id, host, group_id FROM crawl_schedule),
    made AS (
        SELECT f.window_id, f.host, coalesce(n.group_id, 0) AS group_id, count(*) AS fetches
        FROM fetches f
        LEFT JOIN named n ON n.window_id = f.window_id AND n.host = f.host AND n.group_id = f.group_id
        WHERE f.window_id IS NOT NULL AND f.kind = 'page' AND f.lane <> 'fastlane' GROUP BY ALL
    )
    SELECT s.window_id, s.starts_at, s.ends_at, s.host, s.group_id, s.template,
        s.fetches AS allotted, s.reserved, s.eligible, coalesce(m.fetches, 0) AS realised,
        coalesce(m.fetches, 0) / nullif(s.fetches, 0) AS share
    FROM crawl_schedule s
    LEFT JOIN made m ON m.window_id = s.window_id AND m.host = s.host AND m.group_id = s.group_id
    """,
    "crawl_schedule",
    ("crawl_schedule", "fetches"),
    own=(
        *(
            column
            for column in CRAWL_SCHEDULE.columns
            if column.name in ("window_id", "starts_at", "ends_at", "host", "group_id", "template")
        ),
        Column("allotted", I64, "Fetches promised to the group."),
        Column("reserved", I64, "Of these, reserved for deadlines."),
        Column("eligible", I64, "Pages of the group that were worth a fetch in the window."),
        Column("realised", I64, "Fetches made; those of groups that were not named count for the host (0)."),
        Column("share", F64, "realised / allotted; null where nothing was promised."),
    ),
)
"""`realised` may exceed `allotted`: what a host has left for links yet to be found, any of its groups may use."""

GROUP_VALUES = View(
    "group_values",
    "What the pages of one URL group that were read are worth on average, and by which signals.",
    """
    SELECT host, group_id, count(*) AS pages, avg(business) AS business, avg(ir) AS ir, avg(corpus) AS corpus,
        avg(technical) AS technical, avg(exploration) AS exploration,
        exp(sum(ln(value / base)) / (count(*) + 4)) AS factor
    FROM page_values WHERE fetch_id IS NOT NULL AND group_id > 0 GROUP BY host, group_id
    """,
    "page_values",
    ("page_values",),
    own=(
        *(c for c in PAGE_VALUES.columns if c.name in ("host", "group_id")),
        Column("pages", I64, "Pages that were read."),
        *(
            c
            for c in PAGE_VALUES.columns
            if c.name in ("business", "ir", "corpus", "technical", "exploration")
        ),
        Column(
            "factor",
            F64,
            "What a page of the group that nobody has read is worth beside what its depth says: geometric mean of"
            " value / base, as if four more pages were worth just that.",
        ),
    ),
)

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        FRONTIER_NOW,
        LINKS_NOW,
        PAGES_NOW,
        PAGE_USES,
        HOSTS_NOW,
        ALLOCATIONS,
        WINDOW_USE,
        QUALITY_NOW,
        GROUP_VALUES,
    )
}

ALL_VIEWS = frozenset((*TABLES, *VIEWS))


def views_named(connection: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str]:
    """The views that `sql` needs, or all of them where that can't be told: each costs some 5 ms to create."""
    try:
        names = {name.lower() for name in connection.get_table_names(sql)}
    except duckdb.Error:
        return ALL_VIEWS
    if not names or not names <= ALL_VIEWS:
        return ALL_VIEWS
    return frozenset(names).union(*(VIEWS[name].reads for name in names if name in VIEWS))


def create_views(
    connection: duckdb.DuckDBPyConnection,
    root: Path,
    versions: Mapping[str, int],
    last_commit: int | None,
    only: frozenset[str],
) -> None:
    """Create the views `only` in `connection`, tables at `versions`, commits up to and with `last_commit`.

    Raises `LakeError` if a table can't be read at its version, or no longer.
    """
    require_readable(root, {name: version for name, version in versions.items() if name in only})
    try:
        for table in (table for table in TABLES.values() if table.name in only):
            source = f"delta_scan({literal(str(root / table.name))}, version => {versions[table.name]})"
            sql = f"SELECT * FROM {source}"
            if table is COMMITS and last_commit is not None:
                sql += f" WHERE commit_id <= {last_commit}"
            connection.execute(f"CREATE VIEW {table.name} AS {sql}")
        for view in (view for view in VIEWS.values() if view.name in only):
            connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    except duckdb.Error as error:
        raise LakeError(f"the lake can't be read at commit {last_commit}: {error}") from error


def document_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Put what a row is, and what each column says, next to the views as comments."""
    for name, row, table in described():
        _comment(connection, name, row, table.columns)


def _comment(connection: duckdb.DuckDBPyConnection, name: str, row: str, columns: tuple[Column, ...]) -> None:
    comments = [f'COMMENT ON COLUMN {name}."{c.name}" IS {literal(c.doc)}' for c in columns]
    connection.execute("; ".join([f"COMMENT ON VIEW {name} IS {literal(row)}", *comments]))


def described() -> Iterator[tuple[str, str, Table]]:
    """(name, what a row is, table that declares the columns) of everything that can be queried."""
    for table in TABLES.values():
        yield table.name, table.row, table
    for view in VIEWS.values():
        yield view.name, view.row, view.shows
