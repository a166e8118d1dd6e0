"""Group `schedule`: how the next window's capacity is shared among hosts and their URL groups.

What there is to do is read in `assets/schedule_work.py`, shared out in `assets/schedule_plan.py`; here it is
decided, written, published and shown. One window is planned once: a repeated run publishes it again as it was,
together with the group priors that it was planned with.

The decision is written first, then the rows, planned at the versions that the decision names: of two runs at
once, or after a crash in between, the decision that stands is the one that is carried out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import dagster as dg
import msgspec
import numpy as np
import pyarrow as pa

from assets.plots import bars
from assets.promotion_decision import decision_id
from assets.schedule_plan import Plan, awake, plan_window, rows_of
from assets.schedule_work import INPUTS, work_of
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.fleet.messages import GroupPriors, ScheduleWindow
from crawl_platform.frontier.posterior import prior_of
from crawl_platform.lake.tables import DECISIONS
from crawl_platform.scheduling.group_prior import pooled
from crawl_platform.settings import Refresh, Settings
from resources.fleet import FleetResource
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "schedule"
OWNERS = ["team:crawl"]
SHOWN_HOSTS = 20
SHOWN_PROMISES = 5
FULL = 1.0 + 1e-9

DECIDED_ROWS = "SELECT * FROM crawl_schedule WHERE window_id = ? ORDER BY host, group_id"
DECIDED_WITH = """
WITH planned AS (
    SELECT window_id, any_value(input_versions) AS inputs FROM crawl_schedule WHERE starts_at >= $start
    GROUP BY window_id
)
SELECT d.subject, epoch(d.decided_at), d.evidence, d.input_versions
FROM decisions d LEFT JOIN planned p ON p.window_id = d.subject
WHERE d.kind = 'schedule' AND d.decided_at >= $start
ORDER BY p.window_id IS NOT NULL DESC, d.subject = $window DESC, d.decided_at DESC,
    coalesce(p.inputs = d.input_versions, false) DESC, d.decision_id
LIMIT 1
"""
"""The decision in force: of this window, or of a later one if that was written first; better with rows than without;
of two about one window the one that its rows were computed from."""
WRITTEN = "crawl_schedule/window"
"""Name of the Delta transactions, numbered by the window's start: no window is written twice, or after a later one."""
PRIORS = """
SELECT r.host, r.group_id, r.pages, coalesce(c.prior_a, r.prior_a) AS a, coalesce(c.prior_b, r.prior_b) AS b
FROM change_rates r LEFT JOIN cold_priors c ON c.host = r.host AND c.group_id = r.group_id
ORDER BY r.host, r.group_id
"""
LAST_BEGUN = "SELECT epoch(max(starts_at)) FROM crawl_schedule WHERE ends_at <= $before"
LAST_USE = """
WITH given AS (
    SELECT host, sum(fetches)::BIGINT AS allotted FROM crawl_schedule
    WHERE window_id = (SELECT max(window_id) FROM crawl_schedule WHERE ends_at <= $before) GROUP BY host
), made AS (
    SELECT host, count(*) AS realised FROM fetches
    WHERE kind = 'page' AND lane <> 'fastlane' AND started_at >= $since
        AND window_id = (SELECT max(window_id) FROM crawl_schedule WHERE ends_at <= $before) GROUP BY host
)
SELECT host, allotted, coalesce(realised, 0) AS realised FROM given LEFT JOIN made USING (host)
ORDER BY allotted DESC, host
"""
"""As the view `window_use`, without reading what was fetched before that window."""


class Evidence(msgspec.Struct, frozen=True):
    """What a window was decided with: the row of `decisions` keeps it as JSON."""

    budget: int = 0
    allotted: int = 0
    reserved: int = 0
    by_chance: int = 0
    overdue_without_room: int = 0
    broken_promises: tuple[str, ...] = ()
    hosts: int = 0
    groups: int = 0
    ends_at: float = 0.0
    log_propensity: float | None = None
    """Natural logarithm of the probability of the random share's draw; none is known where a limit cut it short."""


