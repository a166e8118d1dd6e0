"""Group `schedule`: how the next window's capacity is shared among hosts.

First what deadlines need, then the rest by marginal value per fetch within politeness and available work
(`crawl_platform/scheduling/allocation.py`). One window is planned once: a repeated run publishes it again
as it was. Per-group allocation and learning come on top of this.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg
import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.plots import bars
from assets.promotion_decision import decision_id
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.fleet.messages import ScheduleWindow
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import CRAWL_SCHEDULE, DECISIONS
from crawl_platform.scheduling.allocation import allocate, marginal, shortfall
from crawl_platform.settings import Settings
from resources.fleet import FleetResource
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "schedule"
OWNERS = ["team:crawl"]
INPUTS = ("hosts", "fetches", "fleet_stats", "frontier", "host_ranks")
SHOWN_HOSTS = 20
HEADROOM = 0.9
"""Share of the measured capacity that is planned: the rest is for the fast lanes and for surprises."""
EQUAL_SHARE = 0.5
"""A host's value is half its share of trust and half an equal share, so that no seed host starves."""

HOSTS = """
WITH page AS (
    SELECT host, url, max(started_at) FILTER (outcome IN ('ok', 'not_modified')) AS last_success
    FROM fetches WHERE kind = 'page' GROUP BY host, url
), done AS (
    SELECT host, count(*) AS tried,
        count(*) FILTER (date_diff('second', last_success, $now) >= $interval_min) AS due,
        count(*) FILTER (date_diff('second', last_success, $now) >= $interval_max) AS overdue
    FROM page GROUP BY host
), speed AS (
    SELECT host, avg(duration_ms) / 1000 AS seconds FROM fetches
    WHERE duration_ms IS NOT NULL AND started_at > $now - INTERVAL 1 DAY GROUP BY host
), waiting AS (SELECT host, count(*) AS queued FROM frontier_now WHERE state = 'queued' GROUP BY host)
SELECT h.host,
    greatest(coalesce(h.known_urls, 0) - coalesce(d.tried, 0), coalesce(w.queued, 0), 1)::DOUBLE AS backlog,
    coalesce(d.due, 0)::DOUBLE AS due, coalesce(d.overdue, 0)::BIGINT AS overdue,
    coalesce(h.delay, $delay) + coalesce(s.seconds, 0) AS seconds_per_fetch,
    coalesce(r.trust, 0) AS trust
FROM hosts_now h
LEFT JOIN done d ON d.host = h.host LEFT JOIN speed s ON s.host = h.host
LEFT JOIN waiting w ON w.host = h.host LEFT JOIN host_ranks r ON r.host = h.host
WHERE h.state = 'seed' ORDER BY h.host
"""

CELLS = """
SELECT cell, arg_max(slots, reported_at) AS slots,
    sum(cpu_seconds) / nullif(sum(fetches), 0) AS cpu_per_fetch,
    avg(latency_p50_ms) / 1000 AS latency
FROM fleet_stats WHERE reported_at > $now - INTERVAL 1 HOUR GROUP BY cell
"""

DECIDED_ROWS = "SELECT * FROM crawl_schedule WHERE window_id = ? ORDER BY host"
DECIDED_WITH = """
SELECT evidence FROM decisions WHERE kind = 'schedule' AND subject = ? ORDER BY decided_at, decision_id LIMIT 1
"""


@dataclass(frozen=True)
class Plan:
    """A window's allocation; arrays have one value per host."""

    hosts: list[str]
    given: NDArray[np.int64]
    reserved: NDArray[np.int64]
    missing: NDArray[np.int64]
    most: NDArray[np.int64]
    wanted: NDArray[np.float64]
    score: NDArray[np.float64]
    budget: int


@dataclass(frozen=True)
class InForce:
    """A decided window, its rows in `crawl_schedule`, and how many overdue pages found no room in it."""

    window: ScheduleWindow
    rows: pa.Table
    unmet: int


