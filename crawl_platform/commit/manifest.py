"""The manifest: what one epoch brings to the lake, numbered without gaps per incarnation and series."""

from typing import Annotated

import msgspec

from crawl_platform.lake.delta import StagedFile

BULK, FAST = "bulk", "fast"
SERIES = (BULK, FAST)
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
Number = Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
Shard = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
"""What a manifest from somewhere else has to be before Delta gets to see it."""


class Manifest(msgspec.Struct, frozen=True):
    """`created_at`: UTC seconds. `shards`: whose URLs have rows in it (for redelivery)."""

    incarnation: Name
    series: Name
    number: Number
    cell: str
    schema_version: int
    created_at: Seconds
    shards: tuple[Shard, ...]
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
    """Raises `msgspec.DecodeError` if it isn't one."""
    return msgspec.json.decode(data, type=Manifest)
