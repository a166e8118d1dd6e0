"""Readers stand at one consistent commit."""

import msgspec
import pyarrow as pa
import pytest

from crawl_platform.errors import LakeError
from crawl_platform.lake.commits import CommitRow
from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from tests.lake.samples import commit, publish, row, rows, stage


def count(lake: Lake, name: str, at: int | None = None) -> int:
    return int(lake.query(f"SELECT count(*) AS n FROM {name}", at=at)["n"][0].as_py())


def test_before_the_first_commit_there_is_none(lake: Lake) -> None:
    assert lake.latest_commit() is None
    assert lake.vector() == (lake.versions(), None)


def test_the_latest_commit_comes_back_whole(lake: Lake) -> None:
    commit(lake, "fetches", rows("fetches"), 1)
    publish(lake, 1, fetches=1, links=0)

    row = lake.latest_commit()

    assert isinstance(row, CommitRow)
    assert (row.commit_id, row.versions) == (1, {"fetches": 1, "links": 0})
    assert row.manifests == ["manifests-1", "é"]
    assert row.committed_at.tzinfo is not None


def test_rows_after_the_vector_are_invisible(lake: Lake) -> None:
    commit(lake, "fetches", rows("fetches", 3), 1)
    publish(lake, 1, fetches=1, links=0)
    commit(lake, "fetches", rows("fetches", 2, first=3), 2)

    assert count(lake, "fetches") == 3

    publish(lake, 2, fetches=2, links=0)
    assert count(lake, "fetches") == 5


def test_ablation_at_current_versions_half_a_round_shows(lake: Lake) -> None:
    publish(lake, 1, fetches=0, links=0)
    commit(lake, "fetches", rows("fetches", 3), 1)

    with lake.connect(versions=lake.versions()) as connection:
        assert connection.execute("SELECT count(*) FROM fetches").fetchone() == (3,)
    assert count(lake, "fetches") == 0


def test_a_past_commit_can_be_read(lake: Lake) -> None:
    for number in (1, 2, 3):
        commit(lake, "fetches", rows("fetches", 1, first=number), number)
        publish(lake, number, fetches=number)

    assert [count(lake, "fetches", at) for at in (1, 2, 3, None)] == [1, 2, 3, 3]
    assert [count(lake, "commits", at) for at in (1, 2, 3, None)] == [1, 2, 3, 3]


def test_a_commit_that_does_not_exist_is_named(lake: Lake) -> None:
    publish(lake, 1)

    with pytest.raises(LakeError, match="there is no commit 9"):
        lake.connect(at=9)


def test_tables_of_dagster_and_people_are_current_unless_a_commit_is_asked_for(lake: Lake) -> None:
    lake.append("requests", rows("requests", 1))
    publish(lake, 1, requests=1)
    lake.append("requests", rows("requests", 2))

    assert count(lake, "requests") == 3
    assert count(lake, "requests", at=1) == 1


def test_a_vector_that_names_a_lost_version_is_an_error_of_the_lake(lake: Lake) -> None:
    publish(lake, 1, fetches=7)

    with pytest.raises(LakeError, match="can't be read at commit 1"):
        lake.connect()


def test_a_table_unknown_to_this_version_is_passed_over(lake: Lake) -> None:
    publish(lake, 1, fetches=0, table_of_the_future=3)

    assert count(lake, "fetches") == 0


def test_commits_are_found_after_they_were_compacted_into_one_file(lake: Lake) -> None:
    for number in (1, 2, 3):
        publish(lake, number, fetches=0)
    lake.delta("commits").optimize.compact()

    latest = lake.latest_commit()

    assert latest is not None
    assert latest.commit_id == 3
    assert lake.commit(2).commit_id == 2


def test_a_commit_in_a_file_without_statistics_is_found(lake: Lake) -> None:
    publish(lake, 1, fetches=0)
    table = TABLES["commits"]
    data = pa.Table.from_pylist([row(table, 2, commit_id=2, versions=[])], schema=table.schema)
    (file,) = stage(lake, "commits", data, "bare")
    bare = msgspec.structs.replace(file, stats='{"numRecords":1}')
    DeltaWriter(lake.path("commits"), table).commit([bare], {"committer": 2}, {})

    latest = lake.latest_commit()

    assert latest is not None
    assert latest.commit_id == 2
    assert lake.commit(1).commit_id == 1
