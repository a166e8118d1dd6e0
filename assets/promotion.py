"""Group `promotion`: which horizon hosts become seed, with the evidence for each.

Two sources: the ranks (rules in `crawl_platform/graph/promotion.py`) and customers who ask for a host by
name. What is decided is in `assets/promotion_decision.py`, and in `assets/probation.py` of hosts that were promoted
before; this asset checks it, writes it and shows it, and `sensors/promotion.py` hands it over to the fleet once the
checks have passed.

The same inputs give the same decisions: a host promoted from these very inputs counts as promoted by this
decision, so a repeated run adds nothing.
"""

from dataclasses import dataclass
from typing import Any

import dagster as dg
import msgspec
import pyarrow as pa
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.automation import DAILY
from assets.probation import READS, Judgement, judge_promoted
from assets.promotion_decision import ALL_INPUTS, Promotion, decide_promotions, decision_id
from assets.promotion_report import promotion_report
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import DECISIONS, PROBATION, PROMOTIONS
from crawl_platform.settings import Settings
from resources.lake import LakeResource, version_metadata

GROUP = "promotion"
OWNERS = ["team:crawl"]
UPSTREAM_CHECKS = {
    "link_graph": ("links_have_their_fetch", "edges_add_up"),
    "host_ranks": ("ranks_sum_to_one", "ranks_are_finite"),
}


