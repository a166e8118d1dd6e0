"""Bring rows to a table's declared schema, or say exactly what is wrong with them."""

import pyarrow as pa
import pyarrow.compute as pc

from crawl_platform.errors import LakeError
from crawl_platform.lake.tables import Column, Table


def conform(table: Table, data: pa.Table) -> pa.Table:
    """`data` with the declared columns in the declared order and types.

    Columns that are absent and not required are filled with nulls. Raises `LakeError` for an undeclared
    column, a missing required one, a null in a required one, or a value that its type can't hold.
    """
    if data.schema.equals(table.schema, check_metadata=False):
        arrays = [data.column(c.name) for c in table.columns]
    else:
        _refuse_undeclared(table, data)
        arrays = [_column(table, column, data) for column in table.columns]
    for column, array in zip(table.columns, arrays, strict=True):
        if column.required and array.null_count:
            raise LakeError(f"{table.name}.{column.name} is required but null in {array.null_count} rows")
    return pa.table(arrays, schema=table.schema)


def _refuse_undeclared(table: Table, data: pa.Table) -> None:
    undeclared = sorted(set(data.schema.names) - set(table.schema.names))
    if undeclared:
        raise LakeError(f"{table.name} has no column {', '.join(undeclared)}: declare it in lake/tables.py")


def _column(table: Table, column: Column, data: pa.Table) -> pa.ChunkedArray:
    if column.name not in data.schema.names:
        if column.required:
            raise LakeError(f"{table.name}.{column.name} is required but missing: {column.doc}")
        return pa.chunked_array([pa.nulls(data.num_rows, column.type)])
    array = data.column(column.name)
    if array.type == column.type:
        return array
    try:
        return pc.cast(array, column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LakeError(f"{table.name}.{column.name} is {column.type}, got {array.type}: {error}") from error
