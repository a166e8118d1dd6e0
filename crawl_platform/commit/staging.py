"""Rows of an open epoch, and step 1: stage them as Parquet files that nobody sees yet."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crawl_platform.lake.delta import STAGED, StagedFile, split_by_partition, write_parquet
from crawl_platform.lake.tables import TABLES

Row = dict[str, Any]
LARGE_PORTION = 50
"""Rows of bodies and texts that are made one array, some 5 MB. One of ten times as many grows by being copied into ever
larger memory that is fresh from the kernel: twice the time for the same rows."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that have much in common, by columns: `shared` holds for all of them, `columns` has one value for each.

    The links of a page are such rows. A dict for each would cost more than all else that is done for a link.
    """

    shared: Row
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class RowBuffer:
    """Rows of one open epoch, per table. `bytes` estimates what they will weigh."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._blocks: dict[str, list[Block]] = {}
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

    def add_block(self, table: str, block: Block, weight: int) -> None:
        """`weight` is that of all its rows."""
        self._blocks.setdefault(table, []).append(block)
        self.bytes += weight
        self.count += len(block)

    def take(self) -> dict[str, list[Row]]:
        """All rows, but not the blocks."""
        rows, self._rows = self._rows, {}
        self.bytes = 0
        self.count -= sum(map(len, rows.values()))
        return rows

    def take_blocks(self) -> dict[str, list[Block]]:
        """All blocks."""
        blocks, self._blocks = self._blocks, {}
        self.count -= sum(len(block) for some in blocks.values() for block in some)
        return blocks

    def __bool__(self) -> bool:
        return self.count > 0


def stage(
    lake_root: Path,
    rows: Mapping[str, list[Row]],
    incarnation: str,
    series: str,
    number: int,
    blocks: Mapping[str, list[Block]] | None = None,
) -> tuple[StagedFile, ...]:
    """Step 1. Write each table's rows (one file per partition), synced; names are new each time, so that
    a second try never overwrites what a first one may have handed on."""
    files: list[StagedFile] = []
    blocks = blocks or {}
    for name in dict.fromkeys((*rows, *blocks)):
        table = TABLES[name]
        plain = rows.get(name, [])
        step = LARGE_PORTION if table.large else max(len(plain), 1)
        portions = [
            pa.Table.from_pylist(plain[at : at + step], schema=table.schema)
            for at in range(0, len(plain), step)
        ]
        data = pa.concat_tables([*portions, _of_blocks(blocks.get(name, []), table.schema)])
        for _, part in split_by_partition(table, data):
            file_name = f"{incarnation[:8]}-{series}-{number:010d}-{secrets.token_hex(4)}.parquet"
            files.append(write_parquet(table, part, lake_root / name / STAGED / file_name))
    return tuple(files)


def _of_blocks(blocks: list[Block], schema: pa.Schema) -> pa.Table:
    """Columns that no block has are null."""
    of_block = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    arrays = []
    for field in schema:
        if blocks and field.name in blocks[0].columns:
            values = chain.from_iterable(block.columns[field.name] for block in blocks)
            arrays.append(pa.array(list(values), field.type))
        else:
            arrays.append(
                pa.array([block.shared.get(field.name) for block in blocks], field.type).take(of_block)
            )
    return pa.table(arrays, schema=schema)
