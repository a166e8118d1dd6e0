"""Group `policies`: the policies of revisits against each other, in two small worlds in virtual time.

`benchmark` is a small version of the world of `python -m bench.freshness`; `like this crawl` has the groups of
`change_rates`, with as many changes between two visits as here. Nothing is fetched and nothing of the crawl is
changed: the numbers say what another policy would be worth.
"""

from collections.abc import Iterable
from typing import Any

import dagster as dg
import msgspec
import numpy as np
import pyarrow as pa

from assets.automation import DAILY
from assets.plots import markdown_table, spans
from crawl_platform.lake.tables import POLICY_COMPARISON
from crawl_platform.scheduling.comparison.crawl import Figures, compared
from crawl_platform.scheduling.comparison.policies import POLICIES
from crawl_platform.scheduling.comparison.world import Groups, Params, World, generate, generate_like
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "policies"
OWNERS = ["team:crawl"]

BENCHMARK, CRAWL = "benchmark", "like this crawl"
SEEDS = (1, 2, 3)
SMALL = Params(
    n_pages=1_000,
    n_groups=20,
    n_hosts=10,
    horizon_days=120.0,
    tick_days=0.25,
    fetch_per_day=100.0,
    host_cap_per_tick=6,
)
"""A world that all policies cross in about a second of CPU: a fifth of the benchmark's pages, at the same ten days
between two visits of a page on average."""
TURN = SMALL.n_pages / SMALL.fetch_per_day
FEWEST_GROUPS = 3
"""Groups with rates below which there is no world like this crawl."""
TO_OPTIMUM = (0.9, 1.03)
"""What the known-rate index reaches of the continuous optimum; else the comparison itself is wrong."""
OURS, YARDSTICK = "bayes", "true"
LEAST, MARGIN = 0.95, 0.01
"""What ours has to reach of the known-rate index, and by how much a rule that learns less may beat it: seeds differ."""

RATES = """
SELECT host, pages, prior_a, rate, mean_interval FROM change_rates
WHERE checks > 0 AND rate > 0 AND mean_interval > 0 ORDER BY host, group_id
"""


