"""Rows are brought to the declared schema, or refused with the reason."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.errors import LakeError
from crawl_platform.lake.conform import conform
from crawl_platform.lake.delta import write_parquet
from crawl_platform.lake.tables import DATE, REQUESTS, TABLES, TIME, Column, Table
from tests.lake.samples import NOON, rows


def values(column: Column) -> st.SearchStrategy[Any]:
    strategy = _of_type(column.type)
    return strategy if column.required else st.none() | strategy


def _of_type(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if type_ == DATE:
        return st.just(NOON.date())
    if type_ == TIME:
        return st.datetimes(timezones=st.just(NOON.tzinfo))
    if pa.types.is_map(type_):
        return st.dictionaries(st.text(), _of_type(type_.item_type)).map(lambda d: list(d.items()))
    if pa.types.is_list(type_):
        return st.lists(st.text())
    if pa.types.is_integer(type_):
        half = 1 << (type_.bit_width - 1)
        return st.integers(-half, half - 1)
    if pa.types.is_floating(type_):
        return st.floats(width=type_.bit_width, allow_nan=False)
    return {pa.bool_(): st.booleans(), pa.binary(): st.binary()}.get(type_, st.text())


def tables(table: Table) -> st.SearchStrategy[pa.Table]:
    row = st.fixed_dictionaries({column.name: values(column) for column in table.columns})
    return st.lists(row, min_size=1, max_size=4).map(
        lambda found: pa.Table.from_pylist(found, schema=table.schema)
    )


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_rows_survive_the_data_file(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = TABLES[name]
    given_rows = data.draw(tables(table))
    folder = tmp_path_factory.getbasetemp() / name / "_staged"

    file = write_parquet(table, given_rows, folder / "a.parquet")

    read = pq.ParquetFile(folder / "a.parquet").read()
    assert read.cast(table.file_schema).to_pylist() == given_rows.select(read.schema.names).to_pylist()
    assert file.rows == given_rows.num_rows


def test_columns_are_reordered_and_absent_ones_null() -> None:
    data = rows("requests", 2).drop_columns(["reason", "priority"])

    got = conform(REQUESTS, data.select(data.schema.names[::-1]))

    assert got.schema.equals(REQUESTS.schema)
    assert got["reason"].to_pylist() == [None, None]
    assert got["request_id"].to_pylist() == ["request_id-0", "request_id-1"]


def test_values_are_cast_where_they_fit() -> None:
    data = rows("requests", 1)
    column = data.schema.get_field_index("priority")
    narrow = data.set_column(column, "priority", pa.array([3], pa.int32()))

    assert conform(REQUESTS, narrow)["priority"].to_pylist() == [3.0]


def test_a_value_that_does_not_fit_is_refused() -> None:
    data = rows("fetches", 1)
    column = data.schema.get_field_index("status")
    wide = data.set_column(column, "status", pa.array([70_000], pa.int64()))

    with pytest.raises(LakeError, match=r"fetches\.status is int16, got int64"):
        conform(TABLES["fetches"], wide)


def test_an_undeclared_column_is_refused() -> None:
    data = rows("requests", 1).append_column("colour", pa.array(["red"]))

    with pytest.raises(LakeError, match="requests has no column colour"):
        conform(REQUESTS, data)


def test_a_missing_required_column_is_refused_with_its_meaning() -> None:
    with pytest.raises(LakeError, match=r"requests\.target is required but missing: A URL, a host"):
        conform(REQUESTS, rows("requests", 1).drop_columns(["target"]))
