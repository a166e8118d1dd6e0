"""The committer and upkeep: nothing comes twice, half a round is never shown, and a kill anywhere does no harm."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from crawl_platform import settings as settings_module
from crawl_platform.clock import as_datetime
from crawl_platform.commit.faults import KillAt
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ConfigurationError, PlatformError
from crawl_platform.fleet import upkeep as fleet_upkeep
from crawl_platform.fleet.supervisor import hold_home
from crawl_platform.fleet.upkeep import Answer, Order, Task, do_portion, held_files, in_portions, upkeep_here
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.catalog import CATALOG_NAME
from crawl_platform.lake.delta import DeltaWriter, StagedFile
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.report import POINTS, Done, Report
from crawl_platform.settings import Retention, Settings
from crawl_platform.testing.builders import tiny_lake
from crawl_platform.testing.invariants import committed_once, links_have_fetches
from tests.lake.aging import AgingLake, clock_days_ago

pytestmark = pytest.mark.long


@pytest.fixture
def aging(lake: Lake) -> AgingLake:
    return AgingLake(lake, clock_days_ago(30))


def ids(lake: Lake, table: str = "fetches") -> list[str]:
    return sorted(lake.query(f"SELECT fetch_id FROM {table}")["fetch_id"].to_pylist())


# a committer that comes back with old manifests


def old_manifests_after_upkeep(aging: AgingLake) -> list[object]:
    made = [aging.round(aging.visit(f"f{n}", f"https://a.test/{n}", "https://b.test/")) for n in range(12)]
    aging.pass_days(1)
    aging.upkeep()
    aging.pass_days(8)
    aging.upkeep()
    return list(made)


@pytest.mark.parametrize("files", ["gone", "back"])
def test_old_manifests_after_compaction_and_vacuum_change_nothing(aging: AgingLake, files: str) -> None:
    made = old_manifests_after_upkeep(aging)
    if files == "back":  # restored from a backup of the folder, say
        for manifest in made:
            _restage(aging, manifest.files)
    versions = aging.lake.versions()

    committer = aging.new_committer()
    committer.offer(made)

    assert committer.round() is None
    assert aging.lake.versions() == versions
    assert len(ids(aging.lake)) == 12
    assert committed_once_now(aging.lake)


def _restage(aging: AgingLake, files: tuple[StagedFile, ...]) -> None:
    for file in files:
        (aging.lake.path(file.table) / file.path).write_bytes(b"x" * file.size)


def committed_once_now(lake: Lake) -> bool:
    return len(ids(lake)) == len(set(ids(lake)))


@pytest.mark.long
def test_a_stale_committer_that_has_the_tables_open_changes_nothing(aging: AgingLake) -> None:
    stale = aging.new_committer()
    made = old_manifests_after_upkeep(aging)

    stale.offer(made)

    assert stale.round() is None
    assert len(ids(aging.lake)) == 12


def test_ablation_without_its_transactions_an_old_manifest_comes_twice(aging: AgingLake) -> None:
    made = [aging.round(aging.visit(f"f{n}", f"https://a.test/{n}")) for n in range(12)]
    aging.pass_days(1)
    aging.upkeep()

    writer = DeltaWriter(aging.lake.path("fetches"), TABLES["fetches"])
    writer.commit(made[3].files, {"another": 1}, {})

    twice = aging.lake.delta("fetches").to_pyarrow_table()["fetch_id"].to_pylist()
    assert sorted(twice).count("f3") == 2


# the vector after upkeep


def test_readers_move_on_to_what_upkeep_has_written(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    before = aging.lake.latest_commit()

    aging.upkeep()

    after = aging.lake.latest_commit()
    assert before is not None
    assert after is not None
    assert after.commit_id == before.commit_id + 1
    assert after.versions["fetches"] == aging.lake.version("fetches") > before.versions["fetches"]
    assert after.manifests == []


def test_without_news_there_is_no_commit(aging: AgingLake) -> None:
    aging.busy_day()

    assert aging.committer.publish_versions() is None


@pytest.mark.long
def test_half_a_round_is_not_shown(aging: AgingLake) -> None:
    """A committer died between two tables; upkeep comes before the round is taken up again."""
    aging.busy_day()
    aging.pass_days(1)
    half = aging.staged(aging.visit("half", "https://a.test/half", "https://b.test/"))
    files = [file for file in half.files if file.table == "fetches"]
    DeltaWriter(aging.lake.path("fetches"), TABLES["fetches"]).commit(files, {half.app: half.number}, {})

    aging.upkeep()

    assert "half" not in ids(aging.lake)
    aging.committer.offer([half])
    aging.committer.round()
    assert "half" in ids(aging.lake)
    assert "half" in ids(aging.lake, "links")
    assert links_have_fetches(aging.lake) == committed_once(aging.lake) == []


# killed in the middle


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose lake has two days to compact, one with pages that were replaced since."""
    home = tmp_path / "home"
    aging = AgingLake(tiny_lake(home / "lake"), clock_days_ago(12))
    for _ in range(2):
        aging.busy_day()
        aging.round(aging.visit(f"n{aging.clock.now()}", "https://a.test/news", "https://b.test/", body=b"n"))
        aging.pass_days(1)
    aging.upkeep(tables=("hosts",))
    settings_module.save(settings_of(home))
    return home


