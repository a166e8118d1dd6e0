"""Group `quality`: what a good crawl is, measured.

The measures and their definitions are data in `crawl_platform/quality`; here they are computed at one version
vector, kept as a trend, and judged. The moment of a measurement is that of the commit it looks at: the same
commit is measured once, however often this runs, and a crawl that stands still has no new measures.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.plots import markdown_table, trend
from crawl_platform.admission.rules import HostRules
from crawl_platform.frontier.posterior import prior_of
from crawl_platform.lake.tables import CRAWL_QUALITY
from crawl_platform.quality.catalog import MEASURES, READS, measured
from crawl_platform.quality.measure import Look, Value
from crawl_platform.settings import Settings
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "quality"
OWNERS = ["team:crawl"]

LAST_COMMIT = "SELECT commit_id, committed_at FROM commits ORDER BY commit_id DESC LIMIT 1"
TREND = """
SELECT measured_at, measure, value, numerator, denominator FROM crawl_quality
WHERE measured_at > ? - INTERVAL 7 DAY ORDER BY measured_at
"""
NEVER = ("overlapping_requests", "short_gaps", "requests_before_robots")
"""Measures of politeness that are 0 in a crawl that keeps its promises."""
POINTS_LOST = 0.10
"""Freshness this far below its usual level has collapsed …"""
USUAL = 24
"""… and its usual level is the median of the measurements before, once there are so many."""
CALIBRATED = (0.8, 1.25)
ENOUGH_CHANGES = 50
"""Changes found from which a ratio means something: its own spread is then some 14 %."""
NEARLY_ALL = 0.99

Row = dict[str, Any]


@dg.asset(
    deps=[
        *("fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "commits", "requests"),
        *("change_rates", "value_model"),
    ],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=7), warn_window=timedelta(hours=4)
    ),
    metadata={
        "definitions": markdown_table(
            ("measure", "dimension", "unit", "definition"),
            [(m.name, m.dimension, m.unit, m.definition) for m in MEASURES.values()],
        )
    },
    check_specs=[
        dg.AssetCheckSpec(
            "polite",
            asset="crawl_quality",
            description="No request overlapped another, came sooner than the delay in force, or before a robots.txt "
            "was read, as far as the crawl's own log can tell.",
        ),
        dg.AssetCheckSpec(
            "freshness_holds",
            asset="crawl_quality",
            description="Freshness is not 10 points below what was usual in the last seven days.",
        ),
        dg.AssetCheckSpec(
            "calibrated",
            asset="crawl_quality",
            description="The scheduler finds about as many changes as it expects: expectations it acts on are sound.",
        ),
        dg.AssetCheckSpec(
            "keeps_up",
            asset="crawl_quality",
            description="Coverage has risen or the backlog has shrunk since a day ago, or nearly all is read.",
        ),
        dg.AssetCheckSpec(
            "all_measured",
            asset="crawl_quality",
            description="Each declared measure has a value, or there was nothing to measure (then it says why).",
        ),
    ],
)
def crawl_quality(lake: LakeResource, crawl_settings: dg.ResourceParam[Settings]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: one measure of the crawl at one commit. Six dimensions that are never mixed into one number:
    usefulness, completeness, freshness, timeliness, cost, politeness."""
    store = lake.open()
    with lake.read(*READS, also=("crawl_quality",)) as reading:
        commit = next(iter(reading.rows(LAST_COMMIT)), None)
        at = commit["committed_at"] if commit else None
        known = reading.rows(TREND, [at]) if at else []
        new = (
            [] if not at or (known and known[-1]["measured_at"] >= at) else _rows(reading, crawl_settings, at)
        )
    if commit and new:
        data = pa.Table.from_pylist(new, schema=CRAWL_QUALITY.schema)
        store.append("crawl_quality", data, reading.inputs, ("crawl_quality", commit["commit_id"]))
    history = History([*known, *new])
    version = store.version("crawl_quality")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "crawl_quality", version, reading.inputs),
            "commit": commit["commit_id"] if commit else 0,
            **_summary(history),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=judged(history),
    )


def look_at(settings: Settings, now: datetime, hosts: Iterable[str]) -> Look:
    """What to measure against: the promises and priors of the settings, for these hosts."""
    unknown = prior_of(settings.refresh.prior_shape, settings.refresh.prior_rate)
    rules, known = HostRules(settings), list(hosts)
    return Look(
        now=now,
        delay=settings.politeness.host_delay,
        address_delay=settings.politeness.address_delay,
        robots_ttl=settings.politeness.robots_ttl,
        interval_max=settings.refresh.interval_max,
        promised=rules.promised(known),
        promised_first=rules.promised_first(known),
        prior_a=unknown.a,
        prior_b=unknown.b,
        front_ends=settings.front_ends(),
    )


def _rows(reading: Reading, settings: Settings, at: datetime) -> list[Row]:
    hosts = [row["host"] for row in reading.rows("SELECT host FROM hosts_now WHERE state = 'seed'")]
    look = look_at(settings, at, hosts)
    values = measured(reading.connection, look)
    return [_row(name, value, look, reading.inputs) for name, value in values.items()]