@dataclass(frozen=True)
class InForce:
    """A decided window, its rows in `crawl_schedule`, and what it was decided with; `inputs` are empty before."""

    window: ScheduleWindow
    rows: pa.Table
    evidence: Evidence
    inputs: dict[str, int]


@dg.asset(
    deps=[
        *("fleet_stats", "hosts", "fetches", "links", "frontier"),
        *(
            "host_ranks",
            "url_groups",
            "change_rates",
            "value_model",
            "group_work",
            "near_duplicates",
            "page_values",
        ),
    ],
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
            description="The window fits the fleet's capacity, and no host gets more than politeness allows.",
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
    """One row: a URL group's allotment of fetches in one window; group 0 is the host as a whole. The cells act on
    the window in force."""
    store = lake.open()
    window = window_to_plan(clock.now(), crawl_settings.orchestration.window_seconds)
    decided = decide(lake, crawl_settings, window, context.run.run_id)
    inputs = decided.inputs
    client = fleet.client()
    client.priors(priors_in_force(lake, inputs, crawl_settings.refresh))
    revision = client.schedule(decided.window)
    version = store.version("crawl_schedule")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "crawl_schedule", version, inputs),
            "window": decided.window.window_id,
            "revision": revision,
            **_summary(decided),
            **_last_use(lake, decided.window),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_within_capacity(decided), _deadlines_fit(decided.evidence)],
    )


def window_at(now: float, seconds: float) -> ScheduleWindow:
    """The window that holds `now`; windows start at whole multiples of `seconds` since 1970."""
    start = now // seconds * seconds
    return ScheduleWindow(as_datetime(start).isoformat(), start, start + seconds, 0, {})


def window_to_plan(now: float, seconds: float) -> ScheduleWindow:
    """The window that holds `now`, or the next one once half of it is over: that comes too late to matter."""
    return window_at(now + seconds / 2, seconds)


def decide(lake: LakeResource, settings: Settings, window: ScheduleWindow, run_id: str) -> InForce:
    """`window` as it stands, decided and written if it wasn't yet; a later one if that was written before it."""
    store, decided = lake.open(), in_force(lake, window)
    plan, inputs = None, decided.inputs
    if not inputs:
        plan, inputs = _plan(lake, settings, window)
        if not plan.work.hosts:
            return replace(decided, inputs=inputs)
        row = _decision_row(plan, window, inputs, run_id)
        store.append("decisions", row, inputs, (WRITTEN, int(window.starts_at)))
        decided = in_force(lake, window)
    if decided.rows.num_rows:
        return decided
    ours = (decided.window.window_id, decided.inputs) == (window.window_id, inputs)
    if plan is None or not ours:
        plan, inputs = _plan(lake, settings, decided.window, decided.inputs)
    rows = rows_of(plan, decided.window, inputs)
    store.append("crawl_schedule", rows, inputs, (WRITTEN, int(decided.window.starts_at)))
    return in_force(lake, decided.window)


def _plan(
    lake: LakeResource, settings: Settings, window: ScheduleWindow, at: Mapping[str, int] | None = None
) -> tuple[Plan, dict[str, int]]:
    with lake.read(*INPUTS, at=at) as reading:
        return plan_window(work_of(reading, settings, window), window.window_id), reading.inputs


