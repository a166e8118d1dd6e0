"""Staged files and the commits that name them."""

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crawl_platform.errors import LakeError, OwnershipLostError
from crawl_platform.lake.delta import (
    LARGE_ROW_GROUP,
    DeltaWriter,
    StagedFile,
    missing_files,
    split_by_partition,
    write_parquet,
)
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import FETCHES, PAGES, TABLES
from tests.lake.samples import commit, day, in_threads, row, rows, stage

FLEET = [name for name, table in TABLES.items() if table.writer == "fleet"]


def writer(lake: Lake, name: str = "fetches") -> DeltaWriter:
    return DeltaWriter(lake.path(name), TABLES[name])


def count(lake: Lake, name: str = "fetches") -> int:
    return int(lake.query(f"SELECT count(*) AS n FROM {name}")["n"][0].as_py())


@pytest.mark.parametrize("name", TABLES)
def test_every_table_gives_back_what_was_committed(lake: Lake, name: str) -> None:
    data = rows(name, 4)

    version = commit(lake, name, data, 1)

    assert version == 1
    order = data.schema.names[0]
    assert lake.query(f"FROM {name} ORDER BY {order}").to_pylist() == data.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_only_required_columns_are_needed(lake: Lake, name: str) -> None:
    table = TABLES[name]
    required = [column.name for column in table.columns if column.required]
    data = rows(name, 2).select(required)

    commit(lake, name, data, 1)

    got = lake.query(f"FROM {name}")
    assert got.num_rows == 2
    assert all(got[column.name].null_count == 2 for column in table.columns if not column.required)


def test_a_staged_file_is_invisible_until_its_commit(lake: Lake) -> None:
    files = stage(lake, "fetches", rows("fetches"), "a")
    assert count(lake) == 0

    writer(lake).commit(files, {"cell/bulk": 1}, {})

    assert count(lake) == 3


def test_a_staged_file_survives_the_manifest_as_json(lake: Lake) -> None:
    (file,) = stage(lake, "fetches", rows("fetches"), "a")

    again = msgspec.json.decode(msgspec.json.encode(file), type=StagedFile)

    assert again == file
    assert again.path == "_staged/a-0.parquet"
    assert again.partition == {"date": "2026-11-30"}
    assert again.rows == 3
    assert again.size == (lake.path("fetches") / again.path).stat().st_size


def test_large_columns_have_no_dictionary_no_statistics_and_small_row_groups(lake: Lake) -> None:
    data = rows("pages", 1_200)
    (file,) = stage(lake, "pages", data, "a")

    meta = pq.ParquetFile(lake.path("pages") / file.path).metadata

    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [
        LARGE_ROW_GROUP,
        LARGE_ROW_GROUP,
        200,
    ]
    columns = {meta.row_group(0).column(i).path_in_schema: i for i in range(meta.num_columns)}
    for name in PAGES.large:
        column = meta.row_group(0).column(columns[name])
        assert column.statistics is None
        assert "RLE_DICTIONARY" not in column.encodings
    stored = {name: meta.row_group(0).column(columns[name]).compression for name in ("body", "text", "url")}
    assert stored == {"body": "UNCOMPRESSED", "text": "ZSTD", "url": "ZSTD"}


def test_rows_of_several_days_are_split_into_one_file_a_day(lake: Lake) -> None:
    data = pa.concat_tables([rows("fetches", 2, date=day(1)), rows("fetches", 3, date=day(0))])

    parts = list(split_by_partition(FETCHES, data))

    assert [(values, part.num_rows) for values, part in parts] == [
        ({"date": "2026-11-30"}, 3),
        ({"date": "2026-12-01"}, 2),
    ]


def test_a_file_of_two_days_is_refused(lake: Lake) -> None:
    data = pa.concat_tables([rows("fetches", 1, date=day(1)), rows("fetches", 1, date=day(0))])

    with pytest.raises(LakeError, match="one partition"):
        write_parquet(FETCHES, data, lake.path("fetches") / "_staged" / "a.parquet")


def test_a_file_of_no_rows_is_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="one partition"):
        write_parquet(FETCHES, rows("fetches", 0), lake.path("fetches") / "_staged" / "a.parquet")


@pytest.mark.parametrize("path", ["other/a.parquet", "_staged/a b.parquet", "_staged/a%20b.parquet"])
def test_a_file_outside_staged_or_with_a_name_to_escape_is_refused(lake: Lake, path: str) -> None:
    with pytest.raises(LakeError):
        write_parquet(FETCHES, rows("fetches"), lake.path("fetches") / path)


