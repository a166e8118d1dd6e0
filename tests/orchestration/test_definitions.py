"""What a data team finds in the UI, and what an operator's instance is made of."""

from pathlib import Path

import dagster as dg
import networkx as nx
import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

from crawl_platform.definitions import build_definitions, deployment
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Orchestration, Settings
from resources import instance
from resources.launcher import commands

GROUPS = {
    "fleet",
    "link_graph",
    "promotion",
    "change_rates",
    "schedule",
    "content",
    "policies",
    "quality",
    "marts",
    "upkeep",
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def specs(settings):
    return {s.key.to_user_string(): s for s in build_definitions(settings=settings).resolve_all_asset_specs()}


def test_every_asset_says_what_a_row_is_who_owns_it_and_where_it_belongs(specs):
    for spec in specs.values():
        assert spec.description.startswith("One row: "), spec.key
        assert spec.owners == ["team:crawl"]
        assert spec.group_name in GROUPS
        assert "delta" in spec.kinds or {"dbt", "duckdb"} <= spec.kinds


def test_every_asset_shows_its_columns_before_its_first_run_and_has_a_check(settings, specs):
    definitions = build_definitions(settings=settings)
    checked = {key.asset_key.to_user_string() for key in definitions.resolve_asset_graph().asset_check_keys}

    for name, spec in specs.items():
        assert spec.metadata["dagster/column_schema"].columns, name
        assert name in checked, name


def test_the_lineage_is_one_graph_from_the_fetches_to_every_decision_and_mart(settings):
    graph = build_definitions(settings=settings).resolve_asset_graph()
    keys = graph.get_all_asset_keys()
    whole = nx.Graph([(key, parent) for key in keys for parent in graph.get(key).parent_keys])
    directed = nx.DiGraph([(parent, key) for key in keys for parent in graph.get(key).parent_keys])

    assert set(whole) == keys
    assert nx.is_connected(whole)
    below = {key.path[-1] for key in nx.descendants(directed, dg.AssetKey("fetches"))}
    assert {"promotions", "crawl_schedule", "near_duplicates", "crawl_quality"} <= below
    assert {"host_daily", "coverage", "freshness", "cost"} <= below


def test_every_table_that_no_asset_writes_is_an_external_asset_with_its_columns(specs):
    by_fleet = {name for name, table in TABLES.items() if table.writer != "dagster"}

    assert by_fleet == {name for name, spec in specs.items() if spec.group_name == "fleet"}
    for name in by_fleet:
        columns = specs[name].metadata["dagster/column_schema"].columns
        assert [c.name for c in columns] == [c.name for c in TABLES[name].columns]
        assert all(c.description for c in columns)


def test_what_people_act_on_has_a_freshness_policy(specs):
    external = {name for name, spec in specs.items() if spec.group_name == "fleet"}
    for name in {"fetches", "fleet_stats", *specs.keys() - external}:
        assert specs[name].freshness_policy is not None, name


def test_every_asset_that_computes_is_automated_and_its_sensor_runs_by_default(settings):
    definitions = build_definitions(settings=settings)
    manual = {
        s.key.to_user_string()
        for s in definitions.resolve_all_asset_specs()
        if s.group_name != "fleet" and s.automation_condition is None
    }
    sensors = {s.name: s for s in definitions.get_repository_def().sensor_defs}

    assert manual == set()
    assert set(sensors) == {
        "decisions", "rates", "analysis", "table_events", "promotion", "fastlane", "supervision"
    }  # fmt: skip
    assert all(s.default_status is dg.DefaultSensorStatus.RUNNING for s in sensors.values())


def test_production_looks_less_often_than_the_demo(tmp_path):
    def ticks(profile: str) -> dict[str, int]:
        chosen = Settings(home=str(tmp_path), orchestration=Orchestration(profile=profile))
        repository = build_definitions(settings=chosen).get_repository_def()
        return {s.name: s.minimum_interval_seconds for s in repository.sensor_defs}

    demo, production = ticks("demo"), ticks("production")
    assert demo["decisions"] == 10
    assert min(production[name] for name in ("decisions", "rates", "analysis")) >= 300
    assert all(production[name] > demo[name] for name in demo)


def test_the_definitions_load_through_the_workspace_file(tmp_path, monkeypatch):
    (entry,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    monkeypatch.setenv("CRAWL_HOME", str(tmp_path))

    assert entry["python_module"]["module_name"] == deployment.__module__
    assert entry["python_module"]["attribute"] == deployment.__name__
    assert deployment().resolve_all_asset_specs()


def test_without_a_home_it_says_what_to_set(monkeypatch):
    monkeypatch.delenv("CRAWL_HOME", raising=False)

    with pytest.raises(ConfigurationError, match="CRAWL_HOME"):
        deployment()


@pytest.mark.parametrize("profile", ["demo", "production"])
@pytest.mark.parametrize("postgres", [False, True])
def test_the_instance_config_is_one_that_dagster_accepts(tmp_path, profile, postgres):
    home = instance.write_dagster_home(
        Settings(home=str(tmp_path), orchestration=Orchestration(profile=profile)), postgres=postgres
    )

    config, _ = dagster_instance_config(str(home))

    assert config["telemetry"]["enabled"] is False
    assert config["nux"]["enabled"] is False
    assert config["concurrency"]["runs"]["max_concurrent_runs"] == 2
    assert ("postgres" in str(config.get("storage", ""))) is postgres
    assert "password" not in (home / "dagster.yaml").read_text()


def test_the_webserver_listens_on_loopback_only_and_the_three_share_one_workspace(tmp_path):
    code, daemon, webserver = commands(tmp_path, tmp_path / "code.sock", 3_000)

    assert webserver[webserver.index("-h") + 1] == "127.0.0.1"
    assert (
        daemon[daemon.index("-w") + 1]
        == webserver[webserver.index("-w") + 1]
        == str(tmp_path / "workspace.yaml")
    )
    assert str(tmp_path / "code.sock") in code


def test_the_code_server_keeps_its_place_and_fits_a_socket_address(tmp_path):
    near = Settings(home=str(tmp_path / "a"))
    far = Settings(home=str(tmp_path / ("deep" * 40)))

    assert instance.code_socket(near) == instance.code_socket(near)
    assert len(str(instance.code_socket(far))) <= instance.LONGEST_SOCKET_PATH
    assert instance.code_socket(far) != instance.code_socket(Settings(home=far.home + "er"))