@dg.asset(
    deps=["fleet_stats", "hosts", "fetches", "frontier", "host_ranks"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=3), warn_window=timedelta(hours=2)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "within_capacity",
            asset="crawl_schedule",
            description="The window's fetches fit the fleet's capacity, and no host gets more than politeness allows.",
        ),
        dg.AssetCheckSpec(
            "deadlines_fit",
            asset="crawl_schedule",
            description="What overdue pages need fits into the window: a promise that doesn't is named here.",
        ),
    ],
)
def crawl_schedule(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    fleet: FleetResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a host's allotment of fetches in one window. The cells act on the window in force."""
    store = lake.open()
    decided = in_force(lake, window_at(clock.now(), crawl_settings.orchestration.window_seconds))
    inputs = store.inputs_of("crawl_schedule")
    if not decided.rows.num_rows:
        with lake.read(*INPUTS) as reading:
            plan = plan_window(reading, crawl_settings, decided.window)
        inputs = reading.inputs
        _write(store, plan, decided.window, inputs, context.run.run_id)
        decided = in_force(lake, decided.window)
    revision = fleet.client().schedule(decided.window)
    version = store.version("crawl_schedule")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "crawl_schedule", version, inputs),
            "window": decided.window.window_id,
            "revision": revision,
            **_summary(decided.rows, decided.window.budget),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_within_capacity(decided.rows, decided.window.budget), _deadlines_fit(decided.unmet)],
    )


def window_at(now: float, seconds: float) -> ScheduleWindow:
    """The window that holds `now`; windows start at whole multiples of `seconds` since 1970."""
    start = now // seconds * seconds
    return ScheduleWindow(as_datetime(start).isoformat(), start, start + seconds, 0, {})


def in_force(lake: LakeResource, window: ScheduleWindow) -> InForce:
    """`window` as it was decided; without rows if it has not been decided yet."""
    with lake.read(also=("crawl_schedule", "decisions")) as reading:
        rows = reading.table(DECIDED_ROWS, [window.window_id])
        found = reading.connection.execute(DECIDED_WITH, [window.window_id]).fetchone()
    evidence = msgspec.json.decode(found[0], type=dict[str, int]) if found else {}
    given = dict(zip(rows["host"].to_pylist(), rows["fetches"].to_pylist(), strict=True))
    decided = msgspec.structs.replace(window, budget=evidence.get("budget", 0), allocations=given)
    return InForce(decided, rows, evidence.get("overdue_without_room", 0))


def _write(store: Lake, plan: Plan, window: ScheduleWindow, inputs: dict[str, int], run_id: str) -> None:
    """The decision first: a window never stands without the budget that it was decided with."""
    if not plan.hosts:
        return
    store.append("decisions", _decision_row(plan, window, inputs, run_id), inputs)
    store.append("crawl_schedule", _schedule_rows(plan, window, inputs), inputs)


def plan_window(reading: Reading, settings: Settings, window: ScheduleWindow) -> Plan:
    """Allocate the window's capacity among all seed hosts."""
    seconds = window.ends_at - window.starts_at
    parameters = {
        "now": as_datetime(window.starts_at),
        "interval_min": settings.refresh.interval_min,
        "interval_max": settings.refresh.interval_max,
        "delay": settings.politeness.host_delay,
    }
    columns = reading.connection.execute(HOSTS, parameters).fetchnumpy()
    hosts = [str(host) for host in columns["host"]]
    wanted = np.asarray(columns["backlog"] + columns["due"], np.float64)
    most = np.floor(seconds / np.asarray(columns["seconds_per_fetch"], np.float64)).astype(np.int64)
    overdue = np.asarray(columns["overdue"], np.int64)
    budget = capacity(reading, settings, window.starts_at, seconds)
    value, cost = _values(np.asarray(columns["trust"], np.float64)), np.ones(len(hosts))
    given = allocate(wanted, most, cost, value, budget, overdue)
    given = allocate(most, most, cost, value, budget, given)  # what is left waits for links yet to be found
    return Plan(
        hosts,
        given,
        np.minimum(overdue, given),
        shortfall(overdue, given),
        most,
        wanted,
        marginal(given, wanted, value, cost),
        budget,
    )


