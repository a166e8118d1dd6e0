"""Group `policies`: what another rule for the random share would have brought, from windows that are over.

`crawl_schedule` gives a small share of each window by lot and writes down with what probability each group got just
what it got. So for any other rule for that share the log says what it would have brought
(`crawl_platform/scheduling/offline.py`), group by group, the rest of the window held as it was. To value a rule of
your own: `logged(reading)`, then `estimates(rows, rule)`; docs/scheduling.md has an example.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.automation import DAILY
from assets.plots import markdown_table, spans
from crawl_platform.lake.tables import POLICY_EVALUATION
from crawl_platform.scheduling.offline import (
    METHODS,
    NEGLIGIBLE,
    Log,
    expected_rewards,
    unsupported,
    verdict,
)
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "policies"
OWNERS = ["team:crawl"]
INPUTS = ("crawl_schedule", "fetches", "commits")
OUTCOMES = ("news", "fetches")
NUMBERS = ("value", "low", "high", "gain", "gain_low", "gain_high")

MOST = 200_000
"""Decisions looked at, drawn by a hash: intervals don't need more."""
DAYS = 14
SETTLED = 60.0
"""Seconds after its end in which a window's last fetches reach the lake."""
FAR_OFF = 4.0
"""Standard deviations by which draws may miss their propensities: once in 16,000 runs by chance."""

ROUNDING = 1e-9

LOGGED = f"""
WITH now AS (SELECT max(committed_at) AS at FROM commits), past AS (
    SELECT s.* FROM crawl_schedule s, now
    WHERE s.ends_at + to_seconds({SETTLED}) <= now.at AND s.starts_at > now.at - INTERVAL {DAYS} DAY
), made AS (
    SELECT f.window_id, f.host, coalesce(n.group_id, 0) AS group_id, count(*) AS fetches,
        count(*) FILTER (f.changed OR (f.previous_success_at IS NULL AND f.outcome = 'ok')) AS news
    FROM fetches f LEFT JOIN (SELECT window_id, host, group_id FROM past) n
        ON n.window_id = f.window_id AND n.host = f.host AND n.group_id = f.group_id
    WHERE f.window_id IN (SELECT window_id FROM past) AND f.kind = 'page' AND f.lane <> 'fastlane' GROUP BY ALL
)
SELECT dense_rank() OVER (ORDER BY p.starts_at) - 1 AS window, p.drawn > 0 AS lucky, p.propensity,
    coalesce(p.eligible, 0)::DOUBLE AS eligible, coalesce(p.cost, 1)::DOUBLE AS cost, p.reserved::DOUBLE AS reserved,
    coalesce(m.news, 0)::DOUBLE AS news, coalesce(m.fetches, 0)::DOUBLE AS fetches,
    coalesce(avg(coalesce(m.news, 0)) OVER (PARTITION BY p.host, p.group_id ORDER BY p.starts_at
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS usual
FROM past p LEFT JOIN made m
    ON m.window_id = p.window_id AND m.host = p.host AND m.group_id = p.group_id
QUALIFY p.propensity IS NOT NULL AND p.drawn IS NOT NULL
ORDER BY hash(p.window_id, p.host, p.group_id), p.window_id, p.host, p.group_id LIMIT {MOST}
"""
"""Like `window_use`: fetches of groups that were not named count for their host as a whole."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Logged decisions (n,): whether a group of a window got a part of the random share, the probability of it
    (`chance`), and what was known before the draw: `usual` is the mean of its news in the windows before. What a group
    got in the end is no part of it: that follows the draw.

    `news`: pages of the group that were new or had changed, and `fetches` made in the window.
    """

    window: NDArray[np.int64]
    lucky: NDArray[np.bool_]
    chance: Floats
    eligible: Floats
    cost: Floats
    reserved: Floats
    usual: Floats
    news: Floats
    fetches: Floats

    def log(self, outcome: str) -> Log:
        reward: Floats = getattr(self, outcome)
        return Log(self.lucky.astype(np.int64), reward, _two(self.chance), self.window)

    def features(self) -> Floats:
        """(n, 4): what a model of the reward may know."""
        return np.column_stack(
            (np.log1p(self.eligible), np.log(self.cost), np.log1p(self.reserved), self.usual)
        )

    def share(self, weight: Floats) -> Floats:
        """The chances of each window, shared out in proportion to `weight` among the groups that have one."""
        windows = int(self.window.max(initial=0)) + 1
        wanted = np.where(self.chance > 0, np.maximum(weight, 0.0), 0.0)
        given = np.bincount(self.window, self.chance, windows)
        total = np.bincount(self.window, wanted, windows)
        scale = np.divide(given, total, out=np.zeros(windows), where=total > 0)
        return np.asarray(np.minimum(wanted * scale[self.window], 1.0))


Rule = Callable[[Rows], Floats]
"""Probability (n,) with which a candidate gives each group a part."""

