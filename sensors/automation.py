"""The sensors that evaluate automation conditions, by kind of asset: each kind has its own cadence."""

import dagster as dg

from resources.cadence import Cadence

DECISIONS = ("link_graph", "promotion", "schedule")
"""Groups whose assets decide something."""
RATES = ("change_rates",)
"""What schedules rest on: heavier, and a schedule does without the newest."""
ANALYSIS = ("content", "quality", "policies", "marts", "upkeep")
"""Groups that describe the crawl and look after it: slower, and never in the run of a decision."""


def decisions_sensor(cadence: Cadence) -> dg.AutomationConditionSensorDefinition:
    """Requests runs of the assets that decide something."""
    return dg.AutomationConditionSensorDefinition(
        "decisions",
        target=dg.AssetSelection.groups(*DECISIONS),
        minimum_interval_seconds=cadence.decisions_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts a run of graph, ranks, promotions and schedule when they are due.",
    )


def rates_sensor(cadence: Cadence) -> dg.AutomationConditionSensorDefinition:
    """Requests runs of groups, change rates and the model behind cold groups."""
    return dg.AutomationConditionSensorDefinition(
        "rates",
        target=dg.AssetSelection.groups(*RATES),
        minimum_interval_seconds=cadence.decisions_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts a run of URL groups, change rates and their model when they are due.",
    )


def analysis_sensor(cadence: Cadence, tables: tuple[str, ...]) -> dg.AutomationConditionSensorDefinition:
    """Requests runs of what describes the crawl and looks after it, and of the checks of `tables`."""
    return dg.AutomationConditionSensorDefinition(
        "analysis",
        target=dg.AssetSelection.groups(*ANALYSIS)
        | dg.AssetSelection.checks_for_assets(*(dg.AssetKey(name) for name in tables)),
        minimum_interval_seconds=cadence.analysis_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts runs of quality, policies, marts, near-duplicates, upkeep and the fleet tables' checks.",
    )