def _values(trust: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(trust):
        return trust
    share = trust / trust.sum() if trust.sum() > 0 else np.full(len(trust), 1.0 / len(trust))
    value: NDArray[np.float64] = (1 - EQUAL_SHARE) * share + EQUAL_SHARE / len(trust)
    return value


def capacity(reading: Reading, settings: Settings, now: float, seconds: float) -> int:
    """Fetches that all cells together can make in `seconds`: each is bound by its slots (slots/latency, Little's
    law) or by its core (1/CPU seconds per fetch). Before the first report the slots alone, at one second each."""
    cells = reading.connection.execute(CELLS, {"now": as_datetime(now)}).fetchall()
    if not cells:
        return int(HEADROOM * settings.fleet.cells * settings.fetch.slots * seconds)
    rate = 0.0
    for _, slots, cpu_per_fetch, latency in cells:
        by_slots = slots / max(latency or 1.0, 1e-3)
        by_core = 1.0 / cpu_per_fetch if cpu_per_fetch else by_slots
        rate += min(by_slots, by_core)
    return int(HEADROOM * rate * seconds)


def _reasons(plan: Plan) -> list[str]:
    return [
        f"{given} of {wanted:.0f} wanted"
        + (f", {reserved} of them overdue" if reserved else "")
        + ("; politeness allows no more" if given == most < wanted else "")
        + (f"; {missing} overdue pages don't fit" if missing else "")
        for given, wanted, reserved, most, missing in zip(
            plan.given, plan.wanted, plan.reserved, plan.most, plan.missing, strict=True
        )
    ]


def _schedule_rows(plan: Plan, window: ScheduleWindow, inputs: dict[str, int]) -> pa.Table:
    start = as_datetime(window.starts_at)
    n = len(plan.hosts)
    columns = {
        "window_id": [window.window_id] * n,
        "starts_at": [start] * n,
        "ends_at": [as_datetime(window.ends_at)] * n,
        "host": plan.hosts,
        "group_id": [0] * n,
        "fetches": plan.given,
        "reserved": plan.reserved,
        "most": plan.most,
        "score": plan.score,
        "propensity": [1.0] * n,
        "reason": _reasons(plan),
        "input_versions": [list(inputs.items())] * n,
        "date": [start.date()] * n,
    }
    return pa.table(columns, schema=CRAWL_SCHEDULE.schema)


def _decision_row(plan: Plan, window: ScheduleWindow, inputs: dict[str, int], run_id: str) -> pa.Table:
    start = as_datetime(window.starts_at)
    evidence = {
        "budget": plan.budget,
        "allotted": int(plan.given.sum()),
        "reserved": int(plan.reserved.sum()),
        "overdue_without_room": int(plan.missing.sum()),
        "hosts": len(plan.hosts),
    }
    row = {
        "decision_id": decision_id(window.window_id, inputs, "schedule"),
        "decided_at": start,
        "kind": "schedule",
        "subject": window.window_id,
        "verdict": "allocated",
        "reason": f"{evidence['allotted']} of {plan.budget} fetches allotted to {len(plan.hosts)} hosts",
        "propensity": 1.0,
        "evidence": msgspec.json.encode(evidence, order="sorted").decode(),
        "input_versions": list(inputs.items()),
        "decided_by": "crawl_schedule",
        "run_id": run_id,
        "date": start.date(),
    }
    return pa.Table.from_pylist([row], schema=DECISIONS.schema)


def _summary(rows: pa.Table, budget: int) -> dict[str, Any]:
    top = rows.sort_by([("fetches", "descending"), ("host", "ascending")]).slice(0, SHOWN_HOSTS)
    reserved, given = top["reserved"].to_numpy(), top["fetches"].to_numpy()
    parts = {"reserved": reserved, "by value": given - reserved}
    return {
        "budget_fetches": budget,
        "allotted_fetches": int(rows["fetches"].to_numpy().sum()),
        "reserved_fetches": int(rows["reserved"].to_numpy().sum()),
        "hosts": rows.num_rows,
        "allocation": bars("Fetches allotted in this window", "fetches", top["host"].to_pylist(), parts),
    }


def _within_capacity(rows: pa.Table, budget: int) -> dg.AssetCheckResult:
    given = rows["fetches"].to_numpy()
    impolite = int(np.sum(given > rows["most"].to_numpy()))
    return dg.AssetCheckResult(
        check_name="within_capacity",
        passed=bool(given.sum() <= budget and impolite == 0),
        metadata={"allotted": int(given.sum()), "capacity": budget, "hosts_over_politeness": impolite},
    )


def _deadlines_fit(unmet: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name="deadlines_fit",
        passed=unmet == 0,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{unmet} overdue pages find no room in this window." if unmet else "",
        metadata={"overdue_without_room": unmet},
    )


ASSETS = (crawl_schedule,)