@dg.asset(
    deps=["change_rates"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "comparison_is_sound",
            asset="policy_comparison",
            description="One who knows every rate comes to the continuous optimum, and nobody beyond it.",
        ),
        dg.AssetCheckSpec(
            "ours_is_best",
            asset="policy_comparison",
            description="The policy that this crawl runs keeps copies fresher than every rule that learns less.",
        ),
    ],
)
def policy_comparison(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: one policy of revisits in one made-up world, beside the index that knows every rate."""
    store = lake.open()
    with lake.read("change_rates") as reading:
        groups = groups_of(reading)
    worlds = {BENCHMARK: [generate(SMALL, seed) for seed in SEEDS]}
    if groups is not None:
        worlds[CRAWL] = [generate_like(free_of_caps(SMALL), groups, seed) for seed in SEEDS]
    rows = [row for name, of_seeds in worlds.items() for row in rows_of(name, of_seeds)]
    data = pa.Table.from_pylist(rows, schema=POLICY_COMPARISON.schema)
    version = store.overwrite("policy_comparison", data, reading.inputs)
    return dg.MaterializeResult(
        metadata={**version_metadata(store, "policy_comparison", version, reading.inputs), **_summary(rows)},
        data_version=dg.DataVersion(str(version)),
        check_results=[_comparison_is_sound(rows), _ours_is_best(rows)],
    )


def free_of_caps(params: Params) -> Params:
    """Without bounds per host: what politeness leaves is in the rate of visits that the crawl really makes."""
    return msgspec.structs.replace(params, host_cap_per_tick=params.n_pages)


def groups_of(reading: Reading) -> Groups | None:
    """The crawl's groups with rates in changes per visit, told as if a page were visited every `TURN` days.

    None where too few have been checked.
    """
    rates = reading.table(RATES)
    if rates.num_rows < FEWEST_GROUPS:
        return None
    pages, shape, rate, interval = (
        rates[name].to_numpy().astype(np.float64) for name in ("pages", "prior_a", "rate", "mean_interval")
    )
    between_visits = pages.sum() / (pages / interval).sum()
    host = np.unique(np.array(rates["host"].to_pylist(), dtype=object), return_inverse=True)[1]
    return Groups(host.astype(np.int64), pages, shape, rate * between_visits / TURN)


def rows_of(name: str, worlds: Iterable[World]) -> list[dict[str, Any]]:
    """Rows of `policy_comparison` for the `worlds` of one name, the best policy first."""
    found = [compared(world, POLICIES) for world in worlds]
    rows = [_row(name, policy, [of_one[policy] for of_one in found]) for policy in POLICIES]
    return sorted(rows, key=lambda row: -row["paired_ratio"])


def _row(world: str, policy: str, found: list[Figures]) -> dict[str, Any]:
    def mean(figure: str) -> float:
        return float(np.mean([getattr(of_one, figure) for of_one in found]))

    paired = [of_one.paired_ratio for of_one in found]
    return {
        "world": world,
        "policy": policy,
        "paired_ratio": mean("paired_ratio"),
        "paired_ratio_min": min(paired),
        "paired_ratio_max": max(paired),
        "early_ratio": mean("early_ratio"),
        "ratio_to_optimum": mean("ratio_to_optimum"),
        "freshness": mean("freshness"),
        "catch": mean("catch"),
        "seeds": len(found),
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    shown = ("world", "policy", "paired_ratio", "paired_ratio_min", "early_ratio", "freshness", "catch")
    table = [
        [f"{cell:.3f}" if isinstance(cell, float) else cell for cell in map(row.get, shown)] for row in rows
    ]
    worlds = sorted({row["world"] for row in rows})
    names = [row["policy"] for row in rows if row["world"] == BENCHMARK]
    by_place = {(row["world"], row["policy"]): row for row in rows}
    series = {
        world: [
            [by_place[world, name][figure] for name in names]
            for figure in ("paired_ratio", "paired_ratio_min", "paired_ratio_max")
        ]
        for world in worlds
    }
    return {
        "worlds": len(worlds),
        "policies": markdown_table(shown, table),
        "comparison": spans("Freshness as part of the known-rate index's", "paired ratio", names, series),
    }


def _comparison_is_sound(rows: list[dict[str, Any]]) -> dg.AssetCheckResult:
    reached = {row["world"]: row["ratio_to_optimum"] for row in rows if row["policy"] == YARDSTICK}
    beyond = [f"{row['policy']} ({row['world']})" for row in rows if row["ratio_to_optimum"] > TO_OPTIMUM[1]]
    low = [world for world, ratio in reached.items() if ratio < TO_OPTIMUM[0]]
    return dg.AssetCheckResult(
        check_name="comparison_is_sound",
        passed=not beyond and not low,
        metadata={"known_rates_to_optimum": dg.MetadataValue.json(reached), "beyond": beyond, "below": low},
    )


def _ours_is_best(rows: list[dict[str, Any]]) -> dg.AssetCheckResult:
    why = []
    for world in sorted({row["world"] for row in rows}):
        ratio = {row["policy"]: row["paired_ratio"] for row in rows if row["world"] == world}
        other = max(ratio.keys() - {OURS, YARDSTICK}, key=lambda name: ratio[name])
        if ratio[OURS] < LEAST:
            why.append(f"{world}: {OURS} reaches {ratio[OURS]:.3f} of the known-rate index")
        if ratio[OURS] < ratio[other] - MARGIN:
            why.append(f"{world}: {other} reaches {ratio[other]:.3f}, {OURS} {ratio[OURS]:.3f}")
    return dg.AssetCheckResult(
        check_name="ours_is_best",
        passed=not why,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(why),
        metadata={"findings": len(why)},
    )


ASSETS = (policy_comparison,)
