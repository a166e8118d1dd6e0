"""New versions of the fleet's tables become Dagster events: this is what starts the decisions.

One event per table and gap, carrying the range of versions since the last one; never one per fetch, since
Dagster keeps events for ever. Materializations, not observations: an observation of an external asset
triggers no automation condition and counts for no freshness policy.
"""

from typing import Any

import dagster as dg
import msgspec

from crawl_platform.clock import Clock
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from resources.cadence import Cadence
from resources.lake import LakeResource, Reading, version_metadata

WATCHED = ("fetches", "fleet_stats")
"""Tables that a running fleet writes all the time, with a freshness policy of minutes (`assets/fleet.py`)."""

SPEED = """
WITH last AS (
    SELECT arg_max(pages / nullif(seconds, 0), reported_at) AS pages_per_second,
        arg_max(latency_p95_ms, reported_at) AS p95, arg_max(queued, reported_at) AS queued,
        arg_max(rss_bytes, reported_at) AS rss
    FROM fleet_stats
    WHERE reported_at > (SELECT max(reported_at) FROM fleet_stats) - INTERVAL 5 MINUTE GROUP BY cell
)
SELECT sum(pages_per_second) AS pages_per_second, max(p95) AS latency_p95_ms, sum(queued) AS queued,
    sum(rss) / 1e6 AS cells_rss_mb FROM last
"""
SINCE = """
SELECT count(*) AS commits, sum(coalesce(rows[$table], 0))::BIGINT AS added FROM commits WHERE commit_id > $since
"""


class Reported(msgspec.Struct, frozen=True):
    """What was last reported of a table: its version, the commit it belongs to, and when (UTC seconds)."""

    version: int
    commit_id: int
    at: float


def table_events_sensor(cadence: Cadence, tables: tuple[str, ...]) -> dg.SensorDefinition:
    """A sensor that reports new versions of `tables`, each at most once per its gap in `cadence`."""

    @dg.sensor(
        name="table_events",
        minimum_interval_seconds=cadence.table_events_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports new versions of the fleet's tables, so that what depends on them becomes due.",
    )
    def table_events(
        context: dg.SensorEvaluationContext, lake: LakeResource, clock: dg.ResourceParam[Clock]
    ) -> dg.SensorResult | dg.SkipReason:
        store = lake.open()
        if not store.exists():
            return dg.SkipReason(f"There is no lake at {store.root} yet: start a crawl.")
        seen = msgspec.json.decode(context.cursor or "{}", type=dict[str, Reported])
        versions, commit_id = store.vector()
        due = [
            name for name in tables if _due(seen.get(name), versions[name], clock.now(), _gap(name, cadence))
        ]
        if not due:
            return dg.SkipReason("No table has a new version that is due.")
        with lake.read("commits", "fleet_stats", at=versions) as reading:
            events = [
                _event(store, reading, name, versions[name], commit_id or 0, seen.get(name)) for name in due
            ]
        news = {name: Reported(versions[name], commit_id or 0, clock.now()) for name in due}
        return dg.SensorResult(
            asset_events=events,
            skip_reason=f"Reported {', '.join(due)}.",
            cursor=msgspec.json.encode({**seen, **news}).decode(),
        )

    return table_events


def _gap(name: str, cadence: Cadence) -> float:
    return cadence.table_event_gap if name in WATCHED else cadence.other_event_gap


def _due(last: Reported | None, version: int, now: float, gap: float) -> bool:
    return last is None or (version != last.version and now - last.at >= gap)


def _event(
    store: Lake, reading: Reading, name: str, version: int, commit_id: int, last: Reported | None
) -> dg.AssetMaterialization:
    first = last.version + 1 if last else 0
    return dg.AssetMaterialization(
        name,
        metadata={
            **version_metadata(store, name, version, {}),
            "versions": f"{first} to {version}" if first < version else str(version),
            "commit": commit_id,
            **_added(reading, name, last),
            **(_speed(reading) if name == "fleet_stats" else {}),
        },
        tags={"dagster/data_version": str(version)},
    )


def _added(reading: Reading, name: str, last: Reported | None) -> dict[str, Any]:
    """Rows added since the last event, as the committer counted them."""
    if TABLES[name].writer != "fleet":
        return {}
    counted = {"table": name, "since": last.commit_id if last else 0}
    commits, added = reading.connection.execute(SINCE, counted).fetchone() or (0, 0)
    return {"rows_added": int(added or 0), "commits_since": int(commits)}


def _speed(reading: Reading) -> dict[str, Any]:
    return {name: float(value) for name, value in reading.rows(SPEED)[0].items() if value is not None}
