"""The one place where the Dagster layer is put together.

`deployment` is what `workspace.yaml` points to: the edge where the crawl's home is read from the
environment. Tests and other hosts of the layer call `build_definitions` with resources of their own.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from assets import (
    change_rates,
    content,
    link_graph,
    marts,
    policy_comparison,
    policy_evaluation,
    promotion,
    quality,
    schedule,
    secondary_groups,
    seed_audit,
    upkeep,
)
from assets.automation import automate, conditions
from assets.fleet import EXTERNAL, fleet_specs
from assets.fleet_checks import fleet_checks
from assets.operator_jobs import OPERATOR_JOBS
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Settings, load
from resources.cadence import cadence_of
from resources.executor import EXECUTOR_VARIABLE, executor_of
from resources.fleet import STATEFULSET_VARIABLE, FleetResource
from resources.lake import LakeResource, table_metadata
from resources.warehouse import WarehouseResource
from sensors.automation import analysis_sensor, decisions_sensor, rates_sensor
from sensors.fastlane import fastlane_sensor
from sensors.promotion import promotion_sensor
from sensors.supervision import supervision_sensor
from sensors.table_events import table_events_sensor

HOME_VARIABLE = "CRAWL_HOME"

ASSETS = (
    *link_graph.ASSETS,
    *promotion.ASSETS,
    *change_rates.ASSETS,
    *secondary_groups.ASSETS,
    *schedule.ASSETS,
    *policy_comparison.ASSETS,
    *policy_evaluation.ASSETS,
    *content.ASSETS,
    *quality.ASSETS,
    *seed_audit.ASSETS,
    *upkeep.ASSETS,
)

TABLE_OF = {"link_graph": "host_graph", "value_model": "cold_priors"}
"""Table of an asset that is not called like it."""


def deployment() -> dg.Definitions:
    """Definitions of the crawl whose home is named by `CRAWL_HOME`."""
    return build_definitions()


def build_definitions(
    resource_overrides: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> dg.Definitions:
    """Assets, sensors and jobs of one crawl: the one with `settings`, by default the one at `CRAWL_HOME`.

    `resource_overrides` replaces resources by name: lake, fleet, warehouse, crawl_settings, clock.
    """
    settings = settings or _settings_of_environment()
    cadence = cadence_of(settings.orchestration)
    by_name = conditions(cadence)
    return dg.Definitions(
        assets=[
            *fleet_specs(settings.lake_root),
            *(automate(declare(asset, settings.lake_root), by_name) for asset in ASSETS),
            marts.mart_assets(settings, cadence),
        ],
        asset_checks=fleet_checks(cadence),
        sensors=[
            table_events_sensor(cadence, EXTERNAL),
            decisions_sensor(cadence),
            rates_sensor(cadence),
            analysis_sensor(cadence, EXTERNAL),
            promotion_sensor(cadence),
            fastlane_sensor(cadence),
            supervision_sensor(cadence),
        ],
        jobs=list(OPERATOR_JOBS),
        resources={**_resources(settings), **(resource_overrides or {})},
        executor=executor_of(os.environ.get(EXECUTOR_VARIABLE)),
    )


def declare(asset: dg.AssetsDefinition, lake_root: Path) -> dg.AssetsDefinition:
    """`asset` with the columns and place of the table that it writes, known before its first run."""

    def with_table(spec: dg.AssetSpec) -> dg.AssetSpec:
        name = spec.key.to_user_string()
        table = TABLE_OF.get(name, name)
        return spec.merge_attributes(metadata=table_metadata(lake_root, table)) if table in TABLES else spec

    return asset.map_asset_specs(with_table)


def _settings_of_environment() -> Settings:
    home = os.environ.get(HOME_VARIABLE)
    if not home:
        raise ConfigurationError(
            f"{HOME_VARIABLE} is not set: it names the folder of the crawl to orchestrate"
        )
    return load(home)


def _resources(settings: Settings) -> dict[str, Any]:
    endpoint = settings.root / "run" / "nats.json"
    return {
        "lake": LakeResource(root=str(settings.lake_root)),
        "fleet": FleetResource(
            endpoint_file=str(endpoint),
            n_shards=settings.fleet.shards,
            statefulset=os.environ.get(STATEFULSET_VARIABLE, ""),
        ),
        "warehouse": WarehouseResource(home=str(settings.root)),
        "crawl_settings": settings,
        "clock": SystemClock(),
    }