CANDIDATES: dict[str, Rule] = {
    "shipped": lambda rows: rows.chance,
    "no random share": lambda rows: np.zeros(len(rows.chance)),
    "twice the random share": lambda rows: np.minimum(2.0 * rows.chance, 1.0),
    "by work": lambda rows: rows.share(rows.eligible),
    "cheap first": lambda rows: rows.share(1.0 / rows.cost),
}


@dg.asset(
    deps=["crawl_schedule", "fetches", "commits"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "chance_is_as_logged",
            asset="policy_evaluation",
            description="Groups were drawn as often as the logged propensities say: without that no estimate holds.",
        )
    ],
)
def policy_evaluation(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: one estimate of what a candidate rule for the random share would have brought per group and window."""
    store = lake.open()
    with lake.read(*INPUTS) as reading:
        rows = logged(reading)
    found = [row for name, rule in CANDIDATES.items() for row in estimates(rows, rule, name)]
    data = pa.Table.from_pylist(found, schema=POLICY_EVALUATION.schema)
    version = store.overwrite("policy_evaluation", data, reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "policy_evaluation", version, reading.inputs),
            "decisions": len(rows.chance),
            "windows": len(np.unique(rows.window)),
            **_summary(found),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_chance_is_as_logged(rows)],
    )


def logged(reading: Reading) -> Rows:
    """The decisions of windows that are over, of the last `DAYS`. Where a limit cut the draws short no propensity is
    known; such rows are left out."""
    found = reading.connection.execute(LOGGED).fetchnumpy()
    lucky = np.asarray(found["lucky"], np.bool_)
    propensity = np.asarray(found["propensity"], np.float64)
    known = ("eligible", "cost", "reserved", "usual", *OUTCOMES)
    return Rows(
        window=np.unique(np.asarray(found["window"], np.int64), return_inverse=True)[1],
        lucky=lucky,
        chance=np.where(lucky, propensity, 1.0 - propensity),
        **{name: np.asarray(found[name], np.float64) for name in known},
    )


def estimates(rows: Rows, rule: Rule, name: str = "candidate") -> list[dict[str, Any]]:
    """Rows of `policy_evaluation` for one candidate: each outcome by each method. None before a window is over."""
    n = len(rows.chance)
    if not n:
        return []
    candidate, clip = _two(rule(rows)), float(np.sqrt(n))  # Ionides 2008: weights above √n times their mean
    windows = int(rows.window.max()) + 1
    found = []
    for outcome in OUTCOMES:
        log = rows.log(outcome)
        beyond, brought = unsupported(log, candidate), float(log.reward.mean())
        expected = expected_rewards(log, rows.features())
        for method, estimate in METHODS.items():
            told = estimate(log, candidate, expected, clip)
            numbers = {column: getattr(told, column) for column in NUMBERS}
            known = {
                column: None if beyond > NEGLIGIBLE or np.isnan(number) else number
                for column, number in numbers.items()
            }
            found.append(
                {
                    "candidate": name,
                    "outcome": outcome,
                    "method": method,
                    **known,
                    "logged": brought,
                    "unsupported": beyond,
                    "effective": told.effective,
                    "clipped": told.clipped,
                    "decisions": n,
                    "windows": windows,
                    "verdict": verdict(told, brought, beyond, windows),
                }
            )
    return found


def _two(chance: Floats) -> Floats:
    """(n, 2): not drawn, drawn."""
    return np.column_stack((1.0 - chance, chance))


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    best = [row for row in found if row["method"] == "doubly robust"]
    shown = ("candidate", "outcome", "verdict", "effective")
    table = [[row[name] if name != "effective" else f"{row[name]:.0f}" for name in shown] for row in best]
    drawn = [row for row in best if row["gain_low"] is not None and row["candidate"] != "shipped"]
    names = list(dict.fromkeys(row["candidate"] for row in drawn))
    series = {
        outcome: [
            [row[number] for row in drawn if row["outcome"] == outcome]
            for number in ("gain", "gain_low", "gain_high")
        ]
        for outcome in OUTCOMES
    }
    return {
        "candidates": markdown_table(shown, table),
        "gains": spans("Gain over what is shipped", "pages per group and window", names, series),
    }


def _chance_is_as_logged(rows: Rows) -> dg.AssetCheckResult:
    expected, drawn = float(rows.chance.sum()), int(rows.lucky.sum())
    spread = float(np.sqrt((rows.chance * (1.0 - rows.chance)).sum()))
    return dg.AssetCheckResult(
        check_name="chance_is_as_logged",
        passed=abs(drawn - expected) <= FAR_OFF * spread + ROUNDING * len(rows.chance),
        description="" if len(rows.chance) else "No window with a random share is over yet.",
        metadata={"drawn": drawn, "expected": expected, "standard_deviation": spread},
    )


ASSETS = (policy_evaluation,)
