"""The derived states that readers query."""

from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import ALL_VIEWS, VIEWS, document_views, views_named
from tests.lake.samples import NOON, commit, row


def fill(lake: Lake, name: str, *found: dict[str, Any]) -> None:
    table = TABLES[name]
    data = [row(table, n, **changes) for n, changes in enumerate(found)]
    commit(lake, name, pa.Table.from_pylist(data, schema=table.schema), 1)


def at(minutes: int) -> Any:
    return NOON + timedelta(minutes=minutes)


def column(lake: Lake, sql: str) -> list[Any]:
    return lake.query(sql).column(0).to_pylist()


def test_frontier_now_has_the_last_snapshot_of_each_shard(lake: Lake) -> None:
    fill(
        lake,
        "frontier",
        {"shard": 1, "snapshot_id": "c/1", "snapshot_at": at(0), "url": "old"},
        {"shard": 1, "snapshot_id": "c/2", "snapshot_at": at(5), "url": "new"},
        {"shard": 1, "snapshot_id": "c/2", "snapshot_at": at(5), "url": "newer"},
        {"shard": 2, "snapshot_id": "c/1", "snapshot_at": at(0), "url": "other shard"},
    )

    assert column(lake, "SELECT url FROM frontier_now ORDER BY url") == ["new", "newer", "other shard"]


def page(
    url: str, minute: int, link_set: str | None, outcome: str = "ok", kind: str = "page"
) -> dict[str, Any]:
    return {"url": url, "started_at": at(minute), "link_set": link_set, "outcome": outcome, "kind": kind}


def link(fetch_id: str, src: str, dst: str) -> dict[str, Any]:
    return {"fetch_id": fetch_id, "src_url": src, "dst_url": dst}


def test_links_now_are_those_of_the_last_success(lake: Lake) -> None:
    fill(
        lake,
        "fetches",
        page("a", 0, "f0"),
        page("a", 1, "f1"),
        page("a", 2, "f1", outcome="not_modified"),
        page("a", 3, None, outcome="timeout"),
        page("a", 4, None, kind="robots"),
        page("b", 0, "f2"),
    )
    fill(
        lake,
        "links",
        link("f0", "a", "gone"),
        link("f1", "a", "x"),
        link("f1", "a", "y"),
        link("f2", "b", "z"),
    )

    assert column(lake, "SELECT dst_url FROM links_now ORDER BY dst_url") == ["x", "y", "z"]


def test_a_page_whose_last_success_shows_no_links_has_none(lake: Lake) -> None:
    fill(lake, "fetches", page("a", 0, "f0"), page("a", 1, None))
    fill(lake, "links", link("f0", "a", "gone"))

    assert column(lake, "SELECT dst_url FROM links_now") == []


def test_pages_now_has_the_last_version_of_each_page(lake: Lake) -> None:
    fill(
        lake,
        "pages",
        {"url": "a", "fetched_at": at(1), "title": "new"},
        {"url": "a", "fetched_at": at(0), "title": "old"},
        {"url": "b", "fetched_at": at(0), "title": "only"},
    )

    assert column(lake, "SELECT title FROM pages_now ORDER BY url") == ["new", "only"]


def test_hosts_now_has_the_last_event_and_the_last_reported_values(lake: Lake) -> None:
    unsaid = {"trusted": None, "delay": None, "robots_status": None, "known_urls": None}
    fill(
        lake,
        "hosts",
        {"host": "a", "happened_at": at(0), "event": "seeded", "decision_id": "d", **unsaid, "trusted": True},
        {
            "host": "a",
            "happened_at": at(1),
            "event": "robots",
            "decision_id": None,
            **unsaid,
            "robots_status": "rules",
        },
        {"host": "a", "happened_at": at(2), "event": "backoff", "decision_id": None, **unsaid, "delay": 5.0},
        {"host": "b", "happened_at": at(0), "event": "promoted"},
    )

    found = lake.query(
        "SELECT host, event, trusted, robots_status, delay, decision_id FROM hosts_now ORDER BY host"
    ).to_pylist()

    assert [f["host"] for f in found] == ["a", "b"]
    assert found[0] == {
        "host": "a",
        "event": "backoff",
        "trusted": True,
        "robots_status": "rules",
        "delay": 5.0,
        "decision_id": None,
    }


