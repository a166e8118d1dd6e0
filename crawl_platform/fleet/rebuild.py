"""A shard whose cell's disk is lost, made anew from the lake: its last snapshot, and the rows that are newer.

    1 base    the table `frontier` has every URL's record, and each host's; a URL takes part as of its newest snapshot
    2 hosts   hosts that entered the seed since then, from the table `hosts`
    3 links   what `links` shows since then is discovered again; other cells' hosts are told, for nobody knows whether
              the lost cell has told them
    4 visits  what `fetches` shows since then has happened; a sitemap or feed of that time is read again

What is lost: nothing that the lake has. What is done twice: fetches that no row tells of, sitemaps and feeds that were
read since the snapshot, robots.txt of every host. A page that was fetched since then counts as of unknown content, so
its next visit brings all of its links again, those too that are in no row (its canonical, its next page, its feeds).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from crawl_platform.clock import Clock
from crawl_platform.commit.manifest import SERIES, application, decode_manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.fleet.messages import DiscoveredUrl, discoveries
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Found, Lease, PageResult, value_at
from crawl_platform.frontier.listed import sitemap_group
from crawl_platform.frontier.overlay import is_dead
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    LANES,
    NO_LANE,
    PAGE,
    HostRecord,
    SitemapRecord,
    UrlRecord,
    decode,
    encode,
    host_key,
    places_of,
    sitemap_key,
    url_key,
    waiting,
)
from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Politeness
from crawl_platform.web.url import canonicalize

log = logging.getLogger(__name__)
PATIENCE = 120.0
"""Seconds that the committer gets to commit what the lost cell had published."""
PORTION = 500
"""Rows taken at once: some 40 ms of the loop."""
OVERLAP = timedelta(minutes=15)
"""Rows so much older than a snapshot may have been committed after it: a request, and an epoch that waited."""
NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

URLS = """
SELECT host, url, record, snapshot_at FROM frontier WHERE shard = $shard AND record IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY url ORDER BY snapshot_at DESC) = 1
"""
HOSTS = """
SELECT host, arg_max(host_record, snapshot_at) AS record FROM frontier
WHERE shard = $shard AND host_record IS NOT NULL GROUP BY host
"""
SEEDED = """
SELECT host, state, coalesce(trusted, false) AS trusted, coalesce(decision_id, '') AS decision_id,
    coalesce(delay, 0.0) AS delay
FROM hosts_now WHERE shard = $shard AND state IN ('seed', 'excluded')
"""
LINKS = """
SELECT l.dst_url, l.position, coalesce(f.depth, 0) AS depth FROM links l JOIN fetches f USING (fetch_id)
WHERE f.shard = $shard AND NOT coalesce(l.nofollow, false) AND f.date >= $since::DATE AND l.date >= $since::DATE
    AND f.started_at > $since
