"""Per-file statistics: may be absent, must never be wrong."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.lake import statistics
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.statistics import PREFIX, file_statistics
from crawl_platform.lake.tables import FETCHES, PAGES
from tests.lake.samples import NOON, commit, row, rows

TEXT = st.text(max_size=PREFIX * 2)
MOMENTS = st.datetimes(timezones=st.just(UTC))


def of(**columns: list[Any]) -> dict[str, Any]:
    """Statistics of a `fetches` file with these columns; the rest are samples."""
    count = len(next(iter(columns.values())))
    data = pa.Table.from_pylist(
        [row(FETCHES, n, **{name: values[n] for name, values in columns.items()}) for n in range(count)],
        schema=FETCHES.schema,
    )
    return json.loads(file_statistics(FETCHES, data.drop_columns(["date"])))


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=8))
def test_string_bounds_enclose_every_value(values: list[str]) -> None:
    stats = of(url=values)

    low, high = stats["minValues"].get("url"), stats["maxValues"].get("url")

    if low is not None:
        assert all(low <= value <= high for value in values)
        assert len(low) <= PREFIX
        assert len(high) <= PREFIX + 1


@settings(max_examples=50, deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=8))
def test_time_bounds_are_exact(values: list[datetime]) -> None:
    stats = of(started_at=values)

    assert moment(stats["minValues"]["started_at"]) == min(values)
    assert moment(stats["maxValues"]["started_at"]) == max(values)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.floats(width=32), min_size=1, max_size=8))
def test_float_bounds_enclose_every_value_or_are_absent(values: list[float | None]) -> None:
    stats = of(value=values)

    numbers = [value for value in values if value is not None]
    assert stats["nullCount"]["value"] == len(values) - len(numbers)
    if "value" in stats["minValues"]:
        assert stats["minValues"]["value"] == min(numbers)
        assert stats["maxValues"]["value"] == max(numbers)
    else:
        assert not numbers or not all(math.isfinite(number) for number in numbers)


def test_absent_bounds_still_count_nulls() -> None:
    stats = of(detail=[None, None])

    assert stats["numRecords"] == 2
    assert stats["nullCount"]["detail"] == 2
    assert "detail" not in stats["minValues"]
    assert "detail" not in stats["maxValues"]


def test_large_nested_and_partition_columns_have_none() -> None:
    stats = json.loads(file_statistics(PAGES, rows("pages").drop_columns(["date"])))

    named = set(stats["minValues"]) | set(stats["nullCount"])
    assert not named & {*PAGES.large, "date"}
    assert stats["minValues"]["simhash"] == 0
    assert stats["maxValues"]["url"] == "url-2"


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(values=st.lists(TEXT, min_size=1, max_size=4, unique=True))
def test_a_row_is_found_by_any_string(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    lake = _lake_of_urls(tmp_path_factory, values)

    with lake.connect() as connection:
        for value in values:
            found = connection.execute("SELECT count(*) FROM fetches WHERE url = ?", [value]).fetchone()
            assert found == (1,)


def _lake_of_urls(factory: pytest.TempPathFactory, urls: list[str]) -> Lake:
    lake = Lake(factory.mktemp("lake") / "lake")
    lake.create(1)
    data = [row(FETCHES, n, url=url) for n, url in enumerate(urls)]
    commit(lake, "fetches", pa.Table.from_pylist(data, schema=FETCHES.schema), 1)
    return lake


def test_a_row_is_found_by_its_microsecond(lake: Lake) -> None:
    commit(lake, "fetches", rows("fetches", 1), 1)

    found = lake.query("SELECT url FROM fetches WHERE started_at >= ?", [NOON])

    assert found.num_rows == 1


@pytest.mark.long
def test_ablation_a_cut_maximum_loses_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = "https://example.org/" + "z" * PREFIX
    whole = _lake_of_urls(tmp_path_factory, [url])
    monkeypatch.setattr(statistics, "_string_above", lambda value: value[:PREFIX])
    cut = _lake_of_urls(tmp_path_factory, [url])

    query = "SELECT url FROM fetches WHERE url = ?"

    assert whole.query(query, [url]).num_rows == 1
    assert cut.query(query, [url]).num_rows == 0


def test_a_file_whose_bounds_exclude_a_value_is_not_read(lake: Lake) -> None:
    """File skipping works: the file is gone, and only a query that needs it notices."""
    commit(lake, "fetches", rows("fetches", 1, host="a.example"), 1)
    commit(lake, "fetches", rows("fetches", 1, host="b.example"), 2)
    for file in (lake.path("fetches") / "_staged").glob("*-2-*.parquet"):
        file.unlink()

    assert lake.query("SELECT host FROM fetches WHERE host = 'a.example'").num_rows == 1
    with pytest.raises(Exception, match="parquet"):
        lake.query("SELECT host FROM fetches WHERE host = 'b.example'")