def _row(name: str, value: Value, look: Look, inputs: Mapping[str, int]) -> Row:
    measure = MEASURES[name]
    return {
        "measured_at": look.now,
        "measure": name,
        "dimension": measure.dimension,
        "value": value.value,
        "unit": measure.unit,
        "numerator": value.numerator,
        "denominator": value.denominator,
        "window_seconds": None if measure.state else look.back.total_seconds(),
        "input_versions": list(inputs.items()),
        "date": look.now.date(),
    }


class History:
    """Measurements in order of time; the last one is the one that is judged."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.times = sorted({row["measured_at"] for row in rows})
        self._rows = {(row["measured_at"], row["measure"]): row for row in rows}

    def row(self, name: str, at: datetime | None = None) -> Row | None:
        """A measure at one time, by default the last."""
        return self._rows.get((at or self.times[-1], name)) if self.times else None

    def value(self, name: str, at: datetime | None = None) -> float | None:
        row = self.row(name, at)
        return None if row is None else row["value"]

    def values(self, name: str) -> list[float]:
        """One per time, NaN where there is none."""
        found = (self.value(name, at) for at in self.times)
        return [float("nan") if value is None else value for value in found]

    def a_day_before(self) -> datetime | None:
        """The latest measurement that is a day older than the last."""
        earlier = [at for at in self.times if self.times[-1] - at >= timedelta(days=1)]
        return earlier[-1] if earlier else None


def judged(history: History) -> list[dg.AssetCheckResult]:
    """All checks, on the last measurement and those before it."""
    return [
        _polite(history),
        _freshness_holds(history),
        _calibrated(history),
        _keeps_up(history),
        _all_measured(history),
    ]


def _polite(history: History) -> dg.AssetCheckResult:
    counts = {name: int(history.value(name) or 0) for name in NEVER}
    return dg.AssetCheckResult(check_name="polite", passed=not any(counts.values()), metadata=counts)


def _warning(name: str, passed: bool, why: str, **metadata: Any) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=why,
        metadata=metadata,
    )


def _freshness_holds(history: History) -> dg.AssetCheckResult:
    name = "freshness_holds"
    now = history.value("freshness")
    before = [value for value in history.values("freshness")[:-1] if not np.isnan(value)]
    if now is None or len(before) < USUAL:
        return _warning(name, True, f"{len(before)} earlier measurements: too few to say what is usual.")
    usual = float(np.median(before))
    return _warning(name, now >= usual - POINTS_LOST, "", freshness=now, usual=usual)


def _calibrated(history: History) -> dg.AssetCheckResult:
    row = history.row("calibration")
    if row is None or row["value"] is None or row["denominator"] < ENOUGH_CHANGES:
        return _warning("calibrated", True, f"Fewer than {ENOUGH_CHANGES} changes found: too few to judge.")
    low, high = CALIBRATED
    off = "" if low <= row["value"] <= high else "Pages change less often than believed."
    if row["value"] < low:
        off = "Pages change more often than believed."
    return _warning("calibrated", not off, off, expected_per_found=row["value"])


def _keeps_up(history: History) -> dg.AssetCheckResult:
    before = history.a_day_before()
    coverage, backlog = history.value("url_coverage"), history.value("backlog")
    if before is None or coverage is None or backlog is None:
        return _warning("keeps_up", True, "There is no measurement of a day ago to compare with.")
    then, waited = history.value("url_coverage", before), history.value("backlog", before)
    passed = coverage >= NEARLY_ALL or coverage > (then or 0.0) or backlog < (waited or 0.0)
    why = (
        ""
        if passed
        else "More URLs are found than are read: the crawl is too small, or too many hosts entered."
    )
    return _warning("keeps_up", passed, why, coverage=coverage, coverage_before=then or 0.0, backlog=backlog)


def _all_measured(history: History) -> dg.AssetCheckResult:
    rows = {name: history.row(name) for name in MEASURES} if history.times else {}
    lacking = [name for name, row in rows.items() if row is None]
    broken = [name for name, row in rows.items() if row and row["value"] is None and row["denominator"]]
    return _warning(
        "all_measured",
        not lacking and not broken,
        "" if rows else "The fleet has not committed anything yet.",
        lacking=dg.MetadataValue.json([*lacking, *broken]),
        nothing_to_measure=dg.MetadataValue.json(_missing(history)),
    )


def _missing(history: History) -> dict[str, str]:
    """Measures without a value, and why."""
    if not history.times:
        return {}
    return {name: m.missing for name, m in MEASURES.items() if history.value(name) is None}


def _summary(history: History) -> dict[str, Any]:
    """The values, for people who look at one run and for Dagster, which plots numbers by itself."""
    if not history.times:
        return {}
    values = {name: history.value(name) for name in MEASURES}
    hours = [(at - history.times[-1]) / timedelta(hours=1) for at in history.times]

    def over_time(title: str, *names: str) -> dg.MarkdownMetadataValue:
        return trend(title, "share", hours, {name: history.values(name) for name in names})

    fresh = over_time("Freshness of the copies held", "freshness", "freshness_by_value", "freshness_believed")
    read = over_time("What has been read", "url_coverage", "host_coverage", "useful_share")
    numbers = {name: dg.MetadataValue.float(value) for name, value in values.items() if value is not None}
    return {**numbers, "freshness_over_time": fresh, "completeness_over_time": read}


ASSETS = (crawl_quality,)
