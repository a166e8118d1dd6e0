"""A small crawl written into a real lake the way the fleet does it: staged files, Delta commits, a row of
`commits`; and a fleet that only remembers what it was told."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.digest import digest
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.messages import GroupPriors, ScheduleWindow, Worth
from crawl_platform.lake.delta import STAGED, DeltaWriter, split_by_partition, write_parquet
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.web.url import host_of
from resources.fleet_control import CellState, FleetState

SHARDS = 8

NOT_LOOKED_AT = (
    *("errors", "wire_bytes", "in_flight", "known_urls", "queued", "hosts"),
    *("discovery", "refresh", "lent", "unforgotten", "rss_bytes"),
)
"""Columns of `fleet_stats` that no asset reads."""


class MadeUpCrawl:
    """Collects rows; `commit` puts them into the lake as one round of the committer."""

    def __init__(self, lake: Lake, clock: ManualClock) -> None:
        self.lake = lake
        self.clock = clock
        self.commits = 0
        self._fetches = 0
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._begun: dict[str, int] = {}

    def go_on_after(self, other: "MadeUpCrawl") -> None:
        """Number on where `other` stood, whose lake this one's is a copy of."""
        self.commits, self._fetches = other.commits, other._fetches

    def _add(self, table: str, **values: Any) -> None:
        now = as_datetime(self.clock.now())
        self._rows.setdefault(table, []).append({"cell": "cell-0", "date": now.date(), **values})

    def host(
        self,
        host: str,
        state: str = "seed",
        *,
        trusted: bool = True,
        event: str = "seeded",
        decision_id: str | None = None,
    ) -> None:
        """An event in a host's life."""
        now = as_datetime(self.clock.now())
        self._add(
            "hosts",
            host=host,
            shard=0,
            happened_at=now,
            event=event,
            state=state,
            trusted=trusted,
            decision_id=decision_id,
            delay=1.0,
            known_urls=50,
        )

    def visit(
        self, url: str, *targets: str, position: str = "main", nofollow: bool = False, address: str = ""
    ) -> None:
        """One successful fetch of `url`, which shows links to `targets`."""
        self._fetches += 1
        now, fetch = as_datetime(self.clock.now()), f"f{self._fetches:06d}"
        host = host_of(url)
        self._add(
            "fetches",
            fetch_id=fetch,
            url=url,
            host=host,
            shard=0,
            kind="page",
            lane="discovery",
            started_at=now,
            duration_ms=40.0,
            outcome="ok",
            status=200,
            address=address or None,
            link_set=fetch,
            discovered_at=now,
            incarnation="made-up",
            manifest=self.commits + 1,
            series="bulk",
        )
        for target in targets:
            self.link(fetch, url, target, position=position, nofollow=nofollow)

    def page(
        self,
        url: str,
        text: str,
        *,
        value: float = 0.5,
        canonical: str | None = None,
        noindex: bool = False,
        **columns: Any,
    ) -> None:
        """One successful fetch of `url` that brought a new version of it, with other `columns` of `pages`."""
        self.visit(url)
        fetch = self._rows["fetches"][-1]
        fetch["value"] = value
        facts = digest(text.encode(), url, "text/plain")
        self._add(
            "pages",
            fetch_id=fetch["fetch_id"],
            url=url,
            host=fetch["host"],
            fetched_at=fetch["started_at"],
            text=text,
            content_type="text/html",
            canonical=canonical,
            noindex=noindex,
            text_hash=facts.text_hash or None,
            simhash=facts.simhash,
            **columns,
        )

    def fetch(self, url: str, **columns: Any) -> str:
        """One fetch of `url` like any other, but for `columns`; returns its id."""
        self.visit(url)
        row = self._rows["fetches"][-1]
        row.update(columns)
        fetch: str = row["fetch_id"]
        return fetch

    def robots(self, host: str) -> None:
        """The robots.txt of `host` is read: what comes before any page."""
        self.fetch(f"https://{host}/robots.txt", kind="robots", lane="robots", link_set=None)

    def row(self, table: str, **columns: Any) -> None:
        """Any row of the fleet's tables, as the fleet would write it or as it never should."""
        self._add(table, **columns)

    def gone(self, url: str) -> None:
        """One fetch of `url` that was answered 404."""
        self.visit(url)
        self._rows["fetches"][-1].update(outcome="gone", status=404, link_set=None)

    def link(
        self, fetch: str, url: str, target: str, *, position: str = "main", nofollow: bool = False
    ) -> None:
        self._add(
            "links",
            fetch_id=fetch,
            src_url=url,
            src_host=host_of(url),
            dst_url=target,
            dst_host=host_of(target),
            position=position,
            nofollow=nofollow,
            anchor="",
            seen_at=as_datetime(self.clock.now()),
        )

    def report(
        self, fetches: int = 600, slots: int = 16, cpu_seconds: float = 6.0, seen: tuple[int, int] = (1, 0)
    ) -> None:
        """One report of one cell about a minute. `seen`: unknown URLs, and those that filters took for known."""
        counts = dict.fromkeys(NOT_LOOKED_AT, 0)
        self._add(
            "fleet_stats",
            reported_at=as_datetime(self.clock.now()),
            seconds=60.0,
            fetches=fetches,
            pages=fetches,
            slots=slots,
            latency_p50_ms=100.0,
            latency_p95_ms=250.0,
            cpu_seconds=cpu_seconds,
            seen_absent=seen[0],
            seen_false_positives=seen[1],
            **counts,
        )

    def commit(self) -> None:
        """A round of the committer: every table, then the version vector."""
        self.begin_commit()
        self.end_commit()

    def begin_commit(self) -> None:
        """The first part of a round: the rows are in their tables, and no row of `commits` says so yet."""
        self.commits += 1
        self._begun = {name: self._commit_table(name, rows) for name, rows in self._rows.items()}

    def end_commit(self) -> None:
        """The second part: the version vector."""
        vector = {n: self.lake.version(n) for n, t in TABLES.items() if t.writer == "fleet"} | self._begun
        at = as_datetime(self.clock.now())
        row = {
            "commit_id": self.commits,
            "committed_at": at,
            "versions": list(vector.items()),
            "manifests": [f"made-up/bulk/{self.commits}"],
            "quarantined": [],
            "rows": [(name, len(rows)) for name, rows in self._rows.items()],
            "date": at.date(),
        }
        self.lake.append("commits", pa.Table.from_pylist([row], schema=TABLES["commits"].schema))
        self._rows = {}

    def _commit_table(self, name: str, rows: list[dict[str, Any]]) -> int:
        table, folder = TABLES[name], self.lake.path(name) / STAGED
        known = {column.name for column in table.columns}
        data = pa.Table.from_pylist(
            [{k: v for k, v in r.items() if k in known} for r in rows], schema=table.schema
        )
        files = [
            write_parquet(table, part, folder / f"made-up-{self.commits}-{number}.parquet")
            for number, (_, part) in enumerate(split_by_partition(table, data))
        ]
        return DeltaWriter(self.lake.path(name), table).commit(files, {"made-up/bulk": self.commits}, {})


