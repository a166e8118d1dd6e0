"""A decision made again from the very versions that it was made from: the same, or what differs.

The rows of `decisions` name the version of every table that was read, and hold the rules in their evidence. All
promotions that one run decided are made again together, since one uses up the quota of the next. Versions can be read
as long as `retention.history_days` says, and until a purge.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from assets.promotion_decision import ALL_INPUTS, Promotion, decide_promotions
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Orchestration
from resources.lake import LakeResource

OF_ITS_RUN = """
WITH asked AS (SELECT run_id, input_versions FROM decisions WHERE decision_id = ? AND kind = 'promotion')
SELECT d.decision_id, d.subject, d.verdict, d.reason, d.evidence, d.input_versions
FROM decisions d JOIN asked a ON d.run_id IS NOT DISTINCT FROM a.run_id AND d.input_versions = a.input_versions
WHERE d.kind = 'promotion' ORDER BY d.decision_id
"""
KNOWN = "SELECT decision_id FROM decisions WHERE kind = 'promotion'"


@dataclass(frozen=True)
class Difference:
    """`written` in the lake, `computed` now: a verdict, a reason, evidence; or none at all."""

    host: str
    written: str
    computed: str


@dataclass(frozen=True)
class Replay:
    inputs: dict[str, int]
    decided: list[Promotion]
    compared: int
    differences: list[Difference]


def replay(lake: LakeResource, decision: str, limits: Orchestration) -> Replay:
    """Decide again what the run decided that took `decision`. Raises `ConfigurationError` if there is none such, and
    `LakeError` if its versions can't be read any more."""
    rows = lake.open().query(OF_ITS_RUN, [decision]).to_pylist()
    if not rows:
        raise ConfigurationError(f"{decision} is no decision about a promotion")
    versions = dict(rows[0]["input_versions"])
    if unknown := sorted(set(ALL_INPUTS) - versions.keys()):
        raise ConfigurationError(
            f"{decision} can't be made again: its versions of {', '.join(unknown)} are not known"
        )
    rules = msgspec.json.decode(rows[0]["evidence"])["rules"]
    with lake.read(*ALL_INPUTS, at=versions) as reading:
        decided = decide_promotions(reading, _as_it_was(limits, rules))
    again = {promotion.decision_id: promotion for promotion in decided}
    differences = [d for row in rows if (d := _difference(row, again.get(row["decision_id"]))) is not None]
    known = {row["decision_id"] for row in lake.open().query(KNOWN).to_pylist()}
    new = [p for p in decided if p.promoted and p.decision_id not in known]
    differences += [Difference(p.host, "nothing", f"promoted: {p.reason}") for p in new]
    return Replay(versions, decided, len(rows), differences)


def _as_it_was(limits: Orchestration, rules: dict[str, Any]) -> Orchestration:
    return msgspec.structs.replace(
        limits,
        promotion_quota=rules["quota"],
        promotion_min_support=rules["min_support"],
        promotion_urls=rules["urls"],
    )


def _difference(row: dict[str, Any], again: Promotion | None) -> Difference | None:
    if again is None:
        return Difference(row["subject"], f"{row['verdict']}: {row['reason']}", "nothing")
    verdict = "promoted" if again.promoted else "held"
    evidence = msgspec.json.encode(again.evidence, order="sorted").decode()
    for written, computed in (
        (f"{row['verdict']}: {row['reason']}", f"{verdict}: {again.reason}"),
        (row["evidence"], evidence),
    ):
        if written != computed:
            return Difference(row["subject"], written, computed)
    return None
