"""Purges: what has to leave the lake for good on legal request, and how far that is.

`purges.json` in the lake names them until nothing of theirs can come back. Carried out by upkeep
(`upkeep/purge.py`), which looks here at each run: a purge that was killed in the middle goes on there.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from crawl_platform.clock import as_datetime
from crawl_platform.errors import LakeError
from crawl_platform.lake.delta import sync_folder

PURGES_NAME, LOCK_NAME = "purges.json", ".purges.lock"
LATE = 3600.0
"""Rows of up to this long (seconds) after the request go as well: a cell without contact crawls on for
`fleet.silence_limit` (15 min), and clocks differ. Later rows are of a host that was let in again."""


class Purge(msgspec.Struct, frozen=True):
    """`pattern`: a host, `*.domain` or the beginning of URLs. Times are UTC seconds; `erased_at` 0: not yet."""

    request_id: str
    pattern: str
    asked_at: float
    reason: str = ""
    erased_at: float = 0.0

    @property
    def until(self) -> float:
        """Rows from after this time stay."""
        return self.asked_at + LATE


class Names(msgspec.Struct, frozen=True):
    """Columns of a table that name a host or a URL. A row goes if one of them names what is purged, unless its
    column `kept[0]` has one of the values `kept[1]`."""

    columns: tuple[str, ...]
    at: str = ""
    """Column with the row's time; empty: the table has only rows of now."""
    kept: tuple[str, tuple[str, ...]] | None = None


NAMES = {
    "fetches": Names(("host", "url"), "started_at"),
    "links": Names(("src_host", "src_url", "dst_host", "dst_url"), "seen_at"),
    "pages": Names(("host", "url"), "fetched_at"),
    "hosts": Names(("host",), "happened_at", ("event", ("excluded", "purged"))),
    "frontier": Names(("host", "url"), "snapshot_at"),
    "decisions": Names(("subject",), "decided_at", ("verdict", ("purged",))),
    "promotions": Names(("host",), "decided_at"),
    "probation": Names(("host",), "decided_at"),
    "crawl_schedule": Names(("host",), "starts_at"),
    "host_graph": Names(("src_host", "dst_host")),
    "host_ranks": Names(("host",)),
    "related_hosts": Names(("host",)),
    "url_groups": Names(("host", "example")),
    "change_rates": Names(("host",)),
    "cold_priors": Names(("host",)),
    "group_work": Names(("host",)),
    "secondary_groups": Names(("host",)),
    "near_duplicates": Names(("host", "url", "representative")),
    "page_ranks": Names(("host", "url")),
    "page_values": Names(("host", "url")),
    "watched_pages": Names(("host", "url")),
    "seed_audit": Names(("host",)),
    "usage": Names(("host", "url"), "used_at"),
}
"""Every table that can name a host; `requests` does too, and is kept whole: who asked for what, the purge included."""


def is_prefix(pattern: str) -> bool:
    """Whether it is the beginning of URLs, not a host or `*.domain`."""
    return "://" in pattern


def expression(pattern: str) -> str:
    """A regular expression (RE2) that finds `pattern` at the start of a hostname or of a canonical URL."""
    if is_prefix(pattern):
        return "^" + re.escape(pattern)
    below = r"(?:[^/?#]*\.)?" if pattern.startswith("*.") else ""
    host = re.escape(pattern.removeprefix("*."))
    return rf"^(?:https?://)?{below}{host}(?::[0-9]+)?(?:[/?#]|$)"


def named(rows: pa.Table, names: Names, pattern: str, until: float | None = None) -> pa.ChunkedArray:
    """Which of `rows` a purge of `pattern` takes, as a boolean column without nulls. `until`: UTC seconds; None: at
    any time. Columns that `rows` lacks name nothing."""
    found = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    for column in names.columns:
        if column in rows.column_names:
            text = rows[column].cast(pa.string())
            hits = pc.match_substring_regex(text, expression(pattern))
            found = pc.or_(found, pc.fill_null(hits, False))
    if until is not None and names.at:
        early = pc.less_equal(rows[names.at], pa.scalar(as_datetime(until), rows.schema.field(names.at).type))
        found = pc.and_(found, pc.fill_null(early, True))
    if names.kept is not None:
        kept = pc.is_in(rows[names.kept[0]].cast(pa.string()), value_set=pa.array(names.kept[1]))
        found = pc.and_(found, pc.invert(kept))
    return found


def condition(names: Names, parameter: str) -> str:
    """The same as SQL, for DuckDB; `parameter` is the placeholder of the `expression`."""
    hits = " OR ".join(f"regexp_matches({column}, {parameter})" for column in names.columns)
    if names.kept is None:
        return f"({hits})"
    values = ", ".join(f"'{value}'" for value in names.kept[1])
    return f"({hits}) AND {names.kept[0]} NOT IN ({values})"


# which are known


def purges(root: Path) -> list[Purge]:
    """Those of the lake at `root`, oldest first."""
    try:
        return msgspec.json.decode((root / PURGES_NAME).read_bytes(), type=list[Purge])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        raise LakeError(f"{root / PURGES_NAME} is damaged: {error}") from error


def note(root: Path, purge: Purge) -> None:
    """Add or replace a purge. Durable on return."""
    with _alone(root):
        others = [known for known in purges(root) if known.request_id != purge.request_id]
        _write(root, [*others, purge])


def forget(root: Path, pattern: str) -> int:
    """Forget the purges of exactly `pattern` (its exclusion was lifted): rows that come now stay. Returns how many."""
    with _alone(root):
        known = purges(root)
        others = [purge for purge in known if purge.pattern != pattern]
        if len(others) < len(known):
            _write(root, others)
        return len(known) - len(others)


def _write(root: Path, known: list[Purge]) -> None:
    draft = root / f".{PURGES_NAME}"
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(sorted(known, key=lambda purge: purge.asked_at)))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(root / PURGES_NAME)
    sync_folder(root)


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    with (root / LOCK_NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
