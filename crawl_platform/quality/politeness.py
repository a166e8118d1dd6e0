"""Politeness: whether the crawl kept its promises to sites, as far as its own log can tell.

The log knows when each request was written and how long it took. The crawled server's own log is the better
witness (`crawl_platform.simulation.verdict`); where there is none, this one is.
"""

from crawl_platform.quality.measure import UNSENT, Measure

REQUESTED = f"""
CREATE OR REPLACE TEMP TABLE requested AS
SELECT fetch_id, url, host, address, kind, started_at AS starts,
    started_at + to_microseconds(CAST(coalesce(duration_ms, 0) * 1000 AS BIGINT)) AS ends
FROM recent WHERE outcome NOT IN {UNSENT}
"""
"""Requests that left the house. A request ends with its response."""

TOLERANCE = 0.02
"""Seconds, and at most a quarter of the delay: two clocks are read for one moment."""

PAIRED = f"""
CREATE OR REPLACE TEMP TABLE paired AS
WITH in_force AS (
    SELECT host, happened_at,
        CASE WHEN event = 'paced' AND detail = 'recovers' THEN min(delay) OVER (PARTITION BY host ORDER BY happened_at)
            ELSE delay END AS delay
    FROM hosts WHERE event IN ('robots', 'paced') AND delay IS NOT NULL
),
by_host AS (
    SELECT 'host' AS of, host AS name, host, fetch_id, starts,
        max(ends) OVER (PARTITION BY host ORDER BY starts, fetch_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS free_at
    FROM requested
),
by_address AS (
    SELECT 'address' AS of, address AS name, host, fetch_id, starts,
        max(ends) OVER (PARTITION BY address ORDER BY starts, fetch_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS free_at
    FROM requested WHERE address IS NOT NULL AND address NOT IN (SELECT unnest($front_addresses::VARCHAR[]))
),
owed AS (
    SELECT p.*, coalesce(i.delay, $delay) AS delay
    FROM by_host p ASOF LEFT JOIN in_force i ON p.host = i.host AND p.starts >= i.happened_at
    UNION ALL SELECT *, $address_delay FROM by_address
)
SELECT of, name, fetch_id, starts, delay, epoch(starts - free_at) AS gap,
    epoch(starts - free_at) < 0 AS overlapping,
    epoch(starts - free_at) >= 0 AND epoch(starts - free_at) < delay - least({TOLERANCE}, delay / 4) AS too_soon
FROM owed WHERE free_at IS NOT NULL
"""
"""Each request with the end of the one before it at the same host, and at the same address, and the delay in force:
for a host what was last told of it, when its robots.txt was read or its pace changed; the set one if nothing was.
A host that recovers does so step by step, and few steps are told: from then on its shortest delay counts. Addresses
of front ends are not judged."""

UNASKED = """
SELECT f.fetch_id, f.url, f.started_at FROM recent f
LEFT JOIN (
    SELECT DISTINCT regexp_extract(url, '^([a-z]+://[^/]+)', 1) AS origin, started_at FROM fetches WHERE kind = 'robots'
) r ON r.origin = regexp_extract(f.url, '^([a-z]+://[^/]+)', 1)
    AND r.started_at <= f.started_at
    AND epoch(f.started_at - r.started_at) <= $robots_ttl + 300
WHERE f.kind = 'page' AND r.origin IS NULL AND f.started_at < $now - INTERVAL 1 MINUTE
    AND f.outcome NOT IN ('no_such_host', 'dns_failure', 'dns_timeout')
"""
"""Page requests without a robots.txt of their origin read within its life before them (and some minutes for a
claimed page to get its turn). The last minute is not judged: an urgent page may be committed ahead of it."""

MEASURES = (
    Measure(
        "overlapping_requests",
        "politeness",
        "requests",
        "Requests that were written before another one to the same host, or to the same address, had ended.",
        "nothing was requested in the look back",
        "SELECT CASE WHEN (SELECT count(*) FROM requested) > 0 THEN count(*) FILTER (overlapping) END AS value, "
        "count(*) FILTER (overlapping) AS numerator, (SELECT count(*) FROM requested) AS denominator FROM paired",
    ),
    Measure(
        "short_gaps",
        "politeness",
        "requests",
        "Requests written sooner after the end of the one before, at the same host or address, than the delay in "
        "force (less 20 ms).",
        "nothing was requested in the look back",
        "SELECT CASE WHEN (SELECT count(*) FROM requested) > 0 THEN count(*) FILTER (too_soon) END AS value, "
        "count(*) FILTER (too_soon) AS numerator, (SELECT count(*) FROM requested) AS denominator FROM paired",
    ),
    Measure(
        "requests_before_robots",
        "politeness",
        "requests",
        "Page requests without a robots.txt of their origin read before them and still valid.",
        "no page was requested in the look back",
        f"SELECT CASE WHEN pages > 0 THEN unasked END AS value, unasked AS numerator, pages AS denominator FROM ("
        f"SELECT (SELECT count(*) FROM ({UNASKED})) AS unasked, "
        f"(SELECT count(*) FROM recent WHERE kind = 'page') AS pages)",
    ),
    Measure(
        "pushback_share",
        "politeness",
        "share",
        "Of all requests, the share that the site answered with 429 or 503: it wants less.",
        "nothing was requested in the look back",
        "SELECT count(*) FILTER (outcome IN ('rate_limited', 'unavailable')) AS numerator, count(*) AS denominator "
        f"FROM recent WHERE outcome NOT IN {UNSENT}",
    ),
)
