"""Scenes in a few lines: a frontier with its own clock, gates and store; rows and manifests for a lake.

`FrontierRig` does what a cell does around the frontier (claim → write → end → plan → store → absorb), step
by step and without a network, so that a test can stop, crash or look between any two steps.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from crawl_platform.admission.hosts import EXCLUDED, SEED, HostBook
from crawl_platform.admission.identities import Identities, Persona
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.service import Admission
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.commit.manifest import BULK, Manifest
from crawl_platform.commit.staging import Row, stage
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.lease import Found, Lease, PageResult, RobotsLease, RobotsResult
from crawl_platform.frontier.overlay import Plan
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.promises import renew
from crawl_platform.frontier.records import UrlRecord, decode, url_key
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import DATE, SCHEMA_VERSION, TABLES, TIME
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import HostRule, IdentityHealth, Politeness, Refresh, Settings, Sitemaps
from crawl_platform.web.url import origin_of

AGENT = "tester"


class FrontierRig:
    """A frontier and all it needs, moved by hand. `seeds` are in the book (not yet admitted)."""

    def __init__(
        self,
        *seeds: str,
        kv: OrderedKV | None = None,
        clock: ManualClock | None = None,
        n_shards: int = 1,
        shards: frozenset[int] | None = None,
        settings: FrontierSettings | None = None,
        host_rules: tuple[HostRule, ...] = (),
        politeness: Politeness | None = None,
        refresh: Refresh | None = None,
        sitemaps: Sitemaps | None = None,
        open_robots: bool = True,
    ) -> None:
        self.kv = kv if kv is not None else MemoryKV()
        self.clock = clock or ManualClock()
        self.n_shards = n_shards
        self.shards = shards if shards is not None else frozenset(range(n_shards))
        frontier = settings or FrontierSettings(bloom_capacity=10_000)
        self.politeness = politeness or Politeness()
        self.settings = Settings(
            home="", frontier=frontier, politeness=self.politeness, sitemaps=sitemaps or Sitemaps(), hosts=host_rules
        )  # fmt: skip
        self.refresh = refresh or Refresh()
        self.directives: dict[str, str] = dict.fromkeys(seeds, SEED)
        self.open_robots = open_robots
        """Whether every origin met has a robots.txt that allows all (else it has to be fetched)."""
        self.book: HostBook
        self.gates: Gates
        self.robots: RobotsCache
        self.admission: Admission
        self.pool = (Persona("tester", AGENT, f"{AGENT}/1"),)
        self.frontier: Frontier
        self.restart()

    # life

    def restart(self) -> None:
        """What a crash leaves: the store and the directives. All memory is thrown away and loaded anew."""
        self.book = HostBook(self.n_shards)
        for name, state in self.directives.items():
            self.book.set(name, state)
        rules = HostRules(self.settings)
        self.gates = Gates(self.politeness, self.clock.boottime(), rules)
        self.robots = RobotsCache(AGENT, self.politeness)
        identities = Identities(self.pool, IdentityHealth())
        self.admission = Admission(self.book, self.robots, self.gates, identities)
        self.frontier = Frontier(
            self.kv,
            shards=self.shards,
            book=self.book,
            gates=self.gates,
            robots=self.robots,
            rules=rules,
            refresh=self.refresh,
            admission=self.admission,
        )
        self.frontier.load(*self.times())
        renew(self.frontier, *self.times())
        if self.open_robots:
            for host in {*self.frontier.hosts, *self.directives}:
                self.allow_all(host)

    def times(self) -> tuple[float, float]:
        """(now, boottime)."""
        return self.clock.now(), self.clock.boottime()

    def allow_all(self, host: str) -> None:
        self.robots.store(f"https://{host}", "allow_all", b"", float("inf"))

    def exclude(self, name: str) -> None:
        """An exclusion directive (`host` or `*.domain`) arrives."""
        self.directives[name] = EXCLUDED
        self.book.set(name, EXCLUDED)

    # entries

    def apply(self, *steps: Callable[[Planner], object], manifest: int = 0) -> Plan:
        """Plan `steps`, write the batch, absorb it: one epoch."""
        plan = self.plan(*steps, manifest=manifest)
        self.write(plan)
        return plan

    def plan(self, *steps: Callable[[Planner], object], manifest: int = 0) -> Plan:
        """The plan alone: nothing has happened yet."""
        planner = Planner(self.frontier, self.clock.now(), BULK, manifest)
        for step in steps:
            step(planner)
        return planner.finish()

    def write(self, plan: Plan) -> None:
        self.kv.write(plan.batch, sync=True)
        absorb(self.frontier, plan, *self.times())

    def discover(self, *urls: str, depth: int = 0, value: float = 0.5, hops: int = 0) -> Plan:
        """Discover URLs in one epoch; their origins' robots.txt allows all unless the rig says otherwise."""
        plan = self.apply(*(_discovery(Found(url, depth, value, hops)) for url in urls))
        if self.open_robots:
            for url in urls:
                self.robots.store(origin_of(url), "allow_all", b"", float("inf"))
        return plan

    # fetches

    def claim(self) -> Lease | RobotsLease | None:
        return self.frontier.claim(*self.times())

    def claim_page(self) -> Lease:
        """The next page; lets time pass until there is one. Raises `LookupError` if none is queued."""
        lease = self.next_claim()
        if not isinstance(lease, Lease):
            raise LookupError(f"no page could be claimed, got {lease!r}")
        return lease

    def next_claim(self, patience: float = 10 * 365 * 86_400.0) -> Lease | RobotsLease | None:
        """The next claim, however long it takes (at most `patience` seconds); None if nothing is left."""
        until = self.clock.boottime() + patience
        while (lease := self.claim()) is None:
            at = self.frontier.agenda.next_at()
            if at is None or at > until:
                return None
            self.clock.advance(max(at - self.clock.boottime(), 0.001))
        return lease

    def land(self, lease: Lease | RobotsLease, took: float = 0.0) -> None:
        """The request of a lease ends after `took` seconds; its result is not committed yet."""
        self.clock.advance(took)
        self.gates.end(
            lease.host,
            None,
            self.clock.boottime(),
            self.frontier.delay(self.frontier.hosts[lease.host].record, lease.host),
        )
        self.frontier.landed(lease.host, *self.times())

    def result(self, lease: Lease, disposition: str = "success", **facts: Any) -> PageResult:
        return PageResult(lease, self.clock.now(), disposition, **facts)

    def finish(self, lease: Lease, disposition: str = "success", manifest: int = 0, **facts: Any) -> Plan:
        """The lease's request ends and its epoch commits."""
        self.land(lease)
        result = self.result(lease, disposition, **facts)
        return self.apply(lambda planner: planner.page(result), manifest=manifest)

    def finish_robots(
        self, lease: RobotsLease, rule: str = "allow_all", body: bytes = b"", life: float = 86_400.0
    ) -> None:
        """robots.txt has arrived: in force at once, stored with the epoch."""
        self.land(lease)
        expires = self.clock.now() + life
        delay = self.robots.store(lease.origin, rule, body, expires)
        rules = self.robots.rules_of(lease.origin)
        named = tuple(rules.sitemaps) if rules else ()
        result = RobotsResult(lease, self.clock.now(), rule, body, expires, sitemaps=named)
        self.apply(lambda planner: planner.robots(result, delay))

    # the truth

    def record(self, host: str, url: str) -> UrlRecord | None:
        data = self.kv.get(url_key(self.book.shard(host), host, url))
        return None if data is None else decode(data, UrlRecord)


