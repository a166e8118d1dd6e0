"""The seen set's filters on disk, so that a start reads some bytes per known URL instead of the URLs themselves.

Theory of operation. All of it is in the frontier's own store, so it is as old as the URLs that it is about, also in a
copy or a store that was set back.

    1. Each batch that brings new URLs also brings their hashes: an entry of the log, numbered 1, 2, 3 …
    2. Now and then a *checkpoint* is written: the filters as of log entry n, in parts, a batch each.
    3. One last batch names the parts and n, and deletes the log up to n and the parts of the checkpoint before.
    4. A start takes the filters that are named and adds what the log has beyond n.

Killed between 2 and 3, the checkpoint before counts, and its log is still there. A checkpoint of another version, of
other shards or with parts that are not what was named is not used: then the URLs are read, as at the first start.
"""

from collections.abc import Iterable, Iterator

import msgspec
import xxhash

from crawl_platform.frontier.kv import Batch, OrderedKV, prefix_end
from crawl_platform.frontier.met import DIGEST
from crawl_platform.frontier.seen import Generation, SeenSet

VERSION = 2
LOG, BITS, NAMED = b"!seen/log/", b"!seen/bits/", b"!seen/named"
PART = 1 << 20
"""Bytes of one part: a few ms of the loop."""
LEAST = 200_000
"""URLs of a log that is worth a checkpoint; to replay them takes 0.2 s."""
SHARE = 0.1
"""Part of all known URLs in the log that is worth one, if that is more."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What the last batch names. `generations`: (capacity, keys, bytes) of each filter, in order; `met`: bytes of each
    table of what is known for certain; `check` is the xxh3-64 of all parts."""

    version: int
    sequence: int
    shards: list[int]
    generations: list[tuple[int, int, int]]
    met: list[int]
    check: int


class SeenLog:
    def __init__(self, kv: OrderedKV, shards: frozenset[int]) -> None:
        self._kv = kv
        self._shards = sorted(shards)
        self._sequence = 0
        self.waiting = 0
        """URLs in the log: what a start would have to replay."""

    def own(self, shards: frozenset[int]) -> None:
        """The shards are others from now on: a checkpoint that is being written is dropped, and a new one is due."""
        self._shards = sorted(shards)
        self.waiting = max(self.waiting, LEAST)

    def forgotten(self, batch: Batch) -> None:
        """The batch deletes URLs: a checkpoint that knows them for certain must not be taken any more. The next start
        reads the URLs, unless a new one is written until then."""
        batch.delete(NAMED)
        self.own(frozenset(self._shards))

    # every batch

    def note(self, batch: Batch, digests: Iterable[bytes]) -> None:
        """Put the log entry of the batch's new URLs into it."""
        batch.put(LOG + (self._sequence + 1).to_bytes(8, "big"), b"".join(digests))

    def written(self, count: int) -> None:
        """A batch with an entry of `count` URLs is in the store."""
        self._sequence += 1
        self.waiting += count

    # checkpoints

    def due(self, known: int) -> bool:
        """Whether the log has grown so long that a checkpoint is worth its bytes."""
        return self.waiting >= max(LEAST, int(known * SHARE))

    def checkpoint(self, seen: SeenSet) -> Iterator[Batch]:
        """Batches to be written one after another, the last one synced; other batches may come in between."""
        generations, sequence, covered = seen.dump(), self._sequence, self.waiting
        shards, met = self._shards, seen.met.dump()
        mark, check = sequence.to_bytes(8, "big"), xxhash.xxh3_64()
        number = 0
        for bits in (*(memoryview(one.bits) for one in generations), *met):
            for start in range(0, len(bits), PART):
                part = bytes(bits[start : start + PART])
                check.update(part)
                batch = Batch()
                batch.put(BITS + mark + number.to_bytes(4, "big"), part)
                number += 1
                yield batch
                if shards is not self._shards:
                    return
        named = Checkpoint(
            VERSION,
            sequence,
            shards,
            [(one.capacity, one.keys, len(one.bits)) for one in generations],
            [len(table) for table in met],
            check.intdigest(),
        )
        last = Batch()
        for key, _ in self._kv.scan(LOG, LOG + (sequence + 1).to_bytes(8, "big")):
            last.delete(key)
        for key, _ in self._kv.scan(BITS, prefix_end(BITS)):
            if not key.startswith(BITS + mark):
                last.delete(key)
        last.put(NAMED, msgspec.msgpack.encode(named))
        yield last
        self.waiting -= covered

    # start

    def recall(self, seen: SeenSet) -> bool:
        """Fill `seen` from the store; False if it has to be filled from the URLs themselves."""
        entries = list(self._kv.scan(LOG, prefix_end(LOG)))
        self._sequence = int.from_bytes(entries[-1][0][len(LOG) :], "big") if entries else 0
        named = self._named()
        blocks = self._blocks(named) if named is not None else None
        if named is None or blocks is None:
            self.waiting = LEAST
            return False
        self._sequence = max(self._sequence, named.sequence)
        filters = zip(named.generations, blocks, strict=False)
        generations = [Generation(capacity, keys, bytes(bits)) for (capacity, keys, _), bits in filters]
        seen.restore(generations, blocks[len(generations) :])
        self.waiting = 0
        for key, value in entries:
            if int.from_bytes(key[len(LOG) :], "big") <= named.sequence:
                continue
            seen.enter([value[start : start + DIGEST] for start in range(0, len(value), DIGEST)])
            self.waiting += len(value) // DIGEST
        return True

    def _named(self) -> Checkpoint | None:
        data = self._kv.get(NAMED)
        if data is None:
            return None
        try:
            named = msgspec.msgpack.decode(data, type=Checkpoint)
        except msgspec.DecodeError:  # of another version: it may have other fields
            return None
        return named if named.version == VERSION and named.shards == self._shards else None

    def _blocks(self, named: Checkpoint) -> list[bytearray] | None:
        """The filters and tables that are named; None if the parts are not what was written."""
        prefix = BITS + named.sequence.to_bytes(8, "big")
        parts = (part for _, part in self._kv.scan(prefix, prefix + b"\xff"))
        check, blocks = xxhash.xxh3_64(), list[bytearray]()
        for size in (*(size for _, _, size in named.generations), *named.met):
            block = bytearray()
            while len(block) < size and (part := next(parts, None)) is not None:
                block += part
                check.update(part)
            blocks.append(block)
            if len(block) != size:
                return None
        return blocks if next(parts, None) is None and check.intdigest() == named.check else None
