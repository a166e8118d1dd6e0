"""Group `marts`: dbt models over the lake for analysts, and the file that they read.

One asset per dbt model, one check per dbt test, made from what dbt says of its project. All of them are one
step and can't be run apart: a file is built and swapped in whole, so a part would take the others' tables
away. That is why this is not `@dbt_assets`, whose assets can be picked one by one and are reported as they are
built, before anybody can read them (docs/decisions/0009-marts.md).
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from assets.automation import each
from assets.plots import markdown_table
from crawl_platform.lake.marts import CATALOG
from crawl_platform.settings import Settings
from resources.cadence import Cadence
from resources.dbt_project import Manifest, cache_folders, manifest
from resources.lake import LakeResource
from resources.marts_order import Order, order_of
from resources.warehouse import Build, Result, WarehouseResource

GROUP = "marts"
OWNERS = ["team:crawl"]
POOL = "duckdb_writer"
"""Of one slot: the file has one writer."""
FRESH_WITHIN = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=13), warn_window=timedelta(hours=7))
SHOWN_HOSTS = 10

Node = Mapping[str, Any]

BIGGEST = "SELECT host, known, fetched, queued, gone, dropped FROM coverage ORDER BY known DESC, host LIMIT ?"
SUMS = {
    "coverage": "SELECT sum(known) AS known_urls, sum(fetched) AS fetched_urls FROM coverage",
    "freshness": "SELECT sum(fresh_pages) / nullif(sum(pages), 0) AS fresh_share FROM freshness",
    "cost": "SELECT sum(wire_bytes) / nullif(sum(changes), 0) AS bytes_per_change FROM cost",
}
"""Numbers that the UI plots over time."""


def mart_assets(settings: Settings, cadence: Cadence) -> dg.AssetsDefinition:
    """The marts of one crawl. Parses the dbt project if that hasn't been done on this machine yet."""
    project = manifest(cache_folders(settings.root))
    marts_by_id = _marts(project)
    condition = each(cadence.marts_cron)
    checks_by_id = {test["unique_id"]: _check_spec(project, test) for test in _tests(project)}

    @dg.multi_asset(
        name="marts",
        specs=[_spec(project, model, settings, condition) for model in marts_by_id.values()],
        check_specs=list(checks_by_id.values()),
        pool=POOL,
        can_subset=False,
        description="Builds and tests all marts with dbt, then swaps the new file in.",
    )
    def marts(
        lake: LakeResource, warehouse: WarehouseResource, crawl_settings: dg.ResourceParam[Settings]
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult]:  # type: ignore[type-arg]
        order = order_of(lake.open(), crawl_settings.refresh)
        build = warehouse.build(order)
        tests = [result for result in build.results if result.unique_id in checks_by_id and result.ran]
        yield from (_verdict(checks_by_id[test.unique_id], test) for test in tests)
        if not build.published:
            raise _failure(build)
        # In the order of the results: dbt builds a model after those that it is made from.
        built = [marts_by_id[r.unique_id]["name"] for r in build.results if r.unique_id in marts_by_id]
        yield from _materialized(warehouse, order, build, built)

    return marts


def _key(name: str) -> dg.AssetKey:
    return dg.AssetKey([CATALOG, name])


def _marts(project: Manifest) -> dict[str, Node]:
    """Models with a table in the file, by dbt's id."""
    models = {name: node for name, node in project["nodes"].items() if node["resource_type"] == "model"}
    return {name: node for name, node in models.items() if node["config"]["materialized"] == "table"}


def _tests(project: Manifest) -> list[Node]:
    return [node for node in project["nodes"].values() if node["resource_type"] == "test"]


def _spec(
    project: Manifest, model: Node, settings: Settings, condition: dg.AutomationCondition[Any]
) -> dg.AssetSpec:
    return dg.AssetSpec(
        _key(model["name"]),
        deps=sorted(_parents(project, model)),
        description=model["description"],
        group_name=GROUP,
        owners=OWNERS,
        kinds={"dbt", "duckdb"},
        automation_condition=condition,
        freshness_policy=FRESH_WITHIN,
        metadata={
            "dagster/column_schema": _column_schema(model),
            "dagster/table_name": f"{CATALOG}.{model['name']}",
            "dagster/uri": (Path(settings.root) / "marts.duckdb").as_uri(),
            "dbt_file": model["original_file_path"],
        },
    )