def _discovery(found: Found) -> Callable[[Planner], object]:
    return lambda planner: planner.discover(found)


def sample_row(table: str, at: float, **values: Any) -> Row:
    """A row of `table` that fits its declaration: `values`, and a plain value in each other required column.

    `at`: UTC seconds, for every time column and the partition.
    """
    unknown = set(values) - {column.name for column in TABLES[table].columns}
    if unknown:
        raise KeyError(f"{table} has no column {', '.join(sorted(unknown))}")
    row: Row = {}
    for column in TABLES[table].columns:
        if column.name in values:
            row[column.name] = values[column.name]
        elif column.required:
            row[column.name] = _plain_value(column.name, column.type, at)
    return row


def _plain_value(name: str, type_: pa.DataType, at: float) -> Any:
    if type_ == TIME:
        return as_datetime(at)
    if type_ == DATE:
        return as_datetime(at).date()
    if pa.types.is_string(type_):
        return name
    if pa.types.is_nested(type_):
        return []
    return False if pa.types.is_boolean(type_) else 0


def fetched(fetch_id: str, url: str, at: float, *targets: str, **values: Any) -> Mapping[str, list[Row]]:
    """The rows that one fetched page brings: its `fetches` row and one `links` row per target."""
    values = {
        "outcome": "ok",
        "status": 200,
        "kind": "page",
        "duration_ms": 10.0,
        "lane": "discovery",
        **values,
    }
    links = [sample_row("links", at, fetch_id=fetch_id, src_url=url, dst_url=target) for target in targets]
    rows = {"fetches": [sample_row("fetches", at, fetch_id=fetch_id, url=url, **values)]}
    return rows | ({"links": links} if links else {})


def staged_manifest(
    lake: Lake,
    number: int,
    rows: Iterable[Mapping[str, list[Row]]],
    *,
    at: float,
    incarnation: str = "cell-a",
    series: str = BULK,
    schema_version: int = SCHEMA_VERSION,
) -> Manifest:
    """Stage `rows` (several mappings are one epoch) and return the manifest that names the files."""
    merged: dict[str, list[Row]] = {}
    for mapping in rows:
        for table, table_rows in mapping.items():
            merged.setdefault(table, []).extend(table_rows)
    files = stage(lake.root, merged, incarnation, series, number)
    return Manifest(incarnation, series, number, incarnation, schema_version, at, (0,), files)


def tiny_lake(root: Path, n_shards: int = 1) -> Lake:
    """A new, empty lake."""
    lake = Lake(root)
    lake.create(n_shards)
    return lake
