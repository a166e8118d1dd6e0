"""Checks of the tables that the fleet itself writes: what the crawl promises, looked up in the lake.

Each is a statement that finds what breaks a promise, in the last days only, at one version vector: the check
passes if it finds nothing. All that are due run in one step: a step costs more than a check.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.quality import look_at
from crawl_platform.frontier.seen import FALSE_POSITIVES
from crawl_platform.quality.measure import RECENT, SUCCESSES, UNSENT, Look, prepare, run
from crawl_platform.quality.politeness import PAIRED, REQUESTED, UNASKED
from crawl_platform.settings import Settings
from resources.cadence import Cadence
from resources.fleet import FleetResource
from resources.fleet_control import FLEET_CHECK
from resources.fleet_metadata import state_metadata
from resources.lake import LakeResource, Reading

BACK = timedelta(days=2)
"""How far the checks look back: well over the time between two of them."""
SHOWN = 5
READS = (
    *("fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "commits", "requests"),
    *("usage", "decisions"),
)
LAST = "SELECT max(committed_at) AS at FROM commits"

LABELS = """
CREATE OR REPLACE TEMP TABLE labels AS
SELECT commit_id, label, split_part(label, '/', 1) || '/' || split_part(label, '/', 2) AS series,
    CAST(split_part(label, '/', 3) AS BIGINT) AS number
