"""What nobody can read any more is deleted, and nothing else: readers at older versions notice nothing."""

import shutil
from pathlib import Path

import duckdb
import pytest

from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.errors import LakeError
from crawl_platform.lake import views
from crawl_platform.lake.delta import STAGED
from crawl_platform.lake.history import HISTORY_NAME, forget_before, oldest_readable
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.vacuum import (
    history_starts,
    log_files,
    missing_from_history,
    vectors_before_history,
)
from tests.lake.aging import DAY, AgingLake, actions, clock_days_ago
from tests.lake.samples import rows

pytestmark = pytest.mark.long

EVERYTHING = {
    name: f"SELECT * FROM {name} ORDER BY ALL"
    for name in ("fetches", "links", "pages", "links_now", "pages_now", "commits")
}
QUICK = {
    **{f"{name}_days": 1.0 for name in ("links", "pages", "fetches")},
    "history_days": 2.5,
    "staged_days": 2.5,
    "compact_after_files": 3,
}
"""All that takes weeks, in days."""


@pytest.fixture
def aging(lake: Lake) -> AgingLake:
    return AgingLake(lake, clock_days_ago(60))


def answers(connection: duckdb.DuckDBPyConnection) -> list[list[tuple[object, ...]]]:
    return [connection.execute(sql).fetchall() for sql in EVERYTHING.values()]


# readers


def live_a_day(aging: AgingLake) -> None:
    """Four pages that stay as they are, and one that is new every day."""
    aging.busy_day(rounds=4)
    day = f"{aging.clock.now():.0f}"
    aging.round(aging.visit(day, "https://a.test/news", f"https://b.test/{day}", body=day.encode()))
    aging.pass_days(1)


def test_a_reader_at_an_older_commit_gets_the_same_answers_through_all_of_it(aging: AgingLake) -> None:
    for _ in range(6):
        live_a_day(aging)
        aging.upkeep(**QUICK)
    live_a_day(aging)
    held = aging.lake.connect()
    commit_id = aging.lake.vector()[1]
    before = answers(held)
    done: dict[str, set[str]] = {}

    for _ in range(2):
        report = aging.upkeep(**QUICK)
        for action in ("retain", "compact", "vacuum", "sweep"):
            done.setdefault(action, set()).update(actions(report, action))
        with aging.lake.connect(at=commit_id) as again:
            assert answers(again) == answers(held) == before
        live_a_day(aging)

    assert {action: tables >= {"fetches", "links", "pages"} for action, tables in done.items()} == {
        "retain": True,
        "compact": True,
        "vacuum": True,
        "sweep": True,
    }
    assert aging.column("SELECT fetch_id FROM pages") != sorted(row[0] for row in before[2])


