"""Deletes what no reader can ask for any more: data files, staged files, and entries of the log.

A version is within history if it was current at any moment of the last `history_days`, or if one of these needs
it: the vectors in `commits` of that time (and the last one, however old), and the versions that Dagster's tables of
that time say they were computed from. All versions from the oldest of these on are kept whole; `lake/history.py`
tells readers where that is before the first file is deleted.

Log entries before the last checkpoint at or below that version are deleted too: a busy table adds tens of thousands
a day. Dagster's provenance (`Lake.inputs_of`) is in these entries, so it reaches as far back as history.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from crawl_platform.clock import as_datetime
from crawl_platform.lake.commits import CommitRow
from crawl_platform.lake.delta import STAGED
from crawl_platform.lake.history import forget_before, oldest_readable
from crawl_platform.lake.lake import INPUTS_KEY, Lake
from crawl_platform.lake.maintenance import checkpoint
from crawl_platform.lake.purges import purges
from crawl_platform.lake.tables import COMMITS, REQUESTS, TABLES
from crawl_platform.lake.upkeep.report import FORGOTTEN, Job

LOG = "_delta_log"
KEPT_WHOLE = frozenset({REQUESTS.name})
"""A sensor reads what came to `requests` since the version that it saw last, however long it was away."""
GRACE = 3600.0
"""Seconds that any unnamed file is left alone, whatever the settings say: its writer may be about to commit it."""
_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint.*\.parquet)")


@dataclass(frozen=True)
class Needs:
    """What must be kept of a table: versions from `since` on, the files that these name, and, of the files in
    `_staged` that are not among them, `removed`: those that the log once named."""

    since: int
    files: frozenset[str]
    removed: frozenset[str]


def history_starts(lake: Lake, now: float, history: float) -> dict[str, int]:
    """Table → oldest version within `history` seconds before `now` (UTC seconds)."""
    horizon = now - history
    starts = {name: _version_at(lake.path(name), horizon) for name in TABLES}
    for named in (*_vectors(lake, horizon), *_inputs(lake, starts, horizon)):
        for name, version in named.items():
            if name in starts:
                starts[name] = min(starts[name], version)
    gone = oldest_readable(lake.root)
    return {name: max(version, gone.get(name, 0)) for name, version in starts.items()}


def _version_at(root: Path, horizon: float) -> int:
    """The version that was current at that time, or the oldest in the log."""
    entries = [(version, path) for version, kind, path in log_files(root) if kind == "json"]
    for n, (version, path) in enumerate(entries):
        if path.stat().st_mtime > horizon:
            return entries[n - 1][0] if n else version
    return entries[-1][0]


def log_files(root: Path) -> list[tuple[int, str, Path]]:
    """(version, json or checkpoint…, path) of the files in a table's log, in order."""
    found = []
    for path in (root / LOG).iterdir():
        match = _ENTRY.fullmatch(path.name)
        if match:
            found.append((int(match[1]), match[2], path))
    return sorted(found, key=lambda entry: entry[:2])


def _vectors(lake: Lake, horizon: float) -> Iterator[dict[str, int]]:
    """The vector that was the last at that time, and the last one of all: vectors only grow in between."""
    last = lake.latest_commit()
    if last is not None:
        yield last.versions
        yield _commit_at(lake, horizon).versions


def _commit_at(lake: Lake, horizon: float) -> CommitRow:
    at = as_datetime(horizon)
    known = lake.query(
        "SELECT coalesce(max(commit_id) FILTER (committed_at <= $1), min(commit_id)) AS commit_id FROM commits",
        [at],
    )
    return lake.commit(int(known["commit_id"][0].as_py()))


def _inputs(lake: Lake, starts: Mapping[str, int], horizon: float) -> Iterator[dict[str, int]]:
    """What the versions that were written after `horizon` say they were computed from."""
    for table in TABLES.values():
        if table.writer != "dagster":
            continue
        for version, kind, path in log_files(lake.path(table.name)):
            if kind == "json" and version >= starts[table.name] and path.stat().st_mtime > horizon:
                for action in actions(path, b'"commitInfo"'):
                    text = action["commitInfo"].get(INPUTS_KEY)
                    if isinstance(text, str):
                        yield msgspec.json.decode(text, type=dict[str, int])


def actions(path: Path, kind: bytes) -> Iterator[dict[str, Any]]:
    """Actions of one kind in a log entry: a line is an object with the kind as its only key."""
    for line in path.read_bytes().splitlines():
        if line.startswith(b"{" + kind):
            yield msgspec.json.decode(line)


def needs(lake: Lake, name: str, since: int) -> Needs:
    """Files that the versions from `since` on name, read from the log."""
    root = lake.path(name)
    oldest = pa.table(lake.delta(name, since).get_add_actions(flatten=True))
    files = set(oldest["path"].to_pylist())
    removed: set[str] = set()
    for version, kind, path in log_files(root):
        if kind != "json":
            continue
        if version > since:
            files.update(action["add"]["path"] for action in actions(path, b'"add"'))
        else:
            removed.update(action["remove"]["path"] for action in actions(path, b'"remove"'))
    return Needs(since, frozenset(files), frozenset(removed - files))


