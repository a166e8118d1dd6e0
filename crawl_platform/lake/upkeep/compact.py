"""Many small files of a closed day into few large ones: the same rows, byte for byte, in the same order.

A committer's round adds a file per epoch, so a busy day ends with thousands; a reader opens each. Only days that
are over are compacted: today's files would be rewritten again and again.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from crawl_platform.clock import as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.report import COMMITTED, WRITTEN, Budget, Job
from crawl_platform.lake.upkeep.rewrite import (
    DAILY,
    LiveFile,
    live_files,
    replace_files,
    rows_of,
    write_files,
)
from crawl_platform.settings import Retention


def due(files: Iterable[LiveFile], today: str, retention: Retention) -> dict[str, list[LiveFile]]:
    """Small files of each closed day that has more than `compact_after_files` of them.

    Small: under half the target, so that what compaction has written is not taken up again.
    """
    small: dict[str, list[LiveFile]] = {}
    for file in files:
        if file.day < today and file.size < retention.compact_file_bytes / 2:
            small.setdefault(file.day, []).append(file)
    return {day: found for day, found in small.items() if len(found) > retention.compact_after_files}


def partitions_due(lake: Lake, name: str, now: float, retention: Retention) -> dict[str, int]:
    """Closed day → number of small files, where there are too many. `now`: UTC seconds."""
    if TABLES[name].partition_by != DAILY:
        return {}
    today = as_datetime(now).date().isoformat()
    found = due(live_files(lake.delta(name), lake.path(name)), today, retention)
    return {day: len(files) for day, files in found.items()}


def compact(job: Job, name: str, retention: Retention) -> None:
    """Compact the table's closed days, oldest first, as far as the budget goes."""
    if TABLES[name].partition_by != DAILY:
        return
    begun = job.clock.boottime()
    files = live_files(job.lake.delta(name), job.lake.path(name))
    days, before, after = 0, 0, 0
    for day, small in sorted(due(files, job.today(), retention).items()):
        chosen = _portion(small, job.budget)
        size = sum(file.size for file in chosen)
        if not job.budget.allows(size):
            job.left += 1
            continue
        job.left += len(chosen) < len(small)
        job.budget.spend(size)
        days, before = days + 1, before + len(chosen)
        after += 1 if job.dry_run else _merge(job, name, day, chosen, retention.compact_file_bytes)
    if days:
        job.note(
            name,
            "compact",
            begun,
            files_before=len(files),
            files_after=len(files) - before + after,
            detail=f"{before} files of {days} closed days into {after}",
        )


def _portion(small: Sequence[LiveFile], budget: Budget) -> list[LiveFile]:
    """The first of `small` that fit into the budget together, two at the least."""
    chosen: list[LiveFile] = []
    size = 0
    for file in small:
        size += file.size
        if len(chosen) >= 2 and size > budget.bytes_left:
            break
        chosen.append(file)
    return chosen


def _merge(job: Job, name: str, day: str, old: list[LiveFile], target: int) -> int:
    """Returns the number of new files."""
    table, root = TABLES[name], job.lake.path(name)
    rows = chain.from_iterable(rows_of(table, root, file) for file in old)
    new = write_files(table, root, day, rows, target)
    job.reached(WRITTEN)
    replace_files(job.lake, name, old, new, now=job.clock.now(), data_change=False)
    job.rewritten = True
    job.reached(COMMITTED)
    return len(new)
