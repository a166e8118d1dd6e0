"""Rows past their age go; what is still current stays, however old.

What stays of an old day:

- `pages`: the last version kept of each page;
- `links`: the links that a page's last success cites (`link_set`);
- `fetches`: every row that a row of `links` or `pages` cites, and each page's last success, which says which links
  are current;
- `frontier`: the last snapshot of each shard.

`fetches` comes after the tables that cite it, and is judged by what these still hold. A day leaves the table
whole, or its files are rewritten to the rows that stay.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawl_platform.lake.extension import literal, open_duckdb
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.report import COMMITTED, WRITTEN, Job
from crawl_platform.lake.upkeep.rewrite import LiveFile, live_files, replace_files, rows_of, write_files
from crawl_platform.lake.views import SUCCESSES, create_views
from crawl_platform.settings import Retention

LEAST_SHARE = 0.1
"""A file is rewritten once a tenth of its rows can go: else each old day would be rewritten daily for a few rows."""
MEMORY_LIMIT = "1GB"
"""Of the query that says what stays; it goes to disk beyond that."""

LAST_SUCCESS = f"""
    SELECT f.url, f.fetch_id, f.link_set FROM fetches f SEMI JOIN (
        SELECT url, max(started_at) AS started_at FROM fetches
        WHERE kind = 'page' AND outcome IN {SUCCESSES} GROUP BY url
    ) l ON f.url = l.url AND f.started_at = l.started_at
    WHERE f.kind = 'page' AND f.outcome IN {SUCCESSES}
"""


@dataclass(frozen=True)
class Rule:
    """Rows of `table` whose `key` is among those of `stays` are current: kept at any age."""

    table: str
    key: str
    stays: str
    reads: tuple[str, ...]


RULES = (
    Rule(
        "pages",
        "fetch_id",
        """SELECT p.fetch_id FROM pages p SEMI JOIN
            (SELECT url, max(fetched_at) AS fetched_at FROM pages GROUP BY url) v
            ON p.url = v.url AND p.fetched_at = v.fetched_at""",
        ("pages",),
    ),
    Rule("links", "fetch_id", f"SELECT link_set FROM ({LAST_SUCCESS})", ("links", "fetches")),
    Rule(
        "fetches",
        "fetch_id",
        f"""SELECT fetch_id FROM links UNION SELECT fetch_id FROM pages
            UNION SELECT fetch_id FROM ({LAST_SUCCESS})""",
        ("fetches", "links", "pages"),
    ),
    Rule(
        "frontier",
        "snapshot_id",
        "SELECT arg_max(snapshot_id, snapshot_at) FROM frontier GROUP BY shard",
        ("frontier",),
    ),
    Rule("fleet_stats", "cell", "SELECT NULL::VARCHAR WHERE false", ("fleet_stats",)),
)
"""In this order: `fetches` after what cites it."""


def retain(job: Job, rule: Rule, retention: Retention) -> None:
    """Let go of the table's rows older than its setting (`<table>_days`), oldest day first."""
    begun = job.clock.boottime()
    days: float = getattr(retention, f"{rule.table}_days")
    cutoff = job.today(days)
    files = live_files(job.lake.delta(rule.table), job.lake.path(rule.table))
    old = [file for file in files if file.day < cutoff]
    if not old:
        return
    tally = _Tally()
    with _what_stays(job, rule, cutoff) as stays:
        for day in sorted({file.day for file in old}):
            _retain_day(job, rule, [f for f in old if f.day == day], stays, tally, retention)
    if tally.rows_removed:
        job.note(
            rule.table,
            "retain",
            begun,
            files_before=len(files),
            files_after=len(files) - tally.files_removed + tally.files_written,
            rows_removed=tally.rows_removed,
            detail=f"{tally.days} days before {cutoff}; {tally.rows_kept} rows of them are current and stay",
        )


@dataclass
class _Tally:
    days: int = 0
    rows_removed: int = 0
    rows_kept: int = 0
    files_removed: int = 0
    files_written: int = 0


