"""Real builds of the marts by dbt, through Dagster, against numbers worked out by hand."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import networkx as nx
import pyarrow as pa
import pytest

from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.errors import LakeError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Orchestration, Refresh, Settings
from crawl_platform.web.url import host_of
from resources import warehouse
from resources.dbt_project import project_folder
from resources.marts_order import INPUTS, order_of
from resources.warehouse import WarehouseResource
from tests.orchestration.harness import Harness
from tests.orchestration.made_up_crawl import MadeUpCrawl, RememberingFleet

MARTS = ("built_from", "cost", "coverage", "freshness", "host_daily")
KEYS = tuple(f"marts/{name}" for name in MARTS)
DAY = 86_400.0
START = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
FIRST, SECOND = date(2027, 1, 15), date(2027, 1, 16)
PATIENCE = 240.0


class Scene:
    """One crawl in a folder, and the Dagster layer over it."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root = root
        self.clock = ManualClock(START)
        self.lake = Lake(root / "lake")
        self.crawl = MadeUpCrawl(self.lake, self.clock)
        self.settings = Settings(home=str(root), orchestration=Orchestration(profile="demo"))
        self.harness = Harness(self.settings, self.clock, RememberingFleet(), instance)
        self.warehouse = WarehouseResource(home=str(root))

    def at(self, seconds: float) -> datetime:
        """Move to `seconds` after the start."""
        self.clock.advance(START + seconds - self.clock.now())
        return as_datetime(self.clock.now())

    def build(self, *, fails: bool = False) -> dg.ExecuteInProcessResult:
        return self.harness.execute(*KEYS, fails=fails)

    def rows(self, mart: str) -> list[dict[str, Any]]:
        """Read as an analyst does, and let go of the file at once."""
        with duckdb.connect(str(self.warehouse.path), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(f"FROM {mart} ORDER BY ALL").to_arrow_table().to_pylist()


@pytest.fixture
def scene(lake: Lake, tmp_path: Path) -> Iterator[Scene]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Scene(tmp_path, instance)


@pytest.fixture(scope="module")
def built(
    empty_lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Scene, dg.ExecuteInProcessResult]]:
    """The hand-made crawl and the run that built its marts. Only read."""
    root = tmp_path_factory.mktemp("marts")
    shutil.copytree(empty_lake, root / "lake")
    with dg.DagsterInstance.ephemeral() as instance:
        scene = Scene(root, instance)
        two_days(scene)
        yield scene, scene.build()


def two_days(scene: Scene) -> None:
    """a.test in full; b.test known but not fetched; c.test excluded; d.test with one page; every.test with each
    outcome once."""
    crawl = scene.crawl
    for host, state in (
        ("a.test", "seed"), ("b.test", "seed"), ("c.test", "excluded"), ("d.test", "seed"), ("every.test", "seed"),
    ):  # fmt: skip
        crawl.host(host, state, trusted=host == "a.test")
    page = "https://a.test"
    crawl.fetch(f"{page}/robots.txt", kind="robots", duration_ms=100.0, wire_bytes=50, body_bytes=50)
    root_at = scene.at(2)
    crawl.fetch(f"{page}/", duration_ms=200.0, wire_bytes=1000, body_bytes=3000, group_id=1)
    x_at = scene.at(5)
    crawl.fetch(f"{page}/x", duration_ms=400.0, wire_bytes=2000, body_bytes=4000, group_id=2)
    scene.at(10)
    crawl.fetch(f"{page}/y", duration_ms=600.0, outcome="server_error")
    snapshot(scene, root_at, x_at)
    scene.at(20)
    crawl.fetch(f"{page}/z", duration_ms=100.0, outcome="not_found")
    scene.at(DAY)
    crawl.fetch(
        f"{page}/", duration_ms=300.0, wire_bytes=1000, body_bytes=3000, group_id=1, changed=True,
        previous_success_at=root_at, rate_a=0.5, rate_b=0.25,
    )  # fmt: skip
    scene.at(DAY + 10)
    crawl.fetch(
        f"{page}/x", duration_ms=100.0, outcome="not_modified", group_id=2, changed=False,
        previous_success_at=x_at, rate_a=0.0, rate_b=1.0,
    )  # fmt: skip
    scene.at(DAY + 20)
    crawl.fetch(f"{page}/y", duration_ms=100.0, outcome="rate_limited")
    scene.at(DAY + 30)
    crawl.fetch("https://d.test/", duration_ms=50.0, wire_bytes=10)
    for number, outcome in enumerate(Outcome):
        scene.at(DAY + 100 + number)
        crawl.fetch(f"https://every.test/{outcome}", outcome=outcome.value)
    priors(scene)
    scene.at(2 * DAY)
    crawl.commit()


