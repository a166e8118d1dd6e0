"""Group `fleet`: the tables that the crawl itself writes, as external assets made from their declarations.

Nothing here computes anything. New versions of these tables become events in `sensors/table_events.py`;
tables written by assets (decisions among them) belong to those assets' groups.
"""

from datetime import timedelta
from pathlib import Path

import dagster as dg

from crawl_platform.lake.tables import TABLES
from resources.lake import table_metadata

GROUP = "fleet"
OWNERS = ["team:crawl"]

EXTERNAL = ("fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "commits", "requests", "usage")
"""Tables that are not written by an asset."""

UPSTREAM = {
    "links": ["fetches"],
    "pages": ["fetches"],
    "commits": ["fetches", "links", "pages", "hosts", "frontier", "fleet_stats"],
}
"""Rows that cite a row, or a version, of another table."""

FRESH_WITHIN = {"fetches": timedelta(minutes=30), "fleet_stats": timedelta(minutes=30)}
"""A fleet that runs writes these all the time: silence means that it has stopped."""


def fleet_specs(lake_root: Path) -> list[dg.AssetSpec]:
    """One external asset per table in `EXTERNAL`."""
    return [_spec(name, lake_root) for name in EXTERNAL]


def _spec(name: str, lake_root: Path) -> dg.AssetSpec:
    table = TABLES[name]
    window = FRESH_WITHIN.get(name)
    return dg.AssetSpec(
        name,
        deps=UPSTREAM.get(name, []),
        description=f"One row: {table.row[0].lower()}{table.row[1:]}",
        group_name=GROUP,
        owners=OWNERS,
        kinds={"delta"},
        tags={"writer": table.writer},
        metadata=table_metadata(lake_root, name),
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=window) if window else None,
    )
