"""What has come to `fetches` and `links` since a state was made, read for the graphs in portions of bounded size.

A link whose fetch isn't among what has come is looked up in all fetches; a set that a page shows again, though it
came earlier, is looked up in all links. Both are rare.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crawl_platform.graph.link_kernels import Keys, Nodes
from crawl_platform.graph.link_sets import Update, Visits, together
from crawl_platform.graph.names import Names, find, keys_of, merged
from crawl_platform.lake.changes import Changes, Mark, changes, mark, whole
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.views import create_views

TABLES_READ = ("links", "fetches")
PORTION = 500_000
"""Rows at a time: some 100 MB with their texts."""
SUCCESS = pa.array(["ok", "not_modified"])
VISIT_COLUMNS = ("fetch_id", "url", "host", "kind", "started_at", "outcome", "link_set")
CODED = ("host", "kind", "outcome", "src_url", "src_host", "dst_host", "position", "fetch_id")
"""Columns with few values, or the same in many rows one after another: each value is handled once."""


@dataclass(frozen=True)
class News:
    """Data files by table, and why they are all that there are (empty: they are not)."""

    files: Mapping[str, Sequence[Path]]
    versions: Mapping[str, int]
    reason: str

    @property
    def anew(self) -> bool:
        return bool(self.reason)


def news(lake: Lake, versions: Mapping[str, int], since: Mapping[str, Mark], *, anew: str = "") -> News:
    """What `versions` of both tables have that the marks `since` had not. `anew`: why all is to be read in any case."""
    found: dict[str, Changes] = {
        name: changes(lake, name, since.get(name), versions[name]) for name in TABLES_READ
    }
    reason = anew or next((told.reason for told in found.values() if told.reason), "")
    if reason:
        found = {name: whole(lake, name, versions[name], reason) for name in TABLES_READ}
    return News({name: told.files for name, told in found.items()}, dict(versions), reason)


def marks(lake: Lake, versions: Mapping[str, int]) -> dict[str, Mark]:
    """What to compare the next news with."""
    return {name: mark(lake, name, versions[name]) for name in TABLES_READ}


def tables(files: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Rows of data files, in tables of about `PORTION` rows; columns of `CODED` as dictionaries."""
    waiting: list[pa.Table] = []
    count = 0
    for path in files:
        file = pq.ParquetFile(path, read_dictionary=[name for name in columns if name in CODED])
        for group in range(file.num_row_groups):
            waiting.append(_with_all(file.read_row_group(group, columns=list(columns)), columns))
            count += waiting[-1].num_rows
            if count >= PORTION:
                yield _one(waiting)
                waiting, count = [], 0
    if count:
        yield _one(waiting)


