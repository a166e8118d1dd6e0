"""The lake as a whole: creation, appends, overwrites, provenance."""

import contextlib
import dataclasses
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from crawl_platform.errors import ConfigurationError, LakeError
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import SCHEMA_VERSION, TABLES, Column
from crawl_platform.lake.views import VIEWS
from tests.lake.samples import in_threads, rows


def ids(lake: Lake) -> list[str]:
    return sorted(lake.query("SELECT request_id FROM requests")["request_id"].to_pylist())


def test_a_lake_exists_once_created(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    assert not lake.exists()

    lake.create(16)

    assert lake.exists()
    assert lake.n_shards == 16
    assert lake.versions() == dict.fromkeys(TABLES, 0)
    assert (lake.root / "lake.json").read_text() == f'{{"n_shards":16,"schema_version":{SCHEMA_VERSION}}}'


def test_creating_again_keeps_what_is_there(lake: Lake) -> None:
    lake.append("requests", rows("requests"))

    lake.create(64)

    assert len(ids(lake)) == 3


def test_another_number_of_shards_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match=r"has 64 shards.*fleet\.shards = 64"):
        lake.create(32)

    assert lake.n_shards == 64


def test_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(8)
    (lake.root / "lake.json").unlink()
    assert not lake.exists()

    lake.create(8)

    assert lake.exists()


def test_several_processes_may_create_it_at_once(tmp_path: Path) -> None:
    program = f"from crawl_platform.lake.lake import Lake; Lake({str(tmp_path / 'lake')!r}).create(8)"

    racers = [
        subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]

    assert [(racer.communicate()[1], racer.returncode) for racer in racers] == [("", 0)] * 3
    assert Lake(tmp_path / "lake").versions() == dict.fromkeys(TABLES, 0)
    assert not list((tmp_path / "lake").glob(".lake.json*"))


def test_several_threads_may_create_it_at_once(tmp_path: Path) -> None:
    failed = in_threads(4, lambda n: Lake(tmp_path / "lake").create(8))

    assert failed == []
    assert Lake(tmp_path / "lake").n_shards == 8


def test_of_two_creations_that_disagree_one_is_refused(tmp_path: Path) -> None:
    failed = in_threads(2, lambda n: Lake(tmp_path / "lake").create(8 + n))

    assert [type(error) for error in failed] == [ConfigurationError]
    assert Lake(tmp_path / "lake").n_shards in (8, 9)