def test_a_day_is_read_from_its_own_files(lake: Lake) -> None:
    commit(lake, "fetches", rows("fetches", 2, date=day(0)), 1)
    commit(lake, "fetches", rows("fetches", 3, first=2, date=day(1)), 2)

    got = lake.query("SELECT count(*) AS n FROM fetches WHERE date = DATE '2026-12-01'")

    assert got["n"].to_pylist() == [3]


def test_missing_and_cut_files_are_found(lake: Lake) -> None:
    whole, gone, cut = (stage(lake, "fetches", rows("fetches"), name)[0] for name in ("w", "g", "c"))
    root = lake.path("fetches")
    (root / gone.path).unlink()
    (root / cut.path).write_bytes(b"PAR1")

    assert missing_files(root, [whole, gone, cut]) == [gone, cut]


def test_ablation_a_commit_of_a_missing_file_ruins_the_whole_table(lake: Lake) -> None:
    commit(lake, "fetches", rows("fetches"), 1)
    files = stage(lake, "fetches", rows("fetches"), "gone")
    (lake.path("fetches") / files[0].path).unlink()

    writer(lake).commit(files, {"cell/bulk": 2}, {})

    with pytest.raises(Exception, match="gone-0"):
        lake.query("SELECT url FROM fetches")


def test_an_empty_manifest_moves_its_number(lake: Lake) -> None:
    table = writer(lake)

    version = table.commit([], {"cell/bulk": 1}, {})

    assert version == 1
    assert table.transaction_version("cell/bulk") == 1
    assert writer(lake).transaction_version("cell/bulk") == 1
    assert count(lake) == 0


def test_several_manifests_go_into_one_commit(lake: Lake) -> None:
    files = stage(lake, "fetches", rows("fetches", 2), "a") + stage(lake, "fetches", rows("fetches", 1), "b")

    version = writer(lake).commit(files, {"a/bulk": 7, "a/fast": 2, "b/bulk": 1}, {"round": "1"})

    fresh = writer(lake)
    assert version == 1
    assert [fresh.transaction_version(app) for app in ("a/bulk", "a/fast", "b/bulk", "c/bulk")] == [
        7,
        2,
        1,
        None,
    ]
    assert count(lake) == 3


def test_metadata_of_a_commit_is_kept(lake: Lake) -> None:
    writer(lake).commit([], {"cell/bulk": 1}, {"crawl.round": "17"})

    assert lake.delta("fetches").history(1)[0]["crawl.round"] == "17"


def test_transactions_outlive_a_checkpoint(lake: Lake) -> None:
    table = writer(lake)
    table.commit([], {"old/bulk": 5}, {})
    lake.delta("fetches").create_checkpoint()
    for number in range(1, 4):
        table.commit([], {"cell/bulk": number}, {})

    assert writer(lake).transaction_version("old/bulk") == 5


# --- two committers ---


def test_a_stale_committer_is_refused(lake: Lake) -> None:
    current, stale = writer(lake), writer(lake)
    files = stage(lake, "fetches", rows("fetches"), "a")
    assert current.transaction_version("cell/bulk") is stale.transaction_version("cell/bulk") is None
    current.commit(files, {"cell/bulk": 1}, {})

    with pytest.raises(OwnershipLostError, match="cell/bulk"):
        stale.commit(files, {"cell/bulk": 1}, {})

    assert count(lake) == 3


def test_of_committers_that_race_one_wins_each_round(lake: Lake) -> None:
    racers = [writer(lake) for _ in range(4)]
    for number in range(1, 6):
        for racer in racers:
            racer.refresh()
        files = stage(lake, "fetches", rows("fetches", 1, first=number), f"m{number}")

        failed = in_threads(4, lambda n, m=number, f=files: racers[n].commit(f, {"cell/bulk": m}, {}))

        assert [type(error) for error in failed] == [OwnershipLostError] * 3
    assert count(lake) == 5
    assert lake.version("fetches") == 5


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_stale_committer_is_refused_whatever_its_number(lake: Lake, number: int) -> None:
    current, stale = writer(lake), writer(lake)
    current.commit(stage(lake, "fetches", rows("fetches"), "a"), {"cell/bulk": 2}, {})

    with pytest.raises(OwnershipLostError):
        stale.commit(stage(lake, "fetches", rows("fetches"), "b"), {"cell/bulk": number}, {})

    assert count(lake) == 3


