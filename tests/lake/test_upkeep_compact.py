"""Compaction: fewer files, the same rows, and never twice."""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.errors import LakeError
from crawl_platform.lake import delta
from crawl_platform.lake.delta import log_entry
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.statistics import file_statistics, merge_statistics
from crawl_platform.lake.tables import TABLES, Column
from crawl_platform.lake.upkeep import rewrite
from crawl_platform.lake.upkeep.report import WRITTEN, Budget
from tests.lake.aging import AgingLake, actions, clock_days_ago
from tests.lake.samples import commit, day, rows

pytestmark = pytest.mark.long

DAILY = [table.name for table in TABLES.values() if table.partition_by]


@pytest.fixture
def aging(lake: Lake) -> AgingLake:
    return AgingLake(lake, clock_days_ago(3))


def content(lake: Lake, name: str) -> list[str]:
    """All rows of the current version, in an order of their own."""
    return sorted(map(repr, lake.delta(name).to_pyarrow_table().to_pylist()))


def fill(lake: Lake, name: str, files: int) -> None:
    """`files` small files in each of two old days."""
    for number in range(files):
        data = pa.concat_tables(
            [rows(name, 2, first=10 * number, date=day(-600 + offset)) for offset in (0, 1)]
        )
        if TABLES[name].writer == "fleet":
            commit(lake, name, data, number + 1)
        else:
            lake.append(name, data)


@pytest.mark.parametrize("name", DAILY)
def test_every_daily_table_has_the_same_rows_in_fewer_files(lake: Lake, name: str) -> None:
    fill(lake, name, 5)
    before = content(lake, name)
    aging = AgingLake(lake, clock_days_ago(0))

    never = {f"{table}_days": 10_000.0 for table in ("fetches", "links", "pages", "frontier", "fleet_stats")}
    report = aging.upkeep(compact_after_files=4, tables=(name,), **never)

    after = content(lake, name)
    assert set(before) <= set(after)
    assert (len(before), len(after)) == (20, 20 + (name == "upkeep")), "upkeep notes itself in its own table"
    assert aging.live(name) == 2 + (name == "upkeep")
    done = actions(report, "compact")[name]
    assert (done.files_before, done.files_after) == (10, 2)


def test_rows_read_by_duckdb_are_the_same_byte_for_byte(aging: AgingLake) -> None:
    aging.busy_day()
    everything = "SELECT * FROM pages ORDER BY fetch_id"
    before = aging.lake.query(everything)
    aging.pass_days(1)

    aging.upkeep()

    assert aging.lake.query(everything).equals(before)
    assert aging.live("pages") == 1


def test_a_day_that_is_not_over_is_left_alone(aging: AgingLake) -> None:
    aging.busy_day()

    report = aging.upkeep()

    assert report.done == ()
    assert aging.live("fetches") == 12


def test_a_few_files_are_left_alone(aging: AgingLake) -> None:
    aging.busy_day(rounds=8)
    aging.pass_days(1)

    assert actions(aging.upkeep(compact_after_files=8), "compact") == {}
    assert set(actions(aging.upkeep(compact_after_files=7), "compact")) >= {"fetches", "links", "pages"}


def test_rows_that_come_late_to_a_compacted_day_are_compacted_too(aging: AgingLake) -> None:
    aging.busy_day()
    yesterday = aging.clock.now()
    aging.pass_days(1)
    aging.upkeep()
    for n in range(12):
        aging.clock.step(yesterday - aging.clock.now())
        rows_of_yesterday = aging.visit(f"late-{n}", "https://a.test/late", "https://b.test/")
        aging.clock.step(yesterday + 86_400.0 - aging.clock.now())
        aging.round(rows_of_yesterday)

    aging.upkeep()

    assert aging.live("fetches") == 1
    assert len(aging.column("SELECT fetch_id FROM fetches")) == 24


