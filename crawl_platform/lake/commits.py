"""Rows of `commits`, found without reading the table: by the statistics of its files.

`commits` grows by one small file per round of the committer (thousands a day), so a scan would cost
seconds; the log's own statistics name the one file that holds a commit.
"""

from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from crawl_platform.errors import LakeError


class CommitRow(msgspec.Struct, frozen=True):
    """One row of `commits`: a consistent version vector."""

    commit_id: int
    committed_at: datetime
    versions: dict[str, int]
    manifests: list[str]
    quarantined: list[str]
    rows: dict[str, int]


def last_commit(delta: DeltaTable, root: Path) -> CommitRow | None:
    """The row with the highest id, None if there is none."""
    files = _files(delta)
    holds = pc.equal(files["high"], pc.max(files["high"]))
    rows = _read(root, files, holds, None)
    return max(rows, key=lambda row: row.commit_id, default=None)


def find_commit(delta: DeltaTable, root: Path, commit_id: int) -> CommitRow:
    """The row of that id. Raises `LakeError` if there is none."""
    files = _files(delta)
    holds = pc.and_(pc.less_equal(files["low"], commit_id), pc.greater_equal(files["high"], commit_id))
    found = _read(root, files, holds, commit_id)
    if found:
        return found[0]
    raise LakeError(f"there is no commit {commit_id}: SELECT commit_id FROM commits lists them")


def _files(delta: DeltaTable) -> pa.Table:
    """(path, low, high) of each file; bounds of `commit_id` are null where a file has no statistics."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    absent = pa.nulls(actions.num_rows, pa.int64())
    names = actions.schema.names
    bounds = [actions[n] if n in names else absent for n in ("min.commit_id", "max.commit_id")]
    return pa.table([actions["path"].cast(pa.string()), *bounds], names=["path", "low", "high"])


def _read(root: Path, files: pa.Table, holds: pa.ChunkedArray, commit_id: int | None) -> list[CommitRow]:
    """The row of that id (None: the highest) of each file for which `holds` is true or, for want of statistics,
    unknown. A compacted file has thousands of rows: only the one that is wanted is made into Python objects."""
    paths = files.filter(pc.fill_null(holds, True))["path"].to_pylist()
    found = []
    for path in paths:
        rows = pq.ParquetFile(root / path).read()
        wanted = pc.max(rows["commit_id"]) if commit_id is None else commit_id
        found += [_row(values) for values in rows.filter(pc.equal(rows["commit_id"], wanted)).to_pylist()]
    return found


def _row(values: dict[str, object]) -> CommitRow:
    fields = {name: values[name] for name in CommitRow.__struct_fields__}
    for name in ("versions", "rows"):
        fields[name] = dict(fields[name])  # type: ignore[call-overload]
    return msgspec.convert(fields, CommitRow)
