"""Admission: what it has cost that a request was made by one identity and not by another.

Each host is asked by the identity that it was given, with the likelihood that stands in its rows. So what any other
identity would have obtained from the same hosts can be estimated from the hosts that it was given by chance, each
answer weighted by one over its likelihood (inverse propensity, self-normalised: Swaminathan & Joachims 2015).
"""

from crawl_platform.quality.measure import Measure

LEAST = 20
"""Requests of an identity in a group of hosts below which nothing is concluded about it."""

OBTAINED = f"""
CREATE OR REPLACE TEMP TABLE obtained AS
WITH asked AS (
    SELECT regexp_extract(host, '([^.]+\\.)?[^.]+$') AS hosts, identity, admission_propensity AS p,
        (outcome IN ('ok', 'not_modified', 'redirect', 'not_found', 'gone'))::INT AS answered
    FROM fetches
    WHERE date >= CAST($since AS DATE) AND started_at > $since AND started_at <= $now
        AND identity IS NOT NULL AND admission_reason IN ('only', 'sticky', 'drawn', 'moved')
),
by_identity AS (
    SELECT hosts, identity, sum(answered / p) / sum(1 / p) AS estimate
    FROM asked GROUP BY hosts, identity HAVING count(*) >= {LEAST}
)
SELECT hosts, count(*) AS requests, avg(answered) AS got,
    (SELECT max(estimate) FROM by_identity b WHERE b.hosts = a.hosts) AS best,
    (SELECT count(*) FROM by_identity b WHERE b.hosts = a.hosts) AS identities
FROM asked a GROUP BY hosts
"""
"""Groups of hosts (of one domain): the share of requests that were answered, and the best identity's in hindsight."""

MEASURES = (
    Measure(
        "admission_regret",
        "usefulness",
        "share",
        "Of the requests to groups of hosts (of one domain) that several identities have asked, the share that would "
        "have been answered besides, had the best identity in hindsight made them all: per group the best estimate, "
        "weighted by inverse propensity, less what was obtained.",
        "no group of hosts was asked by several identities often enough",
        "SELECT sum(requests * greatest(best - got, 0)) AS numerator, sum(requests) AS denominator "
        "FROM obtained WHERE identities > 1",
    ),
)