def test_compaction_is_no_change_of_data(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    aging.upkeep()

    entry = log_entry(aging.lake.path("fetches"), aging.lake.version("fetches"))

    changes = [action[kind]["dataChange"] for action in entry for kind in ("add", "remove") if kind in action]
    assert changes == [False] * 13


def test_bodies_keep_their_layout(aging: AgingLake) -> None:
    for n in range(12):
        batch = [aging.visit(f"{n}-{i}", f"https://a.test/{n}-{i}", body=b"x" * 100) for i in range(60)]
        aging.round(*batch)
    aging.pass_days(1)

    aging.upkeep()

    (path,) = aging.lake.delta("pages").file_uris()
    meta = pq.ParquetFile(path.removeprefix("file://")).metadata
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [500, 220]
    columns = {(c := meta.row_group(0).column(i)).path_in_schema: c for i in range(meta.num_columns)}
    assert columns["body"].compression == "UNCOMPRESSED"
    assert columns["text"].compression == columns["url"].compression == "ZSTD"
    assert not columns["body"].is_stats_set
    assert columns["url"].is_stats_set


def test_files_stop_at_the_target_and_are_not_taken_again(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "ROW_GROUP", 2)
    aging.busy_day(rounds=24)
    file = pa.table(aging.lake.delta("fetches").get_add_actions()).to_pylist()[0]["size_bytes"]
    aging.pass_days(1)

    aging.upkeep(compact_file_bytes=3 * file)
    files = aging.live("fetches")
    again = aging.upkeep(compact_file_bytes=3 * file)

    assert 1 < files < 12
    assert "fetches" not in actions(again, "compact")


def test_files_from_before_a_column_was_added_get_it_without_values(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    aging.busy_day(rounds=6)
    table = TABLES["hosts"]
    for n in range(5):
        commit(aging.lake, "hosts", rows("hosts", 1, first=n, date=day(-600)), n + 1, app="before/bulk")
    added = dataclasses.replace(table, columns=(*table.columns, Column("owner", pa.string(), "Who runs it.")))
    monkeypatch.setitem(TABLES, "hosts", added)
    aging.lake.create(64)
    for n in range(5):
        commit(aging.lake, "hosts", rows("hosts", 1, first=10 + n, date=day(-600)), n + 1, app="after/bulk")

    aging.upkeep(tables=("hosts",))

    assert aging.live("hosts") == 1
    owners = aging.lake.delta("hosts").to_pyarrow_table().sort_by("happened_at")["owner"].to_pylist()
    assert owners == [None] * 5 + [f"owner-{n}" for n in range(10, 15)]


# one call does a bounded amount of work


@pytest.mark.long
def test_what_does_not_fit_into_a_portion_is_left_for_the_next(aging: AgingLake) -> None:
    for _ in range(3):
        aging.busy_day()
        aging.pass_days(1)
    before = content(aging.lake, "fetches")

    first = aging.upkeep(budget=Budget(aging.clock, bytes_left=1), compact_after_files=1)
    lefts, report = [], first
    while report.left:
        lefts.append(report.left)
        report = aging.upkeep(budget=Budget(aging.clock, bytes_left=100_000), compact_after_files=1)

    assert first.left > 3
    assert len(first.done) == 1, "the first piece of work is always allowed"
    assert lefts == sorted(lefts, reverse=True)
    assert content(aging.lake, "fetches") == before
    assert aging.live("fetches") == aging.live("links") == aging.live("pages") == 3


# beside other writers


def test_rows_that_arrive_meanwhile_are_kept(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)
    late = iter([aging.visit("late", "https://a.test/late", "https://b.test/")])

    def arrive(point: str) -> None:
        if point == WRITTEN and (found := next(late, None)):
            aging.round(found)

    aging.upkeep(reached=arrive)

    assert len(aging.column("SELECT fetch_id FROM fetches")) == 13
    assert aging.live("fetches") == 2


def rewrite_twice(aging: AgingLake) -> None:
    """Another upkeep does the same between this one's files and its commit."""
    other = iter([1])

    def overtake(point: str) -> None:
        if point == WRITTEN and next(other, None):
            aging.upkeep(tables=("fetches",))

    aging.upkeep(tables=("fetches",), reached=overtake)


def test_of_two_rewrites_of_the_same_files_one_is_refused(aging: AgingLake) -> None:
    aging.busy_day()
    aging.pass_days(1)

    with pytest.raises(LakeError, match="rewritten by somebody else"):
        rewrite_twice(aging)

    assert len(aging.column("SELECT fetch_id FROM fetches")) == 12


def test_ablation_with_the_retries_of_delta_both_rewrites_are_taken_and_rows_double(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    aging.busy_day()
    aging.pass_days(1)
    stale = aging.lake.delta("fetches")

    def with_retries(*, max_commit_retries: int, **options: Any) -> CommitProperties:
        return CommitProperties(max_commit_retries=10, **options)

    monkeypatch.setattr(rewrite, "CommitProperties", with_retries)
    monkeypatch.setattr(Lake, "delta", lambda self, name, version=None, real=Lake.delta: (
        stale if name == "fetches" and version is None else real(self, name, version)
    ))  # fmt: skip
    files = rewrite.live_files(stale, aging.lake.path("fetches"))
    table, root = TABLES["fetches"], aging.lake.path("fetches")
    for _ in range(2):
        again = rewrite.write_files(table, root, files[0].day, _all_rows(root, files), 10**9)
        rewrite.replace_files(aging.lake, "fetches", files, again, now=0.0, data_change=False)
    monkeypatch.undo()

    ids = aging.lake.delta("fetches").to_pyarrow_table()["fetch_id"].to_pylist()
    assert (len(ids), len(set(ids))) == (24, 12)


def _all_rows(root: Path, files: list[rewrite.LiveFile]) -> list[pa.Table]:
    return [part for file in files for part in rewrite.rows_of(TABLES["fetches"], root, file)]


# statistics of a file that is written in parts


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.text(max_size=40)), min_size=1, max_size=5), min_size=1, max_size=5
    )
)
def test_merged_statistics_bound_every_value(parts: list[list[str | None]]) -> None:
    table = TABLES["requests"]

    def statistics(reasons: list[str | None]) -> str:
        data = rows("requests", len(reasons)).set_column(
            table.schema.get_field_index("reason"), "reason", pa.array(reasons, pa.string())
        )
        return file_statistics(table, data.select(table.file_schema.names))

    merged = msgspec.json.decode(merge_statistics([statistics(part) for part in parts]))

    values = [value for part in parts for value in part if value is not None]
    assert merged["numRecords"] == sum(map(len, parts))
    assert merged["nullCount"]["reason"] == merged["numRecords"] - len(values)
    if "reason" in merged["minValues"]:
        assert all(
            merged["minValues"]["reason"] <= value <= merged["maxValues"]["reason"] for value in values
        )
    else:
        assert not values or any(len(value) > 32 for value in values), (
            "left out only where a part had no bound"
        )
    assert merged["minValues"]["requested_at"] <= merged["maxValues"]["requested_at"]
