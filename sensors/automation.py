"""The sensors that evaluate automation conditions, by kind of asset: each kind has its own cadence."""

import dagster as dg

from resources.cadence import Cadence

DECISIONS = ("link_graph", "promotion", "schedule")
"""Groups whose assets decide something."""


def decisions_sensor(cadence: Cadence) -> dg.AutomationConditionSensorDefinition:
    """Requests runs of the assets that decide something."""
    return dg.AutomationConditionSensorDefinition(
        "decisions",
        target=dg.AssetSelection.groups(*DECISIONS),
        minimum_interval_seconds=cadence.decisions_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts a run of graph, ranks, promotions and schedule when they are due.",
    )