def in_force(lake: LakeResource, window: ScheduleWindow) -> InForce:
    """`window` as it was decided, or a later one if that was written first (see `DECIDED_WITH`).

    Without `inputs` if neither has been decided yet; without rows if the decision has not been carried out.
    """
    start = as_datetime(window.starts_at)
    with lake.read(also=("crawl_schedule", "decisions")) as reading:
        parameters = {"window": window.window_id, "start": start}
        found = reading.connection.execute(DECIDED_WITH, parameters).fetchone()
        subject, starts_at, text, inputs = found or (window.window_id, window.starts_at, b"{}", {})
        rows = reading.table(DECIDED_ROWS, [subject])
    evidence = msgspec.json.decode(text, type=Evidence)
    if subject != window.window_id:
        window = ScheduleWindow(subject, starts_at, evidence.ends_at, 0, {})
    allocations, groups = directive(rows)
    told = msgspec.structs.replace(window, budget=evidence.budget, allocations=allocations, groups=groups)
    return InForce(told, rows, evidence, dict(inputs))


def directive(rows: pa.Table) -> tuple[dict[str, int], dict[str, dict[int, int]]]:
    """What cells are told: fetches by host, and by host and group.

    What a host has left for links yet to be found, any of its groups may use: such links belong to known groups
    as often as not. Groups that sleep are not named, and share what their host has when they wake.
    """
    columns = (rows[name].to_pylist() for name in ("host", "group_id", "fetches", "eligible"))
    found = list(zip(*columns, strict=True))
    spare = {host: max(given - eligible, 0) for host, group, given, eligible in found if group == 0}
    allocations: dict[str, int] = {}
    groups: dict[str, dict[int, int]] = {}
    for host, group, given, _ in found:
        allocations[host] = allocations.get(host, 0) + given
        if group:
            groups.setdefault(host, {})[group] = given + spare.get(host, 0)
    return allocations, groups


def priors_in_force(lake: LakeResource, inputs: Mapping[str, int], refresh: Refresh) -> GroupPriors:
    """The priors of all groups, of each host and of all together, at the versions that a window stands on."""
    at = {name: inputs[name] for name in ("change_rates", "cold_priors") if name in inputs}
    with lake.read("change_rates", "cold_priors", at=at) as reading:
        return priors_of(reading, refresh)


def priors_of(reading: Reading, refresh: Refresh) -> GroupPriors:
    """What `change_rates` and `cold_priors` say, as cells are told it."""
    rows = reading.rows(PRIORS)
    if not rows:
        unknown = prior_of(refresh.prior_shape, refresh.prior_rate)
        return GroupPriors((unknown.a, unknown.b), {}, {})
    by_host: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_host.setdefault(row["host"], []).append(row)
    return GroupPriors(
        _pool(rows),
        {host: _pool(groups) for host, groups in by_host.items()},
        {host: {g["group_id"]: (g["a"], g["b"]) for g in groups} for host, groups in by_host.items()},
    )


def _pool(rows: list[dict[str, Any]]) -> tuple[float, float]:
    a, b, pages = (np.array([row[name] for row in rows], np.float64) for name in ("a", "b", "pages"))
    shape, rate = pooled(a, b, np.maximum(pages, 1.0))
    return shape, rate


def _decision_row(plan: Plan, window: ScheduleWindow, inputs: dict[str, int], run_id: str) -> pa.Table:
    start, log_propensity = as_datetime(window.starts_at), float(np.log(plan.propensity).sum())
    evidence = Evidence(
        budget=plan.work.budget,
        allotted=int(plan.given.sum()),
        reserved=int(plan.reserved.sum()),
        by_chance=int(plan.drawn.sum()),
        overdue_without_room=int(plan.missing.sum()),
        broken_promises=tuple(plan.unmet),
        hosts=len(plan.work.hosts),
        groups=len(awake(plan.work)),
        ends_at=window.ends_at,
        log_propensity=None if np.isnan(log_propensity) else log_propensity,
    )
    row = {
        "decision_id": decision_id(window.window_id, inputs, "schedule"),
        "decided_at": start,
        "kind": "schedule",
        "subject": window.window_id,
        "verdict": "allocated",
        "reason": f"{evidence.allotted} of {evidence.budget} fetches allotted to {evidence.hosts} hosts",
        "propensity": None,
        "evidence": msgspec.json.encode(evidence, order="sorted").decode(),
        "input_versions": list(inputs.items()),
        "decided_by": "crawl_schedule",
        "run_id": run_id,
        "date": start.date(),
    }
    return pa.Table.from_pylist([row], schema=DECISIONS.schema)