@dg.asset(
    deps=["host_ranks", "related_hosts", "link_graph", "links", "hosts", "requests", "pages", "fetches"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "only_from_the_horizon",
            asset="promotions",
            blocking=True,
            description="No promoted host was seed or excluded already.",
        ),
        dg.AssetCheckSpec(
            "none_fails_the_spam_gate",
            asset="promotions",
            blocking=True,
            description="No host was promoted from the ranks that looks like a link farm.",
        ),
        dg.AssetCheckSpec(
            "only_promoted_hosts_are_judged",
            asset="promotions",
            blocking=True,
            description="No host is demoted that an operator chose, or a customer asked for.",
        ),
    ],
)
def promotions(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a host promoted from the horizon to the seed, with the evidence and the URLs handed over with it.
    Also writes `decisions`, including the hosts that were held back and why, and `probation`: verdicts on hosts that
    were promoted before, by what was read of them."""
    require_passed_checks(context.instance)
    store = lake.open()
    ranks_version = store.version("host_ranks")
    at = {"host_ranks": ranks_version, **store.inputs_of("host_ranks", ranks_version)}
    with lake.read(*ALL_INPUTS, also=("decisions", *READS), at=at) as reading:
        judged = judge_promoted(reading, crawl_settings.orchestration)
        decided = decide_promotions(reading, crawl_settings.orchestration)
        written = {row["decision_id"] for row in reading.rows("SELECT decision_id FROM decisions")}
        promoted_before = {row["decision_id"] for row in reading.rows("SELECT decision_id FROM promotions")}
        seed = {row["host"] for row in reading.rows("SELECT host FROM host_ranks WHERE state <> 'horizon'")}
        chosen = {row["host"] for row in reading.rows(CHOSEN)}
        checks = [
            _only_from_the_horizon(decided, seed),
            _none_fails_the_spam_gate(decided),
            _only_promoted_hosts_are_judged(judged, chosen),
        ]
        new = [d for d in decided if d.promoted and d.decision_id not in promoted_before]
        if all(check.passed for check in checks):
            stamp = _Stamp(as_datetime(clock.now()), reading.inputs, context.run.run_id)
            _write_verdicts(store, [j for j in judged if j.outcome.verdict != "waiting"], stamp)
            _write(store, [d for d in decided if d.decision_id not in written], new, stamp)
        report = promotion_report(reading, decided, judged, store)
    version = store.version("promotions")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "promotions", version, reading.inputs),
            "probation_version": store.version("probation"),
            "new_promotions": len(new),
            "held": sum(not d.promoted for d in decided),
            "decision_ids": dg.MetadataValue.json([d.decision_id for d in new]),
            "report": report,
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def _write(store: Lake, decided: list[Promotion], promoted: list[Promotion], stamp: "_Stamp") -> None:
    """Decisions first: a promotion never stands without the decision that it cites."""
    if decided:
        store.append("decisions", _decision_rows(decided, stamp), stamp.inputs)
    if promoted:
        store.append("promotions", _promotion_rows(promoted, stamp), stamp.inputs)


def _write_verdicts(store: Lake, judged: list[Judgement], stamp: "_Stamp") -> None:
    """Verdicts last: one that was not written is found again by the next run, with the same id."""
    if not judged:
        return
    known = {row["decision_id"] for row in store.query("SELECT decision_id FROM decisions").to_pylist()}
    rows = [_verdict_decision(judgement, stamp) for judgement in judged]
    if new := [row for row in rows if row["decision_id"] not in known]:
        store.append("decisions", pa.Table.from_pylist(new, schema=DECISIONS.schema), stamp.inputs)
    verdicts = [_verdict_row(judgement, stamp) for judgement in judged]
    store.append("probation", pa.Table.from_pylist(verdicts, schema=PROBATION.schema), stamp.inputs)


ENDED = frozenset({AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED})


def require_passed_checks(instance: dg.DagsterInstance) -> None:
    """Refuse to decide on a graph or ranks whose last blocking checks failed, however the run was started."""
    for asset, names in UPSTREAM_CHECKS.items():
        for name in names:
            key = dg.AssetCheckKey(dg.AssetKey(asset), name)
            # A later run may already be planned: what counts is the last evaluation that ended.
            ended = instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=ENDED)
            if ended and ended[0].status is not AssetCheckExecutionRecordStatus.SUCCEEDED:
                raise dg.Failure(
                    f"{asset}: the check {name} failed last time. Nothing is promoted until it passes.",
                    allow_retries=False,
                )


@dataclass(frozen=True)
class _Stamp:
    at: Any
    inputs: dict[str, int]
    run_id: str


def verdict_id(judgement: Judgement) -> str:
    """One verdict per promotion, whatever inputs it came from."""
    return decision_id(f"{judgement.trial.host}|{judgement.promotion}", {}, "probation")


def _verdict_decision(judgement: Judgement, stamp: _Stamp) -> dict[str, Any]:
    return {
        "decision_id": verdict_id(judgement),
        "decided_at": stamp.at,
        "kind": "probation",
        "subject": judgement.trial.host,
        "verdict": judgement.outcome.verdict,
        "reason": judgement.outcome.reason,
        "propensity": 1.0,
        "evidence": msgspec.json.encode(judgement.evidence, order="sorted").decode(),
        "input_versions": list(stamp.inputs.items()),
        "decided_by": "promotions",
        "run_id": stamp.run_id,
        "date": stamp.at.date(),
    }


def _verdict_row(judgement: Judgement, stamp: _Stamp) -> dict[str, Any]:
    return {
        **judgement.trial._asdict(),
        "decision_id": verdict_id(judgement),
        "promotion": judgement.promotion,
        "decided_at": stamp.at,
        "verdict": judgement.outcome.verdict,
        "reason": judgement.outcome.reason,
        "rests_until": judgement.rests_until,
        "urls": judgement.urls,
        "input_versions": list(stamp.inputs.items()),
        "date": stamp.at.date(),
    }


def _promotion_rows(decided: list[Promotion], stamp: _Stamp) -> pa.Table:
    rows = [
        {
            "decision_id": d.decision_id,
            "host": d.host,
            "decided_at": stamp.at,
            "reason": d.reason,
            "requested": d.requested,
            "position": d.candidate.position if d.candidate else None,
            "trust": d.candidate.trust if d.candidate else None,
            "uniform": d.candidate.uniform if d.candidate else None,
            "spam_mass": d.candidate.spam_mass if d.candidate else None,
            "independent_support": d.candidate.independent_support if d.candidate else None,
            "supporters": d.supporters,
            "urls": d.urls,
            "input_versions": list(stamp.inputs.items()),
            "date": stamp.at.date(),
        }
        for d in decided
    ]
    return pa.Table.from_pylist(rows, schema=PROMOTIONS.schema)


def _decision_rows(decided: list[Promotion], stamp: _Stamp) -> pa.Table:
    rows = [
        {
            "decision_id": d.decision_id,
            "decided_at": stamp.at,
            "kind": "promotion",
            "subject": d.host,
            "verdict": "promoted" if d.promoted else "held",
            "reason": d.reason,
            "propensity": 1.0,
            "evidence": msgspec.json.encode(d.evidence, order="sorted").decode(),
            "input_versions": list(stamp.inputs.items()),
            "decided_by": "promotions",
            "run_id": stamp.run_id,
            "date": stamp.at.date(),
        }
        for d in decided
    ]
    return pa.Table.from_pylist(rows, schema=DECISIONS.schema)


def _only_from_the_horizon(decided: list[Promotion], seed: set[str]) -> dg.AssetCheckResult:
    # A requested host may be seed by the time that its row is written: the sensor has acted on the request.
    wrong = [d.host for d in decided if d.promoted and not d.requested and d.host in seed]
    return dg.AssetCheckResult(
        check_name="only_from_the_horizon", passed=not wrong, metadata={"hosts": dg.MetadataValue.json(wrong)}
    )


def _none_fails_the_spam_gate(decided: list[Promotion]) -> dg.AssetCheckResult:
    wrong = [
        d.host
        for d in decided
        if d.promoted and not d.requested and not (d.candidate and d.candidate.eligible)
    ]
    return dg.AssetCheckResult(
        check_name="none_fails_the_spam_gate",
        passed=not wrong,
        metadata={"hosts": dg.MetadataValue.json(wrong)},
    )


CHOSEN = """
SELECT host FROM hosts_now WHERE trusted UNION ALL
SELECT host FROM promotions GROUP BY host HAVING arg_max(requested, decided_at)
"""


def _only_promoted_hosts_are_judged(judged: list[Judgement], chosen: set[str]) -> dg.AssetCheckResult:
    wrong = [judgement.trial.host for judgement in judged if judgement.trial.host in chosen]
    return dg.AssetCheckResult(
        check_name="only_promoted_hosts_are_judged",
        passed=not wrong,
        metadata={"hosts": dg.MetadataValue.json(wrong)},
    )


ASSETS = (promotions,)