def vacuum(
    job: Job, name: str, since: int, *, history: float, staged: float, held: Collection[str] | None
) -> None:
    """Delete what is outside the history that begins at version `since`; `history` and `staged` in seconds.

    `held`: staged files (relative to the table) that a manifest names which the lake hasn't confirmed. None:
    unknown, then no staged file is deleted.
    """
    if name in KEPT_WHOLE:
        return
    keep = needs(job.lake, name, since)
    if not job.dry_run:
        forget_before(job.lake.root, name, since)
        job.reached(FORGOTTEN)
    root, now = job.lake.path(name), job.clock.now()
    old = now - max(history, GRACE)
    begun = job.clock.boottime()
    unnamed = [f for f in data_files(root) if f not in keep.files and _modified(root / f) < old]
    freed = _delete(job, root, unnamed)
    entries = _trim_log(job, name, since)
    if unnamed or entries:
        detail = f"versions from {since} on are kept; {entries} log entries deleted"
        job.note(name, "vacuum", begun, files_removed=len(unnamed), bytes_freed=freed, detail=detail)
    if held is not None:
        _sweep(job, name, keep, held, old, now - max(staged, GRACE))


def _sweep(job: Job, name: str, keep: Needs, held: Collection[str], old: float, older: float) -> None:
    """`_staged`: what compaction has taken out of the table goes with its history, orphans after `staged_days`."""
    begun = job.clock.boottime()
    root = job.lake.path(name)
    staged = staged_files(root)
    loose = [f for f in staged if f not in keep.files and f not in held]
    gone = [f for f in loose if _modified(root / f) < (old if f in keep.removed else older)]
    orphans = sum(f not in keep.removed for f in gone)
    freed = _delete(job, root, gone)
    if gone:
        job.note(
            name,
            "sweep",
            begun,
            files_before=len(staged),
            files_after=len(staged) - len(gone),
            files_removed=len(gone),
            bytes_freed=freed,
            detail=f"{orphans} of them were never in the table",
        )


def data_files(root: Path) -> list[str]:
    """Data files of a table outside the folders that begin with an underscore, relative to `root`."""
    here = [path.name for path in root.glob("*.parquet")]
    folders = [path for path in root.iterdir() if path.is_dir() and not path.name.startswith("_")]
    return here + [str(path.relative_to(root)) for folder in folders for path in folder.rglob("*.parquet")]


def staged_files(root: Path) -> list[str]:
    """Files in a table's `_staged`, relative to `root`."""
    return [f"{STAGED}/{path.name}" for path in (root / STAGED).glob("*.parquet")]


def old_orphans(lake: Lake, name: str, before: float) -> list[str]:
    """Staged files from before that time (UTC seconds) that no readable version names."""
    root = lake.path(name)
    keep = needs(lake, name, oldest_readable(lake.root).get(name, 0))
    return sorted(f for f in staged_files(root) if f not in keep.files and _modified(root / f) < before)


def _modified(path: Path) -> float:
    return path.stat().st_mtime


def _delete(job: Job, root: Path, files: list[str]) -> int:
    """Returns the bytes that it frees."""
    freed = 0
    for file in files:
        freed += (root / file).stat().st_size
        if not job.dry_run:
            (root / file).unlink()
    return freed


def _trim_log(job: Job, name: str, since: int) -> int:
    """Cut the log off before the last checkpoint at or below `since`; returns the number of entries deleted.

    First a new checkpoint if one is due: it is what the next runs cut at, and what readers start from.
    """
    if not job.dry_run:
        checkpoint(job.lake, name)
    entries = log_files(job.lake.path(name))
    bases = [version for version, kind, _ in entries if kind != "json" and version <= since]
    if not bases:
        return 0
    before = [path for version, _, path in entries if version < max(bases)]
    if not job.dry_run:
        for path in before:
            path.unlink()
    return len(before)


def missing_from_history(lake: Lake, name: str) -> list[str]:
    """Files that a readable version of the table names and that aren't there. Raises `LakeError` if the log of the
    oldest one can't be read."""
    since = oldest_readable(lake.root).get(name, 0)
    keep = needs(lake, name, since)
    return sorted(file for file in keep.files if not (lake.path(name) / file).exists())


def vectors_before_history(lake: Lake, now: float, history: float) -> list[int]:
    """Commits of the last `history` seconds whose vector names a version that is no longer readable. Those from before
    a purge are not meant to be."""
    oldest = oldest_readable(lake.root)
    pairs = [(name, version) for name, version in oldest.items() if name != COMMITS.name]
    if not pairs:
        return []
    tests = " OR ".join(f"versions['{name}'] < {version}" for name, version in pairs)
    sql = f"SELECT commit_id FROM commits WHERE committed_at > $1 AND ({tests}) ORDER BY commit_id"
    since = max((purge.erased_at for purge in purges(lake.root)), default=0.0)
    found: list[int] = lake.query(sql, [as_datetime(max(now - history, since))])["commit_id"].to_pylist()
    return found
