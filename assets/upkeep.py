"""Group `upkeep`: compaction, retention, vacuum and sweep of the lake, done by the fleet's committer on request.

What is kept is said in `crawl_platform/lake/upkeep` and in the settings' section `retention`. The work is never
done here: only the holder of the committer's lease may, between its rounds. This asset asks, and then looks whether
all that readers were promised is still there.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.plots import bars, markdown_table
from crawl_platform.cli.output import bytes_text
from crawl_platform.clock import DAY, Clock
from crawl_platform.lake.history import oldest_readable
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.compact import partitions_due
from crawl_platform.lake.upkeep.report import Report
from crawl_platform.lake.upkeep.run import orphan_age
from crawl_platform.lake.upkeep.vacuum import (
    data_files,
    missing_from_history,
    old_orphans,
    staged_files,
    vectors_before_history,
)
from crawl_platform.settings import Settings
from resources.fleet import FleetResource
from resources.lake import LakeResource, version_metadata

GROUP = "upkeep"
OWNERS = ["team:crawl"]

NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=3), warn_window=timedelta(hours=26))
"""A night that was left out does no harm; after three, readers open thousands of files."""
SWEPT_WITHIN = 2 * DAY
"""Seconds after which a staged file that could have been swept should have been: two nights."""
DONE_COLUMNS = ("table", "action", "files", "rows let go", "freed", "what")


@dg.asset(
    deps=["fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "commits", "requests"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=NIGHTLY,
    check_specs=[
        dg.AssetCheckSpec(
            "history_can_be_read",
            asset="upkeep",
            description="Every file of every version within history is there, and every commit of that time names only "
            "such versions: nothing that a reader needs was removed.",
        ),
        dg.AssetCheckSpec(
            "days_are_compact",
            asset="upkeep",
            description="No closed day has more small files than `retention.compact_after_files`.",
        ),
        dg.AssetCheckSpec(
            "orphans_are_swept",
            asset="upkeep",
            description="No staged file that nobody names is much older than `retention.staged_days`.",
        ),
    ],
)
def upkeep(
    lake: LakeResource,
    fleet: FleetResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: one thing that upkeep did to one table, with what it freed."""
    report = fleet.client().upkeep()
    store = lake.open()
    version = store.version("upkeep")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "upkeep", version, store.inputs_of("upkeep", version)),
            **report_metadata(report),
            "where_the_bytes_are": _where_the_bytes_are(store),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[
            _history_can_be_read(store, crawl_settings, clock.now()),
            _days_are_compact(store, crawl_settings, clock.now(), report),
            _orphans_are_swept(store, crawl_settings, clock.now()),
        ],
    )


def report_metadata(report: Report) -> dict[str, Any]:
    """What was done, for people, and its sums."""
    rows = [
        (
            done.table,
            done.action,
            f"{done.files_before:,} → {done.files_after:,}" if done.files_before else "",
            f"{done.rows_removed:,}" if done.rows_removed else "",
            bytes_text(done.bytes_freed) if done.bytes_freed else "",
            done.detail,
        )
        for done in report.done
    ]
    return {
        "done": markdown_table(DONE_COLUMNS, rows),
        "bytes_freed": sum(done.bytes_freed for done in report.done),
        "files_removed": sum(done.files_removed for done in report.done),
        "rows_let_go": sum(done.rows_removed for done in report.done),
        "seconds": sum(done.seconds for done in report.done),
        "partitions_left": report.left,
        "dry_run": report.dry_run,
    }


def _where_the_bytes_are(store: Lake) -> dg.MarkdownMetadataValue:
    """Per table: bytes of the current version, and bytes that only history or a waiting commit needs."""
    sizes = {}
    for name in TABLES:
        root = store.path(name)
        on_disk = sum((root / file).stat().st_size for file in (*data_files(root), *staged_files(root)))
        live = store.rows_and_bytes(name)[1]
        sizes[name] = (live / 1e6, max(on_disk - live, 0) / 1e6)
    largest = sorted(sizes, key=lambda name: -sum(sizes[name]))[:10]
    parts = {
        "current": [sizes[name][0] for name in largest],
        "history and staged": [sizes[name][1] for name in largest],
    }
    return bars("Where the bytes are", "MB on disk", largest, parts)


def _history_can_be_read(store: Lake, settings: Settings, now: float) -> dg.AssetCheckResult:
    missing = {name: found for name in TABLES if (found := missing_from_history(store, name))}
    unreadable = vectors_before_history(store, now, settings.retention.history_days * DAY)
    return dg.AssetCheckResult(
        check_name="history_can_be_read",
        passed=not missing and not unreadable,
        metadata={
            "missing_files": sum(map(len, missing.values())),
            "examples": markdown_table(("table", "missing file"), list(_examples(missing.items()))),
            "commits_that_cannot_be_read": len(unreadable),
            "history_begins_at": dg.MetadataValue.json(oldest_readable(store.root)),
        },
    )


def _examples(missing: Iterable[tuple[str, list[str]]]) -> Iterable[tuple[str, str]]:
    return ((name, file) for name, files in missing for file in files[:3])


def _days_are_compact(store: Lake, settings: Settings, now: float, report: Report) -> dg.AssetCheckResult:
    late = {name: days for name in TABLES if (days := partitions_due(store, name, now, settings.retention))}
    most = max((count for days in late.values() for count in days.values()), default=0)
    return dg.AssetCheckResult(
        check_name="days_are_compact",
        passed=not late,
        severity=dg.AssetCheckSeverity.WARN,
        description="" if not late else f"Days of {', '.join(late)} wait for compaction: run it again.",
        metadata={
            "days_that_wait": sum(map(len, late.values())),
            "most_small_files_in_a_day": most,
            "partitions_left": report.left,
        },
    )


def _orphans_are_swept(store: Lake, settings: Settings, now: float) -> dg.AssetCheckResult:
    limit = now - orphan_age(settings.retention, settings.commit.manifest_max_age) - SWEPT_WITHIN
    orphans = {name: found for name in TABLES if (found := old_orphans(store, name, limit))}
    size = sum((store.path(name) / file).stat().st_size for name, files in orphans.items() for file in files)
    return dg.AssetCheckResult(
        check_name="orphans_are_swept",
        passed=not orphans,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"orphans": sum(map(len, orphans.values())), "bytes": size},
    )


ASSETS: tuple[dg.AssetsDefinition, ...] = (upkeep,)
