"""`/metrics`: the fleet in figures, in Prometheus' text format, from heartbeats, `fleet_stats` and the lake.

On a registry of its own. No metric has a label whose values grow with the web (no host, no URL): the cells,
the taxonomy of outcomes and the API's own operations are all there is. Documented in docs/api.md.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from crawl_platform.clock import Clock, as_datetime
from crawl_platform.errors import ExchangeError, LakeError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.stages import CPU
from crawl_platform.fleet.telemetry import OUTCOME, TURNED_AWAY
from crawl_platform.lake.lake import Lake

LAST_REPORTS = """
SELECT * FROM fleet_stats WHERE date >= $1
QUALIFY row_number() OVER (PARTITION BY cell ORDER BY reported_at DESC) = 1 ORDER BY cell
"""
REPORTS_WITHIN = timedelta(days=1)
WINDOW_USE = "SELECT count(*) AS used FROM fetches WHERE date >= $1 AND window_id = $2"

Family = tuple[str, str, str]
"""(field of a heartbeat or of `fleet_stats`, metric, what it says)."""
FROM_BEATS_COUNTED: tuple[Family, ...] = (
    ("fetches", "crawl_fetches", "Fetches ended since the cell started."),
    ("pages", "crawl_pages", "Of these, successes and redirects."),
    ("errors", "crawl_fetch_errors", "Of these, neither."),
    ("bytes", "crawl_fetched_bytes", "Body bytes read from sockets since the cell started."),
    (
        "impolite",
        "crawl_stopped_requests",
        "Requests stopped at the last look: a bug, or a clock just moved.",
    ),
    ("dropped_messages", "crawl_dropped_messages", "Messages to other cells that NATS would not take."),
)
FROM_BEATS: tuple[Family, ...] = (
    ("in_flight", "crawl_in_flight_requests", "Requests in flight."),
    ("latency", "crawl_latency_seconds", "Mean time from a request to the end of its response."),
    ("held_back", "crawl_held_back", "Why no pages are claimed: 0 they are, 1 spool, 2 staging, 3 disk."),
    ("known_urls", "crawl_known_urls", "URLs known."),
    ("hosts", "crawl_seed_hosts", "Seed hosts owned."),
    (
        "seen_false_positive_rate",
        "crawl_seen_false_positive_rate",
        "Share of unknown URLs that cost a look at the disk since the cell started; 0.001 is promised.",
    ),
    ("seen_filters", "crawl_seen_filters", "Bloom filters of the seen set."),
    ("active_hosts", "crawl_active_hosts", "Hosts that are in memory; the others rest."),
    ("slowed_hosts", "crawl_slowed_hosts", "Hosts that are asked more slowly than usual, being unwell."),
    (
        "slowed_addresses",
        "crawl_slowed_addresses",
        "Addresses likewise, by what several of their hosts said.",
    ),
    (
        "longest_delay",
        "crawl_longest_delay_seconds",
        "Longest delay in force of a slowed host; 0 if none is.",
    ),
    ("spooled_bytes", "crawl_spool_bytes", "Staged bytes that the lake has not confirmed yet."),
)
FROM_REPORTS: tuple[Family, ...] = (
    ("slots", "crawl_slots", "Requests that may be in flight."),
    ("queued", "crawl_queued_urls", "URLs waiting in a queue."),
    ("unforgotten", "crawl_unconfirmed_manifests", "Manifests that the lake has not confirmed yet."),
    ("rss_bytes", "crawl_resident_memory_bytes", "Resident memory of the cell."),
)


class FleetCollector(Collector):
    """Asks exchange and lake at each scrape. What is away leaves its metrics out, and says so in `crawl_up`."""

    def __init__(self, lake: Lake, client: Callable[[], FleetClient], clock: Clock) -> None:
        self._lake = lake
        self._client = client
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("crawl_up", "Whether it answers (1) or not (0).", labels=["part"])
        try:
            client = self._client()
            beats, window = client.heartbeats(), client.window()
            up.add_metric(["exchange"], 1)
        except (ExchangeError, LakeError):
            beats, window = [], None
            up.add_metric(["exchange"], 0)
        yield from self._of_beats(sorted(beats, key=lambda beat: beat.cell))
        try:
            of_lake = list(self._of_lake(None if window is None else window.window_id))
            up.add_metric(["lake"], 1)
        except (LakeError, OSError):
            of_lake = []
            up.add_metric(["lake"], 0)
        yield from of_lake
        if window is not None:
            yield _gauge("crawl_window_budget_fetches", "Fetches that the window plans with.", window.budget)
            yield _gauge(
                "crawl_window_remaining_seconds",
                "Until the schedule window ends; negative when it has ended.",
                window.ends_at - self._clock.now(),
            )
        yield up

    def _of_beats(self, beats: list[Heartbeat]) -> Iterator[Metric]:
        now = self._clock.now()
        age = GaugeMetricFamily(
            "crawl_cell_heartbeat_age_seconds", "Since the cell's last sign of life.", labels=["cell"]
        )
        for beat in beats:
            age.add_metric([beat.cell], max(now - beat.at, 0.0))
        yield age
        rows = [{"cell": beat.cell, **beat.report} for beat in beats]
        for field, name, doc in FROM_BEATS_COUNTED:
            yield _by_cell(CounterMetricFamily(name, doc, labels=["cell"]), rows, field)
        for field, name, doc in FROM_BEATS:
            yield _by_cell(GaugeMetricFamily(name, doc, labels=["cell"]), rows, field)
        yield _by_name(
            CounterMetricFamily(
                "crawl_fetch_outcomes",
                "Fetches by how they ended, since the cell started.",
                labels=["cell", "outcome"],
            ),
            beats,
            OUTCOME,
        )
        yield _by_name(
            CounterMetricFamily(
                "crawl_links_turned_away",
                "Links that did not enter the frontier, by reason, since the cell started.",
                labels=["cell", "reason"],
            ),
            beats,
            TURNED_AWAY,
        )
        yield _by_name(
            CounterMetricFamily(
                "crawl_cpu_seconds", "CPU seconds by stage, since the cell started.", labels=["cell", "stage"]
            ),
            beats,
            CPU,
        )

    def _of_lake(self, window_id: str | None) -> Iterator[Metric]:
        now = as_datetime(self._clock.now())
        commit = self._lake.latest_commit()
        if commit is not None:
            yield _gauge("crawl_lake_commit_id", "Last commit.", commit.commit_id)
            age = (now - commit.committed_at).total_seconds()
            yield _gauge("crawl_lake_commit_age_seconds", "Since the last commit.", max(age, 0.0))
        rows = self._rows(LAST_REPORTS, (now - REPORTS_WITHIN).date())
        for field, name, doc in FROM_REPORTS:
            yield _by_cell(GaugeMetricFamily(name, doc, labels=["cell"]), rows, field)
        yield _latencies(rows)
        busy = GaugeMetricFamily(
            "crawl_cpu_usage_ratio", "CPU seconds per second over the last report.", labels=["cell"]
        )
        for row in rows:
            busy.add_metric([row["cell"]], row["cpu_seconds"] / max(row["seconds"], 1e-6))
        yield busy
        started = _start_of(window_id)
        if started is not None:
            used = self._rows(WINDOW_USE, started.date(), window_id)[0]["used"]
            yield _gauge("crawl_window_used_fetches", "Fetches made in the schedule window so far.", used)

    def _rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._lake.query(sql, list(parameters)).to_pylist()
        return found


class Metrics:
    """The registry, and what the API counts about itself."""

    def __init__(self, lake: Lake, client: Callable[[], FleetClient], clock: Clock) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(FleetCollector(lake, client, clock))
        self._calls = Counter(
            "crawl_api_requests", "Calls answered.", ["operation", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "crawl_api_request_seconds", "Time to answer.", ["operation"], registry=self._registry
        )

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A call of `operation` (a name of `contract`, or `none`) was answered."""
        self._calls.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """All of it. Blocks: asks exchange and lake."""
        return generate_latest(self._registry)


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def _by_name(family: CounterMetricFamily, beats: Iterable[Heartbeat], prefix: str) -> Metric:
    """What heartbeats report under `prefix` and a name."""
    for beat in beats:
        for field, value in sorted(beat.report.items()):
            if field.startswith(prefix):
                family.add_metric([beat.cell, field.removeprefix(prefix)], value)
    return family


def _by_cell(
    family: CounterMetricFamily | GaugeMetricFamily, rows: Iterable[dict[str, Any]], field: str
) -> Metric:
    for row in rows:
        if row.get(field) is not None:
            family.add_metric([row["cell"]], row[field])
    return family


def _latencies(rows: Iterable[dict[str, Any]]) -> Metric:
    family = GaugeMetricFamily(
        "crawl_fetch_latency_seconds",
        "Duration of requests over the last report.",
        labels=["cell", "quantile"],
    )
    for row in rows:
        for quantile, column in (("0.5", "latency_p50_ms"), ("0.95", "latency_p95_ms")):
            if row[column] is not None:
                family.add_metric([row["cell"], quantile], row[column] / 1000)
    return family


def _start_of(window_id: str | None) -> datetime | None:
    """Windows are named by their start (UTC, ISO 8601)."""
    try:
        return None if window_id is None else datetime.fromisoformat(window_id).astimezone(UTC)
    except ValueError:
        return None