class _Stays:
    """Keys of the rows that stay, by day."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def rows(self, day: str) -> int:
        found = self._connection.execute(
            "SELECT coalesce(sum(n), 0) FROM stays WHERE day = ?", [day]
        ).fetchone()
        return int(found[0]) if found else 0

    def keys(self, day: str) -> pa.ChunkedArray:
        found: pa.Table = self._connection.execute(
            "SELECT DISTINCT key FROM stays WHERE day = ?", [day]
        ).to_arrow_table()
        return found["key"].combine_chunks()


@contextmanager
def _what_stays(job: Job, rule: Rule, cutoff: str) -> Iterator[_Stays]:
    versions = {name: job.lake.version(name) for name in rule.reads}
    with tempfile.TemporaryDirectory() as folder, open_duckdb() as connection:
        connection.execute(f"SET memory_limit = {literal(MEMORY_LIMIT)}")
        connection.execute(f"SET temp_directory = {literal(folder)}")
        create_views(connection, job.lake.root, versions, None, frozenset(rule.reads))
        connection.execute(
            f"""CREATE TEMP TABLE stays AS
            SELECT t.date::VARCHAR AS day, t.{rule.key} AS key, count(*) AS n FROM {rule.table} t
            WHERE t.date < {literal(cutoff)}::DATE AND t.{rule.key} IN ({rule.stays}) GROUP BY ALL"""
        )
        yield _Stays(connection)


def _retain_day(
    job: Job, rule: Rule, files: list[LiveFile], stays: _Stays, tally: _Tally, retention: Retention
) -> None:
    """One day: nothing, all of it, or its files rewritten, as far as the budget goes."""
    total, kept = sum(file.rows for file in files), stays.rows(files[0].day)
    tally.rows_kept += kept
    if total == kept or total - kept < LEAST_SHARE * total:
        return
    masks = _masks(job, rule, files, stays.keys(files[0].day)) if kept else {}
    chosen = _portion(
        job, [f for f in files if f.path not in masks or _share_gone(masks[f.path]) >= LEAST_SHARE], masks
    )
    if not chosen:
        return
    tally.days += 1
    tally.files_removed += len(chosen)
    tally.rows_removed += sum(f.rows - (_count(masks[f.path]) if f.path in masks else 0) for f in chosen)
    if not job.dry_run:
        tally.files_written += _rewrite(job, rule.table, chosen, masks, retention.compact_file_bytes)


def _portion(job: Job, worth: list[LiveFile], masks: dict[str, pa.ChunkedArray]) -> list[LiveFile]:
    """The files of a day that are dealt with now: to drop a file costs nothing, to rewrite one its size."""
    chosen = []
    for file in worth:
        size = file.size if file.path in masks else 0
        if size and not job.budget.allows(size):
            continue
        if size:
            job.budget.spend(size)
        chosen.append(file)
    job.left += len(chosen) < len(worth)
    return chosen


def _masks(job: Job, rule: Rule, files: list[LiveFile], keys: pa.Array) -> dict[str, pa.ChunkedArray]:
    """Which rows of each file stay; files of which none does are left out."""
    masks = {}
    for file in files:
        column = pq.ParquetFile(job.lake.path(rule.table) / file.path).read([rule.key])[rule.key]
        mask = pc.is_in(column, value_set=keys)
        if _count(mask):
            masks[file.path] = mask
    return masks


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _share_gone(mask: pa.ChunkedArray) -> float:
    return 1.0 - _count(mask) / len(mask)


def _rewrite(
    job: Job, name: str, files: list[LiveFile], masks: dict[str, pa.ChunkedArray], target: int
) -> int:
    """Returns the number of new files."""
    table, root = TABLES[name], job.lake.path(name)
    kept = [file for file in files if file.path in masks]
    rows = chain.from_iterable(rows_of(table, root, file, masks[file.path]) for file in kept)
    new = write_files(table, root, files[0].day, rows, target) if kept else []
    job.reached(WRITTEN)
    replace_files(job.lake, name, files, new, now=job.clock.now(), data_change=True)
    job.rewritten = True
    job.reached(COMMITTED)
    return len(new)