def most_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of four threads were creating tables at the same moment."""
    inside: list[int] = []
    seen: list[int] = []

    def create_table(self: Lake, table: object) -> None:
        inside.append(1)
        seen.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    monkeypatch.setattr(Lake, "_create_table", create_table)
    in_threads(4, lambda n: Lake(root).create(8))
    return max(seen)


def test_creations_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_at_once(tmp_path, monkeypatch) == 1


def test_ablation_without_the_lock_creations_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_platform.lake.lake._alone", lambda path: contextlib.nullcontext())

    assert most_at_once(tmp_path, monkeypatch) > 1


def test_a_lake_that_is_absent_says_so(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake"):
        Lake(tmp_path).query("SELECT 1")
    with pytest.raises(LakeError, match="there is no lake"):
        _ = Lake(tmp_path).n_shards


def test_an_unknown_table_is_named(lake: Lake) -> None:
    with pytest.raises(LakeError, match="there is no table fetchs: fetches, links"):
        lake.path("fetchs")


def test_every_table_and_view_can_be_queried_while_empty(lake: Lake) -> None:
    with lake.connect() as connection:
        for name in (*TABLES, *VIEWS):
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchall() == [(0,)]
            assert connection.execute(f"FROM {name}").fetchall() == []


# --- tables that were declared differently before ---


def declare(monkeypatch: pytest.MonkeyPatch, column: Column) -> None:
    """`requests` with one more column, as a later version would declare it."""
    table = TABLES["requests"]
    monkeypatch.setitem(TABLES, "requests", dataclasses.replace(table, columns=(*table.columns, column)))


def test_a_nullable_column_is_added_and_old_rows_have_none(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("requests", rows("requests", 2))
    declare(monkeypatch, Column("ticket", pa.string(), "Ticket of the request."))

    lake.create(64)
    lake.append("requests", rows("requests", 1, first=2))

    assert lake.query("SELECT ticket FROM requests ORDER BY request_id")["ticket"].to_pylist() == [
        None,
        None,
        "ticket-2",
    ]


def test_a_required_column_cannot_be_added(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, Column("ticket", pa.string(), "Ticket.", required=True))

    with pytest.raises(LakeError, match=r"other columns \(ticket\)"):
        lake.create(64)


def test_a_column_cannot_change_its_type(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLES["requests"]
    other = tuple(
        dataclasses.replace(c, type=pa.int64()) if c.name == "priority" else c for c in table.columns
    )
    monkeypatch.setitem(TABLES, "requests", dataclasses.replace(table, columns=other))

    with pytest.raises(LakeError, match=r"other columns \(priority\)"):
        lake.create(64)


# --- appending ---


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.writer != "fleet"])
def test_what_is_appended_comes_back(lake: Lake, name: str) -> None:
    data = rows(name, 4)

    version = lake.append(name, data)

    order = data.schema.names[0]
    assert version == 1
    assert lake.query(f"FROM {name} ORDER BY {order}").to_pylist() == data.to_pylist()


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.writer == "fleet"])
def test_tables_of_the_fleet_are_written_by_the_committer_alone(lake: Lake, name: str) -> None:
    for write in (lake.append, lake.overwrite):
        with pytest.raises(LakeError, match="the committer alone"):
            write(name, rows(name))


def test_an_append_says_what_it_was_computed_from(lake: Lake) -> None:
    version = lake.append("decisions", rows("decisions"), inputs={"fetches": 7, "links": 5})
    lake.append("decisions", rows("decisions"))

    assert lake.inputs_of("decisions", version) == {"fetches": 7, "links": 5}
    assert lake.inputs_of("decisions") == {}


def test_inputs_of_a_version_that_is_not_there_is_an_error(lake: Lake) -> None:
    with pytest.raises(LakeError, match="no log entry for version 9"):
        lake.inputs_of("decisions", 9)


def test_an_append_with_a_transaction_happens_once(lake: Lake) -> None:
    first = lake.append("requests", rows("requests"), transaction=("sensor", 4))
    second = lake.append("requests", rows("requests"), transaction=("sensor", 4))
    older = lake.append("requests", rows("requests"), transaction=("sensor", 3))

    assert (first, second, older) == (1, 1, 1)
    assert len(ids(lake)) == 3


def test_ablation_an_append_without_a_transaction_happens_each_time(lake: Lake) -> None:
    lake.append("requests", rows("requests"))
    lake.append("requests", rows("requests"))

    assert len(ids(lake)) == 6


def test_concurrent_appends_lose_nothing(lake: Lake) -> None:
    def append(n: int) -> None:
        for i in range(4):
            Lake(lake.root).append("requests", rows("requests", 1, first=10 * n + i))

    assert in_threads(4, append) == []

    assert ids(lake) == sorted(f"request_id-{10 * n + i}" for n in range(4) for i in range(4))


def test_of_concurrent_appends_of_one_transaction_one_counts(lake: Lake) -> None:
    failed = in_threads(4, lambda n: lake.append("requests", rows("requests", 1), transaction=("sensor", 1)))

    assert failed == []
    assert ids(lake) == ["request_id-0"]


# --- overwriting ---


def test_an_overwrite_replaces_all_rows_and_keeps_the_past(lake: Lake) -> None:
    lake.overwrite("host_ranks", rows("host_ranks", 5), inputs={"links": 1})
    version = lake.overwrite("host_ranks", rows("host_ranks", 2), inputs={"links": 2})

    assert lake.query("FROM host_ranks").num_rows == 2
    with lake.connect(versions={"host_ranks": version - 1}) as connection:
        assert connection.execute("SELECT count(*) FROM host_ranks").fetchone() == (5,)
    assert lake.inputs_of("host_ranks", version) == {"links": 2}


def test_an_overwrite_with_no_rows_empties_the_table(lake: Lake) -> None:
    lake.overwrite("host_ranks", rows("host_ranks", 5))

    lake.overwrite("host_ranks", rows("host_ranks", 0))

    assert lake.query("FROM host_ranks").num_rows == 0
