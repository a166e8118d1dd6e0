"""Usage told from outside: files of URLs with retrievals and critical flags, read line by line into rows of `usage`.

A file is CSV (with a header), JSON lines or Parquet with the columns `url`, `retrievals`, `critical` and `at`. A `url`
without a scheme is a host: then `critical` is for all of its pages. What is no good is a `Fault` with its line.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from crawl_platform.clock import as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import USAGE
from crawl_platform.web.host import is_hostname
from crawl_platform.web.url import canonicalize, host_of

COLUMNS = ("url", "retrievals", "critical", "at")
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
MOST_RETRIEVALS = 10**12
EARLIEST = 631_152_000.0
"""1990: before the web, a date is a default of somebody's software."""
LATEST = 86_400.0
"""Seconds after now that are still taken for a clock that differs."""
BATCH = 50_000
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


class Used(NamedTuple):
    """A good line. `url` is None for a host as a whole; `at` is UTC seconds."""

    line: int
    url: str | None
    host: str
    at: float
    retrievals: int | None
    critical: bool | None


class Fault(NamedTuple):
    """A line that is no good; `text` is what it says of the page, cut."""

    line: int
    text: str
    why: str


Record = tuple[int, dict[str, Any] | str]
"""Line, and its values by column; or what is wrong with the line as a whole."""


def read_usage(path: Path, form: str, now: float) -> Iterator[Used | Fault]:
    """What the lines of a file say. `form`: csv, jsonl or parquet; `now`: UTC seconds, for lines without a time.

    Raises `ConfigurationError` if the file as a whole can't be read or lacks the columns.
    """
    readers = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
    try:
        for line, values in readers[form](path):
            yield Fault(line, "", values) if isinstance(values, str) else used(line, values, now)
    except pa.ArrowException as error:
        raise ConfigurationError(f"{path} is no Parquet file that can be read: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error


def format_of(path: Path) -> str:
    """csv, jsonl or parquet, by the file's name. Raises `ConfigurationError` if that says nothing."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ConfigurationError(f"{path}: say what it is with --format csv, jsonl or parquet") from None


def digest_of(path: Path) -> str:
    """What a file is known by: its content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error


def used(line: int, values: dict[str, Any], now: float) -> Used | Fault:
    """What one line says."""
    named = values.get("url")
    text = named if isinstance(named, str) else ""
    try:
        url, host = _page(named)
        at = _time(values.get("at"), now)
        retrievals, critical = _count(values.get("retrievals")), _flag(values.get("critical"))
        if url is None and retrievals is not None:
            raise ValueError("retrievals are those of a page: name its URL")
        if retrievals is None and critical is None:
            raise ValueError("says neither retrievals nor critical")
    except ValueError as error:
        return Fault(line, text[:200], str(error))
    return Used(line, url, host, at, retrievals, critical)


def _page(named: Any) -> tuple[str | None, str]:
    if not isinstance(named, str) or not named.strip():
        raise ValueError("names no URL")
    name = named.strip()
    if "://" in name:
        url = canonicalize(name)
        if url is None:
            raise ValueError("not a URL that can be crawled")
        return url, host_of(url)
    if not is_hostname(name.lower()):
        raise ValueError("neither a URL with http:// or https:// nor a host")
    return None, name.lower()


def _time(value: Any, now: float) -> float:
    if value is None or value == "":
        return now
    try:
        at = _seconds(value)
    except (ValueError, OverflowError):
        raise ValueError(f"at must be a time like 2026-03-01T12:00:00Z, not {value!r}") from None
    if not EARLIEST <= at <= now + LATEST:
        raise ValueError(f"at lies {'before the web' if at < EARLIEST else 'in the future'}: {value!r}")
    return at


def _seconds(value: Any) -> float:
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day, tzinfo=UTC)
    elif isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            found = datetime.fromisoformat(value.strip())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    else:
        raise ValueError
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _count(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        number = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        number = -1.0
    if not number.is_integer() or not 0 <= number <= MOST_RETRIEVALS:
        raise ValueError(f"retrievals must be a whole number from 0, not {value!r}")
    return int(number)


def _flag(value: Any) -> bool | None:
    if value is None or value == "":
        return None
    word = str(value).strip().lower()
    if word not in (*TRUE, *FALSE):
        raise ValueError(f"critical must be true or false, not {value!r}")
    return word in TRUE


# the three kinds of files


def _csv(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        lines = csv.reader(file)
        try:
            header = [name.strip().lower() for name in next(lines, [])]
            _require(path, header)
            for values in lines:
                if values:
                    yield lines.line_num, _record(header, values)
        except csv.Error as error:
            raise ConfigurationError(f"{path}, line {lines.line_num}: {error}") from error


def _record(header: list[str], values: list[str]) -> dict[str, Any] | str:
    if len(values) != len(header):
        return f"has {len(values)} fields, the header has {len(header)}"
    if any(
        not value.isascii() and any("\udc80" <= letter <= "\udcff" for letter in value) for value in values
    ):
        return "not UTF-8"
    return dict(zip(header, values, strict=True))


def _jsonl(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                values = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield number, f"not JSON: {error}"
                continue
            yield number, values if isinstance(values, dict) else "not an object"


def _parquet(path: Path) -> Iterator[Record]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        _require(path, names)
        number = 0
        for batch in file.iter_batches(BATCH, columns=[name for name in COLUMNS if name in names]):
            for values in batch.to_pylist():
                number += 1
                yield number, values


def _require(path: Path, header: list[str]) -> None:
    if "url" not in header or not {"retrievals", "critical"} & set(header):
        raise ConfigurationError(
            f"{path} needs columns url, and retrievals or critical (and may have at); "
            f"it has: {', '.join(header) or 'none'}"
        )


# into the lake


def is_imported(lake: Lake, import_id: str) -> bool:
    """Whether a file with this digest has been imported."""
    return lake.delta("usage").transaction_version(_transaction(import_id)) is not None


def append_usage(lake: Lake, rows: Iterable[Used], source: str, import_id: str, now: float) -> int:
    """Write rows, all or none; a file that was imported before changes nothing. Returns the table's version."""
    at = as_datetime(now)
    listed = list(rows)
    columns = {
        "url": [row.url for row in listed],
        "host": [row.host for row in listed],
        "used_at": [as_datetime(row.at) for row in listed],
        "retrievals": [row.retrievals for row in listed],
        "critical": [row.critical for row in listed],
        "source": [source] * len(listed),
        "line": [row.line for row in listed],
        "import_id": [import_id] * len(listed),
        "imported_at": [at] * len(listed),
        "date": [at.date()] * len(listed),
    }
    table = pa.table(columns, schema=USAGE.schema)
    return lake.append("usage", table, transaction=(_transaction(import_id), 1))


def _transaction(import_id: str) -> str:
    return f"usage/{import_id}"
