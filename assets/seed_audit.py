"""Group `quality`: seed hosts that are of no use, and hosts that the seed lacks (`crawl_platform/quality/seeds.py`).

The same as `crawl seed audit` and `crawl seed suggest` say, kept as a table. It changes nothing: an operator reads it.
"""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa

from assets.plots import markdown_table
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.lake.tables import SEED_AUDIT
from crawl_platform.quality.seeds import TABLES, Finding, audit, suggest
from resources.lake import LakeResource, version_metadata

MOST_USELESS = 0.1
"""Share of seed hosts with a problem from which on somebody should look."""
SHOWN = 50
SEED = "SELECT count(*) FROM hosts_now WHERE state = 'seed'"


@dg.asset(
    deps=[
        *("hosts", "fetches", "pages", "links", "requests", "near_duplicates", "page_values"),
        *("link_graph", "host_ranks", "promotions"),
    ],
    group_name="quality",
    owners=["team:crawl"],
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=3), warn_window=timedelta(hours=30)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "seed_is_of_use",
            asset="seed_audit",
            description=f"At most {MOST_USELESS:.0%} of the seed hosts are silent, forbidden, moved, failing, parked, "
            "mirrored or without text.",
        )
    ],
)
def seed_audit(lake: LakeResource, clock: dg.ResourceParam[Clock]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a seed host that is of no use, or a host that the seed lacks, with the evidence and what to do."""
    store = lake.open()
    with lake.read(*TABLES) as reading:
        problems, suggestions = audit(reading.connection), suggest(reading.connection)
        seed = reading.number(SEED)
    now = as_datetime(clock.now())
    rows = [{**finding._asdict(), "computed_at": now} for finding in (*problems, *suggestions)]
    store.overwrite("seed_audit", pa.Table.from_pylist(rows, schema=SEED_AUDIT.schema), reading.inputs)
    version = store.version("seed_audit")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "seed_audit", version, reading.inputs),
            "seed_hosts": seed,
            "with_a_problem": len(problems),
            "suggested": len(suggestions),
            "problems": _table("seed host", problems),
            "suggestions": _table("host outside the seed", suggestions),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_of_use(len(problems), seed)],
    )


def _table(host: str, findings: Sequence[Finding]) -> dg.MarkdownMetadataValue:
    columns = (host, "because", "evidence", "what to do")
    return markdown_table(columns, [[f.host, f.reason, f.evidence, f.advice] for f in findings[:SHOWN]])


def _of_use(problems: int, seed: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name="seed_is_of_use",
        passed=problems <= MOST_USELESS * seed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"with_a_problem": problems, "seed_hosts": seed},
    )


ASSETS = (seed_audit,)
