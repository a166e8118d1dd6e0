"""An export of kept page versions into one WARC file: whole or not there, and resumable.

Records go into `<file>.part`. After each batch, in this order: 1. the part is on the disk, 2. so is
`<file>.part.json`, which says how far it is and at which versions of the tables it reads. An export that
was cut off goes on there: what the part has beyond is dropped. At the end the part takes the file's name.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import msgspec

from crawl_platform.clock import Clock, as_datetime
from crawl_platform.errors import ConfigurationError, LakeError
from crawl_platform.fleet.warc import WarcFile, take_out
from crawl_platform.lake.delta import sync_folder
from crawl_platform.lake.lake import Lake

BATCH = 100
"""Pages between two notes of how far it is; with their bodies of at most some 250 KB they fit in memory."""
TABLES_READ = ("pages", "fetches")
EXPORTS_NAME = "exports.json"
"""In the crawl's home: the files that were exported, for a purge to find them."""
WHERE = """
(len($hosts) = 0 OR host IN (SELECT unnest($hosts::VARCHAR[])))
AND (len($urls) = 0 OR url IN (SELECT unnest($urls::VARCHAR[])))
AND ($since::TIMESTAMPTZ IS NULL OR fetched_at >= $since::TIMESTAMPTZ)
AND ($until::TIMESTAMPTZ IS NULL OR fetched_at < $until::TIMESTAMPTZ)
AND ($since::TIMESTAMPTZ IS NULL OR date >= ($since::TIMESTAMPTZ AT TIME ZONE 'UTC')::DATE)
"""
DAYS = f"SELECT DISTINCT date FROM pages WHERE {WHERE} ORDER BY date"
VERSIONS = f"""
SELECT fetch_id, url, fetched_at, content_type, charset, fingerprint, truncated, body, body_encoding
FROM pages WHERE date = $day AND {WHERE} AND body IS NOT NULL OFFSET $skip
"""
FETCHES = """
SELECT fetch_id, status, outcome, address, duration_ms FROM fetches
WHERE date = $day AND fetch_id IN (SELECT unnest($ids::VARCHAR[]))
"""


class Selection(msgspec.Struct, frozen=True):
    """Which versions: of these hosts, these canonical URLs (empty: all), fetched from `since` until before `until`."""

    hosts: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def words(self) -> str:
        parts = [*self.hosts, *self.urls] or ["all pages"]
        parts += [f"from {self.since.isoformat()}"] if self.since else []
        parts += [f"until {self.until.isoformat()}"] if self.until else []
        return ", ".join(parts)


class Progress(msgspec.Struct):
    """How far a part is: `size` bytes hold `pages` pages, the last of them row number `rows` of `day`."""

    selection: Selection
    versions: dict[str, int]
    begun_at: float
    day: date | None = None
    rows: int = 0
    pages: int = 0
    size: int = 0


@dataclass(frozen=True)
class Exported:
    """`resumed`: pages that an earlier attempt had written."""

    pages: int
    size: int
    resumed: int