FROM (SELECT commit_id, unnest(manifests) AS label FROM commits WHERE date >= CAST($since AS DATE))
"""
"""Manifests that the commits of the look back name, as incarnation/series and number."""


@dataclass(frozen=True)
class FleetCheck:
    """`sql` gives the violations, one row each, with a column `what` for people."""

    table: str
    name: str
    description: str
    sql: str
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR


WARN = dg.AssetCheckSeverity.WARN
WELL = "Every cell that should run does, is heard of, and each shard has such a cell."

CHECKS = (
    FleetCheck(
        "fetches",
        "each_fetch_once",
        "No fetch has two rows: neither one id twice, nor one answered request under two ids.",
        """
        SELECT fetch_id || ' is there ' || count(*) || ' times' AS what
        FROM recent GROUP BY fetch_id HAVING count(*) > 1
        UNION ALL
        SELECT url || ' at ' || started_at || ' has ' || count(DISTINCT fetch_id) || ' ids' FROM recent
        WHERE outcome IN ('ok', 'not_modified', 'redirect')
        GROUP BY url, started_at HAVING count(DISTINCT fetch_id) > 1
        """,
    ),
    FleetCheck(
        "fetches",
        "no_lost_epochs",
        "The manifests of every cell and series are committed without a gap, each once, and every fetch came with one "
        "of them.",
        """
        SELECT series || '/' || number || ' follows ' || before AS what FROM (
            SELECT *, lag(number) OVER (PARTITION BY series ORDER BY number, commit_id) AS before FROM labels
        ) WHERE number <> before + 1
        UNION ALL
        SELECT fetch_id || ' came with ' || incarnation || '/' || series || '/' || manifest || ', which no commit names'
        FROM recent WHERE incarnation || '/' || series || '/' || manifest NOT IN (SELECT label FROM labels)
        """,
    ),
    FleetCheck(
        "fetches",
        "politeness_held",
        "No request overlapped another to its host or address, came sooner than the delay in force, or before a "
        "robots.txt was read.",
        f"""
        SELECT fetch_id || ' came ' || round(gap, 3) || ' s after the end of the one before at ' || name
            || ', delay ' || delay AS what
        FROM paired WHERE overlapping OR too_soon
        UNION ALL SELECT url || ' was requested without a robots.txt before it' FROM ({UNASKED})
        """,
    ),
    FleetCheck(
        "fetches",
        "only_seed_hosts",
        "Only hosts that had entered the seed were contacted, but for what a robots.txt of the seed had redirected to: "
        "no page of the horizon is ever fetched.",
        """
        SELECT f.host || ' was contacted (' || f.fetch_id || ') before it was in the seed' AS what FROM recent f
        LEFT JOIN (
            SELECT host, min(happened_at) AS entered FROM hosts WHERE event IN ('seeded', 'promoted') GROUP BY host
        ) h USING (host)
        WHERE f.started_at < $settled AND (entered IS NULL OR f.started_at < entered - INTERVAL 1 MINUTE)
            AND NOT (f.kind = 'robots' AND f.url IN (
                SELECT redirect_to FROM fetches
                WHERE kind = 'robots' AND redirect_to IS NOT NULL AND date >= CAST($since AS DATE) - 1
            ))
        """,
    ),
    FleetCheck(
        "links",
        "links_have_their_fetch",
        "Referential integrity: the fetch that showed a link is in the lake, and is of the page that holds it.",
        """
        SELECT l.src_url || ' shows links of ' || l.fetch_id || ', which is no fetch of it' AS what
        FROM (SELECT DISTINCT fetch_id, src_url FROM links
              WHERE date >= CAST($since AS DATE) AND seen_at > $since) l
        ANTI JOIN (SELECT fetch_id, url FROM fetches WHERE date >= CAST($since AS DATE)) f
            ON f.fetch_id = l.fetch_id AND f.url = l.src_url
        """,
    ),
    FleetCheck(
        "pages",
        "pages_have_their_fetch",
        "Referential integrity: the fetch that brought a page's content is in the lake, of that page, and succeeded.",
        f"""
        SELECT p.url || ' has content of ' || p.fetch_id || ', which is no successful fetch of it' AS what
        FROM (SELECT fetch_id, url FROM pages WHERE date >= CAST($since AS DATE) AND fetched_at > $since) p
        ANTI JOIN (SELECT fetch_id, url FROM fetches WHERE date >= CAST($since AS DATE) AND outcome IN {SUCCESSES}) f
            ON f.fetch_id = p.fetch_id AND f.url = p.url
        """,
    ),
    FleetCheck(
        "hosts",
        "states_agree",
        "Each host belongs to one shard, and its state is what its last entry or exclusion made it.",
        """
        SELECT host || ' is in the shards ' || string_agg(DISTINCT shard::VARCHAR, ', ') AS what
        FROM hosts GROUP BY host HAVING count(DISTINCT shard) > 1
        UNION ALL
        SELECT host || ' is ' || state || ' after it was ' || event FROM hosts
        WHERE date >= CAST($since AS DATE)
            AND ((event = 'excluded' AND state <> 'excluded') OR (event IN ('seeded', 'promoted') AND state <> 'seed'))
        """,
    ),
    FleetCheck(
        "hosts",
        "excluded_hosts_rest",
        "Nothing was requested of a host later than a minute after it was excluded.",
        f"""
        SELECT f.host || ' was asked for ' || f.url || ' although it is excluded' AS what FROM recent f
        JOIN (SELECT host, happened_at FROM hosts
              WHERE event IN ('seeded', 'promoted', 'excluded')
              QUALIFY row_number() OVER (PARTITION BY host ORDER BY happened_at DESC, event) = 1 AND event = 'excluded'
        ) x ON x.host = f.host AND f.started_at > x.happened_at + INTERVAL 1 MINUTE
        WHERE f.outcome NOT IN {UNSENT}
        """,
    ),
    FleetCheck(
        "frontier",
        "snapshots_complete",
        "The last snapshot of every shard has each of its URLs once, and all that were fetched well before it.",
        f"""
        WITH last_snapshot AS (SELECT shard, max(snapshot_at) AS at FROM frontier_now GROUP BY shard)
        SELECT 'shard ' || f.shard || ' has no snapshot' AS what
        FROM (SELECT shard FROM fetches WHERE date >= CAST($since AS DATE) AND kind = 'page'
              AND outcome IN {SUCCESSES}
              GROUP BY shard HAVING min(started_at) < $now - INTERVAL 15 MINUTE) f
        ANTI JOIN last_snapshot USING (shard)
        UNION ALL
        SELECT url || ' is there ' || count(*) || ' times' FROM frontier_now GROUP BY shard, url HAVING count(*) > 1
        UNION ALL
        SELECT DISTINCT f.url || ' is missing from the last snapshot of shard ' || f.shard
        FROM fetches f JOIN last_snapshot s ON s.shard = f.shard AND f.started_at < s.at - INTERVAL 1 MINUTE
        ANTI JOIN frontier_now n ON n.shard = f.shard AND n.url = f.url
        WHERE f.date >= CAST($since AS DATE) AND f.started_at > $since AND f.kind = 'page' AND f.outcome IN {SUCCESSES}
        """,
    ),
    FleetCheck(
        "fleet_stats",
        "every_cell_reports",
        "Every cell that fetched or reported in the last six hours has reported in the last quarter of an hour.",
        """
        SELECT cell || ' last reported at ' || coalesce(strftime(reported, '%Y-%m-%d %H:%M:%S'), '(never)') AS what
        FROM (SELECT DISTINCT cell FROM fetches WHERE date >= CAST($since AS DATE)
                AND started_at > $now - INTERVAL 6 HOUR AND started_at < $settled
              UNION SELECT cell FROM fleet_stats WHERE date >= CAST($since AS DATE)
                AND reported_at > $now - INTERVAL 6 HOUR)
        LEFT JOIN (SELECT cell, max(reported_at) AS reported FROM fleet_stats
                   WHERE date >= CAST($since AS DATE) GROUP BY cell) USING (cell)
        WHERE reported IS NULL OR reported < $now - INTERVAL 15 MINUTE
        """,
        WARN,
    ),
    FleetCheck(
        "fleet_stats",
        "seen_set_in_budget",
        "Of 10,000 and more unknown URLs no cell's Bloom filters take twice the promised share (0.1 %) for known.",
        f"""
        SELECT cell || ' looks up ' || false_positives || ' of ' || lookups || ' unknown URLs in vain' AS what
        FROM (SELECT cell, arg_max(seen_false_positives, reported_at) AS false_positives,
                arg_max(seen_absent + seen_false_positives, reported_at) AS lookups
              FROM fleet_stats WHERE date >= CAST($since AS DATE) GROUP BY cell)
        WHERE lookups >= 10000 AND false_positives > lookups * {2 * FALSE_POSITIVES}
        """,
        WARN,
    ),
    FleetCheck(
        "commits",
        "commits_follow_one_another",
        "Commit ids have no gap and no repeat, and the version of no table ever falls.",
        """
        WITH recently AS (SELECT commit_id, versions FROM commits WHERE date >= CAST($since AS DATE)),
        entries AS (SELECT commit_id, unnest(map_entries(versions)) AS entry FROM recently)
        SELECT 'commit ' || commit_id || ' follows ' || before AS what
        FROM (SELECT commit_id, lag(commit_id) OVER (ORDER BY commit_id) AS before FROM recently)
        WHERE commit_id <> before + 1
        UNION ALL
        SELECT entry.key || ' falls to ' || entry.value || ' in commit ' || commit_id FROM (
            SELECT *, lag(entry.value) OVER (PARTITION BY entry.key ORDER BY commit_id) AS before FROM entries
        ) WHERE entry.value < before
        """,
    ),
    FleetCheck(
        "commits",
        "nothing_quarantined",
        "No manifest was published empty because a staged file was missing or damaged (its URLs are fetched again).",
        """
        SELECT label || ' was quarantined in commit ' || commit_id AS what
        FROM (SELECT commit_id, unnest(quarantined) AS label FROM commits WHERE date >= CAST($since AS DATE))
        """,
        WARN,
    ),
    FleetCheck(
        "requests",
        "requests_answered",
        "Every request is carried out, or refused in `decisions`, within ten minutes.",
        """
        WITH asked AS (
            SELECT request_id, any_value(kind) AS kind, any_value(target) AS target, min(requested_at) AS at
            FROM requests WHERE date >= CAST($since AS DATE) AND requested_at > $since GROUP BY request_id
        )
        SELECT a.kind || ' of ' || a.target || ' (' || a.request_id || ') was not carried out' AS what FROM asked a
        LEFT JOIN (SELECT DISTINCT request_id FROM recent) f ON f.request_id = a.request_id
        LEFT JOIN (SELECT DISTINCT decision_id FROM decisions WHERE verdict = 'refused') d
            ON d.decision_id = 'refused-' || a.request_id
        LEFT JOIN hosts_now h ON h.host = a.target
        LEFT JOIN (SELECT DISTINCT decision_id FROM hosts WHERE event = 'trimmed') t ON t.decision_id = a.request_id
        WHERE a.at < $now - INTERVAL 10 MINUTE AND d.decision_id IS NULL AND CASE a.kind
            WHEN 'recrawl' THEN f.request_id IS NULL
            WHEN 'promote' THEN coalesce(h.state, '') NOT IN ('seed', 'excluded')
            WHEN 'exclude' THEN h.state = 'seed' AND h.happened_at < a.at
            WHEN 'lift' THEN h.state = 'excluded' AND h.happened_at < a.at
            WHEN 'trim' THEN t.decision_id IS NULL
            ELSE true
        END
        """,
        WARN,
    ),
    FleetCheck(
        "usage",
        "usage_makes_sense",
        "Usage is counted from 0, of a page or a host that is named, and of no time to come.",
        """
        SELECT source || ' line ' || line || ': ' || coalesce(url, host) AS what FROM usage
        WHERE imported_at >= $since AND (
            retrievals < 0 OR used_at > imported_at + INTERVAL 1 DAY OR (url IS NULL AND critical IS NULL)
            OR (retrievals IS NULL AND critical IS NULL)
        )
        """,
        WARN,
    ),
)  # fmt: skip

Condition = dg.AutomationCondition[Any]


def fleet_checks(cadence: Cadence) -> list[dg.AssetChecksDefinition]:
    """Checks of the tables in `assets.fleet.EXTERNAL`, due at `cadence.checks_cron`."""
    # No more than that: Dagster keeps the whole condition of every check whenever its outcome changes.
    due: Condition = dg.AutomationCondition.cron_tick_passed(cadence.checks_cron)
    specs = [
        dg.AssetCheckSpec(c.name, asset=c.table, description=c.description, automation_condition=due)
        for c in CHECKS
    ]

    @dg.multi_asset_check(name="fleet_checks", specs=specs, can_subset=True)
    def check_fleet_tables(
        context: dg.AssetCheckExecutionContext, lake: LakeResource, crawl_settings: dg.ResourceParam[Settings]
    ) -> Iterator[dg.AssetCheckResult]:
        """What the crawl promises of its own tables, looked up in the last two days of the lake."""
        wanted = [c for c in CHECKS if _key(c) in context.selected_asset_check_keys]
        with lake.read(*READS) as reading:
            yield from checked(reading, crawl_settings, wanted)

    @dg.asset_check(asset="fetches", name=FLEET_CHECK, description=WELL)
    def fleet_is_well(fleet: FleetResource) -> dg.AssetCheckResult:
        """How the fleet's cells are now; the sensor `supervision` reports each change."""
        state = fleet.control().status()
        return dg.AssetCheckResult(passed=state.well, metadata=state_metadata(state))

    return [check_fleet_tables, fleet_is_well]


