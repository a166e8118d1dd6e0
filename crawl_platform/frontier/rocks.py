"""RocksDB behind the ordered-KV interface. One process holds the folder's lock."""

from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, Options, Rdict, RdictIter, WriteBatch, WriteOptions

from crawl_platform.errors import StateError
from crawl_platform.frontier.kv import Batch


class RocksKV:
    def __init__(self, path: Path, *, write_buffer: int = 32 << 20, access: AccessType | None = None) -> None:
        """Open (or create) the store. Raises `StateError` when another process holds it or it is damaged."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(write_buffer)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(path), options=options, access_type=access or AccessType.read_write())
        except Exception as error:  # rocksdict raises bare Exception for every failure
            raise StateError(f"can't open the cell's state at {path}: {error}") from error
        self._synced = WriteOptions()
        self._synced.sync = True
        self._plain = WriteOptions()

    @staticmethod
    def read_beside(path: Path, scratch: Path) -> "RocksKV":
        """Read the store while its owner writes it; `scratch` takes RocksDB's own notes."""
        return RocksKV(path, access=AccessType.secondary(str(scratch)))

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._db.get(key)
        return value

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._db.iter()
        cursor.seek(start)
        return _pairs(cursor, stop)

    def write(self, batch: Batch, *, sync: bool = False) -> None:
        native = WriteBatch(raw_mode=True)
        for key, value in batch.changes.items():
            if value is None:
                native.delete(key)
            else:
                native.put(key, value)
        self._db.write(native, self._synced if sync else self._plain)

    def close(self) -> None:
        self._db.close()


def _pairs(cursor: RdictIter, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
    """A generator of its own, so that the cursor (a snapshot) is taken at the call and not at the first read."""
    while cursor.valid():
        key = cursor.key()
        if key >= stop:
            return
        yield key, cursor.value()
        cursor.next()
