"""When each asset is due: the two profiles of DAGSTER.md as automation conditions.

Continuous inputs use neither `eager()` nor `since_last_handled()`: both lose an update that lands on the
tick after a request. The graph starts from "anything new since I last ran, and not running"; what follows from it is
eager about its one parent, so that the chain becomes one run, and waits for that parent's blocking checks.
"""

from datetime import timedelta
from typing import Any

import dagster as dg

from resources.cadence import Cadence

Condition = dg.AutomationCondition[Any]

DAILY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=24), warn_window=timedelta(hours=12))
"""For what promotions rest on: half a day old is a warning, a day old is stale."""


def conditions(cadence: Cadence) -> dict[str, Condition]:
    """Automation condition by asset name."""
    return {
        "link_graph": _start(cadence, cadence.graph_cron, ["links", "fetches", "hosts"]),
        "host_ranks": _follow(cadence, cadence.graph_cron, "link_graph"),
        "promotions": _follow(cadence, cadence.graph_cron, "host_ranks"),
        "related_hosts": _follow(cadence, cadence.graph_cron, "link_graph"),
        "url_groups": _start(cadence, cadence.rates_cron, ["fetches"]),
        "change_rates": _follow(cadence, cadence.rates_cron, "url_groups"),
        "value_model": _follow(cadence, cadence.rates_cron, "change_rates"),
        "secondary_groups": each(cadence.upkeep_cron),
        "group_work": _start(cadence, cadence.rates_cron, ["frontier"]),
        "crawl_schedule": _start(cadence, cadence.schedule_cron, ["fleet_stats", "hosts"]),
        "policy_comparison": each(cadence.policies_cron),
        "policy_evaluation": each(cadence.policies_cron),
        "near_duplicates": each(cadence.content_cron),
        "page_ranks": each(cadence.values_cron),
        "page_values": each(cadence.values_cron),
        "watched_pages": each(cadence.content_cron),
        "crawl_quality": each(cadence.quality_cron),
        "seed_audit": each(cadence.upkeep_cron),
        "upkeep": each(cadence.upkeep_cron),
    }


def each(cron: str) -> Condition:
    """At each tick of the clock: what these look at changes all the time."""
    ticked: Condition = dg.AutomationCondition.cron_tick_passed(cron)
    return ticked.since_last_handled() & ~dg.AutomationCondition.in_progress()


def _start(cadence: Cadence, cron: str, parents: list[str]) -> Condition:
    running = dg.AutomationCondition.in_progress()
    if not cadence.continuous:
        return each(cron)
    updated = dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets(*parents))
    # Not since_last_handled(): it forgets on the tick after a request, together with what arrived by then.
    handled = dg.AutomationCondition.newly_requested() & ~updated
    return updated.since(handled | dg.AutomationCondition.initial_evaluation()) & ~running


def _follow(cadence: Cadence, cron: str, parent: str) -> Condition:
    """With `parent` in one run whenever it is requested, else after it; never on failed blocking checks.

    In production the cron that starts the chain is that of all its parts: they are one run, in which a failed
    blocking check stops what follows. Dagster keeps the whole condition each time that its outcome changes, and
    the one below is 40 to 60 kB.

    `eager()` alone also follows, but forgets the parent's request on the tick that sees this asset's own
    last update: the chain would then come apart into two runs.
    """
    if not cadence.continuous:
        return each(cron)
    only = dg.AssetSelection.assets(parent)
    together = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.will_be_requested()).allow(only)
    due = (together & ~dg.AutomationCondition.in_progress()) | dg.AutomationCondition.eager().allow(only)
    return due & dg.AutomationCondition.all_deps_blocking_checks_passed()


def automate(asset: dg.AssetsDefinition, by_name: dict[str, Condition]) -> dg.AssetsDefinition:
    """`asset` with its condition from `by_name`, if it has one."""

    def with_condition(spec: dg.AssetSpec) -> dg.AssetSpec:
        condition = by_name.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=condition) if condition else spec

    return asset.map_asset_specs(with_condition)
