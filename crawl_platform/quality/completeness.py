"""Completeness: how much of what belongs to the crawl has been read at all."""

from crawl_platform.quality.measure import SUCCESSES, Measure

ELIGIBLE = """
CREATE OR REPLACE TEMP TABLE eligible AS
WITH seed AS (SELECT host FROM hosts_now WHERE state = 'seed'),
known AS (
    SELECT url, last_success_at IS NOT NULL AS done FROM frontier_now SEMI JOIN seed USING (host)
    WHERE state IN ('queued', 'fetched') OR last_success_at IS NOT NULL
),
answered AS (
    SELECT DISTINCT url FROM fetches SEMI JOIN seed USING (host)
    WHERE kind = 'page' AND outcome IN ('ok', 'not_modified', 'redirect')
)
SELECT url, coalesce(k.done, false) OR a.url IS NOT NULL AS fetched
FROM known k FULL JOIN answered a USING (url)
WHERE EXISTS (FROM frontier_now)
"""
"""URLs known in seed hosts (last snapshot of the frontier, and what was fetched since) that may be fetched: not
dropped by robots or a trap, nor gone before they were ever read."""

NO_SNAPSHOT = "no snapshot of the frontier is in the lake yet"

MEASURES = (
    Measure(
        "url_coverage",
        "completeness",
        "share",
        "Of the URLs that are known and eligible in seed hosts, the share fetched at least once (a redirect counts "
        "as fetched). Known: in the last snapshot of the frontier, or fetched since.",
        NO_SNAPSHOT,
        "SELECT count(*) FILTER (fetched) AS numerator, count(*) AS denominator FROM eligible",
        state=True,
    ),
    Measure(
        "listed_coverage",
        "completeness",
        "share",
        "Of the pages that sitemaps and feeds of seed hosts list and that are eligible, the share fetched at least "
        "once (a redirect counts as fetched), as of the last snapshot of the frontier.",
        NO_SNAPSHOT,
        """
        SELECT count(last_success_at) AS numerator, count(*) AS denominator FROM frontier_now
        SEMI JOIN (SELECT host FROM hosts_now WHERE state = 'seed') USING (host)
        WHERE second_group_id IS NOT NULL AND kind = 'page'
            AND (state IN ('queued', 'fetched') OR last_success_at IS NOT NULL)
        """,
        state=True,
    ),
    Measure(
        "backlog",
        "completeness",
        "URLs",
        "URLs that are known and eligible in seed hosts and wait for their first fetch, as of the last snapshot.",
        NO_SNAPSHOT,
        "SELECT CASE WHEN count(*) > 0 THEN count(*) FILTER (NOT fetched) END AS value, "
        "count(*) FILTER (NOT fetched) AS numerator, count(*) AS denominator FROM eligible",
        state=True,
    ),
    Measure(
        "host_coverage",
        "completeness",
        "share",
        "Of the seed hosts, the share with at least one page fetched well.",
        "there is no seed host yet",
        f"""
        SELECT count(r.host) AS numerator, count(*) AS denominator
        FROM (SELECT host FROM hosts_now WHERE state = 'seed') s LEFT JOIN (
            SELECT DISTINCT host FROM fetches WHERE kind = 'page' AND outcome IN {SUCCESSES}
        ) r USING (host)
        """,
        state=True,
    ),
)
