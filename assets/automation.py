"""When each asset is due: the two profiles of DAGSTER.md as automation conditions.

Continuous inputs never use a bare `eager()` upstream: it loses an update that lands on the tick after a
request. The graph starts from "anything new since I last ran, and not running"; what follows from it is
eager about its one parent, so that the chain becomes one run, and waits for that parent's blocking checks.
"""

from typing import Any

import dagster as dg

from resources.cadence import Cadence

Condition = dg.AutomationCondition[Any]


def conditions(cadence: Cadence) -> dict[str, Condition]:
    """Automation condition by asset name."""
    return {
        "link_graph": _start(cadence, cadence.graph_cron, ["links", "fetches", "hosts"]),
        "host_ranks": _follow("link_graph"),
        "promotions": _follow("host_ranks"),
        "crawl_schedule": _start(cadence, cadence.schedule_cron, ["fleet_stats", "hosts"]),
    }


def _start(cadence: Cadence, cron: str, parents: list[str]) -> Condition:
    updated = dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets(*parents))
    due: Condition = updated if cadence.continuous else dg.AutomationCondition.cron_tick_passed(cron)
    return due.since_last_handled() & ~dg.AutomationCondition.in_progress()


def _follow(parent: str) -> Condition:
    """After `parent`, in the same run if it is requested on the same tick; never on failed blocking checks."""
    following = dg.AutomationCondition.eager().allow(dg.AssetSelection.assets(parent))
    return following & dg.AutomationCondition.all_deps_blocking_checks_passed()


def automate(asset: dg.AssetsDefinition, by_name: dict[str, Condition]) -> dg.AssetsDefinition:
    """`asset` with its condition from `by_name`, if it has one."""

    def with_condition(spec: dg.AssetSpec) -> dg.AssetSpec:
        condition = by_name.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=condition) if condition else spec

    return asset.map_asset_specs(with_condition)