def snapshot(scene: Scene, root_at: datetime, x_at: datetime) -> None:
    scene.at(15)
    for path, state, success in (
        ("", "fetched", root_at), ("x", "fetched", x_at), ("y", "queued", None), ("w", "queued", None),
        ("v", "dropped", None),
    ):  # fmt: skip
        snapshot_row(scene, f"https://a.test/{path}", state, success)
    snapshot_row(scene, "https://b.test/", "queued")


def snapshot_row(scene: Scene, url: str, state: str, last_success_at: datetime | None = None) -> None:
    scene.crawl.row(
        "frontier", snapshot_id="s1", snapshot_at=as_datetime(scene.clock.now()), shard=0, host=host_of(url),
        url=url, state=state, last_success_at=last_success_at, group_id=0, rate_a=0.0, rate_b=0.0,
    )  # fmt: skip


def priors(scene: Scene) -> None:
    """Group 1 has been seen; group 2 is cold, and what the model says of it counts."""
    group = {"host": "a.test", "template": "/*"}
    seen = {**group, "group_id": 1, "prior_a": 2.0, "prior_b": 4.0, "rate": 0.5}
    cold = {**group, "group_id": 2, "prior_a": 9.0, "prior_b": 9.0, "rate": 1.0}
    counts = dict.fromkeys(("pages", "checks", "changed", "unchanged"), 1)
    scene.lake.overwrite("change_rates", table("change_rates", {**seen, **counts}, {**cold, **counts}))
    model = {**group, "group_id": 2, "prior_a": 1.0, "prior_b": 2.0, "predicted_rate": 0.5}
    scene.lake.overwrite("cold_priors", table("cold_priors", model))
    at = as_datetime(scene.clock.now())
    promoted = {
        "decision_id": "d1", "host": "b.test", "decided_at": at, "reason": "", "requested": False,
        "input_versions": [], "date": at.date(),
    }  # fmt: skip
    scene.lake.append("promotions", table("promotions", promoted))


def table(name: str, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES[name].schema)


def of_host(rows: list[dict[str, Any]], host: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key != "host"} for row in rows if row["host"] == host
    ]


# --- what the marts say ---


def test_host_daily_counts_a_hosts_days(built):
    first, second = of_host(built[0].rows("host_daily"), "a.test")

    no_errors = {
        f"errors_{name}": 0
        for name in ("client", "pushback", "server", "dns", "connection", "malformed", "internal")
    }
    assert first == pytest.approx(
        {
            **no_errors,
            "day": FIRST,
            "fetches": 5,
            "page_fetches": 4,
            "pages": 2,
            "successes": 2,
            "not_modified": 0,
            "redirects": 0,
            "errors": 2,
            "errors_client": 1,
            "errors_server": 1,
            "new_pages": 2,
            "changed": 0,
            "wire_bytes": 3050,
            "body_bytes": 7050,
            "busy_s": 1.4,
            "latency_p50_ms": 200.0,
            "latency_p95_ms": 560.0,
            "gap_min_s": 1.9,
            "gap_p50_s": 3.7,
        }
    )
    assert second == pytest.approx(
        {
            **no_errors,
            "day": SECOND,
            "fetches": 3,
            "page_fetches": 3,
            "pages": 2,
            "successes": 2,
            "not_modified": 1,
            "redirects": 0,
            "errors": 1,
            "errors_pushback": 1,
            "new_pages": 0,
            "changed": 1,
            "wire_bytes": 1000,
            "body_bytes": 3000,
            "busy_s": 0.5,
            "latency_p50_ms": 100.0,
            "latency_p95_ms": 280.0,
            "gap_min_s": 9.7,
            "gap_p50_s": 9.9,
        }
    )


def test_every_outcome_belongs_to_one_class(built):
    (row,) = of_host(built[0].rows("host_daily"), "every.test")

    assert row["page_fetches"] == len(Outcome)
    assert {key: row[key] for key in row if key.startswith(("errors_", "success", "redirects"))} == {
        "successes": 2, "redirects": 1, "errors_client": 8, "errors_pushback": 2, "errors_server": 1,
        "errors_dns": 4, "errors_connection": 9, "errors_malformed": 4, "errors_internal": 1,
    }  # fmt: skip


