"""Requests by people and upstream systems: how they get into the lake, and how sensors read new ones.

`via` says who publishes: `exchange` means that whoever asked has published it already (the CLI, a launchpad
job); `table` means that a row is all there is, and a sensor hands it over.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from crawl_platform.clock import as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.extension import literal, open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import DECISIONS, REQUESTS
from crawl_platform.web.host import is_hostname
from crawl_platform.web.url import canonicalize, host_of

MOST_PER_TICK = 200
"""Publishing one takes about 10 ms: a sensor's tick stays far under Dagster's limit of 60 s."""

MAX_AGE = 7 * 86_400.0
"""Cells remember request ids for 7 days: an older request could be carried out twice."""

KNOWN_URLS = """
SELECT dst_url FROM links_now WHERE dst_host = ?
GROUP BY dst_url ORDER BY count(DISTINCT src_host) DESC, count(*) DESC, dst_url LIMIT ?
"""
"""Known URLs of a host that is promoted by request: linked from most hosts first. Parameters: host, most."""

KINDS = ("recrawl", "promote", "exclude", "lift")
LAST_ASCII = "~"
"""Above every character that an id has."""
COLUMNS_READ = [column.name for column in REQUESTS.columns if column.name not in REQUESTS.partition_by]


class Request(msgspec.Struct, frozen=True):
    """A row of `requests`. `at` is UTC seconds; `kind` is recrawl, promote, exclude or lift; remove, purge, trim and
    watch, which only the commands of these names carry out."""

    request_id: str
    at: float
    kind: str
    target: str
    requested_by: str
    via: str
    reason: str = ""
    priority: float = 0.0


class Cursor(msgspec.Struct, frozen=True):
    """How far a sensor has read: everything up to a version of `requests`, and `done` of what came after."""

    version: int = -1
    done: tuple[str, ...] = ()


def append_requests(store: Lake, requests: Sequence[Request]) -> int:
    """Write the rows of `requests`; returns the version that holds them."""
    rows = []
    for request in requests:
        at = as_datetime(request.at)
        rows.append({**msgspec.structs.asdict(request), "requested_at": at, "date": at.date()})
    return store.append("requests", pa.Table.from_pylist(rows, schema=REQUESTS.schema))


def find_requests(store: Lake, prefix: str) -> list[Request]:
    """Requests whose id starts with `prefix`, oldest first; ids that appear twice are one request.

    Reads only the files whose statistics allow such an id, without a database: some 10 ms.
    """
    until = prefix + LAST_ASCII
    rows: list[dict[str, Any]] = []
    for path in _files_with_ids(store, prefix, until):
        filters = (ds.field("request_id") >= prefix) & (ds.field("request_id") < until)
        rows += pq.ParquetFile(path).read(COLUMNS_READ).filter(filters).to_pylist()
    found: dict[str, Request] = {}
    for row in sorted(rows, key=lambda row: row["requested_at"]):
        request = Request(
            row["request_id"],
            row["requested_at"].timestamp(),
            row["kind"],
            row["target"],
            row["requested_by"],
            row["via"],
            row["reason"] or "",
            row["priority"] or 0.0,
        )
        found.setdefault(request.request_id, request)
    return list(found.values())


def _files_with_ids(store: Lake, since: str, until: str) -> list[Path]:
    """Live files that may hold ids from `since` until before `until`; those that don't say may too."""
    files = pa.table(store.delta("requests").get_add_actions(flatten=True)).to_pylist()
    return [
        store.path("requests") / unquote(file["path"])
        for file in files
        if (file.get("min.request_id") or "") < until and (file.get("max.request_id") or until) >= since
    ]


def new_requests(
    store: Lake,
    kinds: tuple[str, ...],
    cursor: Cursor,
    limit: int = MOST_PER_TICK,
    *,
    unknown: bool = False,
) -> tuple[list[Request], Cursor]:
    """The next requests of `kinds` for a sensor to publish, at most `limit`, and the cursor once it has.

    With `unknown` also those of kinds that don't exist, for it to refuse. By priority, then by age. A request id
    that appears twice is one request.
    """
    version = store.version("requests")
    if version == cursor.version:
        return [], cursor
    named = f"n.kind IN ({_literals(kinds)})" + (f" OR n.kind NOT IN ({_literals(KINDS)})" if unknown else "")
    found = [r for r in _between(store, named, cursor.version, version) if r.request_id not in cursor.done]
    batch = found[:limit]
    if len(batch) == len(found):
        return batch, Cursor(version)
    return batch, Cursor(cursor.version, (*cursor.done, *(r.request_id for r in batch)))


