"""Rows of an open epoch, and step 1: stage them as Parquet files that nobody sees yet."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from crawl_platform.lake.delta import STAGED, StagedFile, split_by_partition, write_parquet
from crawl_platform.lake.tables import TABLES

Row = dict[str, Any]


class RowBuffer:
    """Rows of one open epoch, per table. `bytes` estimates what they will weigh."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self.bytes = 0
        self.count = 0

    def add(self, table: str, row: Row, weight: int = 200) -> None:
        self._rows.setdefault(table, []).append(row)
        self.bytes += weight
        self.count += 1

    def add_all(self, table: str, rows: list[Row], weight: int) -> None:
        """Many rows in one go; `weight` is that of all of them."""
        if rows:
            self._rows.setdefault(table, []).extend(rows)
            self.bytes += weight
            self.count += len(rows)

    def take(self) -> dict[str, list[Row]]:
        """All rows; the buffer is empty afterwards."""
        rows, self._rows = self._rows, {}
        self.bytes = self.count = 0
        return rows

    def __bool__(self) -> bool:
        return self.count > 0


def stage(
    lake_root: Path, rows: Mapping[str, list[Row]], incarnation: str, series: str, number: int
) -> tuple[StagedFile, ...]:
    """Step 1. Write each table's rows (one file per partition), synced; names are new each time, so that
    a second try never overwrites what a first one may have handed on."""
    files: list[StagedFile] = []
    for name, table_rows in rows.items():
        table = TABLES[name]
        data = pa.Table.from_pylist(table_rows, schema=table.schema)
        for _, part in split_by_partition(table, data):
            file_name = f"{incarnation[:8]}-{series}-{number:010d}-{secrets.token_hex(4)}.parquet"
            files.append(write_parquet(table, part, lake_root / name / STAGED / file_name))
    return tuple(files)
