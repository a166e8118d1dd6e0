"""Timeliness: how long it takes from knowing of something to having it."""

from crawl_platform.quality.measure import SUCCESSES, Measure

WAITS = f"""
CREATE OR REPLACE TEMP TABLE waits AS
WITH firsts AS (
    SELECT url, host, depth, min(started_at) AS fetched_at FROM recent
    WHERE kind = 'page' AND outcome IN {SUCCESSES} AND previous_success_at IS NULL GROUP BY ALL
),
entered AS (
    SELECT host, min(happened_at) AS at FROM hosts WHERE event IN ('seeded', 'promoted') GROUP BY host
),
shown AS (
    SELECT url, min(seen_at) AS seen_at FROM (
        SELECT dst_url AS url, seen_at FROM links
        UNION ALL SELECT redirect_to, started_at FROM fetches WHERE redirect_to IS NOT NULL
    ) SEMI JOIN firsts USING (url) GROUP BY url
)
SELECT epoch(f.fetched_at - CASE WHEN s.seen_at < f.fetched_at THEN greatest(s.seen_at, e.at) ELSE e.at END) AS seconds
FROM firsts f JOIN entered e USING (host) LEFT JOIN shown s USING (url)
WHERE e.at <= f.fetched_at AND (s.seen_at < f.fetched_at OR f.depth = 0)
"""
"""For each page first fetched in the look back: seconds since it could have been. That is since its first link
or redirect was seen, and not before its host entered the seed; for a root (depth 0) since the host entered."""

LABELLED = """
labelled AS (
    SELECT committed_at, unnest(manifests) AS label FROM commits
    WHERE date >= CAST($since AS DATE) AND committed_at > $since
)
"""
"""When what a manifest says came into the lake."""

FASTLANE = f"""
WITH {LABELLED}
SELECT quantile_cont(epoch(c.committed_at - r.requested_at), 0.95) AS value,
    count(*) AS numerator, count(*) AS denominator
FROM (SELECT request_id, min(requested_at) AS requested_at FROM requests WHERE kind = 'recrawl' GROUP BY request_id) r
JOIN recent f ON f.request_id = r.request_id
JOIN labelled c ON c.label = f.incarnation || '/' || f.series || '/' || f.manifest
"""

FRESHLANE = f"""
WITH {LABELLED}, new AS (
    SELECT url, incarnation || '/' || series || '/' || manifest AS label FROM recent
    WHERE kind = 'page' AND lane = 'freshlane' AND outcome IN {SUCCESSES} AND previous_success_at IS NULL
), shown AS (
    SELECT l.dst_url AS url, arg_min(l.fetch_id, row(l.seen_at, l.fetch_id)) AS fetch_id
    FROM links l SEMI JOIN new ON new.url = l.dst_url GROUP BY l.dst_url
)
SELECT quantile_cont(epoch(c.committed_at - v.started_at), 0.95) AS value,
    count(*) AS numerator, count(*) AS denominator
FROM new JOIN labelled c USING (label) JOIN shown s ON s.url = new.url
JOIN recent v ON v.fetch_id = s.fetch_id AND v.lane IN ('freshlane', 'fastlane')
"""
"""A page that is watched before its first visit comes through the freshlane too, but no visit of a watched page has
shown it."""


def _wait(name: str, words: str, quantile: float) -> Measure:
    return Measure(
        name,
        "timeliness",
        "seconds",
        f"{words} of the time from discovery to the first successful fetch, over pages first fetched in the look "
        "back. Discovery: the first link or redirect seen, but not before the host entered the seed.",
        "no page was fetched for the first time in the look back",
        f"SELECT quantile_cont(seconds, {quantile}) AS value, count(*) AS numerator, count(*) AS denominator "
        "FROM waits",
    )


FIRST_VISITS = f"""
WITH firsts AS (
    SELECT host, epoch(min(started_at) - any_value(discovered_at)) AS seconds FROM recent
    WHERE kind = 'page' AND outcome IN {SUCCESSES} AND previous_success_at IS NULL AND discovered_at IS NOT NULL
    GROUP BY host, url
    UNION ALL
    SELECT host, epoch($now - discovered_at) FROM frontier_now f
    ANTI JOIN (SELECT url FROM recent WHERE outcome IN {SUCCESSES}) r ON r.url = f.url
    WHERE state = 'queued' AND coalesce(kind, 'page') = 'page' AND last_success_at IS NULL
)
SELECT count(*) FILTER (seconds > $promised_first[host]) AS numerator, count(*) AS denominator FROM firsts
WHERE $promised_first[host] IS NOT NULL
"""
"""Of hosts with such a promise: pages first fetched in the look back, and those that still wait."""


MEASURES = (
    _wait("discovery_to_fetch_median", "Median", 0.5),
    _wait("discovery_to_fetch_p95", "95th percentile", 0.95),
    Measure(
        "overdue_share",
        "timeliness",
        "share",
        "Of the copies held, the share last fetched well longer ago than is promised of their host "
        "(promises.within), else than the longest interval that is set (refresh.interval_max).",
        "no page has been fetched yet",
        "SELECT count(*) FILTER (epoch($now - last_success) > coalesce($promised[host], $interval_max)) "
        "AS numerator, count(*) AS denominator FROM copies",
        state=True,
    ),
    Measure(
        "late_first_visits",
        "timeliness",
        "share",
        "Of the pages of hosts with a promise of first visits (promises.first_within) that were first fetched in the "
        "look back or still wait, the share for which that took or takes longer than was promised.",
        "no page of a host with such a promise was fetched for the first time or waits",
        FIRST_VISITS,
    ),
    Measure(
        "fastlane_p95",
        "timeliness",
        "seconds",
        "95th percentile of the time from a request for a recrawl to the commit that shows its fetch.",
        "no request for a recrawl was carried out in the look back",
        FASTLANE,
    ),
    Measure(
        "freshlane_p95",
        "timeliness",
        "seconds",
        "95th percentile of the time from the visit of a watched page that was the first to show a link to the commit "
        "that has the link's page, over pages first fetched in the freshlane.",
        "no new link of a watched page was fetched in the look back",
        FRESHLANE,
    ),
)