def settings_of(home: Path) -> Settings:
    return Settings(home=str(home), retention=Retention(history_days=7.0))


ALL = Task()


def run_child(home: Path, fault: str = "", task: Task = ALL) -> tuple[int, Answer | None]:
    order, answer = home / "task.json", home / "answer.json"
    order.write_bytes(msgspec.json.encode(task))
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "crawl_platform.fleet", "upkeep", "--home", str(home)]
    command += ["--task", str(order), "--answer", str(answer), "--fault", fault]
    code = subprocess.run(command, check=False).returncode
    return code, msgspec.json.decode(answer.read_bytes(), type=Answer) if answer.exists() else None


@pytest.mark.parametrize(
    "point", [POINTS[0], *(pytest.param(point, marks=pytest.mark.long) for point in POINTS[1:])]
)
def test_killed_at_any_point_the_lake_can_be_read_and_the_next_run_goes_on(home: Path, point: str) -> None:
    lake = Lake(home / "lake")
    queries = [f"SELECT * FROM {name} ORDER BY ALL" for name in ("fetches", "links", "pages")]
    before = [lake.query(sql) for sql in queries]

    code, answer = run_child(home, f"{point}:2")

    assert (code, answer) == (-signal.SIGKILL, None)
    assert [lake.query(sql) for sql in queries] == before
    assert [lake.delta(t).to_pyarrow_table().num_rows for t in ("fetches", "links", "pages")] == [
        table.num_rows for table in before
    ]

    code, answer = run_child(home)

    assert code == 0
    assert answer is not None
    assert answer.result().left == 0
    assert [lake.query(sql) for sql in queries] == before
    assert [len(lake.delta(name).file_uris()) for name in ("fetches", "links", "pages")] == [2, 2, 2]


@pytest.mark.long
def test_what_a_kill_left_behind_is_swept_later(home: Path) -> None:
    lake = Lake(home / "lake")
    run_child(home, "upkeep.written:1")
    (left,) = lake.path("fetches").rglob("upkeep-*.parquet")
    run_child(home)
    assert left.exists()

    os.utime(left, (0, 0))
    run_child(home)

    assert not left.exists()


def test_a_wrong_order_is_answered_with_what_is_wrong(home: Path) -> None:
    code, answer = run_child(home, task=Task(Order(("fetchs",))))

    assert code == 0
    assert answer is not None
    with pytest.raises(PlatformError, match="there is no table fetchs"):
        answer.result()


# who may run it


def test_without_a_fleet_it_runs_here_and_readers_see_the_result(home: Path) -> None:
    lake = Lake(home / "lake")
    before = lake.latest_commit()

    report = upkeep_here(settings_of(home), clock_days_ago(0), Order())

    after = lake.latest_commit()
    assert report.rewritten
    assert before is not None
    assert after is not None
    assert after.commit_id == before.commit_id + 1
    assert (home / CATALOG_NAME).exists()
    assert len(lake.query("SELECT * FROM upkeep").to_pylist()) >= len(report.done)


