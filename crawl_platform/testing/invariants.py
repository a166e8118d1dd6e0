"""The platform's promises as functions: each returns what breaks it, an empty list when it holds.

They look only at what the outside world can see: the lake, and the request log of the server that was
crawled (`crawl_platform.simulation.verdict.read_log`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from crawl_platform.lake.commits import CommitRow
from crawl_platform.lake.lake import Lake
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.verdict import Pair, overlaps, short_gaps

WIRE = 0.05
"""Seconds by which the clocks of the two ends of a connection may differ."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`invariant` is the function's name, `detail` is for people."""

    invariant: str
    detail: str


# 4: the lake


def committed_once(lake: Lake) -> list[Violation]:
    """At every row of `commits` no fetch is there twice, and no manifest is in two commits."""
    found = [
        Violation("committed_once", f"manifest {label} is in {count} commits")
        for label, count in Counter(label for row in _commits(lake) for label in row.manifests).items()
        if count > 1
    ]
    files = _FetchIds(lake, "fetches")
    known: set[str] = set()
    for row, new, removed in files.growth():
        ids = list(files.ids(files.now if removed else new))
        known = set() if removed else known
        twice = {name for name, count in Counter(ids).items() if count > 1} | (known & set(ids))
        found += [
            Violation("committed_once", f"fetch {name} is there twice at commit {row.commit_id}")
            for name in sorted(twice)
        ]
        known.update(ids)
    return found + _same_request_twice(lake)


def _same_request_twice(lake: Lake) -> list[Violation]:
    """One request has one row, under whatever id."""
    rows = lake.query(
        "SELECT url, started_at, count(*) AS n FROM fetches WHERE status IS NOT NULL "
        "GROUP BY url, started_at HAVING count(*) > 1 ORDER BY url"
    ).to_pylist()
    return [Violation("committed_once", f"{r['url']} at {r['started_at']} has {r['n']} rows") for r in rows]


def links_have_fetches(lake: Lake, at: int | None = None) -> list[Violation]:
    """Every row of `links` has its row in `fetches`: at commit `at`, or (None) at every row of `commits`.

    Each data file is read once, however many commits there are.
    """
    if at is not None:
        return _orphans(lake, at)
    fetches, links = _FetchIds(lake, "fetches"), _FetchIds(lake, "links")
    known: set[str] = set()
    found: list[Violation] = []
    for (row, new_fetches, _), (_, new_links, _) in zip(fetches.growth(), links.growth(), strict=True):
        known.update(fetches.ids(new_fetches))
        for name in sorted(set(links.ids(new_links)) - known):
            found.append(
                Violation(
                    "links_have_fetches", f"links of {name} without its fetch at commit {row.commit_id}"
                )
            )
    return found or _orphans(lake, None)


def _orphans(lake: Lake, at: int | None) -> list[Violation]:
    rows = lake.query(
        "SELECT DISTINCT fetch_id FROM links ANTI JOIN fetches USING (fetch_id) ORDER BY fetch_id", at=at
    )
    where = "the last commit" if at is None else f"commit {at}"
    return [
        Violation("links_have_fetches", f"links of {name} without its fetch at {where}")
        for name in rows["fetch_id"].to_pylist()
    ]


def _commits(lake: Lake) -> list[CommitRow]:
    last = lake.latest_commit()
    return [lake.commit(number) for number in range(1, last.commit_id + 1)] if last else []


