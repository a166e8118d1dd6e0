"""A shard in a file: all that its cell's store has of it, as keys and values, under `_shards` in the lake's folder.

Both cells of a handoff reach that folder, on one machine or not. A file is whole or not there, and lives only as long
as its handoff. Nobody reads it as a table: that is what `frontier` is for.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from crawl_platform.lake.delta import sync_folder

FOLDER = "_shards"
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
PORTION = 2_000
"""Records in memory at once."""
_ABOUT = b"crawl.shard"


class About(msgspec.Struct, frozen=True):
    """What goes with the records. `incarnations`: whose rows their URLs may have. `purged`: ids of the purges that are
    carried out in them. `requests`: ids of the recrawls that the cell has taken lately, with when (UTC seconds)."""

    shard: int
    incarnations: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    requests: dict[str, int] = {}


def path_of(lake_root: Path, name: str) -> Path:
    return lake_root / FOLDER / name


def write(lake_root: Path, name: str, about: About, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Write the file `name`; it is on the disk on return. Raises `OSError` on a full one."""
    path = path_of(lake_root, name)
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{name}")
    schema = SCHEMA.with_metadata({_ABOUT: msgspec.json.encode(about)})
    try:
        with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
            for portion in _portions(records):
                keys, values = zip(*portion, strict=True)
                writer.write_table(
                    pa.table([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], schema)
                )
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read(lake_root: Path, name: str) -> tuple[About, Iterator[list[tuple[bytes, bytes]]]]:
    """What it is about, and its records in portions. Raises `OSError` if it is not there."""
    file = pq.ParquetFile(path_of(lake_root, name))
    about = msgspec.json.decode(file.schema_arrow.metadata[_ABOUT], type=About)
    return about, (
        list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        for batch in file.iter_batches(PORTION)
    )


def shards_with_files(lake_root: Path) -> set[int]:
    """Shards of which there is a file, or a draft of one."""
    return {int(path.name.lstrip(".").partition("-")[0]) for path in (lake_root / FOLDER).glob("*-*")}


def remove_of(lake_root: Path, shard: int) -> None:
    """All files of a shard, drafts too: only the cell that owns it writes any."""
    folder = lake_root / FOLDER
    for pattern in (f"{shard}-*", f".{shard}-*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def _portions(records: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    portion: list[tuple[bytes, bytes]] = []
    for record in records:
        portion.append(record)
        if len(portion) == PORTION:
            yield portion
            portion = []
    if portion:
        yield portion