def _literals(texts: tuple[str, ...]) -> str:
    return ", ".join(map(literal, texts))


def _between(store: Lake, named: str, since: int, until: int) -> list[Request]:
    source = literal(str(store.path("requests")))
    older = f"ANTI JOIN delta_scan({source}, version => {since}) o ON o.request_id = n.request_id"
    query = f"""
        SELECT n.request_id, epoch(n.requested_at) AS at, n.kind, n.target, n.requested_by, n.via,
            coalesce(n.reason, '') AS reason, coalesce(n.priority, 0) AS priority
        FROM delta_scan({source}, version => {until}) n {older if since >= 0 else ""}
        WHERE n.via = 'table' AND ({named})
        QUALIFY row_number() OVER (PARTITION BY n.request_id ORDER BY n.requested_at) = 1
        ORDER BY coalesce(n.priority, 0) DESC, n.requested_at, n.request_id
    """
    with open_duckdb() as connection:
        rows: list[dict[str, Any]] = connection.execute(query).to_arrow_table().to_pylist()
    return [msgspec.convert(row, Request) for row in rows]


def require_kind(request: Request) -> None:
    """Raise `ConfigurationError` for a request of a kind that doesn't exist: nobody would carry it out."""
    if request.kind not in KINDS:
        raise ConfigurationError(
            f"unknown kind {request.kind!r}: write {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )


def require_fresh(request: Request, now: float) -> None:
    """Raise `ConfigurationError` for a request that is too old to be carried out safely."""
    if now - request.at > MAX_AGE:
        raise ConfigurationError("older than 7 days: ask again if it is still wanted")


def require_host(target: str) -> str:
    """`target` if it is a bare hostname. Raises `ConfigurationError` saying what is wrong."""
    canonical = canonicalize(f"https://{target}/")
    if canonical is None or host_of(canonical) != target:
        raise ConfigurationError(f"not a hostname: {target!r} (write it like www.example.org)")
    return target


def named_host(text: str) -> str:
    """The host that a person named, in its canonical form. Raises `ConfigurationError` if it is none."""
    name = host_of(canonicalize(f"https://{text}/") or "")
    if not is_hostname(name) or any(mark in text for mark in "/\\?#@:"):
        raise ConfigurationError(f"{text!r} is not a hostname")
    return name


def named_pattern(text: str) -> str:
    """The host or `*.domain` that a person named, in its canonical form. Raises `ConfigurationError` if neither."""
    bare = text.removeprefix("*.")
    try:
        name = named_host(bare)
    except ConfigurationError as error:
        raise ConfigurationError(f"{text!r} is neither a hostname nor *.domain") from error
    return f"*.{name}" if text.startswith("*.") else name


def named_target(text: str) -> str:
    """What a person wants left alone, in its canonical form: a host, `*.domain` or the beginning of URLs."""
    if "://" not in text:
        return named_pattern(text)
    url = canonicalize(text)
    if url is None:
        raise ConfigurationError(f"{text!r} is no URL: write it like https://www.example.org/private/")
    return url


def refuse(store: Lake, request: Request, why: str, now: float, decided_by: str) -> None:
    """Say in `decisions` that a request was refused and why; once per request."""
    at = as_datetime(now)
    row = {
        "decision_id": f"refused-{request.request_id}",
        "decided_at": at,
        "kind": request.kind,
        "subject": request.target,
        "verdict": "refused",
        "reason": why,
        "propensity": 1.0,
        "evidence": msgspec.json.encode(request).decode(),
        "input_versions": [("requests", store.version("requests"))],
        "decided_by": decided_by,
        "date": at.date(),
    }
    known = store.query("SELECT 1 FROM decisions WHERE decision_id = ?", [row["decision_id"]])
    if not known.num_rows:
        store.append("decisions", pa.Table.from_pylist([row], schema=DECISIONS.schema))