def _parents(project: Manifest, node: Node) -> set[dg.AssetKey]:
    """What a model is made from: other marts, and through the staging models the lake's tables."""
    found: set[dg.AssetKey] = set()
    for name in node["depends_on"]["nodes"]:
        if name in project["sources"]:
            source = project["sources"][name]
            named = source["config"]["meta"].get("dagster", {}).get("asset_key", [source["name"]])
            found.add(dg.AssetKey(named))
            continue
        parent = project["nodes"][name]
        is_mart = parent["config"]["materialized"] == "table"
        found |= {_key(parent["name"])} if is_mart else _parents(project, parent)
    return found


def _column_schema(model: Node) -> dg.TableSchema:
    key = {c for rule in model["constraints"] if rule["type"] == "primary_key" for c in rule["columns"]}
    return dg.TableSchema(
        [
            dg.TableColumn(
                column["name"],
                column["data_type"],
                column["description"],
                dg.TableColumnConstraints(
                    nullable=not any(rule["type"] == "not_null" for rule in column["constraints"]),
                    unique=key == {column["name"]},
                ),
            )
            for column in model["columns"].values()
        ]
    )


def _check_spec(project: Manifest, test: Node) -> dg.AssetCheckSpec:
    """A generic test belongs to the model it is written at, a singular one says whose it is."""
    name = test["config"]["meta"].get("dagster", {}).get("ref", {}).get("name")
    name = name or project["nodes"][test["attached_node"]]["name"]
    return dg.AssetCheckSpec(
        test["name"],
        asset=_key(name),
        description=test["description"],
        blocking=test["config"]["severity"].lower() == "error",
    )


def _verdict(spec: dg.AssetCheckSpec, result: Result) -> dg.AssetCheckResult:
    """As dbt found it; a test that couldn't run has failed, too."""
    warned = result.status == "warn"
    return dg.AssetCheckResult(
        asset_key=spec.asset_key,
        check_name=spec.name,
        passed=result.status == "pass",
        severity=dg.AssetCheckSeverity.WARN if warned else dg.AssetCheckSeverity.ERROR,
        description=result.message or "",
        metadata={"rows_against_it": result.failures or 0},
    )


def _failure(build: Build) -> dg.Failure:
    told = "; ".join(f"{r.unique_id.split('.')[2]}: {r.message or r.status}" for r in build.failed)
    return dg.Failure(
        f"The marts stay as they were. {told or 'dbt was stopped before its end.'}",
        metadata={"failed": len(build.failed)},
        allow_retries=False,
    )


def _materialized(
    warehouse: WarehouseResource, order: Order, build: Build, names: list[str]
) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]
    version = dg.DataVersion(str(order.commit_id or 0))
    with duckdb.connect(str(warehouse.path), read_only=True) as connection:
        for name in names:
            metadata = {**_metadata(build, order, name), **_looked_at(connection, name)}
            yield dg.MaterializeResult(asset_key=_key(name), metadata=metadata, data_version=version)


def _metadata(build: Build, order: Order, name: str) -> dict[str, Any]:
    return {
        "dagster/row_count": build.rows[name],
        "file_bytes": build.bytes,
        "build_seconds": round(build.seconds, 2),
        "inputs": dg.MetadataValue.json(order.versions),
        "as_of": dg.MetadataValue.timestamp(order.as_of),
    }


def _looked_at(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """What people look at, beside the rows: sums over all hosts, and the biggest of them."""
    shown: dict[str, Any] = {}
    if name in SUMS:
        sums = connection.execute(SUMS[name]).to_arrow_table().to_pylist()[0]
        shown |= {key: float(value) for key, value in sums.items() if value is not None}
    if name == "coverage":
        biggest = connection.execute(BIGGEST, [SHOWN_HOSTS])
        header = [column[0] for column in biggest.description]
        shown["biggest_hosts"] = markdown_table(header, biggest.fetchall())
    return shown
