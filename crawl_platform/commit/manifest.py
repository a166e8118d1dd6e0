"""The manifest: what one epoch brings to the lake, numbered without gaps per incarnation and series."""

import msgspec

from crawl_platform.lake.delta import StagedFile

BULK, FAST = "bulk", "fast"
SERIES = (BULK, FAST)


class Manifest(msgspec.Struct, frozen=True):
    """`created_at`: UTC seconds. `shards`: whose URLs have rows in it (for redelivery)."""

    incarnation: str
    series: str
    number: int
    cell: str
    schema_version: int
    created_at: float
    shards: tuple[int, ...]
    files: tuple[StagedFile, ...]

    @property
    def app(self) -> str:
        """The Delta application whose transaction number this manifest is."""
        return application(self.incarnation, self.series)

    @property
    def tables(self) -> set[str]:
        return {file.table for file in self.files}

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def label(self) -> str:
        return f"{self.app}/{self.number}"


def application(incarnation: str, series: str) -> str:
    return f"{incarnation}/{series}"


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode_manifest(data: bytes) -> Manifest:
    """Raises `msgspec.ValidationError` if it isn't one."""
    return msgspec.json.decode(data, type=Manifest)
