"""Group `promotion`: which horizon hosts become seed, with the evidence for each.

Two sources: the ranks (rules in `crawl_platform/graph/promotion.py`) and customers who ask for a host by
name. This asset decides and writes; `sensors/promotion.py` hands decisions over to the fleet once their
checks have passed.

The same inputs give the same decisions: a host promoted from these very inputs counts as promoted by this
decision, so a repeated run adds nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.plots import markdown_table, rank_curve
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.graph.promotion import FLOOR_SHARE, Candidate, Rules, Verdict, decide, explain
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import DECISIONS, PROMOTIONS
from crawl_platform.settings import Settings
from crawl_platform.web.host import matches
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "promotion"
OWNERS = ["team:crawl"]
RANK_INPUTS = ("links", "fetches", "hosts")
"""What a decision id is derived from: the fleet's tables behind the ranks."""
ALL_INPUTS = (*RANK_INPUTS, "host_graph", "host_ranks", "requests")
SHOWN_SUPPORTERS = 10
EVIDENCE_COLUMNS = ("host", "verdict", "rank", "independent support", "spam mass", "why")
UPSTREAM_CHECKS = {
    "link_graph": ("links_have_their_fetch", "edges_add_up"),
    "host_ranks": ("ranks_sum_to_one", "ranks_are_finite"),
}

HORIZON = """
SELECT r.host, r.position, r.trust, r.uniform, r.spam_mass, r.eligible, r.support, r.independent_support
FROM host_ranks r WHERE r.state = 'horizon' AND r.trust > 0 ORDER BY r.position
"""
SUPPORTERS = """
SELECT g.dst_host AS host, g.src_host AS value FROM host_graph g JOIN host_ranks r ON r.host = g.src_host
WHERE g.editorial > 0 AND g.dst_host IN (SELECT unnest($hosts::VARCHAR[]))
QUALIFY row_number() OVER (PARTITION BY g.dst_host ORDER BY r.trusted DESC, g.editorial DESC, g.src_host) <= $most
ORDER BY g.dst_host, r.trusted DESC, g.editorial DESC, g.src_host
"""
KNOWN_URLS = """
SELECT dst_host AS host, dst_url AS value FROM links_now
WHERE dst_host IN (SELECT unnest($hosts::VARCHAR[])) GROUP BY dst_host, dst_url
QUALIFY row_number() OVER (
    PARTITION BY dst_host ORDER BY count(DISTINCT src_host) DESC, count(*) DESC, dst_url) <= $most
ORDER BY dst_host, count(DISTINCT src_host) DESC, count(*) DESC, dst_url
"""
FLOOR = "SELECT median(trust) AS level FROM host_ranks WHERE trusted"
EXCLUDED = """
SELECT target AS pattern FROM requests WHERE kind = 'exclude'
UNION SELECT host FROM hosts_now WHERE state = 'excluded'
"""
REQUESTED = """
SELECT r.request_id, r.target, r.requested_by, r.reason, r.priority FROM requests r
LEFT JOIN hosts_now h ON h.host = r.target
ANTI JOIN promotions p ON p.decision_id = r.request_id
WHERE r.kind = 'promote' AND (h.host IS NULL OR h.state <> 'seed' OR h.decision_id = r.request_id)
ORDER BY coalesce(r.priority, 0) DESC, r.requested_at, r.request_id
"""
RECENT_COLUMNS = ("host", "decided at", "why")
RECENT = """
SELECT host, strftime(decided_at, '%Y-%m-%d %H:%M:%S') AS decided_at, reason
FROM promotions ORDER BY decided_at DESC, position, host LIMIT 10
"""
PROMOTED = "SELECT host, decision_id FROM promotions"


