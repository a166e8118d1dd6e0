"""The cells' own stores, read beside the cells: newer than the lake, and only there where the cells are."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from crawl_platform.frontier.rocks import RocksKV


def live_stores(home: Path) -> Iterator[tuple[str, RocksKV]]:
    """(cell, its store) of every cell whose state is below `home`; each is open until the next is asked for.

    Raises `StateError` for a store that can't be read.
    """
    for path in sorted(home.glob("cells/*/state")):
        with tempfile.TemporaryDirectory() as scratch:
            kv = RocksKV.read_beside(path, Path(scratch))
            try:
                yield path.parent.name, kv
            finally:
                kv.close()