def _with_all(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Files from before a column was declared lack it."""
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows.select(list(columns))


def _one(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()


def column(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    chunks = rows[name].chunks
    return chunks[0] if len(chunks) == 1 else rows[name].combine_chunks()


def coded(rows: pa.Table, name: str) -> tuple[NDArray[np.int64], pa.Array]:
    """(code of each row, −1 for null; the values by code)."""
    values = column(rows, name)
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.string()).dictionary_encode()
    return pc.fill_null(values.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False), values.dictionary


def flagged(codes: NDArray[np.int64], values: pa.Array, chosen: pa.Array) -> NDArray[np.bool_]:
    """Which rows have one of the values `chosen`."""
    hits = pc.is_in(values, value_set=chosen.cast(values.type)).to_numpy(zero_copy_only=False)
    return np.append(hits, False)[codes]


def micros(rows: pa.Table, name: str) -> NDArray[np.int64]:
    moments = column(rows, name).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(moments.to_numpy(), np.int64)


@dataclass
class Seen:
    """Visits in what was read of `fetches`; `fetches`: keys of all of them; hosts as learnt of them, and pages if
    wanted: `page_host` has the host of each."""

    hosts: Names
    secret: Keys
    pages: Names | None = None
    page_host: Nodes = field(default_factory=lambda: np.zeros(0, np.uint32))
    visits: Visits = field(default_factory=lambda: together([]))
    fetches: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))

    def read(self, files: Sequence[Path]) -> "Seen":
        """Read all rows of these files of `fetches`."""
        visits, fetches = [self.visits], [self.fetches]
        for rows in tables(files, VISIT_COLUMNS):
            fetches.append(coded_keys(rows, "fetch_id", self.secret))
            visits.append(self._visits(rows))
            if sum(len(part.page) for part in visits[1:]) > len(visits[0].page) + 8 * PORTION:
                visits = [together(visits)]
        self.visits, self.fetches = together(visits), merged(*fetches)
        return self

    def _visits(self, rows: pa.Table) -> Visits:
        pages = flagged(*coded(rows, "kind"), pa.array(["page"])) & flagged(*coded(rows, "outcome"), SUCCESS)
        rows = rows.filter(pa.array(pages))
        host, page = self.learn_hosts(rows, "host"), keys_of(column(rows, "url"), self.secret)
        self.learn_pages(page, column(rows, "url"), host)
        return Visits(page, host, micros(rows, "started_at"), keys_of(column(rows, "link_set"), self.secret))

    def learn_hosts(self, rows: pa.Table, name: str) -> Nodes:
        """Ids of the hosts in a column."""
        code, values = coded(rows, name)
        keys = keys_of(values, self.secret)
        self.hosts = self.hosts.learnt(keys, values)
        return self.hosts.of(keys)[code]

    def learn_pages(self, keys: Keys, urls: pa.Array, host: Nodes) -> None:
        """Give ids to pages, if that is wanted; `host`: of each."""
        if self.pages is None:
            return
        before = len(self.pages)
        self.pages = self.pages.learnt(keys, urls)
        if len(self.pages) > before:
            self.page_host = np.append(self.page_host, np.zeros(len(self.pages) - before, np.uint32))
            self.page_host[self.pages.of(keys)] = host


def pages_of(files: Sequence[Path], secret: Keys) -> Keys:
    """Keys of the pages that hold the links in these files."""
    parts = [keys_of(coded(rows, "src_url")[1], secret) for rows in tables(files, ("src_url",))]
    return merged(np.zeros(0, np.uint64), *parts)


def coded_keys(rows: pa.Table, name: str, secret: Keys) -> Keys:
    """Key of each row's value."""
    code, values = coded(rows, name)
    return np.append(keys_of(values, secret), np.uint64(0))[code]


@dataclass
class Runs:
    """Rows of `links` one after another that are of one page and one set: `starts` of each run in the portion. `row`
    (of the link sets) and `current` say of each run whose it is and whether it is shown now."""

    lengths: NDArray[np.int64]
    row: NDArray[np.int64]
    current: NDArray[np.bool_]
    fetch: Keys
    texts: pa.Array

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value per run as one per row."""
        return np.repeat(values, self.lengths)


def runs(rows: pa.Table, update: Update, secret: Keys, but: Keys) -> Runs:
    """The runs of a portion of `links`. Sets of `but` (sorted) were added before: they count as not shown."""
    (page, pages), (link_set, sets) = coded(rows, "src_url"), coded(rows, "fetch_id")
    new = (page[1:] != page[:-1]) | (link_set[1:] != link_set[:-1])
    starts = np.flatnonzero(np.append(True, new))
    fetch = keys_of(sets, secret)[link_set[starts]]
    row, current = update.rows(keys_of(pages, secret)[page[starts]], fetch)
    current &= ~find(but, fetch)[1]
    texts = sets.take(pa.array(link_set[starts]))
    return Runs(np.diff(np.append(starts, len(page))), row, current, fetch, texts)


@dataclass
class Orphans:
    """Links whose fetch isn't among those that came with them; `rows`: links looked at."""

    fetches: Keys
    links: dict[str, int] = field(default_factory=dict)
    rows: int = 0

    def look(self, found: Runs) -> None:
        self.rows += int(found.lengths.sum())
        missing = np.flatnonzero(~find(self.fetches, found.fetch)[1])
        for i in missing.tolist():
            fetch = found.texts[i].as_py()
            self.links[fetch] = self.links.get(fetch, 0) + int(found.lengths[i])

    def count(self, lake: Lake, versions: Mapping[str, int]) -> int:
        """Links without a fetch in the whole table at that version."""
        if not self.links:
            return 0
        sql = "SELECT DISTINCT fetch_id FROM fetches WHERE fetch_id IN (SELECT unnest($1::VARCHAR[]))"
        known = set(_asked(lake, versions, "fetches", sql, list(self.links))["fetch_id"].to_pylist())
        return sum(count for fetch, count in self.links.items() if fetch not in known)


def links_of(
    lake: Lake, news: News, update: Update, seen: Seen, columns: Sequence[str], orphans: Orphans
) -> Iterator[tuple[pa.Table, Runs]]:
    """Rows of `links` in portions: of sets that pages show again though they came before the news, then all news."""
    again = np.zeros(0, np.uint64) if news.anew else update.wanting(seen.fetches)
    for rows in _rows_of_sets(lake, news, again, seen.secret, columns):
        found = runs(rows, update, seen.secret, again[:0])
        found.current &= ~update.kept[found.row]  # another page may have shown the set all the time
        yield rows, found
    for rows in tables(news.files["links"], columns):
        found = runs(rows, update, seen.secret, again)
        orphans.look(found)
        yield rows, found


def _rows_of_sets(
    lake: Lake, news: News, wanted: Keys, secret: Keys, columns: Sequence[str]
) -> Iterator[pa.Table]:
    if not len(wanted):
        return
    names: set[str] = set()
    for rows in tables(news.files["fetches"], ("link_set",)):
        sets = column(rows, "link_set").drop_null()
        names.update(sets.filter(pa.array(find(wanted, keys_of(sets, secret))[1])).to_pylist())
    sql = f"SELECT {', '.join(columns)} FROM links WHERE fetch_id IN (SELECT unnest($1::VARCHAR[]))"
    yield _asked(lake, news.versions, "links", sql, sorted(names)).combine_chunks()


def _asked(lake: Lake, versions: Mapping[str, int], table: str, sql: str, names: list[str]) -> pa.Table:
    with open_duckdb() as connection:
        create_views(connection, lake.root, versions, None, frozenset({table}))
        return connection.execute(sql, [names]).to_arrow_table()