def test_cost_sets_bytes_and_seconds_against_what_they_brought(built):
    first, second = of_host(built[0].rows("cost"), "a.test")

    assert first == pytest.approx(
        {
            "day": FIRST,
            "fetches": 5,
            "wire_bytes": 3050,
            "busy_s": 1.4,
            "pages": 2,
            "changes": 2,
            "bytes_per_page": 1525.0,
            "seconds_per_page": 0.7,
            "fetches_per_change": 2.5,
            "bytes_per_change": 1525.0,
            "seconds_per_change": 0.7,
        }
    )
    assert second["changes"] == 1
    assert second["bytes_per_change"] == 1000.0


def test_coverage_carries_the_last_snapshot_on_with_what_was_fetched_since(built):
    rows = built[0].rows("coverage")

    common = {"delay_s": 1.0, "robots_status": None, "promoted_at": None}
    assert of_host(rows, "a.test") == [
        {**common, "state": "seed", "trusted": True, "known": 6, "fetched": 2, "queued": 2, "gone": 1,
         "dropped": 1, "fetched_share": 0.5}
    ]  # fmt: skip
    assert of_host(rows, "c.test") == [
        {**common, "state": "excluded", "trusted": False, "known": 0, "fetched": 0, "queued": 0, "gone": 0,
         "dropped": 0, "fetched_share": None}
    ]  # fmt: skip
    (promoted,) = of_host(rows, "b.test")
    assert (promoted["known"], promoted["queued"], promoted["fetched_share"]) == (1, 1, 0.0)
    assert promoted["promoted_at"] == datetime(2027, 1, 16, 8, 2, 11, tzinfo=UTC)


def test_coverage_files_each_outcome_where_the_frontier_does(built):
    """Success and redirect: fetched; no such page: gone; a forbidden address: dropped; else tried again."""
    (row,) = of_host(built[0].rows("coverage"), "every.test")

    assert (row["known"], row["fetched"], row["gone"], row["dropped"], row["queued"]) == (32, 3, 8, 1, 20)


def test_freshness_is_the_posterior_chance_that_pages_are_as_fetched(built):
    (row,) = of_host(built[0].rows("freshness"), "a.test")

    x_age = (DAY - 10) / DAY
    root = (4.25 / (4.25 + 1)) ** 2.5  # prior of its group (2, 4) and its own (0.5, 0.25), a day old
    x = (3 / (3 + x_age)) ** 1  # the model's prior of its group (1, 2) and its own (0, 1)
    assert row.pop("as_of") == datetime(2027, 1, 17, 8, tzinfo=UTC)
    assert row == pytest.approx(
        {
            "pages": 2,
            "measured_pages": 2,
            "fresh_pages": root + x,
            "fresh_share": (root + x) / 2,
            "changes_per_day": (2.5 / 4.25 + 1 / 3) / 2,
            "age_p50_days": (1 + x_age) / 2,
            "age_max_days": 1.0,
        }
    )


def test_a_page_of_which_nothing_is_known_has_the_prior_of_the_settings(built):
    (row,) = of_host(built[0].rows("freshness"), "d.test")

    refresh, age = Refresh(), (DAY - 30) / DAY
    b = refresh.prior_shape / refresh.prior_rate
    assert row["measured_pages"] == 0
    assert row["fresh_share"] == pytest.approx((b / (b + age)) ** refresh.prior_shape)


# --- what Dagster shows ---


def test_each_mart_says_which_versions_it_was_built_from(built):
    scene, result = built
    events = {
        e.asset_key.path[-1]: e.materialization.metadata for e in result.get_asset_materialization_events()
    }

    versions, commit_id = scene.lake.vector(tables=INPUTS)
    assert set(events) == set(MARTS)
    assert all(metadata["inputs"].value == versions for metadata in events.values())
    assert {row["table_name"]: row["version"] for row in scene.rows("built_from")} == versions
    assert {row["commit_id"] for row in scene.rows("built_from")} == {commit_id}
    assert events["coverage"]["dagster/row_count"].value == 5


def test_dbts_tests_are_asset_checks_and_a_warning_keeps_nothing_back(built):
    _, result = built

    checks = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert {name for name, check in checks.items() if not check.passed} == {"seed_hosts_have_pages"}
    assert checks["seed_hosts_have_pages"].severity is dg.AssetCheckSeverity.WARN
    assert checks["seed_hosts_have_pages"].metadata["rows_against_it"].value == 1  # b.test
    assert {check.asset_key.path[-1] for check in checks.values()} == set(MARTS)