def test_ablation_without_the_history_rule_the_reader_breaks(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    held = aging.lake.connect()
    before = answers(held)
    aging.upkeep()
    assert answers(held) == before

    aging.pass_days(1)
    aging.upkeep(history_days=0.0, staged_days=0.0)

    with pytest.raises(duckdb.Error):
        answers(held)


def test_a_commit_older_than_history_is_refused_by_name(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    aging.upkeep()
    aging.pass_days(8)
    aging.upkeep()

    for read in (
        lambda: aging.lake.connect(at=12),
        lambda: aging.lake.query("SELECT 1 FROM fetches", at=12),
        lambda: aging.lake.delta("fetches", 3),
    ):
        with pytest.raises(LakeError, match=r"fetches can't be read at version \d+ any more.*history_days"):
            read()
    assert len(aging.column("SELECT fetch_id FROM fetches")) == 12


def test_ablation_unless_it_is_refused_half_an_answer_comes(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of one day are gone and those of another are still there: a query of the latter succeeds."""
    aging.busy_day()
    aging.pass_days(1)
    aging.round(aging.visit("kept", "https://a.test/kept"))
    aging.pass_days(1)
    aging.upkeep()
    aging.pass_days(8)
    aging.upkeep()
    monkeypatch.setattr(views, "require_readable", lambda root, versions: None)

    day = f"DATE '{aging.lake.query('SELECT max(date) AS d FROM fetches')['d'][0].as_py()}'"
    half = aging.lake.query(f"SELECT fetch_id FROM fetches WHERE date = {day}", at=13)

    assert half["fetch_id"].to_pylist() == ["kept"]
    with pytest.raises(LakeError, match="can't be queried"):
        aging.lake.query("SELECT fetch_id FROM fetches", at=13)


def test_the_last_vector_is_kept_however_old(aging: AgingLake) -> None:
    """Upkeep was killed before the new versions were published, and then nothing happened for a month."""
    aging.busy_day()
    aging.pass_days(1)
    before = aging.lake.query(EVERYTHING["pages"])
    aging.committer.publish_versions = lambda: None  # type: ignore[method-assign]
    aging.upkeep()
    aging.pass_days(30)

    aging.upkeep()

    assert aging.lake.vector()[0]["pages"] < aging.lake.version("pages")
    assert aging.lake.query(EVERYTHING["pages"]).equals(before)


def test_what_dagster_computed_from_stays_readable_as_long_as_the_result(aging: AgingLake) -> None:
    aging.busy_day()
    used = aging.lake.version("fetches") - 3
    aging.pass_days(10)
    aging.lake.overwrite("host_graph", rows("host_graph", 2), {"fetches": used})
    aging.stamp()
    aging.upkeep()
    aging.pass_days(1)
    aging.upkeep()

    inputs = aging.lake.inputs_of("host_graph")
    with aging.lake.connect(versions=inputs) as connection:
        assert connection.execute("SELECT count(*) FROM fetches").fetchone() == (used,)

    aging.pass_days(8)
    aging.upkeep()
    assert oldest_readable(aging.lake.root)["fetches"] > used


# what goes


def test_files_of_replaced_versions_go_with_their_history(aging: AgingLake) -> None:
    for n in range(3):
        aging.lake.overwrite("host_ranks", rows("host_ranks", 2, first=n))
        aging.stamp()
        aging.pass_days(1)

    early = aging.upkeep(history_days=7.0)
    aging.pass_days(7)
    late = aging.upkeep(history_days=7.0)

    assert actions(early, "vacuum") == {}
    done = actions(late, "vacuum")["host_ranks"]
    assert done.files_removed == 2
    assert done.bytes_freed > 0
    assert len(aging.files("host_ranks")) == 1


def test_staged_files_that_compaction_took_out_go_with_their_history(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    aging.upkeep()
    staged = {path for path in aging.files("fetches") if path.startswith(STAGED)}
    aging.pass_days(7.1)

    report = aging.upkeep(staged_days=100.0)

    assert len(staged) == 12
    assert not staged & aging.files("fetches")
    assert len(aging.column("SELECT fetch_id FROM fetches")) == 12
    assert actions(report, "sweep")["fetches"].detail == "0 of them were never in the table"


def test_delta_itself_spares_them(aging: AgingLake) -> None:
    """Why upkeep sweeps `_staged`: delta-rs doesn't."""
    aging.busy_day()
    aging.pass_days(1)
    aging.upkeep()

    aging.lake.delta("fetches").vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)

    assert sum(path.startswith(STAGED) for path in aging.files("fetches")) == 12


def test_orphans_are_swept_after_their_days(aging: AgingLake) -> None:
    aging.staged(aging.visit("orphan", "https://a.test/orphan"), incarnation="gone")
    aging.pass_days(6)
    assert actions(aging.upkeep(staged_days=7.0), "sweep") == {}

    aging.pass_days(2)
    report = aging.upkeep(staged_days=7.0)

    assert actions(report, "sweep")["fetches"].detail == "1 of them were never in the table"
    assert aging.files("fetches") == set()


def old_manifest(aging: AgingLake) -> tuple[AgingLake, dict[str, set[str]]]:
    manifest = aging.staged(aging.visit("late", "https://a.test/late"), incarnation="cell-late")
    aging.pass_days(20)
    held = {file.table: {file.path} for file in manifest.files}
    aging.committer.offer([manifest])
    return aging, held


def test_files_that_an_unforgotten_manifest_names_are_kept(aging: AgingLake) -> None:
    aging, held = old_manifest(aging)

    aging.upkeep(held=held)
    aging.committer.round()

    assert aging.column("SELECT fetch_id FROM fetches") == ["late"]


def test_ablation_without_the_manifest_rule_a_staged_file_is_lost(aging: AgingLake) -> None:
    aging, _ = old_manifest(aging)

    aging.upkeep(held={})
    done = aging.committer.round()

    assert done is not None
    assert len(done.quarantined) == 1
    assert aging.column("SELECT fetch_id FROM fetches") == []


def test_nothing_staged_is_swept_while_a_cell_cannot_be_asked(aging: AgingLake) -> None:
    aging, _ = old_manifest(aging)

    aging.upkeep(held=None)

    assert len(aging.files("fetches")) == 1


@pytest.mark.parametrize("age", [0.5, 2.0], ids=["half an hour", "two hours"])
def test_a_file_that_a_writer_is_about_to_commit_is_left_alone(aging: AgingLake, age: float) -> None:
    aging.lake.overwrite("host_ranks", rows("host_ranks", 2))
    (aging.lake.path("host_ranks") / "part-being-written.parquet").write_bytes(b"half")
    aging.stamp()
    aging.clock.advance(age * 3600)

    aging.upkeep(history_days=0.0)

    assert ("part-being-written.parquet" in aging.files("host_ranks")) is (age < 1)


def test_a_dry_run_changes_nothing_and_says_what_would_happen(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(10)

    def everything() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in aging.lake.root.rglob("*") if path.is_file()}

    before = everything()
    dry = aging.upkeep(dry_run=True)
    assert everything() == before

    real = aging.upkeep()
    assert dry.dry_run
    assert [(d.table, d.action) for d in dry.done] == [(d.table, d.action) for d in real.done]
    assert everything() != before


# the log


@pytest.fixture(scope="module")
def long_log(new_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A lake with 120 rounds of twelve days, looked after daily; and the time when they are over."""
    root = shutil.copytree(new_lake, tmp_path_factory.mktemp("long") / "lake")
    aging = AgingLake(Lake(root), clock_days_ago(60))
    for _ in range(12):
        aging.busy_day(rounds=10)
        aging.upkeep(tables=("fetches", "links", "pages", "commits"))
        aging.pass_days(1)
    return root, aging.clock.now()


@pytest.fixture
def grown(long_log: tuple[Path, float], tmp_path: Path) -> AgingLake:
    root, now = long_log
    return AgingLake(Lake(shutil.copytree(root, tmp_path / "grown")), ManualClock(now), grown=True)


@pytest.mark.long
def test_the_log_is_cut_off_before_history(grown: AgingLake) -> None:
    report = grown.upkeep(history_days=3.0)

    start = oldest_readable(grown.lake.root)["fetches"]
    entries = log_files(grown.lake.path("fetches"))
    assert entries[0][0] > 0
    assert entries[0][1] != "json", "it begins with a checkpoint"
    assert entries[0][0] <= start
    assert "log entries deleted" in actions(report, "vacuum")["fetches"].detail


@pytest.mark.long
def test_after_that_all_of_history_opens_in_both_engines(grown: AgingLake) -> None:
    grown.upkeep(history_days=3.0)
    start = oldest_readable(grown.lake.root)["fetches"]

    for version in range(start, grown.lake.version("fetches") + 1, 4):
        in_delta = grown.lake.delta("fetches", version).to_pyarrow_table().num_rows
        with grown.lake.connect(versions={"fetches": version}) as connection:
            assert connection.execute("SELECT count(*) FROM fetches").fetchone() == (in_delta,)
    assert missing_from_history(grown.lake, "fetches") == []


def test_transactions_outlive_their_log_entries(grown: AgingLake) -> None:
    grown.upkeep(history_days=3.0)

    for name in ("fetches", "links", "pages", "commits"):
        assert grown.lake.delta(name).transaction_version("cell-a/bulk") == 120


def test_a_writer_that_has_the_table_open_goes_on(grown: AgingLake) -> None:
    grown.upkeep(history_days=3.0)

    grown.committer.offer([grown.staged(grown.visit("next", "https://a.test/next"), incarnation="cell-b")])
    grown.committer.round()

    assert "next" in grown.column("SELECT fetch_id FROM fetches")


def test_requests_are_kept_whole(aging: AgingLake) -> None:
    """A sensor that was away for a month asks what has come since the version that it saw last."""
    for n in range(12):
        aging.lake.append(
            "requests", rows("requests", 1, first=n, date=as_datetime(aging.clock.now()).date())
        )
        aging.stamp()
    aging.pass_days(1)
    aging.upkeep()
    aging.pass_days(40)
    aging.upkeep()

    with aging.lake.connect(versions={"requests": 5}) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (5,)
    assert aging.live("requests") == 1


# where history begins


def test_history_begins_at_the_version_that_was_current_then(aging: AgingLake) -> None:
    for _ in range(10):
        aging.busy_day(rounds=1)
        aging.pass_days(1)

    starts = history_starts(aging.lake, aging.clock.now(), 3.5 * DAY)

    assert starts["fetches"] == 7
    assert starts["frontier"] == 0


def test_history_never_goes_back(lake: Lake) -> None:
    forget_before(lake.root, "fetches", 5)
    forget_before(lake.root, "fetches", 3)
    forget_before(lake.root, "links", 2)

    assert oldest_readable(lake.root) == {"fetches": 5, "links": 2}


def test_a_damaged_note_of_history_says_so(lake: Lake) -> None:
    (lake.root / HISTORY_NAME).write_text("{")

    with pytest.raises(LakeError, match=r"history\.json is damaged"):
        lake.connect()


# the checks' view


def test_a_file_that_a_readable_version_names_and_that_is_gone_is_found(aging: AgingLake) -> None:
    aging.busy_day()
    assert missing_from_history(aging.lake, "pages") == []

    file = sorted(aging.files("pages"))[0]
    (aging.lake.path("pages") / file).unlink()

    assert missing_from_history(aging.lake, "pages") == [file]


def test_a_commit_of_late_that_can_no_longer_be_read_is_found(aging: AgingLake) -> None:
    aging.busy_day()
    assert vectors_before_history(aging.lake, aging.clock.now(), 7 * DAY) == []

    forget_before(aging.lake.root, "fetches", 10)

    assert vectors_before_history(aging.lake, aging.clock.now(), 7 * DAY) == list(range(1, 10))


def test_upkeep_notes_what_it_did(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)

    report = aging.upkeep()

    noted = aging.lake.query("SELECT table_name, action, files_before, files_after FROM upkeep ORDER BY ALL")
    assert noted.to_pylist() == sorted(
        (
            {
                "table_name": d.table,
                "action": d.action,
                "files_before": d.files_before,
                "files_after": d.files_after,
            }
            for d in report.done
        ),
        key=lambda row: row["table_name"],
    )
