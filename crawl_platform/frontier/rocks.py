"""RocksDB behind the ordered-KV interface. One process holds the folder's lock."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from crawl_platform.errors import DamagedStateError, StateError
from crawl_platform.frontier.kv import Batch

WRITE_BUFFER = 32 << 20
BLOCK_CACHE = 64 << 20
"""Bytes of uncompressed blocks kept in memory, however much is stored. Indexes are kept beside them, some 3 bytes per
URL: in the cache they would push one another out, and a look that has to read its index first costs 400 µs."""
BLOCK = 8 << 10
"""4 KB takes 9 % more disk and twice the index; what 16 KB saves goes into unpacking them."""
BLOOM_BITS = 10
"""Per key of all levels but the last, where nearly every key that is asked for is found: 1 % of vain looks."""


class RocksKV:
    def __init__(
        self,
        path: Path,
        *,
        write_buffer: int = WRITE_BUFFER,
        block_cache: int = BLOCK_CACHE,
        direct: bool = False,
        access: AccessType | None = None,
    ) -> None:
        """Open (or create) the store. Raises `StateError` when another process holds it, `DamagedStateError` when it
        is damaged. Every other method does so too: damage in the middle of a file shows when it is read.

        `write_buffer` and `block_cache` in bytes. `direct`: past the page cache, so that memory the caller does not
        know of hides no read of the disk.
        """
        options = _options(write_buffer, block_cache, direct)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Named as a column family too: else a store that is there is opened with the options it was made with.
            self._db = Rdict(
                str(path),
                options=options,
                column_families={"default": options},
                access_type=access or AccessType.read_write(),
            )
        except Exception as error:  # rocksdict raises bare Exception for every failure
            raise _described("open", path, error) from error
        self._path = path
        self._synced = WriteOptions()
        self._synced.sync = True
        self._plain = WriteOptions()

    @staticmethod
    def read_beside(path: Path, scratch: Path) -> "RocksKV":
        """Read the store while its owner writes it; `scratch` takes RocksDB's own notes."""
        return RocksKV(path, access=AccessType.secondary(str(scratch)))

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise _described("read", self._path, error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return list(self._db.get(list(keys)) or ())
        except Exception as error:
            raise _described("read", self._path, error) from error

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._db.iter()
        cursor.seek(start)
        return self._pairs(cursor, stop)

    def _pairs(self, cursor: RdictIter, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A generator of its own, so that the cursor (a snapshot) is taken at the call and not at the first read."""
        while cursor.valid():
            key = cursor.key()
            if key >= stop:
                return
            yield key, cursor.value()
            cursor.next()
        try:
            cursor.status()  # a block that can't be read ends a scan like the end of the store does
        except Exception as error:
            raise _described("read", self._path, error) from error

    def write(self, batch: Batch, *, sync: bool = False) -> None:
        native = WriteBatch(raw_mode=True)
        for key, value in batch.changes.items():
            if value is None:
                native.delete(key)
            else:
                native.put(key, value)
        try:
            self._db.write(native, self._synced if sync else self._plain)
        except Exception as error:
            raise _described("write to", self._path, error) from error

    def settle(self) -> None:
        """Write everything out and compact it: as small as it gets. Takes its time."""
        self.compact([(None, None)])

    def compact(self, ranges: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Rewrite what holds keys of these ranges (start and end): what was deleted there is then on no disk. Other
        threads go on meanwhile."""
        try:
            self._db.flush()
            for start, stop in ranges:
                self._db.compact_range(start, stop)
        except Exception as error:
            raise _described("compact", self._path, error) from error

    def close(self) -> None:
        self._db.close()


def _options(write_buffer: int, block_cache: int, direct: bool) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(block_cache))
    blocks.set_block_size(BLOCK)
    blocks.set_bloom_filter(BLOOM_BITS, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(write_buffer)
    options.set_block_based_table_factory(blocks)
    options.set_optimize_filters_for_hits(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_use_direct_reads(direct)
    options.set_use_direct_io_for_flush_and_compaction(direct)
    return options


def _described(what: str, path: Path, error: Exception) -> StateError:
    """RocksDB's error in words that help."""
    said = " ".join(str(error).split())
    if said.startswith("Corruption") or "No such file" in said:
        return DamagedStateError(
            f"the cell's state at {path} is damaged; put back a copy, or move it away and seed its hosts again: {said}"
        )
    return StateError(f"can't {what} the cell's state at {path}: {said}")
