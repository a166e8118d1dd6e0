"""One call of upkeep: every step over the tables that were asked for, within one budget."""

from collections.abc import Callable, Collection, Mapping, Sequence

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.compact import compact
from crawl_platform.lake.upkeep.report import Budget, Job, Report, record
from crawl_platform.lake.upkeep.retain import RULES, retain
from crawl_platform.lake.upkeep.vacuum import history_starts, vacuum
from crawl_platform.settings import Retention

DAY = 86_400.0
Held = Mapping[str, Collection[str]]


def upkeep(
    lake: Lake,
    retention: Retention,
    clock: Clock,
    *,
    tables: Sequence[str] = (),
    held: Held | None,
    staged_least: float = 0.0,
    dry_run: bool = False,
    budget: Budget | None = None,
    reached: Callable[[str], None] = lambda point: None,
) -> Report:
    """Look after `tables` (default: all) and record what was done in `upkeep`; call again while `left`.

    Nobody may commit to the fleet's tables meanwhile. `held`: table → staged files that an unforgotten manifest
    names, None if that can't be told. `staged_least`: seconds that an orphan is kept at the least.
    """
    names = _known(tables)
    job = Job(lake, clock, budget or Budget(clock), dry_run, reached)
    for rule in RULES:
        if rule.table in names:
            retain(job, rule, retention)
    for name in names:
        compact(job, name, retention)
    history = retention.history_days * DAY
    starts = history_starts(lake, clock.now(), history)
    for name in names:
        vacuum(
            job,
            name,
            starts[name],
            history=history,
            staged=max(retention.staged_days * DAY, staged_least),
            held=None if held is None else held.get(name, ()),
        )
    if not dry_run:
        record(lake, job.done)
    return Report(tuple(job.done), job.left, job.rewritten, dry_run)


def _known(tables: Sequence[str]) -> list[str]:
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ConfigurationError(f"there is no table {', '.join(unknown)}: {', '.join(TABLES)}")
    return [name for name in TABLES if not tables or name in tables]