def _key(check: FleetCheck) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(dg.AssetKey(check.table), check.name)


def checked(reading: Reading, settings: Settings, wanted: list[FleetCheck]) -> Iterator[dg.AssetCheckResult]:
    """The results of `wanted`; before the first commit there is nothing that could be wrong."""
    at = reading.rows(LAST)[0]["at"]
    if at is None:
        for check in wanted:
            yield _result(check, [], 0, "The fleet has not committed anything yet.")
        return
    look = Look(**{**vars(look_at(settings, at, ())), "back": BACK})
    prepare(reading.connection, (RECENT, REQUESTED, PAIRED, LABELS), look)
    for check in wanted:
        count, examples = _violations(reading, check, look)
        yield _result(check, examples, count, "; ".join(examples[:1]))


def _violations(reading: Reading, check: FleetCheck, look: Look) -> tuple[int, list[str]]:
    sql = check.sql.replace("$settled", "$now - INTERVAL 1 MINUTE")
    rows = run(reading.connection, counted(sql), look).fetchall()
    return (rows[0][0] if rows else 0), [row[1] for row in rows]


def counted(sql: str) -> str:
    """The first rows of `sql`, each with the number of all.

    Not by `count(*) OVER ()`: where a filter leaves hardly a row, two threads of DuckDB 1.5.5 now and then meet in an
    internal error that spoils the whole connection (duckdb/duckdb#25713). Windows with an order were not seen to.
    """
    return (
        f"WITH found AS MATERIALIZED ({sql}) "
        f"SELECT (SELECT count(*) FROM found) AS n, what FROM found ORDER BY what LIMIT {SHOWN}"
    )


def _result(check: FleetCheck, examples: list[str], count: int, words: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=check.table,
        check_name=check.name,
        passed=count == 0,
        severity=check.severity,
        description=words,
        metadata={"violations": count, **({"examples": dg.MetadataValue.json(examples)} if examples else {})},
    )