class _FetchIds:
    """The `fetch_id`s in a table's data files, per row of `commits`."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake = lake
        self._table = table
        self._read: dict[str, list[str]] = {}
        self.now: set[str] = set()
        """Files at the commit that `growth` stands at."""

    def growth(self) -> Iterator[tuple[CommitRow, set[str], bool]]:
        """(commit, files added since the commit before, whether others were removed) in order."""
        for row in _commits(self._lake):
            delta = self._lake.delta(self._table, row.versions[self._table])
            before, self.now = self.now, {unquote(path) for path in _paths(delta)}
            yield row, self.now - before, bool(before - self.now)

    def ids(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            if path not in self._read:
                file = pq.ParquetFile(self._lake.path(self._table) / path)
                self._read[path] = file.read(columns=["fetch_id"])["fetch_id"].to_pylist()
            yield from self._read[path]


def _paths(delta: Any) -> list[str]:
    paths: list[str] = pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist()
    return paths


# 4: the lake against the server's log


def fetches_match_log(
    lake: Lake, log: Sequence[Entry], surplus: int = 0, wire: float = WIRE
) -> list[Violation]:
    """Every completed response in `fetches` has exactly one request in the server's log.

    Requests that no row speaks of are surplus: at most `surplus` of them may be there (what was in flight or
    uncommitted when processes were killed). A failed attempt may have reached the server or not.

    A row's start is noted before the request is written and its end after the response was read, so the server has seen
    the request in between, however busy the machine is. `wire`: seconds by which the clocks of the two ends may differ.
    """
    found, unmatched = _matched(lake, log, wire)
    if len(unmatched) > surplus:
        found += [
            Violation("fetches_match_log", f"no row for the request for {_seen(e)}; {surplus} may have none")
            for e in unmatched
        ]
    return found


def _matched(lake: Lake, log: Sequence[Entry], wire: float) -> tuple[list[Violation], list[Entry]]:
    """(completed responses that no request stands behind, requests that no row speaks of)."""
    waiting = defaultdict(list)
    for entry in sorted(log, key=lambda e: e.start):
        waiting[entry.host, entry.port, entry.path].append(entry)
    asked = {target: list(entries) for target, entries in waiting.items()}
    found = []
    for row in _fetch_rows(lake):
        target = _target(row["url"])
        if not _take(waiting[target], row, wire) and row["status"] is not None:
            found.append(Violation("fetches_match_log", _unseen(row, asked.get(target, []))))
    return found, [entry for entries in waiting.values() for entry in entries]


def _unseen(row: dict[str, Any], asked: Sequence[Entry]) -> str:
    """What is known of a row without a request. `asked`: all requests for its URL."""
    requests = ", ".join(f"{entry.start:.3f} to {entry.end:.3f}" for entry in asked) or "none"
    return (
        f"{row['url']} ({row['fetch_id']}): the server saw no such request from {row['started']:.3f} for "
        f"{row['took']:.3f} s; for this URL it saw {requests}"
    )


def _seen(entry: Entry) -> str:
    return f"{entry.host}{entry.path} from {entry.start:.3f} to {entry.end:.3f} ({entry.ended_by})"


@dataclass(frozen=True, slots=True)
class Death:
    """A cell was killed. `at`: CLOCK_BOOTTIME. `committed`: series → number of the last manifest on its disk then."""

    cell: str
    at: float
    incarnation: str
    committed: Mapping[str, int]


READ_LATE = 0.1
"""Seconds after a kill in which a server still reads what the process had written."""


def redo_is_bounded(
    lake: Lake, log: Sequence[Entry], deaths: Sequence[Death], within: float, wire: float = WIRE
) -> list[Violation]:
    """Every request without a row was sent by a cell that was killed at most `within` seconds later. The server may
    read what was sent a moment after the kill (`READ_LATE`).

    So what a kill costs is what was in flight and what the open epochs held: `within` is the longest age of an
    epoch, and what closing one and a request may take.
    """
    owners = {
        row["host"]: row["cell"] for row in lake.query("SELECT DISTINCT host, cell FROM fetches").to_pylist()
    }
    times = defaultdict(list)
    for death in deaths:
        times[death.cell].append(death.at)
    return [
        Violation("redo_is_bounded", _unexplained(e, within, times[owners.get(e.host, "")]))
        for e in _matched(lake, log, wire)[1]
        if not any(-READ_LATE <= at - e.start_boot <= within for at in times[owners.get(e.host, "")])
    ]


def _unexplained(entry: Entry, within: float, deaths: Sequence[float]) -> str:
    near = sorted(deaths, key=lambda at: abs(at - entry.start_boot))[:2]
    kills = ", ".join(f"{at - entry.start_boot:+.3f} s" for at in near) or "never"
    return (
        f"no row for {_seen(entry)}, and no kill within {within:g} s after it; kills nearest to it: {kills}"
    )


def committed_is_kept(lake: Lake, deaths: Sequence[Death]) -> list[Violation]:
    """What a cell had committed on its disk when it was killed is in the lake: each manifest, none of them empty."""
    rows = _commits(lake)
    shown = {label for row in rows for label in row.manifests}
    empty = {label for row in rows for label in row.quarantined}
    owed = {
        f"{death.incarnation}/{series}/{number}"
        for death in deaths
        for series, last in death.committed.items()
        for number in range(1, last + 1)
    }
    return [
        *(
            Violation("committed_is_kept", f"manifest {label} is not in the lake")
            for label in sorted(owed - shown)
        ),
        *(Violation("committed_is_kept", f"manifest {label} came empty") for label in sorted(owed & empty)),
    ]


def _fetch_rows(lake: Lake) -> list[dict[str, Any]]:
    """Completed responses first: a failed attempt gets what they leave."""
    rows: list[dict[str, Any]] = lake.query(
        "SELECT fetch_id, url, status, epoch_us(started_at) / 1e6 AS started, "
        "coalesce(duration_ms, 0) / 1e3 AS took FROM fetches ORDER BY status IS NULL, started_at"
    ).to_pylist()
    return rows


def _target(url: str) -> tuple[str, int, str]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.hostname or "", port, parts._replace(scheme="", netloc="").geturl() or "/"


def _take(entries: list[Entry], row: dict[str, Any], wire: float) -> bool:
    """Take the entry that fits the row best in time out of `entries`; whether there is one.

    Not the first that fits: around a kill that may be a request without a row, and the row's own would seem to be one.
    """
    low, high = row["started"] - wire, row["started"] + row["took"] + wire
    fitting = [entry for entry in entries if low <= entry.start <= high]
    if not fitting:
        return False
    entries.remove(min(fitting, key=lambda entry: abs(entry.start - row["started"])))
    return True


# 1 and 2: the server's log alone


def polite(log: Sequence[Entry], delay: float, address_delay: float | None = None) -> list[Violation]:
    """No two requests overlap, nor start closer than the delay (seconds), per host and per address."""
    by_address = delay if address_delay is None else address_delay
    return [
        *_described("overlap", "host", overlaps(log, "host")),
        *_described("overlap", "address", overlaps(log, "address")),
        *_described("too close", "host", short_gaps(log, delay, "host")),
        *_described("too close", "address", short_gaps(log, by_address, "address")),
    ]


def _described(what: str, by: str, pairs: Iterable[Pair]) -> Iterator[Violation]:
    for pair in pairs:
        paths = f"{pair.first.path} and {pair.second.path}"
        yield Violation("polite", f"{what} by {pair.by:.3f} s at {by} {pair.key}: {paths}")


def robots_first(log: Sequence[Entry]) -> list[Violation]:
    """The first request to every origin is for its robots.txt."""
    first: dict[tuple[str, int], Entry] = {}
    for entry in log:
        known = first.get((entry.host, entry.port))
        if known is None or entry.start_boot < known.start_boot:
            first[entry.host, entry.port] = entry
    return [
        Violation("robots_first", f"{host}:{port} was first asked for {entry.path}")
        for (host, port), entry in first.items()
        if entry.path != "/robots.txt"
    ]


def _asked_as(url: str) -> tuple[str, str]:
    """(host, path with query) of a URL, as the server's log has them."""
    parts = urlsplit(url)
    return parts.hostname or "", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def boundary_held(lake: Lake, log: Sequence[Entry], seeds: Collection[str]) -> list[Violation]:
    """No host outside `seeds` (all that ever were in the seed) was asked for anything, or has a fetch row, but for
    URLs to which a robots.txt had redirected."""
    moved = lake.query(
        "SELECT DISTINCT redirect_to FROM fetches WHERE kind = 'robots' AND redirect_to IS NOT NULL"
    )
    hops = {_asked_as(url) for url in moved["redirect_to"].to_pylist()}
    asked = sorted({entry.host for entry in log if (entry.host, entry.path) not in hops} - set(seeds))
    rows = lake.query(
        "SELECT DISTINCT host FROM fetches WHERE kind <> 'robots' OR url NOT IN (SELECT redirect_to FROM fetches "
        "WHERE kind = 'robots' AND redirect_to IS NOT NULL) ORDER BY host"
    )["host"].to_pylist()
    return [
        *(Violation("boundary_held", f"{host} was asked although it is not seed") for host in asked),
        *(
            Violation("boundary_held", f"{host} has fetches but is not seed")
            for host in rows
            if host not in seeds
        ),
    ]
