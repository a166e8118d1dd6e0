"""What a cell's disk holds: read by a test, after the cell has died or stopped."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from crawl_platform.commit.manifest import SERIES, Manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import (
    DISCOVERY,
    FASTLANE,
    NO_LANE,
    QUEUED,
    UrlRecord,
    decode,
    queue_key,
    url_of_key,
)
from crawl_platform.frontier.rocks import RocksKV


@dataclass(frozen=True)
class CellState:
    """`last`: series → number of its last committed manifest. `urls`: every known URL's record."""

    incarnation: str
    last: dict[str, int]
    manifests: list[Manifest]
    """Not forgotten yet."""
    messages: int
    """Owed to other shards."""
    urls: dict[str, UrlRecord] = field(repr=False)
    unqueued: list[str]
    """URLs whose record names a lane, but that stand in no queue: they would never be fetched."""

    @classmethod
    def read(cls, path: Path) -> Self:
        kv = RocksKV(path)
        try:
            outbox = Outbox(kv, "")
            records = {key: decode(value, UrlRecord) for key, value in kv.scan(b"u", prefix_end(b"u"))}
            return cls(
                outbox.incarnation,
                {series: outbox.next_number(series) - 1 for series in SERIES},
                outbox.manifests(),
                sum(1 for _ in outbox.messages()),
                {url_of_key(key)[1]: record for key, record in records.items()},
                [url_of_key(key)[1] for key, record in records.items() if _unqueued(kv, key, record)],
            )
        finally:
            kv.close()

    def committed(self, row: dict[str, object]) -> bool:
        """Whether a row of `fetches` was committed (by the cell) when this state was taken."""
        return row["incarnation"] == self.incarnation and row["manifest"] <= self.last[str(row["series"])]  # type: ignore[operator]

    def waiting(self) -> list[str]:
        """URLs that are known and still to be fetched for the first time, or by request."""
        return [
            url
            for url, record in self.urls.items()
            if record.state == QUEUED or record.lane in (DISCOVERY, FASTLANE)
        ]


def _unqueued(kv: OrderedKV, key: bytes, record: UrlRecord) -> bool:
    if record.lane == NO_LANE:
        return record.state == QUEUED
    host, url = url_of_key(key)
    shard = int.from_bytes(key[1:3], "big")
    return kv.get(queue_key(shard, host, record.lane, record.rank, url)) is None