def _summary(decided: InForce) -> dict[str, Any]:
    rows, evidence = decided.rows, decided.evidence
    hosts = rows.group_by("host").aggregate([("fetches", "sum"), ("reserved", "sum")])
    top = hosts.sort_by([("fetches_sum", "descending"), ("host", "ascending")]).slice(0, SHOWN_HOSTS)
    reserved, given = top["reserved_sum"].to_numpy(), top["fetches_sum"].to_numpy()
    parts = {"reserved": reserved, "by value": given - reserved}
    return {
        "budget_fetches": evidence.budget,
        "allotted_fetches": int(rows["fetches"].to_numpy().sum()),
        "reserved_fetches": int(rows["reserved"].to_numpy().sum()),
        "fetches_by_chance": evidence.by_chance,
        "hosts": hosts.num_rows,
        "groups": int(np.sum(rows["group_id"].to_numpy() > 0)),
        "allocation": bars("Fetches allotted in this window", "fetches", top["host"].to_pylist(), parts),
    }


def _last_use(lake: LakeResource, window: ScheduleWindow) -> dict[str, Any]:
    """What was made of the window before: promised beside realised."""
    with lake.read(also=("crawl_schedule", "fetches")) as reading:
        begun = reading.connection.execute(LAST_BEGUN, {"before": as_datetime(window.starts_at)}).fetchone()
        if begun is None or begun[0] is None:
            return {}
        moments = {"before": as_datetime(window.starts_at), "since": as_datetime(begun[0])}
        use = reading.connection.execute(LAST_USE, moments).to_arrow_table()
    if not use.num_rows:
        return {}
    allotted, realised = (use[name].to_numpy() for name in ("allotted", "realised"))
    top = use.slice(0, SHOWN_HOSTS)
    made = np.minimum(top["realised"].to_numpy(), top["allotted"].to_numpy())
    parts = {"made": made, "not used": top["allotted"].to_numpy() - made}
    return {
        "last_window_allotted": int(allotted.sum()),
        "last_window_realised": int(realised.sum()),
        "last_window": bars("Use of the window before", "fetches", top["host"].to_pylist(), parts),
    }


def _within_capacity(decided: InForce) -> dg.AssetCheckResult:
    """Looks at the rows, not at the plan. A host's row of group 0 says what politeness allows it."""
    rows, budget = decided.rows, decided.evidence.budget
    given, most = rows["fetches"].to_numpy(), rows["most"].to_numpy()
    spent = float(np.sum(given * rows["cost"].to_numpy()))
    whole = rows.filter(pa.array(rows["group_id"].to_numpy() == 0))
    polite = dict(zip(whole["host"].to_pylist(), whole["most"].to_pylist(), strict=True))
    allotted = decided.window.allocations
    impolite = sorted(host for host, n in allotted.items() if n > polite.get(host, 0))
    over = int(np.sum(given > most))
    return dg.AssetCheckResult(
        check_name="within_capacity",
        passed=spent <= budget * FULL and not impolite and not over,
        metadata={
            "cost_of_allotted": spent,
            "capacity": budget,
            "hosts_over_politeness": len(impolite),
            "groups_over_their_work": over,
        },
    )


def _deadlines_fit(evidence: Evidence) -> dg.AssetCheckResult:
    unmet, named = evidence.overdue_without_room, evidence.broken_promises[:SHOWN_PROMISES]
    return dg.AssetCheckResult(
        check_name="deadlines_fit",
        passed=unmet == 0,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{unmet} overdue pages find no room in this window: {'; '.join(named)}" if unmet else "",
        metadata={"overdue_without_room": unmet, "broken_promises": list(evidence.broken_promises)},
    )


ASSETS = (crawl_schedule,)