def test_where_a_fleet_runs_it_is_refused(home: Path) -> None:
    with hold_home(home), pytest.raises(ConfigurationError, match="a fleet is running"):
        upkeep_here(settings_of(home), clock_days_ago(0), Order())


def test_a_second_upkeep_is_turned_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*args: object, **options: object) -> Report:
        with pytest.raises(PlatformError, match="under way"):
            do_portion(settings_of(home), clock_days_ago(0), Task())
        return Report()

    monkeypatch.setattr(fleet_upkeep, "upkeep", meanwhile)

    assert do_portion(settings_of(home), clock_days_ago(0), Task()) == Report()


def test_homes_with_one_lake_exclude_each_other(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other pod"
    other.mkdir()
    (other / "lake").symlink_to(home / "lake")

    def meanwhile(*args: object, **options: object) -> Report:
        with pytest.raises(PlatformError, match="under way"):
            do_portion(settings_of(other), clock_days_ago(0), Task())
        return Report()

    monkeypatch.setattr(fleet_upkeep, "upkeep", meanwhile)

    assert do_portion(settings_of(home), clock_days_ago(0), Task()) == Report()


# what is still owed


def test_files_of_manifests_in_a_cells_store_are_held(home: Path) -> None:
    aging = AgingLake(Lake(home / "lake"), clock_days_ago(0))
    manifest = aging.staged(aging.visit("owed", "https://a.test/"), incarnation="cell-b")
    kv = RocksKV(home / "cells" / "cell-0" / "state")
    outbox, batch = Outbox(kv, "cell-b"), Batch()
    outbox.add(batch, manifest, 1)
    kv.write(batch, sync=True)

    held = held_files(home, {"links": ["_staged/x.parquet"]})  # the cell holds its store open meanwhile
    kv.close()

    assert held == {"fetches": {manifest.files[0].path}, "links": {"_staged/x.parquet"}}


def test_a_store_that_cannot_be_read_holds_everything(home: Path) -> None:
    (home / "cells" / "cell-0" / "state").mkdir(parents=True)

    assert held_files(home, {}) is None


def test_an_orphan_is_kept_as_long_as_a_manifest_could_name_it(home: Path) -> None:
    """Of a cell on another machine only this is known: an older manifest would be published empty."""
    aging = AgingLake(Lake(home / "lake"), clock_days_ago(5.5))
    aging.staged(aging.visit("owed", "https://a.test/"), incarnation="elsewhere")
    settings = msgspec.structs.replace(settings_of(home), retention=Retention(staged_days=1.0))

    do_portion(settings, clock_days_ago(0), Task())
    staged = {path.name for path in (home / "lake" / "fetches" / "_staged").iterdir()}
    assert any(name.startswith("elsewher") for name in staged)

    do_portion(settings, clock_days_ago(-1), Task())
    staged = {path.name for path in (home / "lake" / "fetches" / "_staged").iterdir()}
    assert not any(name.startswith("elsewher") for name in staged)


# portions


def portions(*lefts: int, dry_run: bool = False) -> tuple[list[Report], Report]:
    done = (Done(as_datetime(0), "fetches", "compact", 1.0),)
    waiting = [Report(done if left >= 0 else (), abs(left), True, dry_run) for left in lefts]
    rest = iter(waiting)
    total = in_portions(lambda: next(rest), 3)
    return list(rest), total


def test_portions_are_asked_for_until_nothing_is_left() -> None:
    unasked, total = portions(2, 1, 0)

    assert unasked == []
    assert (len(total.done), total.left) == (3, 0)


@pytest.mark.parametrize(
    ("lefts", "asked"), [((5, 4, 3, 2), 3), ((5, -5, 3), 2)], ids=["the most that may be", "no progress"]
)
def test_they_end_with_work_left(lefts: tuple[int, ...], asked: int) -> None:
    unasked, total = portions(*lefts)

    assert len(unasked) == len(lefts) - asked
    assert total.left == abs(lefts[asked - 1])


def test_of_a_dry_run_there_is_one_portion() -> None:
    unasked, _ = portions(5, 4, dry_run=True)

    assert len(unasked) == 1


def test_upkeeps_fault_points_can_be_named() -> None:
    for point in POINTS:
        assert isinstance(KillAt(point), KillAt)