def test_a_refused_committer_may_go_on_after_a_refresh(lake: Lake) -> None:
    current, stale = writer(lake), writer(lake)
    current.commit(stage(lake, "fetches", rows("fetches"), "a"), {"cell/bulk": 1}, {})
    later = stage(lake, "fetches", rows("fetches"), "b")
    with pytest.raises(OwnershipLostError):
        stale.commit(later, {"cell/bulk": 2}, {})

    stale.refresh()

    assert stale.transaction_version("cell/bulk") == 1
    assert stale.commit(later, {"cell/bulk": 2}, {}) == 2
    assert count(lake) == 6


def test_a_number_that_was_committed_is_refused_even_after_a_refresh(lake: Lake) -> None:
    files = stage(lake, "fetches", rows("fetches"), "a")
    writer(lake).commit(files, {"cell/bulk": 3}, {})

    for number in (1, 2, 3):
        with pytest.raises(OwnershipLostError, match="repeat"):
            writer(lake).commit(files, {"cell/bulk": number}, {})

    assert count(lake) == 3


def test_ablation_without_the_number_check_a_repeated_manifest_doubles_its_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(lake).commit(stage(lake, "fetches", rows("fetches"), "a"), {"cell/bulk": 1}, {})
    monkeypatch.setattr(DeltaWriter, "_check", lambda *_: None)

    writer(lake).commit(stage(lake, "fetches", rows("fetches"), "b"), {"cell/bulk": 1}, {})

    assert count(lake) == 6


def test_committers_of_different_cells_do_not_disturb_each_other(lake: Lake) -> None:
    one, two = writer(lake), writer(lake)

    first = one.commit(stage(lake, "fetches", rows("fetches"), "a"), {"a/bulk": 1}, {})
    second = two.commit(stage(lake, "fetches", rows("fetches"), "b"), {"b/bulk": 1}, {})

    assert (first, second) == (1, 2)
    assert count(lake) == 6


def test_a_handle_that_moved_over_another_commit_checks_again(lake: Lake) -> None:
    """Committer A commits app a, its handle moves over B's commit of app b: A must not repeat b."""
    a, b = writer(lake), writer(lake)
    files = stage(lake, "fetches", rows("fetches"), "b")
    b.commit(files, {"b/bulk": 1}, {})
    a.commit([], {"a/bulk": 1}, {})

    with pytest.raises(OwnershipLostError):
        a.commit(files, {"b/bulk": 1}, {})

    assert count(lake) == 3


def test_a_commit_knows_its_own_version_among_others(lake: Lake) -> None:
    ours, others = writer(lake), writer(lake)
    for number in range(1, 4):
        others.commit([], {"other/bulk": number}, {})

    assert ours.commit([], {"ours/bulk": 1}, {}) == 4
    assert others.commit([], {"other/bulk": 4}, {}) == 5


def test_a_commit_without_a_transaction_is_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="transaction"):
        writer(lake).commit(stage(lake, "fetches", rows("fetches"), "a"), {}, {})


def test_a_file_named_twice_is_refused(lake: Lake) -> None:
    files = stage(lake, "fetches", rows("fetches"), "a")

    with pytest.raises(LakeError, match="twice"):
        writer(lake).commit(files * 2, {"cell/bulk": 1}, {})


def test_a_file_of_another_table_is_refused(lake: Lake) -> None:
    files = stage(lake, "links", rows("links"), "a")

    with pytest.raises(LakeError, match="staged for links"):
        writer(lake).commit(files, {"cell/bulk": 1}, {})


def test_a_lake_that_was_not_created_says_so(lake: Lake) -> None:
    with pytest.raises(LakeError, match="create the lake"):
        DeltaWriter(lake.root / "nothing", FETCHES)


@pytest.mark.parametrize("name", FLEET)
def test_a_null_in_a_required_column_is_refused(lake: Lake, name: str) -> None:
    table = TABLES[name]
    first = table.columns[0].name
    nullable = pa.schema([field.with_nullable(True) for field in table.schema])
    data = pa.Table.from_pylist([row(table, **{first: None})], schema=nullable)

    with pytest.raises(LakeError, match=f"{name}.{first} is required"):
        write_parquet(table, data, lake.path(name) / "_staged" / "a.parquet")
