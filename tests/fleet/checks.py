"""What must hold of every crawl, whatever happened to it. Each check names what is wrong when it fails."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow.parquet as pq

from crawl_platform.fetch.outcome import UNSENT, Outcome
from crawl_platform.lake.delta import STAGED
from crawl_platform.lake.lake import Lake
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.verdict import overlaps, short_gaps
from tests.fleet.harness import DELAY, Fleet, Row
from tests.fleet.sites import Site, page_of

SHOWN = 20
"""Differences that a failed check tells."""
LOST = (Outcome.CONNECTION_LOST, Outcome.CONNECTION_STALE)


def assert_same(what: str, seen: Iterable[Any], wanted: Iterable[Any]) -> None:
    """`seen` holds what `wanted` does, each as often. Says what is lacking and what is too much: outside of pytest
    an assertion tells nothing by itself."""
    have, want = Counter(seen), Counter(wanted)
    lacking, beyond = want - have, have - want
    told = "; ".join(
        f"{name} {some.total()}: {', '.join(map(str, sorted(some.elements(), key=str)[:SHOWN]))}"
        for name, some in (("lacks", lacking), ("has too much", beyond))
        if some
    )
    assert not told, f"{what} {told}"


def assert_polite(log: list[Entry], delay: float = DELAY) -> None:
    """No overlap and no gap under `delay`, per host and per address, as the server saw it."""
    assert log
    assert overlaps(log) == []
    assert overlaps(log, by="address") == []
    assert short_gaps(log, delay) == []
    assert short_gaps(log, delay, by="address") == []


def asked(log: Iterable[Entry]) -> Counter[tuple[str, str]]:
    """How often each (host, path) was asked for."""
    return Counter((entry.host, entry.path) for entry in log)


def recorded(fetches: Iterable[Row]) -> Counter[tuple[str, str]]:
    """How often each (host, path) stands in `fetches` as a request that was sent."""
    return Counter(_asked_for(row) for row in fetches if row["outcome"] not in UNSENT)


def _asked_for(row: Row) -> tuple[str, str]:
    parts = urlsplit(row["url"])
    return row["host"], (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def assert_each_row_has_its_request(log: list[Entry], fetches: list[Row]) -> None:
    """Only of a request on a connection that the server had just closed the server knows nothing."""
    answered = (row for row in fetches if row["status"] is not None)
    assert_same("in the lake, but never asked for:", recorded(answered) - asked(log), ())
    unseen = recorded(fetches) - asked(log)
    lost = recorded(row for row in fetches if row["outcome"] in LOST)
    assert_same("in the lake as sent, but never seen:", unseen - lost, ())


def assert_one_row_per_request(log: list[Entry], fetches: list[Row]) -> None:
    """Without a crash: each request is exactly one row, robots included, and nothing else is."""
    assert_same("asked for, but not in the lake:", surplus(log, fetches), ())
    assert_nothing_twice(fetches)


def surplus(log: list[Entry], fetches: list[Row]) -> Counter[tuple[str, str]]:
    """Requests that left no row. Fails on a row without a request."""
    assert_each_row_has_its_request(log, fetches)
    return asked(log) - recorded(fetches)


def assert_nothing_twice(fetches: list[Row]) -> None:
    ids = Counter(row["fetch_id"] for row in fetches)
    assert_same("ids of fetches that are there twice:", [i for i, n in ids.items() if n > 1], ())
    numbers = Counter((row["fetch_id"], row["incarnation"]) for row in fetches)
    assert len(numbers) == len(ids)


def assert_whole_at_every_commit(lake: Lake) -> int:
    """At every row of `commits`: no fetch twice, every link and page row has its fetch row.

    Follows the Delta logs from commit to commit. Returns how many rows of `commits` there are.
    """
    commits = lake.query("SELECT commit_id, versions FROM commits ORDER BY commit_id").to_pylist()
    assert [row["commit_id"] for row in commits] == list(range(1, len(commits) + 1))
    known: set[str] = set()
    at = dict.fromkeys(("fetches", "links", "pages"), -1)
    for row in commits:
        versions = dict(row["versions"])
        for name in ("fetches", "links", "pages"):
            added = _ids_added(lake, name, at[name], versions[name])
            at[name] = versions[name]
            if name == "fetches":
                assert len(added) == len(set(added)), f"a fetch twice in commit {row['commit_id']}"
                assert known.isdisjoint(added), f"a fetch again in commit {row['commit_id']}"
                known.update(added)
            else:
                assert known.issuperset(added), f"{name} without fetch in commit {row['commit_id']}"
    return len(commits)


def _ids_added(lake: Lake, name: str, after: int, until: int) -> list[str]:
    """fetch_id of the rows that came to the table in the versions (after, until]."""
    ids: list[str] = []
    for version in range(after + 1, until + 1):
        text = (lake.path(name) / "_delta_log" / f"{version:020d}.json").read_bytes()
        for line in text.splitlines():
            action = msgspec.json.decode(line)
            assert "remove" not in action, "the check can't follow a rewrite"
            if "add" in action:
                file = lake.path(name) / action["add"]["path"]
                ids += pq.ParquetFile(file).read(columns=["fetch_id"])["fetch_id"].to_pylist()
    return ids


def orphans(lake: Lake, name: str) -> list[Row]:
    """Rows of staged files that no version of the table names. A file in the midst of whose writing the cell was killed
    is torn and holds none: nothing names it, nobody reads it, upkeep sweeps it."""
    named = {path.rpartition("/")[2] for path in lake.delta(name).file_uris()}
    files = [f for f in (lake.path(name) / STAGED).rglob("*.parquet") if f.name not in named]
    return [row for file in files if _is_whole(file) for row in pq.ParquetFile(file).read().to_pylist()]


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        opened.seek(-min(4, file.stat().st_size), 2)
        return opened.read() == b"PAR1"


def assert_brought_home(fleet: Fleet, *sites: Site) -> None:
    """Every page of `sites` was fetched well, and the links in the lake are those of the sites: no more, no less."""
    fetched = fleet.rows("SELECT DISTINCT host, url FROM fetches WHERE kind = 'page' AND outcome = 'ok'")
    links = fleet.rows("SELECT DISTINCT src_host, src_url, dst_host, dst_url FROM links_now")
    for site in sites:
        home = {page_of(row["url"]) for row in fetched if row["host"] == site.host}
        assert_same(f"of {site.host}'s pages the lake", home, site.pages)
        shown = {
            (
                page_of(row["src_url"]),
                page_of(row["dst_url"]) if row["dst_host"] == site.host else row["dst_url"],
            )
            for row in links
            if row["src_host"] == site.host
        }
        assert_same(f"of {site.host}'s links the lake", shown, site.edges)


def assert_drained(fleet: Fleet) -> None:
    """Of a stopped fleet: nothing waits for a first fetch, nothing is lost from a queue, nothing is owed. A cell that
    ends before its last manifest is committed keeps it until its next start."""
    committed = {row["label"] for row in fleet.rows("SELECT unnest(manifests) AS label FROM commits")}
    for name in (f"cell-{number}" for number in range(fleet.settings.fleet.cells)):
        state = fleet.copy_of_state(name)
        owed = [manifest.label for manifest in state.manifests if manifest.label not in committed]
        assert_same(f"of URLs to fetch {name}", state.waiting(), ())
        assert_same(f"of URLs in no queue {name}", state.unqueued, ())
        assert_same(f"of manifests to commit {name}", owed, ())
        assert state.messages == 0, f"{name} owes other shards {state.messages} messages"
