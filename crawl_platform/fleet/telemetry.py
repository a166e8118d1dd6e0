"""What a cell counts about itself, reported as `fleet_stats` rows and in its heartbeat."""

import os
import resource
from collections import Counter, deque

import psutil

from crawl_platform.clock import Clock, as_datetime
from crawl_platform.commit.outbox import Outbox
from crawl_platform.commit.staging import Row
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import DISPOSITIONS
from crawl_platform.fleet.stages import CPU, INFLATE, Stages
from crawl_platform.frontier.frontier import Frontier

SAMPLES = 2_000
OUTCOME = "outcome."
"""Before the name of an outcome in a heartbeat: fetches that ended so since the cell started."""

TURNED_AWAY = "turned_away."
"""Before a reason in a heartbeat: links that did not enter the frontier for it since the cell started."""


HELD_BY = ("", "spool", "staging", "disk")
"""What keeps a cell from claiming pages, by its number in a heartbeat (`held_back`). Each comes from behind: the lake
has not confirmed a spool's worth of rows, rows can't be staged, less than `fleet.min_free_disk` is free."""


class Telemetry:
    def __init__(self, cell: str, slots: int, clock: Clock) -> None:
        self._cell = cell
        self._slots = slots
        self._clock = clock
        self._process = psutil.Process(os.getpid())
        self.stages = Stages()
        self.in_flight = 0
        self.counts: Counter[str] = Counter()
        self._durations: deque[float] = deque(maxlen=SAMPLES)
        self._latency = 0.0
        self._last_counts: Counter[str] = Counter()
        self._last_at = clock.boottime()
        self._last_cpu = _cpu_seconds()
        self._slowed = {"slowed_hosts": 0.0, "slowed_addresses": 0.0, "longest_delay": 0.0}

    def fetched(self, response: Response) -> None:
        self.counts["fetches"] += 1
        good = DISPOSITIONS[response.outcome] in ("success", "redirect")
        self.counts["pages" if good else "errors"] += 1
        self.counts["wire_bytes"] += len(response.wire)
        self.counts[OUTCOME + response.outcome] += 1
        self.stages.add(INFLATE, response.inflating)
        if response.sent:
            self._durations.append(response.duration * 1000)

    def report(self, frontier: Frontier, outbox: Outbox) -> Row:
        """A `fleet_stats` row about the time since the last one."""
        boot, now, cpu = self._clock.boottime(), as_datetime(self._clock.now()), _cpu_seconds()
        split = frontier.lanes.split
        self.counts["discovery"], self.counts["refresh"] = split.discovery, split.refresh
        self.counts["lent"] = split.lent
        delta = self.counts - self._last_counts
        seconds = max(boot - self._last_at, 1e-6)
        frontier.lanes.emit_rate = delta["fetches"] / seconds
        row: Row = {name: delta[name] for name in ("fetches", "pages", "errors", "wire_bytes")}
        row |= {name: delta[name] for name in ("discovery", "refresh", "lent")}
        row |= {
            "cell": self._cell,
            "reported_at": now,
            "date": now.date(),
            "seconds": seconds,
            "in_flight": self.in_flight,
            "slots": self._slots,
            "latency_p50_ms": self._quantile(0.5),
            "latency_p95_ms": self._quantile(0.95),
            "known_urls": frontier.known,
            "queued": frontier.hosts.queued,
            "hosts": len(frontier.hosts),
            "unforgotten": len(outbox.manifests()),
            "rss_bytes": self._process.memory_info().rss,
            "cpu_seconds": cpu - self._last_cpu,
            "seen_absent": frontier.seen.absent,
            "seen_false_positives": frontier.seen.false_positives,
        }
        self._last_counts, self._last_at, self._last_cpu = self.counts.copy(), boot, cpu
        self._latency = self._mean_latency()
        self._durations.clear()
        self._look_at_paces(frontier)
        return row

    def _look_at_paces(self, frontier: Frontier) -> None:
        slowed = frontier.hosts.slowed()
        self._slowed = {
            "slowed_hosts": len(slowed),
            "slowed_addresses": frontier.gates.paces.slowed,
            "longest_delay": max(slowed, default=0.0),
        }

    def _mean_latency(self) -> float:
        """Seconds from request to end of response: of the time since the last report, or of that before it."""
        return sum(self._durations) / len(self._durations) / 1000 if self._durations else self._latency

    def _quantile(self, q: float) -> float | None:
        if not self._durations:
            return None
        ordered = sorted(self._durations)
        return ordered[min(int(q * len(ordered)), len(ordered) - 1)]

    def summary(self, frontier: Frontier) -> dict[str, float]:
        """For the heartbeat and `crawl top`."""
        return {
            "fetches": self.counts["fetches"],
            "pages": self.counts["pages"],
            "errors": self.counts["errors"],
            "bytes": self.counts["wire_bytes"],
            "in_flight": self.in_flight,
            "slots": self._slots,
            "latency": self._mean_latency(),
            "known_urls": frontier.known,
            "hosts": len(frontier.hosts),
            "rate": frontier.lanes.emit_rate,
            "seen_false_positive_rate": frontier.seen.false_positive_rate,
            "seen_filters": frontier.seen.generations,
            "active_hosts": len(frontier.hosts.awake),
            "impolite": self.counts["impolite"],
            **self._slowed,
            **{name: count for name, count in self.counts.items() if name.startswith(OUTCOME)},
            **{CPU + stage: spent for stage, spent in self.stages.shares(_cpu_seconds()).items()},
            **{TURNED_AWAY + reason: count for reason, count in frontier.turned_away.items()},
        }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
