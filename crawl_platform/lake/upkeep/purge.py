"""Purges (`lake/purges.py`) carried out: rows go, then the files and log entries that still held them.

    1 rewrite   each data file with rows of it is replaced by one without, in a commit of its own
    2 publish   the committer writes a row of `commits`: readers move on (between two portions, not here)
    3 forget    past versions of every table that can name a host are no longer readable
    4 delete    files with such rows that no readable version names, and the graphs' arrays, which keep names
    5 trim      log entries before a new checkpoint: statistics in them quote URLs and titles
    6 note      the purge is erased; rows that come late are looked for until none can come any more

Each portion looks at what is there and does the next of these, so a purge that is killed anywhere goes on. Until 2
nothing is lost to a reader; after 3 a query that had begun at an older version may miss a file and has to be run again.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from crawl_platform.clock import DAY
from crawl_platform.lake.arrays import forget_graphs
from crawl_platform.lake.history import forget_before
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.purges import NAMES, Names, Purge, named, note, purges
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.report import COMMITTED, FORGOTTEN, WRITTEN, Job
from crawl_platform.lake.upkeep.rewrite import (
    DAILY,
    LiveFile,
    live_files,
    replace_files,
    rows_of,
    write_files,
)
from crawl_platform.lake.upkeep.vacuum import data_files, log_files, needs, staged_files

Held = Mapping[str, Collection[str]]
FRESH = 60.0
"""Seconds in which a cell that has staged a file commits the manifest that names it."""


def standing(lake: Lake, now: float, manifest_max_age: float) -> list[Purge]:
    """Purges that are not erased yet, or whose rows could still arrive: with a manifest of a cell that was away."""
    late = max(manifest_max_age, DAY) + DAY
    return [known for known in purges(lake.root) if not known.erased_at or now < known.asked_at + late]


def carry_out(job: Job, held: Held | None, manifest_max_age: float, target: int) -> None:
    """One portion of all purges that stand. Work is left (`job.left`) until they are erased.

    `held`: as for `upkeep`. `target`: bytes of a data file.
    """
    for known in standing(job.lake, job.clock.now(), manifest_max_age):
        removed = sum(_rewrite_table(job, name, known, target) for name in NAMES)
        if job.dry_run:
            continue
        if removed and known.erased_at:
            note(job.lake.root, replace(known, erased_at=0.0))
        if removed or not _published(job.lake):
            job.left += 1
        elif not known.erased_at or removed:
            _erase(job, known, held)


# 1 rewrite


def _rewrite_table(job: Job, name: str, known: Purge, target: int) -> int:
    """Returns the number of rows that went."""
    begun = job.clock.boottime()
    daily = TABLES[name].partition_by == DAILY
    rows = _rewrite_days(job, name, known, target) if daily else _replace_rows(job, name, known)
    if rows:
        job.note(name, "purge", begun, rows_removed=rows, detail=f"purge {known.request_id}")
    return rows


def _rewrite_days(job: Job, name: str, known: Purge, target: int) -> int:
    table, root, rows = TABLES[name], job.lake.path(name), 0
    for day, files in _by_day(live_files(job.lake.delta(name), root)).items():
        masks: dict[str, pa.ChunkedArray] = {}
        for file in files:
            gone = _gone(pq.ParquetFile(root / file.path), NAMES[name], known)
            if (count := _count(gone)) == 0:
                continue
            if not job.budget.allows(file.size):
                job.left += 1
                break
            job.budget.spend(file.size)
            rows += count
            masks[file.path] = pc.invert(gone)
        if masks and not job.dry_run:
            old = [file for file in files if file.path in masks]
            kept = chain.from_iterable(rows_of(table, root, file, masks[file.path]) for file in old)
            left = any(_count(mask) for mask in masks.values())
            new = write_files(table, root, day, kept, target) if left else []
            job.reached(WRITTEN)
            replace_files(job.lake, name, old, new, now=job.clock.now(), data_change=True)
            job.rewritten = True
            job.reached(COMMITTED)
    return rows


def _by_day(files: Iterable[LiveFile]) -> dict[str, list[LiveFile]]:
    days: dict[str, list[LiveFile]] = {}
    for file in files:
        days.setdefault(file.day, []).append(file)
    return days


def _replace_rows(job: Job, name: str, known: Purge) -> int:
    """A table that is replaced whole at each write, and small."""
    version = job.lake.version(name)
    rows = job.lake.delta(name).to_pyarrow_table()
    gone = named(rows, NAMES[name], known.pattern)
    count = _count(gone)
    if count and not job.dry_run:
        job.lake.overwrite(name, rows.filter(pc.invert(gone)), job.lake.inputs_of(name, version))
    return count


def _gone(file: pq.ParquetFile, names: Names, known: Purge) -> pa.ChunkedArray:
    """Which rows of a data file go; only the columns that decide it are read."""
    wanted = (*names.columns, names.at, names.kept[0] if names.kept else "")
    columns = [column for column in dict.fromkeys(wanted) if column in file.schema_arrow.names]
    return named(file.read(columns), names, known.pattern, known.until)


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


# 2 publish


def _published(lake: Lake) -> bool:
    """Whether readers stand at the present version of every table that the committer publishes."""
    last = lake.latest_commit()
    versions = {} if last is None else last.versions
    return all(
        lake.version(name) == versions.get(name, 0) for name in NAMES if TABLES[name].writer == "fleet"
    )


# 3 to 6


def _erase(job: Job, known: Purge, held: Held | None) -> None:
    begun = job.clock.boottime()
    freed = files = waiting = 0
    for name in NAMES:
        forget_before(job.lake.root, name, job.lake.version(name))
    job.reached(FORGOTTEN)
    forget_graphs(job.lake.root)
    for name in NAMES:
        gone, late = _files_that_tell(job, name, known, held)
        waiting += late
        for path in gone:
            freed += (job.lake.path(name) / path).stat().st_size
            (job.lake.path(name) / path).unlink()
        files += len(gone)
        _trim_log(job.lake, name)
    if waiting:  # staged and not committed yet: once they are, their rows are found like any other
        job.left += 1
    else:
        note(job.lake.root, replace(known, erased_at=job.clock.now()))
    if waiting and not files:
        return
    detail = f"purge {known.request_id}: {f'{waiting} staged files wait' if waiting else 'erased'}"
    job.note("purges", "erase", begun, files_removed=files, bytes_freed=freed, detail=detail)


def _files_that_tell(job: Job, name: str, known: Purge, held: Held | None) -> tuple[list[str], int]:
    """(files with rows of it that no readable version names, how many more a manifest may still bring).

    Of tables that others write a file that the log never named stays: its writer may be about to commit it.
    """
    root, keep = job.lake.path(name), needs(job.lake, name, job.lake.version(name))
    gone, waiting = [], 0
    for path in (*data_files(root), *staged_files(root)):
        if path in keep.files or not _tells(root / path, NAMES[name], known):
            continue
        if path in keep.removed:
            gone.append(path)
        elif held is None or path in held.get(name, ()) or _is_fresh(root / path, job.clock.now()):
            waiting += 1
        elif TABLES[name].writer == "fleet":
            gone.append(path)
    return gone, waiting


def _is_fresh(path: Path, now: float) -> bool:
    return now - path.stat().st_mtime < FRESH


def _tells(path: Path, names: Names, known: Purge) -> bool:
    """Whether it has rows of the purge, or might: one that can't be read is being written, or was torn by a crash."""
    try:
        return _count(_gone(pq.ParquetFile(path), names, known)) > 0
    except pa.ArrowInvalid:
        return True


def _trim_log(lake: Lake, name: str) -> None:
    """Everything before the present version, which a checkpoint then restates."""
    version = lake.version(name)
    lake.delta(name).create_checkpoint()
    for entry, _, path in log_files(lake.path(name)):
        if entry < version:
            path.unlink()
