"""One call of upkeep: every step over the tables that were asked for, within one budget."""

from collections.abc import Callable, Collection, Mapping, Sequence

from crawl_platform.clock import DAY, Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.compact import compact
from crawl_platform.lake.upkeep.purge import carry_out
from crawl_platform.lake.upkeep.report import Budget, Job, Report, record
from crawl_platform.lake.upkeep.retain import RULES, retain
from crawl_platform.lake.upkeep.vacuum import history_starts, vacuum
from crawl_platform.settings import Retention

Held = Mapping[str, Collection[str]]


def upkeep(
    lake: Lake,
    retention: Retention,
    clock: Clock,
    *,
    tables: Sequence[str] = (),
    held: Held | None,
    manifest_max_age: float = 0.0,
    dry_run: bool = False,
    only_purges: bool = False,
    budget: Budget | None = None,
    reached: Callable[[str], None] = lambda point: None,
) -> Report:
    """Look after `tables` (default: all) and record what was done in `upkeep`; call again while `left`.

    A dry run says what the first step of each kind would do: not that fetches go whose links would have gone before.

    Purges that stand are carried out first, and nothing else with `only_purges`.

    Nobody may commit to the fleet's tables meanwhile. `held`: table → staged files that an unforgotten manifest
    names, None if that can't be told. `manifest_max_age`: seconds after which a manifest isn't taken any more.
    """
    names = _known(tables)
    job = Job(lake, clock, budget or Budget(clock), dry_run, reached)
    carry_out(job, held, manifest_max_age, retention.compact_file_bytes)
    if not only_purges:
        _look_after(job, names, retention, held, manifest_max_age)
    if not dry_run:
        touched = {done.table for done in job.done} & TABLES.keys()
        record(lake, job.done, {name: lake.version(name) for name in touched})
    return Report(tuple(job.done), job.left, job.rewritten, dry_run)


def _look_after(
    job: Job, names: Sequence[str], retention: Retention, held: Held | None, manifest_max_age: float
) -> None:
    for rule in RULES:
        if rule.table in names:
            retain(job, rule, retention)
    for name in names:
        compact(job, name, retention)
    history = retention.history_days * DAY
    staged = orphan_age(retention, manifest_max_age)
    starts = history_starts(job.lake, job.clock.now(), history)
    for name in names:
        vacuum(
            job,
            name,
            starts[name],
            history=history,
            staged=staged,
            held=None if held is None else held.get(name, ()),
        )


def orphan_age(retention: Retention, manifest_max_age: float) -> float:
    """Seconds after which a staged file that nobody names is swept: never while a manifest that names it could
    still be taken, with a day to spare for clocks."""
    return max(retention.staged_days * DAY, manifest_max_age + DAY)


def _known(tables: Sequence[str]) -> list[str]:
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ConfigurationError(f"there is no table {', '.join(unknown)}: {', '.join(TABLES)}")
    return [name for name in TABLES if not tables or name in tables]