"""
VISITS = """
SELECT * FROM fetches WHERE shard = $shard AND kind <> 'robots' AND date >= $since::DATE AND started_at > $since
ORDER BY started_at
"""
LAST_WORDS = """
SELECT host, arg_max(outcome, started_at) AS outcome, max(started_at) AS at, arg_max(status, started_at) AS status
FROM fetches WHERE shard = $shard AND date >= $since::DATE GROUP BY host
"""
Row = dict[str, Any]
OUTCOMES: dict[str, str] = {str(outcome): what for outcome, what in DISPOSITIONS.items()}


@dataclass(slots=True)
class Rebuilt:
    """What came of it."""

    urls: int = 0
    hosts: int = 0
    links: int = 0
    visits: int = 0
    since: datetime = NEVER
    """Rows newer than this were looked at."""


@dataclass
class Rebuild:
    """`base` before the shard is ours, `newer` afterwards, while its hosts are not served yet. `lake`: a connection to
    it (`Lake.connect`)."""

    shard: int
    frontier: Frontier
    outbox: Outbox
    lake: duckdb.DuckDBPyConnection
    politeness: Politeness
    clock: Clock
    barred: Callable[[str, str], bool]
    """Whether this URL of a host was purged: the lake may have it still."""
    done: Rebuilt = field(default_factory=Rebuilt)

    async def base(self) -> None:
        """Steps 1 and 2, into the store."""
        hosts: dict[str, HostRecord] = {}
        oldest: list[datetime] = []
        async for rows in self._portions(URLS):
            self._write_urls(rows, hosts)
            oldest.append(min(row["snapshot_at"] for row in rows))
        self.done.since = min(oldest) - OVERLAP if oldest else NEVER
        records, seeded, words = [
            [row async for rows in self._portions(sql) for row in rows] for sql in (HOSTS, SEEDED, LAST_WORDS)
        ]
        self._write_hosts(hosts, records, seeded, words)

    async def newer(self) -> Rebuilt:
        """Steps 3 and 4."""
        async for rows in self._portions(LINKS):
            self._discover(rows)
        async for rows in self._portions(VISITS):
            self._visit(rows)
        return self.done

    async def _portions(self, sql: str) -> AsyncIterator[list[Row]]:
        """Rows of a query in portions that fit in memory; the loop goes on meanwhile."""
        parameters = {"shard": self.shard} | ({"since": self.done.since} if "$since" in sql else {})
        reader = iter(
            await asyncio.to_thread(lambda: self.lake.execute(sql, parameters).to_arrow_reader(PORTION))
        )
        while (batch := await asyncio.to_thread(_next, reader)) is not None:
            if batch:
                yield batch

    # 1 and 2

    def _write_urls(self, rows: list[Row], hosts: dict[str, HostRecord]) -> None:
        """`hosts` counts what is theirs: what a snapshot says of a host is of another moment."""
        batch = Batch()
        for row in rows:
            if self.barred(row["host"], row["url"]):
                continue
            host, url, record = row["host"], row["url"], decode(row["record"], UrlRecord)
            counts = hosts.setdefault(host, HostRecord())
            batch.put(url_key(self.shard, host, url), row["record"])
            for place in places_of(self.shard, host, url, record):
                batch.put(place, encode(waiting(record)))
            if record.kind != PAGE:
                batch.put(sitemap_key(self.shard, host, sitemap_group(host, url)), encode(SitemapRecord(url)))
            counts.known += 1
            counts.queued += record.lane != NO_LANE
            counts.fetched += record.last_success_at > 0
            counts.dead += is_dead(record)
            counts.pulled += record.pulled
            counts.sitemaps += record.kind != PAGE
        self.frontier.kv.write(batch)
        self.done.urls += len(rows)

    def _write_hosts(
        self, counts: dict[str, HostRecord], records: list[Row], seeded: list[Row], words: list[Row]
    ) -> None:
        known = {row["host"]: decode(row["record"], HostRecord) for row in records}
        for row in seeded:
            self._enter(known.setdefault(row["host"], HostRecord()), row)
        for row in words:
            if row["host"] in known:
                self._hold(known[row["host"]], row)
        batch = Batch()
        for host in {*known, *counts}:
            counted = counts.get(host, HostRecord())
            record = msgspec.structs.replace(
                known.get(host, counted),
                known=counted.known, queued=counted.queued, fetched=counted.fetched, dead=counted.dead,
                pulled=counted.pulled, sitemaps=counted.sitemaps,
            )  # fmt: skip
            batch.put(host_key(self.shard, host), encode(record))
        self.frontier.kv.write(batch, sync=True)
        self.done.hosts = len(batch)

    def _enter(self, record: HostRecord, row: Row) -> None:
        """Its last event has told that it is in the seed, or has left it: no second row is due."""
        record.admitted, record.excluded = (
            record.admitted or row["state"] == "seed",
            row["state"] != "seed",
        )
        record.trusted, record.decision_id = row["trusted"], row["decision_id"]
        record.since = record.since or self.clock.now()
        record.crawl_delay = max(record.crawl_delay, min(row["delay"], self.politeness.crawl_delay_cap))

    def _hold(self, record: HostRecord, word: Row) -> None:
        """A host that did not answer well to the last request is left alone for as long as it may have asked for: no
        row says how long that was."""
        if word["outcome"] not in BACKS_OFF:
            return
        wait = (
            self.politeness.retry_after_cap if word["status"] in (429, 503) else self.politeness.backoff_cap
        )
        until, now = word["at"].timestamp() + wait, self.clock.now()
        if until > max(now, record.not_before):
            record.not_before, record.left_alone = until, wait
            record.not_before_boot = self.clock.boottime() + until - now
            record.backoff = record.backoff or self.politeness.backoff_first

    # 3 and 4

    def _discover(self, rows: list[Row]) -> None:
        planner = Planner(self.frontier, self.clock.now())
        links: list[Found] = []
        for row in rows:
            url = canonicalize(row["dst_url"])
            if url is not None:
                moved = row["position"] == "redirect"
                depth = row["depth"] + (not moved)
                links.append(Found(url, depth, value_at(depth), int(moved)))
        planner.discover_all(links, as_it_is=True)
        self._write(planner)
        self.done.links += len(rows)

    def _visit(self, rows: list[Row]) -> None:
        planner = Planner(self.frontier, self.clock.now())
        for row in rows:
            self._visited(planner, row)
        self._write(planner)
        self.done.visits += len(rows)

    def _visited(self, planner: Planner, row: Row) -> None:
        host, url = row["host"], row["url"]
        record = planner.known(host, url)
        if record is None and not self.barred(host, url):  # asked for by hand, say: no link leads there
            planner.recrawl(url, "")
            record = planner.known(host, url)
        if record is None or row["started_at"].timestamp() <= record.last_success_at:
            return
        if row["kind"] != "page" or record.kind != PAGE:
            planner.redeliver(host, url)
            return
        lease = Lease(url, host, self.shard, _lane(row["lane"]), msgspec.structs.replace(record))
        disposition = OUTCOMES.get(row["outcome"], "retry")  # a newer release may know more of them
        result = PageResult(
            lease, row["started_at"].timestamp(), disposition, row["outcome"], row["changed"],
            fingerprint=row["fingerprint"] or "", link_set=row["link_set"] or "",
            posterior=(row["rate_a"] or 0.0, row["rate_b"] or 0.0), group=row["group_id"] or 0,
        )  # fmt: skip
        planner.page(result)

    def _write(self, planner: Planner) -> None:
        plan = planner.finish()
        for shard, found in plan.foreign.items():
            for message in discoveries(DiscoveredUrl(f.url, f.depth, f.value) for f in found):
                self.outbox.add_message(plan.batch, f"inbox.{shard}", message)
        self.frontier.kv.write(plan.batch, sync=True)
        absorb(self.frontier, plan, self.clock.now(), self.clock.boottime())


async def all_in_lake(exchange: Exchange, lake_root: Path, incarnation: str, clock: Clock) -> None:
    """Wait until the lake has what the lost cell had published, or its committer has made no progress for a while."""
    commits = await asyncio.to_thread(DeltaWriter, lake_root / "commits", TABLES["commits"])
    until = clock.boottime() + PATIENCE
    for series in SERIES:
        data = await exchange.last_manifest(f"manifest.{incarnation}.{series}")
        last = decode_manifest(data).number if data else 0
        while (commits.transaction_version(application(incarnation, series)) or 0) < last:
            if clock.boottime() > until:
                log.warning("the lake lacks what the lost cell has published: it is fetched once more")
                return
            await asyncio.sleep(0.5)
            await asyncio.to_thread(commits.refresh)


def _lane(name: str) -> int:
    return LANES.index(name) if name in LANES else LANES.index("discovery")


def _next(reader: Iterator[Any]) -> list[Row] | None:
    batch = next(reader, None)
    return None if batch is None else batch.to_pylist()