def test_every_mart_is_documented_owned_and_described_to_its_columns(built):
    scene, _ = built
    specs = {s.key.to_user_string(): s for s in scene.harness.definitions.resolve_all_asset_specs()}

    for name in MARTS:
        spec = specs[f"marts/{name}"]
        assert spec.description.startswith("One row: ")
        assert (spec.group_name, spec.owners, spec.kinds) == ("marts", ["team:crawl"], {"dbt", "duckdb"})
        assert spec.freshness_policy is not None
        columns = spec.metadata["dagster/column_schema"].columns
        assert [c.name for c in columns] == list(scene.rows(name)[0])
        assert all(c.description and c.type for c in columns)


def test_lineage_leads_from_the_lakes_tables_to_the_marts(built):
    graph = built[0].harness.definitions.resolve_asset_graph()
    lineage = nx.DiGraph(
        [
            (parent.path[-1], key.path[-1])
            for key in graph.get_all_asset_keys()
            for parent in graph.get(key).parent_keys
        ]
    )

    assert set(lineage.predecessors("coverage")) == {"fetches", "frontier", "hosts", "promotions"}
    assert set(lineage.predecessors("freshness")) == {"fetches", "frontier", "change_rates", "value_model"}
    assert set(lineage.predecessors("cost")) == {"host_daily"}
    assert {"host_daily", "cost", "coverage", "freshness", "built_from"} <= nx.descendants(lineage, "fetches")


def test_the_marts_are_one_step_that_has_the_pool_of_the_one_writer(built):
    assets = [a for a in built[0].harness.definitions.assets if isinstance(a, dg.AssetsDefinition)]
    (asset,) = [a for a in assets if dg.AssetKey(["marts", "cost"]) in a.keys]

    assert not asset.can_subset
    assert asset.op.pool == "duckdb_writer"


def test_the_marts_are_due_at_each_tick_of_their_clock(harness):
    harness.tick()

    assert set(KEYS) <= harness.tick(later=timedelta(minutes=2))


# --- the file ---


def test_plain_duckdb_reads_the_file_by_its_path_with_docs_and_without_any_extension(built):
    path = built[0].warehouse.path
    program = (
        "import duckdb\n"
        f"con = duckdb.connect({str(path)!r}, read_only=True, config={{'autoinstall_known_extensions': False}})\n"
        "print(con.sql('SELECT count(*) FROM host_daily').fetchone())\n"
        "print(con.sql('SELECT count(*) FROM marts.coverage').fetchone())\n"
        "print(con.sql(\"SELECT comment FROM duckdb_tables() WHERE table_name = 'cost'\").fetchone()[0][:8])"
    )

    read = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (read.stderr, read.stdout) == ("", "(4,)\n(5,)\nOne row:\n")


def test_a_build_writes_nothing_into_the_project(built):
    written = [
        p.name for p in project_folder().rglob("*") if p.suffix not in (".sql", ".yml") and p.is_file()
    ]

    assert written == []
    assert {p.name for p in project_folder().iterdir()} == {
        "dbt_project.yml",
        "profiles.yml",
        "models",
        "tests",
    }


def test_a_build_leaves_one_file_in_the_home_and_its_papers_below_marts(built):
    names = {p.name for p in built[0].root.iterdir()}

    assert names - {"lake"} == {"marts.duckdb", "marts"}


@pytest.mark.long
def test_what_no_commit_speaks_of_is_not_read_and_the_same_versions_give_the_same_rows(scene):
    two_days(scene)
    scene.crawl.fetch("https://a.test/late")
    scene.crawl.begin_commit()  # the rows are in `fetches`, the row of `commits` is not

    scene.build()

    assert [row["fetches"] for row in of_host(scene.rows("host_daily"), "a.test")] == [5, 3]
    before = {mart: scene.rows(mart) for mart in MARTS}
    scene.build()
    assert {mart: scene.rows(mart) for mart in MARTS} == before


@pytest.mark.long
def test_marts_of_an_empty_lake_are_empty(scene):
    scene.build()

    assert [len(scene.rows(mart)) for mart in MARTS] == [len(INPUTS), 0, 0, 0, 0]


READER = """
import sys, duckdb
con = duckdb.connect(sys.argv[1], read_only=True)
for _ in sys.stdin:
    print(con.sql("SELECT sum(fetches) FROM host_daily").fetchone()[0], flush=True)
"""