def test_of_two_events_of_one_instant_hosts_now_shows_one_whole(lake: Lake) -> None:
    events = [
        {"host": "a", "happened_at": at(0), "event": e, "state": e, "cell": e} for e in ("seeded", "promoted")
    ]
    fill(lake, "hosts", *events)

    assert lake.query("SELECT event, state, cell FROM hosts_now").to_pylist() == [
        {"event": "seeded", "state": "seeded", "cell": "seeded"}
    ]


def test_allocations_are_those_of_the_last_window(lake: Lake) -> None:
    table = TABLES["crawl_schedule"]
    windows = [("w1", at(0), "a"), ("w2", at(60), "a"), ("w2", at(60), "b")]
    lake.append(
        "crawl_schedule",
        pa.Table.from_pylist(
            [row(table, window_id=w, starts_at=starts, host=host) for w, starts, host in windows],
            schema=table.schema,
        ),
    )

    assert column(lake, "SELECT window_id || host FROM allocations ORDER BY 1") == ["w2a", "w2b"]


def test_window_use_sets_what_was_made_beside_what_was_promised(lake: Lake) -> None:
    table = TABLES["crawl_schedule"]
    groups = [("a", 1, 10), ("a", 0, 4), ("b", 0, 0)]
    lake.append(
        "crawl_schedule",
        pa.Table.from_pylist(
            [row(table, window_id="w", starts_at=at(0), host=h, group_id=g, fetches=f) for h, g, f in groups],
            schema=table.schema,
        ),
    )
    made: list[tuple[str, int | None, str, str]] = [
        *[("a", 1, "page", "refresh")] * 5,
        ("a", 1, "page", "fastlane"),
        ("a", 7, "page", "discovery"),
        ("a", None, "page", "discovery"),
        ("a", None, "robots", "robots"),
    ]
    fill(
        lake,
        "fetches",
        *({"window_id": "w", "host": h, "group_id": g, "kind": k, "lane": lane} for h, g, k, lane in made),
        {"window_id": None, "host": "a", "group_id": 1, "kind": "page", "lane": "refresh"},
    )

    found = lake.query(
        "SELECT host, group_id, allotted, realised, share FROM window_use ORDER BY host, group_id DESC"
    )

    assert [tuple(r.values()) for r in found.to_pylist()] == [
        ("a", 1, 10, 5, 0.5),
        ("a", 0, 4, 2, 0.5),
        ("b", 0, 0, 0, None),
    ]


@pytest.mark.parametrize(
    ("sql", "views"),
    [
        ("FROM fetches", {"fetches"}),
        ('SELECT * FROM Fetches f, (FROM "hosts")', {"fetches", "hosts"}),
        ("WITH w AS (FROM links) FROM w", {"links"}),
        ("FROM links_now", {"links_now", "links", "fetches"}),
        ("DESCRIBE pages_now", {"pages_now", "pages"}),
        ("SHOW TABLES", ALL_VIEWS),
        ("FROM nowhere", ALL_VIEWS),
        ("not SQL", ALL_VIEWS),
    ],
)
def test_a_query_is_given_the_views_it_names(sql: str, views: set[str]) -> None:
    assert views_named(duckdb.connect(), sql) == views


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_declares_all_that_it_reads(lake: Lake, name: str) -> None:
    """A missing name would be an error: only the declared tables are there."""
    named = views_named(duckdb.connect(), f"FROM {name}")

    assert named < ALL_VIEWS
    assert lake.query(f"FROM {name}").num_rows == 0


def test_a_table_that_only_a_string_names_is_found_too(lake: Lake) -> None:
    sql = "SELECT (SELECT count(*) FROM query('FROM links')) AS n FROM (SELECT count(*) FROM hosts)"

    assert column(lake, sql) == [0]


def test_a_view_has_the_columns_and_docs_of_its_table(lake: Lake) -> None:
    with lake.connect() as connection:
        document_views(connection)
        docs = connection.execute(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall()
        comments = dict(connection.execute("SELECT view_name, comment FROM duckdb_views()").fetchall())

    for name, table in [*TABLES.items(), *((v.name, v.shows) for v in VIEWS.values())]:
        assert [(c, d) for t, c, d in docs if t == name] == [(c.name, c.doc) for c in table.columns]
    assert {name: comments[name] for name in VIEWS} == {name: view.row for name, view in VIEWS.items()}
