"""The product's own path in virtual time: frontier and cell's arithmetic, and the assets on the rows of the cell.

One cell with one slot crawls `web`. What it would write into the lake goes into tables in memory; the queries and
functions of the assets `url_groups`, `change_rates`, `value_model` (daily) and `crawl_schedule` (each window) run on
them, and what they decide comes back to the cell as its directives would bring it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assets import change_rates, value_model
from assets.group_work import summed_up
from assets.schedule import directive, priors_of, window_at
from assets.schedule_plan import plan_window, rows_of
from assets.schedule_work import work_of
from bench.simulation.score import Copies
from bench.simulation.tables import MemoryTables
from bench.simulation.web import Web, host_name
from crawl_platform.clock import DAY, ManualClock, as_datetime
from crawl_platform.frontier.lease import Found, Lease, PageResult
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.posterior import posterior_after, predicted_change
from crawl_platform.frontier.records import LANES, STATES, UrlRecord, decode, shard_range, url_of_key
from crawl_platform.frontier.windows import Window
from crawl_platform.scheduling.templates import group_id, template_of
from crawl_platform.settings import Frontier, HostRule, Orchestration, Refresh, Settings
from crawl_platform.testing.builders import FrontierRig

START = 20_834 * DAY
"""UTC seconds: windows and days begin with the simulation."""
CELL = "cell-1"
WIRE_BYTES = 40_000


@dataclass
class Findings:
    """What is measured beside freshness."""

    idle: float = 0.0
    """Seconds in which nothing could be claimed."""
    split_error: float = 0.0
    """Greatest |discovery turns − Σ shares|, over all moments."""
    backlog: list[int] = field(default_factory=list)
    """URLs that wait for their first visit, by day."""
    lanes: dict[str, int] = field(default_factory=dict)
    promised: int = 0
    """Visits (and pages at the end) for which there was a promise, and by how many days those were late that were."""
    late: list[float] = field(default_factory=list)
    predicted: list[tuple[float, float, bool]] = field(default_factory=list)
    """(day, chance of a change as believed, whether it had changed) of each visit but the first of a page."""


class Product:
    def __init__(
        self,
        web: Web,
        windows: tuple[tuple[float, float], ...],
        refresh: Refresh | None = None,
        window_seconds: float = 6 * 3_600.0,
    ) -> None:
        self.web = web
        self.copies = Copies(web, windows)
        self.found = Findings()
        self.tables = MemoryTables()
        hosts = [host_name(host) for host in range(web.params.hosts)]
        rules = tuple(_delay_of(name, float(web.delay[h])) for h, name in enumerate(hosts))
        promise = {"within": web.params.promised * DAY}
        rules += tuple(HostRule(name, promises=promise) for name in hosts[: web.params.promised_hosts])
        self.rig = FrontierRig(
            *hosts,
            clock=ManualClock(START, 1_000.0),
            refresh=refresh,
            host_rules=rules,
            settings=Frontier(bloom_capacity=20_000),
        )
        self.hosts = hosts
        self.settings = Settings(
            home="",
            refresh=self.rig.refresh,
            orchestration=Orchestration(window_seconds=window_seconds),
            hosts=rules,
        )
        self._fetches: list[dict[str, Any]] = []
        self._links: list[dict[str, Any]] = []
        self._number = 0
        self._window_fetches = 0

    @property
    def day(self) -> float:
        return (self.rig.clock.now() - START) / DAY

    # the cell

    def run(self) -> Findings:
        """From day 0 to the end."""
        self._admit()
        seconds = self.settings.orchestration.window_seconds
        for window in range(round(self.web.params.days * DAY / seconds)):
            begins = START + window * seconds
            if begins % DAY == 0:
                self._daily()
            self._open_window(begins)
            self._crawl_until(begins + seconds)
        self.tables.close()
        self._note_what_is_late()
        return self.found

    def _note_what_is_late(self) -> None:
        """Pages that are past their promise at the end."""
        now = self.rig.clock.now()
        for key, data in self.rig.kv.scan(*shard_range(b"u", 0)):
            last = decode(data, UrlRecord).last_success_at
            if last:
                self._visited_after(url_of_key(key)[0], now - last)

    def _visited_after(self, host: str, age: float) -> None:
        """A page of `host` is visited (or the crawl ends) so many seconds after its last visit."""
        if self.rig.frontier.rules.of(host).promises.within:
            self.found.promised += 1
            late = age / DAY - self.web.params.promised
            if late > 0:
                self.found.late.append(late)

    def _admit(self) -> None:
        """The pages that are there at the start come with their hosts' promotion."""
        urls: dict[int, list[Found]] = {}
        for page in np.flatnonzero(self.web.born == 0.0):
            urls.setdefault(int(self.web.host[page]), []).append(self._entry(int(page)))
        for host, found in urls.items():
            self.rig.apply(_admission(self.hosts[host], found))
            self.rig.allow_all(self.hosts[host])

    def _entry(self, page: int) -> Found:
        return Found(self.web.url[page], 1, float(self.web.importance[page]))

    def _crawl_until(self, end: float) -> None:
        clock, frontier = self.rig.clock, self.rig.frontier
        while clock.now() < end:
            lease = self.rig.claim()
            if lease is None:
                at = frontier.agenda.next_at()
                wait = (at if at is not None else np.inf) - clock.boottime()
                wait = min(max(wait, 0.001), end - clock.now())
                self.found.idle += wait
                clock.advance(wait)
                continue
            assert isinstance(lease, Lease)
            self._visit(lease)
            split = frontier.lanes.split
            self.found.split_error = max(self.found.split_error, abs(split.discovery - split.owed))

    def _visit(self, lease: Lease) -> None:
        rig, started = self.rig, self.rig.clock.now()
        day, page = self.day, self.web.number[lease.url]
        changed = self.copies.visit(page, day)
        if lease.record.last_success_at:
            self._visited_after(lease.host, started - lease.record.last_success_at)
        prior = rig.frontier.revisits.prior(lease.shard, lease.host, lease.record)
        chance = predicted_change(lease.record, started, prior)
        posterior = posterior_after(lease.record, changed, started, prior)
        rig.land(lease, self.web.params.took)
        result = PageResult(lease, started, "success", "ok", changed, posterior=posterior)
        template = template_of(lease.url, rig.frontier.hosts[lease.host].record.shapes)
        result.group = group_id(lease.host, template)
        self._number += 1
        self._write(lease, result, template, chance)
        rig.apply(lambda planner: planner.page(result), self._appraised(result.found))
        self._window_fetches += 1
        lane = LANES[lease.lane]
        self.found.lanes[lane] = self.found.lanes.get(lane, 0) + 1
        if chance is not None and changed is not None:
            self.found.predicted.append((day, chance, changed))

    def _write(self, lease: Lease, result: PageResult, template: str, chance: float | None) -> None:
        """The rows of a fetch, and the links that it shows where they are not those of before."""
        page, fetch_id, at = self.web.number[lease.url], f"f{self._number}", as_datetime(result.at)
        before, rates = lease.record.last_success_at, result.posterior or (0.0, 0.0)
        result.link_set = lease.record.link_set or fetch_id
        if result.changed is not False:
            result.link_set = fetch_id
            result.found = [self._entry(target) for target in self.web.links(page, (result.at - START) / DAY)]
            self._links += [
                {"fetch_id": fetch_id, "src_url": lease.url, "dst_url": f.url, "position": "main",
                 "nofollow": False, "seen_at": at}
                for f in result.found
            ]  # fmt: skip
        self._fetches.append(
            {"fetch_id": fetch_id, "url": lease.url, "host": lease.host, "shard": 0, "kind": "page",
             "lane": LANES[lease.lane], "started_at": at, "duration_ms": 1e3 * self.web.params.took,
             "outcome": "ok", "wire_bytes": WIRE_BYTES,
             "changed": result.changed, "link_set": result.link_set, "depth": lease.record.depth,
             "previous_success_at": as_datetime(before) if before else None, "group_id": result.group,
             "template": template, "predicted_change": chance, "rate_a": rates[0], "rate_b": rates[1],
             "value": lease.record.value, "discovered_at": as_datetime(lease.record.discovered_at)}
        )  # fmt: skip

    def _appraised(self, found: list[Found]) -> Callable[[Planner], object]:
        """New pages are appraised as they come, as an asset would: what a page is worth is no secret."""
        return lambda planner: [planner.appraise(f.url, f.value, "importance") for f in found]

    # what Dagster decides

    def _flush(self) -> None:
        self.tables.append("fetches", self._fetches)
        self.tables.append("links", self._links)
        self._fetches, self._links = [], []

    def _daily(self) -> None:
        """`frontier` snapshot and events of hosts, then `url_groups`, `change_rates` and `value_model`."""
        self._flush()
        self.found.backlog.append(self.rig.frontier.backlog())
        self._snapshot()
        reading = self.tables.reading
        self.tables.overwrite("url_groups", reading.table(change_rates.GROUPS))
        self.tables.overwrite("change_rates", change_rates.estimated_rates(reading))
        self.tables.overwrite("cold_priors", value_model.learn(reading.table(value_model.LOOKS)).rows)
        self.tables.overwrite("group_work", summed_up(reading, self.rig.refresh))
        told = priors_of(reading, self.rig.refresh)
        self.rig.frontier.revisits.priors.tell(0, told.default, told.hosts, told.groups)

    def _snapshot(self) -> None:
        now, frontier = as_datetime(self.rig.clock.now()), self.rig.frontier
        rows = []
        for key, data in self.rig.kv.scan(*shard_range(b"u", 0)):
            (host, url), record = url_of_key(key), decode(data, UrlRecord)
            rows.append(
                {"snapshot_id": now.isoformat(), "snapshot_at": now, "shard": 0, "host": host, "url": url,
                 "state": STATES[record.state], "value": record.value, "group_id": record.group,
                 "kind": "page", "rate_a": record.rate_a, "rate_b": record.rate_b,
                 "discovered_at": as_datetime(record.discovered_at),
                 "last_success_at": as_datetime(record.last_success_at) if record.last_success_at else None}
            )  # fmt: skip
        self.tables.reading.connection.execute("DELETE FROM frontier")
        self.tables.append("frontier", rows)
        self.tables.append(
            "hosts",
            [
                {"host": host, "shard": 0, "happened_at": now, "event": "delay", "state": "seed", "trusted": True,
                 "delay": float(self.web.delay[h]), "known_urls": frontier.hosts[host].record.known, "cell": CELL}
                for h, host in enumerate(self.hosts)
            ],
        )  # fmt: skip

    def _open_window(self, begins: float) -> None:
        """`crawl_schedule` on what the lake has, and what the cell is told of it."""
        self._report()
        self._flush()
        window = window_at(begins, self.settings.orchestration.window_seconds)
        plan = plan_window(work_of(self.tables.reading, self.settings, window), window.window_id)
        rows = rows_of(plan, window, {})
        self.tables.insert("crawl_schedule", rows)
        allocations, groups = directive(rows)
        opened = Window(window.window_id, window.ends_at, allocations, groups)
        self.rig.frontier.open_windows({0: opened}, *self.rig.times())

    def _report(self) -> None:
        """A `fleet_stats` row of the window before."""
        seconds, now = self.settings.orchestration.window_seconds, as_datetime(self.rig.clock.now())
        fetches, self._window_fetches = self._window_fetches, 0
        if not self._number:
            fetches = round(seconds / self.web.params.took)
        self.rig.frontier.lanes.emit_rate = fetches / seconds
        self.tables.append(
            "fleet_stats",
            [{"cell": CELL, "reported_at": now, "seconds": seconds, "fetches": fetches, "slots": 1,
              "latency_p50_ms": 1e3 * self.web.params.took, "cpu_seconds": 1e-3 * fetches}],
        )  # fmt: skip


def _delay_of(host: str, seconds: float) -> HostRule:
    return HostRule(host, politeness={"host_delay": seconds})


def _admission(host: str, found: list[Found]) -> Callable[[Planner], object]:
    def step(planner: Planner) -> None:
        planner.admit(host, found, trusted=True, decision_id="seed")

    return step
