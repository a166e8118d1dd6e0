"""Arrays and names in a folder beside the tables, mapped into memory: what can be computed again, but not for nothing.

A generation is written whole into a folder of its own, then `CURRENT` is replaced to name it: whoever is killed
before leaves the former one. Arrays are checked when they are loaded, so they need not be synced; a damaged
generation is as good as none. Texts only grow: their files are linked from one generation into the next.
"""

import os
import secrets
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_hexdigest

from crawl_platform.errors import DamagedStateError

CURRENT, CARD = "CURRENT", "card.json"
GRAPHS = "_graph"
"""Folder in the lake with the arrays of the link graphs."""
MOST_PARTS = 64
"""Files of a text column; then they become one."""


class Texts(NamedTuple):
    """A column of texts; the first `unchanged` are those of the former generation."""

    column: pa.ChunkedArray
    unchanged: int = 0


class Card(msgspec.Struct, frozen=True):
    """`facts` are the writer's own. `digests`: of each array. `parts`: of each text column the length of each file."""

    facts: dict[str, Any]
    digests: dict[str, str]
    parts: dict[str, list[int]]


class Generation:
    """One that was found; nothing is read before it is asked for."""

    def __init__(self, folder: Path, card: Card) -> None:
        self.folder, self._card = folder, card
        self.facts = card.facts

    def array(self, name: str) -> NDArray[Any]:
        """Mapped into memory. Raises `DamagedStateError` if it isn't what was stored."""
        try:
            # Copied on write: machine code takes arrays that can't be written for another type.
            found = np.load(self.folder / f"{name}.npy", mmap_mode="c")
        except (OSError, ValueError) as error:
            raise DamagedStateError(f"{self.folder / name}: {error}") from error
        if _digest(found) != self._card.digests.get(name):
            raise DamagedStateError(f"{self.folder / name}.npy is not what was written")
        return np.asarray(found)

    def texts(self, name: str) -> pa.ChunkedArray:
        """Mapped into memory."""
        chunks: list[pa.Array] = []
        try:
            for path in _parts(self.folder, name, len(self._card.parts[name])):
                with pa.memory_map(str(path)) as file:
                    chunks += pa.ipc.open_file(file).read_all()["text"].chunks
        except (KeyError, OSError, pa.ArrowInvalid) as error:
            raise DamagedStateError(f"{self.folder / name}: {error}") from error
        return pa.chunked_array(chunks, pa.large_string())


def current(folder: Path) -> Generation | None:
    """The last generation stored in `folder`; None: there is none, or it is damaged."""
    try:
        inner = folder / (folder / CURRENT).read_text()
        return Generation(inner, msgspec.json.decode((inner / CARD).read_bytes(), type=Card))
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def store(
    folder: Path,
    label: str,
    arrays: Mapping[str, NDArray[Any]],
    texts: Mapping[str, Texts],
    facts: Mapping[str, Any],
    same: Collection[str] = (),
) -> Path:
    """Write a generation and make it the current one; returns its folder. `label` begins its name. `same`: arrays that
    are those of the former generation, which are linked and not written again."""
    former = current(folder)
    draft = folder / f"{label}-{secrets.token_hex(4)}"
    draft.mkdir(parents=True)
    digests = {}
    if former is not None:
        for name in same:
            os.link(former.folder / f"{name}.npy", draft / f"{name}.npy")
            digests[name] = former._card.digests[name]
    for name, array in arrays.items():
        np.save(draft / f"{name}.npy", array)
        digests[name] = _digest(array)
    parts = {name: _store_texts(draft, name, column, former) for name, column in texts.items()}
    (draft / CARD).write_bytes(msgspec.json.encode(Card(dict(facts), digests, parts)))
    pointer = folder / f".{CURRENT}"
    pointer.write_text(draft.name)
    pointer.replace(folder / CURRENT)
    for other in folder.iterdir():
        if other.is_dir() and other != draft:
            shutil.rmtree(other)
    return draft


def _digest(array: NDArray[Any]) -> str:
    return xxh3_64_hexdigest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _store_texts(draft: Path, name: str, texts: Texts, former: Generation | None) -> list[int]:
    lengths = former._card.parts.get(name, []) if former else []
    if former is None or sum(lengths) != texts.unchanged or len(lengths) >= MOST_PARTS:
        lengths = []
    (draft / name).mkdir()
    if former is not None:
        for number, path in enumerate(_parts(former.folder, name, len(lengths))):
            os.link(path, draft / name / f"{number}.arrow")
    rest = texts.column.slice(sum(lengths))
    if not len(rest):
        return lengths
    path = draft / name / f"{len(lengths)}.arrow"
    with path.open("wb") as file:
        table = pa.table({"text": rest})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
    return [*lengths, len(rest)]


def _parts(folder: Path, name: str, count: int) -> list[Path]:
    return [folder / name / f"{number}.arrow" for number in range(count)]


def forget_graphs(root: Path) -> None:
    """Remove what is kept of the graphs of the lake at `root`: names of what was purged are among it."""
    if (root / GRAPHS).exists():
        shutil.rmtree(root / GRAPHS)