class Export:
    """One export to `path`. `agent` is the user agent that fetched the pages."""

    def __init__(self, lake: Lake, selection: Selection, path: Path, agent: str, clock: Clock) -> None:
        self._lake = lake
        self._selection = selection
        self._path = path
        self._agent = agent
        self._clock = clock
        self._part = path.with_name(path.name + ".part")
        self._note = path.with_name(path.name + ".part.json")

    def forget(self) -> None:
        """Drop what an earlier attempt has left."""
        self._part.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def run(self, tell: Callable[[int], None]) -> Exported:
        """Write the file, or what is missing of it; `tell` hears the number of pages written so far.

        Raises `ConfigurationError` if the part is of another selection, `LakeError` if the versions that it
        was begun at can't be read any more.
        """
        progress = self._progress()
        resumed = progress.pages
        try:
            self._write(progress, tell)
        except duckdb.InterruptException as error:
            raise KeyboardInterrupt from error
        except duckdb.Error as error:
            raise LakeError(f"the lake can't be read: {error}") from error
        self._part.replace(self._path)
        self._note.unlink(missing_ok=True)
        sync_folder(self._path.parent)
        return Exported(progress.pages, progress.size, resumed)

    def _write(self, progress: Progress, tell: Callable[[int], None]) -> None:
        with self._connect(progress) as connection, self._part.open("r+b") as out:
            out.truncate(progress.size)
            out.seek(progress.size)
            file = WarcFile(out)
            if not progress.size:
                begun = as_datetime(progress.begun_at)
                file.begin(self._path.name, begun, self._agent, self._selection.words())
            for day in self._days(connection, progress.day):
                self._export_day(connection, day, progress, file, out, tell)
            self._keep(progress, out)

    def _progress(self) -> Progress:
        """That of an earlier attempt, or a new one at the tables' present versions."""
        with suppress(FileNotFoundError):
            progress = msgspec.json.decode(self._note.read_bytes(), type=Progress)
            if progress.selection != self._selection:
                raise ConfigurationError(
                    f"{self._part} is of another export ({progress.selection.words()}): go on with that one, "
                    "or start over with --restart"
                )
            if self._part.exists() and self._part.stat().st_size >= progress.size:
                return progress
        versions, _ = self._lake.vector(tables=TABLES_READ)
        self._part.write_bytes(b"")
        return Progress(self._selection, versions, self._clock.now())

    def _connect(self, progress: Progress) -> duckdb.DuckDBPyConnection:
        try:
            connection = self._lake.connect(versions=progress.versions)
        except LakeError as error:
            raise LakeError(
                f"the versions that this export was begun at are gone: start over with --restart ({error})"
            ) from error
        connection.execute("SET threads = 1")  # rows come in the same order each time: resuming counts them
        return connection

    def _days(self, connection: duckdb.DuckDBPyConnection, after: date | None) -> list[date]:
        days = [row[0] for row in connection.execute(DAYS, self._parameters()).fetchall()]
        return [day for day in days if after is None or day >= after]

    def _parameters(self, **others: Any) -> dict[str, Any]:
        chosen = self._selection
        return {
            "hosts": list(chosen.hosts), "urls": list(chosen.urls), "since": chosen.since, "until": chosen.until,
            **others,
        }  # fmt: skip

    def _export_day(
        self,
        connection: duckdb.DuckDBPyConnection,
        day: date,
        progress: Progress,
        file: WarcFile,
        out: BinaryIO,
        tell: Callable[[int], None],
    ) -> None:
        if progress.day != day:
            progress.day, progress.rows = day, 0
        for versions in _batches(connection, self._parameters(day=day, skip=progress.rows)):
            fetches = self._fetches(connection, day, [version["fetch_id"] for version in versions])
            for version in versions:
                file.page(version, fetches.get(version["fetch_id"], {}))
            progress.rows += len(versions)
            progress.pages += len(versions)
            self._keep(progress, out)
            tell(progress.pages)

    def _fetches(
        self, connection: duckdb.DuckDBPyConnection, day: date, ids: list[str]
    ) -> dict[str, dict[str, Any]]:
        with connection.cursor() as cursor:  # the pages are still being read from the connection's own
            rows = cursor.execute(FETCHES, {"day": day, "ids": ids}).to_arrow_table().to_pylist()
        return {row["fetch_id"]: row for row in rows}

    def _keep(self, progress: Progress, out: BinaryIO) -> None:
        out.flush()
        os.fsync(out.fileno())
        progress.size = out.tell()
        draft = self._note.with_name(f".{self._note.name}")
        with draft.open("wb") as note:
            note.write(msgspec.json.encode(progress))
            note.flush()
            os.fsync(note.fileno())
        draft.replace(self._note)


def exported(home: Path) -> list[Path]:
    """Files that were ever exported from this crawl, whether they are still there or not."""
    try:
        return [
            Path(name) for name in msgspec.json.decode((home / EXPORTS_NAME).read_bytes(), type=list[str])
        ]
    except FileNotFoundError:
        return []


def note_export(home: Path, path: Path) -> None:
    """Remember, before it is begun, that pages are exported to `path`."""
    known = [str(other) for other in exported(home)]
    if str(path) not in known:
        draft = home / f".{EXPORTS_NAME}"
        draft.write_bytes(msgspec.json.encode([*known, str(path)]))
        draft.replace(home / EXPORTS_NAME)


def take_out_of_exports(home: Path, takes: Callable[[str], bool]) -> dict[Path, int]:
    """Take records out of every export that is still where it was written: file → records that went. An export that
    is not finished begins anew: the versions that it reads are gone."""
    gone = {}
    for path in exported(home):
        for part in (path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")):
            part.unlink(missing_ok=True)
        if path.exists():
            gone[path] = take_out(path, takes)
    return gone


def _batches(
    connection: duckdb.DuckDBPyConnection, parameters: dict[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    for batch in connection.execute(VERSIONS, parameters).to_arrow_reader(BATCH):
        if batch.num_rows:
            yield batch.to_pylist()
