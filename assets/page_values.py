"""Group `content`: what each page is worth to the crawl, and the one place from which the fleet hears of it.

Signals and formula are in `crawl_platform/value/signals.py` and docs/values.md. The fleet is told before the table is
written, and only values that differ much from what it believes: a run that dies between the two tells the same again,
and a repeated run tells nothing. A page whose row goes is told what its depth says.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.appraisal import appraise
from assets.plots import histogram, markdown_table
from assets.value_evidence import INPUTS, gather
from crawl_platform.clock import Clock
from crawl_platform.errors import LakeError
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings, Value
from crawl_platform.value.signals import LEAST, MOST
from crawl_platform.value.topics_file import topics_of
from resources.fleet import FleetResource
from resources.lake import LakeResource, version_metadata

GROUP = "content"
OWNERS = ["team:crawl"]
SHOWN = 10
SHOWN_COLUMNS = ("page", "value", "by depth", "why")
SHARE = dict.fromkeys(("ir", "corpus", "technical", "exploration", "importance"), (0.0, 1.0))
BOUNDS = {"business": (-1.0, 1.0), **SHARE, "value": (LEAST, MOST)}


@dg.asset(
    deps=list(INPUTS),
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=3), warn_window=timedelta(hours=30)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "signals_within_bounds",
            asset="page_values",
            blocking=True,
            description="Every page has one row, its signals and its value are numbers within their bounds.",
        ),
        dg.AssetCheckSpec(
            "critical_pages_have_their_floor",
            asset="page_values",
            blocking=True,
            description="No page that was called critical is worth less than the floor.",
        ),
        dg.AssetCheckSpec(
            "usual_page_keeps_its_value",
            asset="page_values",
            description="The median page is worth between a quarter of and four times what its depth says: values "
            "order pages, they don't inflate.",
        ),
    ],
)
def page_values(
    lake: LakeResource,
    fleet: FleetResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: what a page is worth to the crawl, by six signals and their combination. Pages that were read, and
    those that were not of which links, usage or an operator say something."""
    store, weights = lake.open(), crawl_settings.value
    topics = topics_of(Path(crawl_settings.home), weights)
    with lake.read(*INPUTS, also=("page_values",)) as reading:
        evidence = gather(reading, topics, clock.now(), new_links(store, reading.inputs["links"]))
    appraised = appraise(evidence, topics, weights, clock.now())
    checks = [_within_bounds(appraised.rows), _floor_holds(appraised.rows, weights), _usual(appraised.rows)]
    if all(check.passed for check in checks[:2]):
        if appraised.news:
            fleet.client().appraise(appraised.news)
        store.overwrite("page_values", appraised.rows, reading.inputs)
    version = store.version("page_values")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "page_values", version, reading.inputs),
            **evidence.counts,
            "topics": len(topics.entries),
            "values_told": len(appraised.news),
            "values_waiting": appraised.waiting,
            **_pictures(appraised.rows),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def new_links(store: Lake, version: int) -> list[str] | None:
    """Data files of `links` at `version` that the last run has not seen; None: that can't be told any more.
    Files that upkeep has written anew are among them."""
    seen = store.inputs_of("page_values").get("links")
    if seen is None:
        return None
    try:
        before = set(store.delta("links", seen).file_uris())
    except LakeError:  # upkeep has let go of that version
        return None
    return [file for file in store.delta("links", version).file_uris() if file not in before]


def _pictures(rows: pa.Table) -> dict[str, Any]:
    ratio = rows["value"].to_numpy() / rows["base"].to_numpy()
    value, told = rows["value"].to_numpy(), rows["told"].is_valid().to_pylist()
    first = np.argsort(-np.abs(np.log2(ratio)), kind="stable")[:SHOWN].tolist()
    shown = [[rows[name][i].as_py() for name in ("url", "value", "base", "reason")] for i in first]
    return {
        "rows_told_of": sum(told),
        "mean_value": float(value.mean()) if len(value) else 0.0,
        "critical_pages": int(np.sum(rows["critical"].to_numpy(zero_copy_only=False).astype(bool))),
        "values": histogram(
            "Value of a page beside what its depth says", "value / base", ratio.tolist(), of="pages"
        ),
        "farthest_from_usual": markdown_table(
            SHOWN_COLUMNS, [[url, f"{value:.3g}", f"{base:.3g}", why] for url, value, base, why in shown]
        ),
    }


def _within_bounds(rows: pa.Table) -> dg.AssetCheckResult:
    outside = 0
    for name, (least, most) in BOUNDS.items():
        told = rows[name].drop_null().to_numpy()
        outside += int(np.sum(~((told >= least - 1e-9) & (told <= most + 1e-9))))  # NaN is neither
    repeated = rows.num_rows - len(set(rows["url"].to_pylist()))
    return dg.AssetCheckResult(
        check_name="signals_within_bounds",
        passed=not outside and not repeated,
        metadata={"values_outside": outside, "repeated_pages": repeated},
    )


def _floor_holds(rows: pa.Table, weights: Value) -> dg.AssetCheckResult:
    critical = rows["critical"].to_numpy(zero_copy_only=False).astype(bool)
    below = int(np.sum(rows["value"].to_numpy()[critical] < min(weights.critical_floor, MOST) - 1e-9))
    return dg.AssetCheckResult(
        check_name="critical_pages_have_their_floor", passed=not below, metadata={"below": below}
    )


def _usual(rows: pa.Table) -> dg.AssetCheckResult:
    ratio = rows["value"].to_numpy() / rows["base"].to_numpy()
    median = float(np.median(ratio)) if len(ratio) else 1.0
    return dg.AssetCheckResult(
        check_name="usual_page_keeps_its_value",
        passed=0.25 <= median <= 4.0,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"median_of_value_by_base": median},
    )