def small_web(
    crawl: MadeUpCrawl, *, seeds: int = 12, honest: int = 30, farm: bool = True, seed: int = 3
) -> None:
    """Trusted seed hosts that link to each other and to honest hosts by popularity; and a link farm.

    The farm's boosters have been crawled (promoted in earlier days, not trusted), and two seed hosts carry a
    hijacked link to its target, `bait.test`.
    """
    random = np.random.default_rng(seed)
    names = [f"seed-{i}.test" for i in range(seeds)]
    popularity = 1.0 / np.arange(1, honest + 1)
    for i, name in enumerate(names):
        crawl.host(name)
        liked = random.choice(honest, 8, replace=False, p=popularity / popularity.sum())
        targets = [f"https://honest-{j}.test/page-{k}" for j in liked for k in range(1 + int(j) % 3)]
        friends = [f"https://{names[int(f)]}/" for f in random.choice(seeds, 3, replace=False)]
        hijacked = ["https://bait.test/win"] if farm and i < 2 else []
        crawl.visit(f"https://{name}/", *targets, *friends, *hijacked)
    if farm:
        for j in range(40):
            booster = f"booster-{j}.test"
            crawl.host(booster, trusted=False, event="promoted")
            crawl.visit(f"https://{booster}/", *(f"https://bait.test/{k}" for k in range(30)))
    crawl.report()
    crawl.commit()


ONE_CELL = FleetState(1, (CellState("cell-0", "running", 64),))


@dataclass
class RememberingFleet:
    """Stands in for the fleet resource and its client; knows exclusions, and can be away."""

    promoted: dict[str, tuple[list[str], str, str]] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)
    """Pages that may be known of hosts on probation."""
    demoted: dict[str, str] = field(default_factory=dict)
    recrawled: list[tuple[str, str]] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    windows: list[ScheduleWindow] = field(default_factory=list)
    believed: list[GroupPriors] = field(default_factory=list)
    appraised: list[Worth] = field(default_factory=list)
    watched: list[tuple[str, float]] = field(default_factory=list)
    state: FleetState = ONE_CELL
    calls: int = 0
    away: bool = False

    def client(self) -> "RememberingFleet":
        return self

    def control(self) -> "RememberingFleet":
        return self

    def status(self) -> FleetState:
        self._call()
        return self.state

    def stop(self) -> None:
        self.state = FleetState(0, ())

    def _call(self) -> int:
        if self.away:
            raise ExchangeError("the exchange is away")
        self.calls += 1
        return self.calls

    def promote(
        self, host: str, urls: list[str], *, decision_id: str, reason: str, most_pages: int | None = None
    ) -> int:
        if host in self.excluded:
            raise ConfigurationError(f"{host} is excluded")
        sequence = self._call()
        self.bounds[host] = self.bounds.get(host, 0) if most_pages is None else most_pages
        known = self.promoted.get(host, ([], "", ""))[0]
        self.promoted[host] = ([*known, *(u for u in urls if u not in known)], decision_id, reason)
        return sequence

    def demote(self, host: str, *, promotion: str, decision_id: str, reason: str) -> int:
        self.demoted[host] = reason
        self.promoted.pop(host, None)
        return self._call()

    def recrawl(self, url: str, *, request_id: str) -> int:
        if "://" not in url:
            raise ConfigurationError(f"not a URL: {url}")
        self.recrawled.append((url, request_id))
        return self._call()

    def watch(self, url: str, every: float, *, request_id: str) -> int:
        if host_of(url) in self.excluded:
            raise ConfigurationError(f"{host_of(url)} is excluded")
        sequence = self._call()
        self.watched.append((url, every))
        return sequence

    def exclude(self, pattern: str, *, request_id: str = "", reason: str = "") -> int:
        self.excluded[pattern] = reason
        return self._call()

    def lift(self, pattern: str, *, request_id: str = "", reason: str = "") -> int:
        if pattern not in self.excluded:
            raise ConfigurationError(f"{pattern} is not excluded")
        del self.excluded[pattern]
        return self._call()

    def schedule(self, window: ScheduleWindow) -> int:
        sequence = self._call()
        self.windows.append(window)
        return sequence

    def priors(self, priors: GroupPriors) -> int:
        sequence = self._call()
        self.believed.append(priors)
        return sequence

    def appraise(self, worths: Iterable[Worth]) -> int:
        self._call()
        told = list(worths)
        self.appraised += told
        return len(told)