@dataclass(frozen=True)
class Promotion:
    """One decision about one host, ready to be written."""

    decision_id: str
    host: str
    promoted: bool
    cause: str
    reason: str
    requested: bool
    candidate: Candidate | None
    supporters: list[str]
    urls: list[str]
    rules: Rules

    @property
    def evidence(self) -> dict[str, Any]:
        numbers = self.candidate._asdict() if self.candidate else {"host": self.host}
        return {
            **numbers,
            "cause": self.cause,
            "requested": self.requested,
            "supporters": self.supporters,
            "known_urls": len(self.urls),
            "rules": self.rules._asdict(),
        }


@dg.asset(
    deps=["host_ranks", "link_graph", "links", "hosts", "requests"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=24), warn_window=timedelta(hours=12)
    ),
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
    ],
)
def promotions(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a host promoted from the horizon to the seed, with the evidence and the URLs handed over with it.
    Also writes `decisions`, including the hosts that were held back and why."""
    require_passed_checks(context.instance)
    store = lake.open()
    ranks_version = store.version("host_ranks")
    at = {"host_ranks": ranks_version, **store.inputs_of("host_ranks", ranks_version)}
    with lake.read(*ALL_INPUTS, also=("decisions", "promotions"), at=at) as reading:
        decided = decide_promotions(reading, crawl_settings)
        written = {row["decision_id"] for row in reading.rows("SELECT decision_id FROM decisions")}
        promoted_before = {row["decision_id"] for row in reading.rows(PROMOTED)}
        seed = {row["host"] for row in reading.rows("SELECT host FROM host_ranks WHERE state <> 'horizon'")}
        trust = reading.table("SELECT state, trust FROM host_ranks")
    checks = [_only_from_the_horizon(decided, seed), _none_fails_the_spam_gate(decided)]
    new = [d for d in decided if d.promoted and d.decision_id not in promoted_before]
    if all(check.passed for check in checks):
        stamp = _Stamp(as_datetime(clock.now()), reading.inputs, context.run.run_id)
        _write(store, [d for d in decided if d.decision_id not in written], new, stamp)
    version = store.version("promotions")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "promotions", version, reading.inputs),
            **_summary(decided, new, trust),
            "last_promotions": markdown_table(RECENT_COLUMNS, _rows(store.query(RECENT))),
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


def decide_promotions(reading: Reading, settings: Settings) -> list[Promotion]:
    """All decisions that these inputs give: requests first, then ranks; see the module's docstring."""
    limits = settings.orchestration
    inputs = {name: reading.inputs[name] for name in RANK_INPUTS}
    patterns = [row["pattern"] for row in reading.rows(EXCLUDED)]
    median = reading.rows(FLOOR)[0]["level"] or 0.0
    rules = Rules(limits.promotion_quota, limits.promotion_min_support, FLOOR_SHARE * median)
    candidates = {row["host"]: Candidate(**row) for row in reading.rows(HORIZON)}

    def excluded(host: str) -> bool:
        return any(matches(pattern, host) for pattern in patterns)

    asked = [row for row in reading.rows(REQUESTED) if not excluded(row["target"])]
    named = {row["target"] for row in asked}
    before = {row["host"]: row["decision_id"] for row in reading.rows(PROMOTED)}
    free = [
        candidate
        for host, candidate in candidates.items()
        if host not in named and before.get(host, decision_id(host, inputs)) == decision_id(host, inputs)
    ]
    verdicts = decide(free, rules, excluded)
    evidence = _gather(reading, [*named, *(v.candidate.host for v in verdicts)], limits.promotion_urls)
    words = [explain(v, rules, evidence.supporters(v.candidate.host), len(candidates)) for v in verdicts]
    return [
        *(_requested(row, candidates.get(row["target"]), rules, evidence) for row in asked),
        *(
            _ranked(verdict, why, rules, inputs, evidence)
            for verdict, why in zip(verdicts, words, strict=True)
        ),
    ]


@dataclass(frozen=True)
class _Evidence:
    """Who links to a host, and to which of its pages, for all hosts of one decision: two scans in all."""

    linking: dict[str, list[str]]
    linked: dict[str, list[str]]

    def supporters(self, host: str) -> list[str]:
        return self.linking.get(host, [])

    def urls(self, host: str) -> list[str]:
        return self.linked.get(host, [])


def _gather(reading: Reading, hosts: list[str], most_urls: int) -> _Evidence:
    def by_host(query: str, most: int) -> dict[str, list[str]]:
        rows = reading.connection.execute(query, {"hosts": hosts, "most": most}).fetchall()
        found: dict[str, list[str]] = {}
        for host, value in rows:
            found.setdefault(host, []).append(value)
        return found

    return _Evidence(by_host(SUPPORTERS, SHOWN_SUPPORTERS), by_host(KNOWN_URLS, most_urls))


def decision_id(subject: str, inputs: Mapping[str, int], kind: str = "promotion") -> str:
    """The same subject and inputs give the same id."""
    text = "|".join([kind, subject, *(f"{name}={inputs[name]}" for name in sorted(inputs))])
    return f"{kind}-{xxhash.xxh3_128_hexdigest(text.encode())}"


def _ranked(
    verdict: Verdict, reason: str, rules: Rules, inputs: Mapping[str, int], evidence: _Evidence
) -> Promotion:
    host = verdict.candidate.host
    # A host that stays held for the same cause is one decision, not one per ranking.
    identity = (
        decision_id(host, inputs) if verdict.promoted else decision_id(f"{host}|{verdict.cause}", {}, "held")
    )
    return Promotion(
        identity,
        host,
        verdict.promoted,
        verdict.cause,
        reason,
        False,
        verdict.candidate,
        evidence.supporters(host),
        evidence.urls(host) if verdict.promoted else [],
        rules,
    )


def _requested(
    row: Mapping[str, Any], candidate: Candidate | None, rules: Rules, evidence: _Evidence
) -> Promotion:
    host = row["target"]
    place = (
        f"; rank {candidate.position} among horizon hosts" if candidate else "; not linked from the seed yet"
    )
    reason = f"asked for by {row['requested_by']}: {row['reason'] or 'no reason given'}{place}"
    return Promotion(
        row["request_id"],
        host,
        True,
        "requested",
        reason,
        True,
        candidate,
        evidence.supporters(host),
        evidence.urls(host),
        rules,
    )


@dataclass(frozen=True)
class _Stamp:
    at: Any
    inputs: dict[str, int]
    run_id: str


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


def _summary(decided: list[Promotion], new: list[Promotion], trust: pa.Table) -> dict[str, Any]:
    """What people look at first: who was promoted and why, who was not, and where they stand."""
    ranked = [(d, d.candidate) for d in decided if d.candidate]
    by_state = {
        name: trust.filter(pc.equal(trust["state"], name))["trust"].to_numpy() for name in ("seed", "horizon")
    }
    series = {**by_state, "promoted": [c.trust for d, c in ranked if d.promoted]}
    floor = {"floor": decided[0].rules.floor} if decided and decided[0].rules.floor > 0 else {}
    return {
        "new_promotions": len(new),
        "held": sum(not d.promoted for d in decided),
        "decision_ids": dg.MetadataValue.json([d.decision_id for d in new]),
        "evidence": markdown_table(EVIDENCE_COLUMNS, [_evidence_row(d) for d in decided]),
        "rank_distribution": rank_curve("Trust of seed, horizon and promoted hosts", series, floor),
    }


def _rows(table: pa.Table) -> list[list[object]]:
    return [list(row.values()) for row in table.to_pylist()]


def _evidence_row(decided: Promotion) -> list[object]:
    verdict = "promoted" if decided.promoted else f"held ({decided.cause})"
    c = decided.candidate
    numbers = [c.position, c.independent_support, f"{c.spam_mass:.2f}"] if c else ["", "", ""]
    return [decided.host, verdict, *numbers, decided.reason]


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
