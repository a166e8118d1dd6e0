"""Usefulness: what a fetch brought. Every page fetch is in exactly one class, so the shares sum to one."""

from crawl_platform.quality.measure import SUCCESSES, Measure

CLASSED = f"""
CREATE OR REPLACE TEMP TABLE classed AS
WITH first_with AS (
    SELECT text_hash, arg_min(url, row(fetched_at, fetch_id)) AS url
    FROM pages WHERE text_hash IS NOT NULL GROUP BY text_hash
)
SELECT f.fetch_id, f.host,
    CASE
        WHEN f.outcome = 'redirect' THEN 'redirect'
        WHEN f.outcome NOT IN {SUCCESSES} THEN 'failure'
        WHEN f.outcome = 'not_modified' OR f.changed IS FALSE THEN 'unchanged'
        WHEN w.url <> f.url THEN 'duplicate'
        WHEN p.fetch_id IS NOT NULL AND p.text_hash IS NULL AND p.links = 0 THEN 'empty'
        ELSE 'useful'
    END AS class
FROM recent f
LEFT JOIN pages p ON p.fetch_id = f.fetch_id
LEFT JOIN first_with w ON w.text_hash = p.text_hash
WHERE f.kind = 'page'
"""

PROMOTED = "SELECT DISTINCT host FROM hosts WHERE event = 'promoted'"
READ = f"SELECT host, url FROM fetches WHERE kind = 'page' AND outcome IN {SUCCESSES} GROUP BY host, url"

NO_FETCH = "no page was fetched in the look back"
NO_PROMOTION = "no host has been promoted yet"


def _share(name: str, of: str, definition: str) -> Measure:
    sql = f"SELECT count(*) FILTER (class = '{of}') AS numerator, count(*) AS denominator FROM classed"
    return Measure(name, "usefulness", "share", definition, NO_FETCH, sql)


MEASURES = (
    _share(
        "useful_share",
        "useful",
        "Of all page fetches, the share that brought new information: the page's first success or a change of its "
        "cleaned markup, with a text that no page known longer has.",
    ),
    _share("unchanged_share", "unchanged", "Of all page fetches, the share that found the page as it was."),
    _share(
        "duplicate_share",
        "duplicate",
        "Of all page fetches, the share whose new content has exactly the main text of another page known longer.",
    ),
    _share(
        "soft_failure_share",
        "empty",
        "Of all page fetches, the share that answered 200 with nothing to read and no link to follow.",
    ),
    _share(
        "failure_share",
        "failure",
        "Of all page fetches, the share that ended neither in a page nor in a redirect.",
    ),
    Measure(
        "pages_per_promoted_host",
        "usefulness",
        "pages per host",
        "Distinct pages fetched well from hosts that entered by promotion, per such host.",
        NO_PROMOTION,
        f"SELECT (SELECT count(*) FROM ({READ}) SEMI JOIN ({PROMOTED}) USING (host)) AS numerator, "
        f"(SELECT count(*) FROM ({PROMOTED})) AS denominator",
        state=True,
    ),
    Measure(
        "promoted_hosts_read",
        "usefulness",
        "share",
        "Of the hosts that entered by promotion, the share with at least one page fetched well.",
        NO_PROMOTION,
        f"SELECT count(r.host) AS numerator, count(*) AS denominator FROM ({PROMOTED}) p "
        f"LEFT JOIN (SELECT DISTINCT host FROM ({READ})) r USING (host)",
        state=True,
    ),
)
