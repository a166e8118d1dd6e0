"""What is known of all URLs at a window's start: the buckets of `group_work`, brought up to date.

What a day's fetches have changed is read from the log: each page fetched since the snapshot leaves the bucket that it
is most like, of those with its last success, and is in one of today. What this costs depends on what the fleet can
fetch between two summaries, not on how many URLs there are. Only while there is no summary yet, in the first day of a
crawl, is the catalogue itself summed up, each time.
"""

from typing import Any

from assets.group_work import CATALOGUE, PRIOR, bucketed
from crawl_platform.fetch.outcome import DISPOSITIONS
from resources.lake import Reading

_OVER = ", ".join(f"'{o}'" for o, d in DISPOSITIONS.items() if d in ("gone", "refused"))
_SEEN = ", ".join(f"'{o}'" for o, d in DISPOSITIONS.items() if d in ("success", "redirect"))

ANY_SUMMARY = "SELECT count(*) FROM (FROM group_work LIMIT 1)"

SUMMED = """
CREATE OR REPLACE TEMP TABLE summed AS
SELECT row_number() OVER () AS n, * REPLACE (epoch(since_first) AS since_first, epoch(since_last) AS since_last)
FROM ({buckets})
"""

OLDEST = "SELECT epoch(min(told_at)) FROM (SELECT max(snapshot_at) AS told_at FROM summed GROUP BY shard)"

FRESH = f"""
CREATE OR REPLACE TEMP TABLE fresh AS
WITH told AS (SELECT shard, max(snapshot_at) AS told_at FROM summed GROUP BY shard), page AS (
    SELECT f.host, f.url, any_value(f.shard) AS shard, coalesce(arg_max(f.group_id, f.started_at), 0) AS group_id,
        arg_max(f.template, f.started_at) AS template, epoch(any_value(t.told_at)) AS told_at,
        epoch(max(f.started_at) FILTER (f.outcome IN ({_SEEN}))) AS seen,
        epoch(arg_min_null(f.previous_success_at, f.started_at)) AS before, epoch(min(f.discovered_at)) AS found,
        coalesce(arg_max(f.rate_a, f.started_at), 0)::DOUBLE AS da,
        coalesce(arg_max(f.rate_b, f.started_at), 0)::DOUBLE AS db,
        coalesce(arg_max(f.value, f.started_at), $value)::DOUBLE AS value,
        arg_max(f.outcome, f.started_at) IN ({_OVER}) AS over
    FROM fetches f LEFT JOIN told t ON t.shard = f.shard
    WHERE f.kind = 'page' AND f.started_at >= make_timestamptz((1e6 * $oldest)::BIGINT)
        AND (t.told_at IS NULL OR f.started_at >= t.told_at)
    GROUP BY f.host, f.url
)
SELECT *, CASE WHEN over THEN 'over' WHEN coalesce(seen, before) IS NULL THEN 'waiting' ELSE 'known' END AS state,
    $starts::DOUBLE AS moment, coalesce(seen, before, found, told_at, moment) AS since,
    make_timestamptz(0) AS snapshot_at
FROM page
"""
"""Each page that was asked for since the last snapshot of its shard, as its last fetch left it. `before`: its last
success at that snapshot. `over`: not to be fetched again."""

_A, _B = "coalesce(q.prior_a, $prior_a)", "coalesce(q.prior_b, $prior_b)"
_THEIRS = f"greatest({_A} + s.rate_a, 1e-9) / greatest({_B} + s.rate_b, 1e-9)"
_OWN = f"greatest({_A} + f.da, 1e-9) / greatest({_B} + f.db, 1e-9)"
_UNLIKE = f"abs(ln(({_THEIRS}) / ({_OWN}))) + abs(ln(greatest(s.value, 1e-6) / greatest(f.value, 1e-6))) / 2"
"""How little the page `f` is like the bucket `s`: a factor of four in the rate counts as one of sixteen in value."""

BUCKET = f"""
CREATE OR REPLACE TEMP TABLE bucket AS
WITH {PRIOR}, likely AS (
    SELECT s.n FROM fresh f JOIN summed s ON s.host = f.host AND s.group_id = f.group_id AND s.state = 'known'
        AND f.before BETWEEN s.since_first AND s.since_last
    LEFT JOIN prior q ON q.host = f.host AND q.group_id = f.group_id
    QUALIFY row_number() OVER (PARTITION BY f.url ORDER BY {_UNLIKE}, s.n) = 1
), tried AS (
    SELECT host, group_id, count(*) AS urls FROM fresh
    WHERE before IS NULL AND coalesce(found <= told_at, true) GROUP BY host, group_id
), gone AS (
    SELECT n, count(*) AS pages FROM likely GROUP BY n
    UNION ALL
    SELECT s.n, t.urls * s.pages / sum(s.pages) OVER (PARTITION BY s.host, s.group_id)
    FROM summed s JOIN tried t ON t.host = s.host AND t.group_id = s.group_id WHERE s.state = 'waiting'
)
SELECT s.host, s.group_id, s.state, greatest(s.pages - coalesce(g.pages, 0), 0)::DOUBLE AS pages, s.value,
    s.rate_a AS da, s.rate_b AS db, s.since_first, s.since_last
FROM summed s LEFT JOIN gone g ON g.n = s.n
UNION ALL
SELECT host, group_id, state, pages::DOUBLE, value, rate_a, rate_b, epoch(since_first), epoch(since_last)
FROM ({bucketed("FROM fresh")})
"""


def bring_up_to_date(reading: Reading, known: dict[str, Any]) -> None:
    """Make the tables `bucket` and `fresh` of a window with the parameters `known`."""
    young = not reading.number(ANY_SUMMARY)
    run(reading, SUMMED.format(buckets=bucketed(CATALOGUE) if young else "FROM group_work"), known)
    oldest = reading.connection.execute(OLDEST).fetchone()
    since = {**known, "oldest": (oldest[0] if oldest else None) or 0.0}
    for sql in (FRESH, BUCKET):
        run(reading, sql, since)


def run(reading: Reading, sql: str, known: dict[str, Any]) -> Any:
    """Execute `sql` with those of the parameters that it names."""
    return reading.connection.execute(sql, {name: v for name, v in known.items() if f"${name}" in sql})
