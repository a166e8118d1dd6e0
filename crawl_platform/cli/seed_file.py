"""Files of hosts: plain lists, and tables as top lists are published (rank,domain), gzipped or zipped.

    Tranco, Umbrella      1,example.org
    Majestic              GlobalRank,TldRank,Domain,…      a header names the columns
    CrUX                  origin,rank
    Radar and others      domain                           a header and nothing else

A file is read line by line; a line stands for a host or URL, or for itself where none can be told: whoever reads it
then refuses it with its number.
"""

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import xxhash

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.seeding import crawlable, said

LONGEST = 10_000
"""Characters of a line that are looked at."""
BLOCK = 1 << 20
NAMES = ("domain", "host", "hostname", "origin", "url", "site", "name", "root_domain", "root domain")
RANKS = ("rank", "globalrank", "global_rank", "position")


class Columns(NamedTuple):
    """Of a table: where the host stands, and the rank (-1: nowhere). `header`: the first line names them."""

    host: int
    rank: int
    header: bool


class SeedFile:
    """What a file names. `top` and `min_rank` choose by rank, or by place where the file has none."""

    def __init__(self, path: Path, *, top: int | None = None, min_rank: int = 1) -> None:
        self.path = path
        self._top = top
        self._min_rank = min_rank
        self._raw: IO[bytes] | None = None
        self._size = path.stat().st_size

    @property
    def share_read(self) -> float:
        return self._raw.tell() / self._size if self._raw is not None and self._size else 0.0

    def digest(self) -> str:
        """Of all that is in the file."""
        digest = xxhash.xxh3_128()
        with self.path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def __iter__(self) -> Iterator[str]:
        """A host or URL per line, or the line as it stands; empty where it is not wanted."""
        columns: Columns | None = None
        place = 0
        for line in self._lines():
            text = said(line)
            if place == 0 and columns is None:
                columns = columns_of(text)
                if columns is not None and columns.header:
                    yield ""
                    continue
            name, rank = _cells(text, columns) if columns is not None else (text, None)
            place += bool(text)
            yield name if text and self._wanted(place if rank is None else rank) else ""
            if rank is None and self._top is not None and place >= self._top:
                return

    def _wanted(self, rank: int) -> bool:
        return rank >= self._min_rank and (self._top is None or rank <= self._top)

    def _lines(self) -> Iterator[str]:
        number = 0
        with self.path.open("rb") as raw:
            self._raw = raw
            try:
                with io.TextIOWrapper(_opened(raw, self.path), "utf-8", "replace") as text:
                    while line := text.readline(LONGEST):
                        number += 1
                        yield line
                        while not line.endswith("\n") and (line := text.readline(LONGEST)):
                            pass
            except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
                raise ConfigurationError(
                    f"{self.path} is damaged after line {number}: {error}; what stands before is added"
                ) from error
            finally:
                self._raw = None


def _opened(raw: IO[bytes], path: Path) -> IO[bytes]:
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic != b"PK\x03\x04":
        return raw
    archive = zipfile.ZipFile(raw)
    files = [info for info in archive.infolist() if not info.is_dir()]
    if len(files) != 1:
        names = ", ".join(info.filename for info in files[:5])
        raise ConfigurationError(f"{path} holds {len(files)} files ({names}): unpack the one that is meant")
    return archive.open(files[0])


def columns_of(line: str) -> Columns | None:
    """The columns of a table by its first line; None for a plain list."""
    cells = [cell.strip() for cell in next(csv.reader([line]), [])]
    named = [cell.lower() for cell in cells]
    host = next((named.index(name) for name in NAMES if name in named), -1)
    if host >= 0 and not _is_host(cells[host]):
        return Columns(host, next((named.index(name) for name in RANKS if name in named), -1), True)
    if len(cells) < 2 or "://" in cells[0]:
        return None
    host = next((place for place, cell in enumerate(cells) if _is_host(cell)), -1)
    if host < 0:
        return None
    return Columns(host, next((place for place, cell in enumerate(cells) if cell.isdecimal()), -1), False)


def _is_host(cell: str) -> bool:
    """Whether a cell names a host for certain: a bare word or number may be anything."""
    return ("." in cell or "://" in cell) and not _is_number(cell) and crawlable(cell) is not None


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).isdecimal()


def _cells(line: str, columns: Columns) -> tuple[str, int | None]:
    """(host or URL, rank) of a line of a table; the whole line where it has no such cells."""
    try:
        cells = next(csv.reader([line]), [])
        rank = cells[columns.rank].strip() if columns.rank >= 0 else ""
        return cells[columns.host].strip() or line, int(rank) if rank.isdecimal() else None
    except (csv.Error, IndexError):
        return line, None