class Reader:
    """An analyst's process that opened the file once and keeps it open."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE)


@pytest.mark.long
def test_a_reader_that_holds_the_old_file_is_neither_blocked_nor_broken_by_a_swap(scene):
    with duckdb.connect(str(scene.warehouse.path)) as connection:
        connection.execute("CREATE TABLE host_daily AS SELECT 7 AS fetches")
    scene.warehouse.draft.write_bytes(b"what a killed build left")
    scene.warehouse.draft.with_name("marts.next.duckdb.wal").write_bytes(b"and its log")
    scene.crawl.host("a.test")
    scene.crawl.fetch("https://a.test/")
    scene.crawl.commit()

    with Reader(scene.warehouse.path) as reader:
        assert reader.ask() == 7
        scene.build()  # while it is open

        assert reader.ask() == 7
        with Reader(scene.warehouse.path) as later:
            assert later.ask() == 1


def test_ablation_written_in_place_the_reader_would_keep_the_build_out(tmp_path):
    path = tmp_path / "marts.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE host_daily AS SELECT 7 AS fetches")

    with Reader(path) as reader:
        assert reader.ask() == 7
        with pytest.raises(duckdb.IOException, match="lock"):
            duckdb.connect(str(path))


@pytest.mark.long
def test_violations_fail_their_checks_and_the_old_file_stays(scene):
    scene.warehouse.path.write_bytes(b"the old file")
    at = as_datetime(scene.clock.now())
    scene.crawl.host("a.test", "half-promoted")
    scene.crawl.fetch("https://a.test/", rate_a=float("nan"))
    scene.crawl.fetch("https://a.test/2", outcome="never_heard_of")
    scene.crawl.fetch("https://a.test/3", started_at=at + timedelta(days=1))
    scene.crawl.robots("stranger.test")  # no row of `hosts` speaks of it
    snapshot_row(scene, "https://a.test/4", "mislaid")
    scene.at(3600)
    scene.crawl.commit()

    result = scene.build(fails=True)

    failed = {e.check_name: e.severity.value for e in result.get_asset_check_evaluations() if not e.passed}
    assert failed == {
        "page_fetches_add_up": "ERROR",
        "host_daily_hosts_are_covered": "ERROR",
        "urls_add_up": "ERROR",
        "coverage_state_is_known": "ERROR",
        "freshness_is_a_share": "ERROR",
        "nothing_is_newer_than_the_commit": "WARN",
    }
    assert result.get_asset_materialization_events() == []
    (error,) = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    assert error.description.startswith("The marts stay as they were. ")
    assert "page_fetches_add_up: Got 1 result" in error.description
    assert scene.warehouse.path.read_bytes() == b"the old file"


@pytest.mark.long
def test_ablation_a_build_that_takes_a_failed_test_for_fine_swaps_wrong_rows_in(scene, monkeypatch):
    monkeypatch.setattr(warehouse, "FINE", warehouse.FINE | {"fail", "skipped"})
    monkeypatch.setattr(warehouse, "went_through", lambda code: True)
    scene.crawl.host("a.test")
    scene.crawl.fetch("https://a.test/", outcome="never_heard_of")
    scene.crawl.commit()

    build = scene.warehouse.build(order_of(scene.lake, scene.settings.refresh))

    assert build.published
    (row,) = scene.rows("host_daily")
    assert row["page_fetches"] != row["successes"] + row["redirects"] + row["errors"]


def test_a_dbt_that_dies_leaves_the_old_file(scene, monkeypatch, tmp_path):
    scene.warehouse.path.write_bytes(b"the old file")
    killed = tmp_path / "dbt"
    killed.write_text("#!/bin/sh\necho half > $CRAWL_MARTS_FILE\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(warehouse, "dbt_command", lambda: killed)

    with pytest.raises(LakeError, match="built nothing"):
        scene.warehouse.build(order_of(scene.lake, scene.settings.refresh))

    assert scene.warehouse.path.read_bytes() == b"the old file"


@pytest.mark.long
def test_a_dbt_that_was_stopped_half_way_swaps_nothing_in(scene, monkeypatch, tmp_path):
    """On an interrupt dbt tells only of what it had finished: all fine, but not all."""
    stopped = tmp_path / "dbt"
    told = '{"results": [{"unique_id": "model.crawl_marts.host_daily", "status": "success"}]}'
    stopped.write_text(
        f"#!/bin/sh\nmkdir -p $DBT_TARGET_PATH\necho '{told}' > $DBT_TARGET_PATH/run_results.json\nexit 2\n"
    )
    stopped.chmod(0o755)
    monkeypatch.setattr(warehouse, "dbt_command", lambda: stopped)

    build = scene.warehouse.build(order_of(scene.lake, scene.settings.refresh))

    assert not build.published
    assert not scene.warehouse.path.exists()


def test_two_builds_never_run_at_once(scene):
    scene.warehouse.workshop.mkdir()
    order = order_of(scene.lake, scene.settings.refresh)

    with warehouse._alone(scene.warehouse.workshop / ".lock"), pytest.raises(LakeError, match="under way"):
        scene.warehouse.build(order)
