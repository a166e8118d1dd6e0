"""Everything that the files below a folder say, in the clear: what a search for content looks through."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq


def told(root: Path, *, without: tuple[str, ...] = ()) -> Iterator[tuple[Path, str]]:
    """(file, its text): rows of Parquet files (checkpoints of the log too), members of gzip files, bytes of others.
    `without`: names of folders that are left out."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not set(without) & set(path.relative_to(root).parts):
            yield path, _text(path)


def _text(path: Path) -> str:
    if path.suffix == ".parquet":
        rows = pq.ParquetFile(path).read().to_pylist()
        return "\n".join(json.dumps(row, default=_plain, ensure_ascii=False) for row in rows)
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")


def _plain(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def telling(root: Path, *words: str, without: tuple[str, ...] = ()) -> list[str]:
    """Files below `root` in which one of `words` stands."""
    return [
        str(path.relative_to(root))
        for path, text in told(root, without=without)
        if any(word in text for word in words)
    ]
