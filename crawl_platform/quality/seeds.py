"""Seed hosts that are of no use, and hosts that the seed lacks: statements over the lake's views, and what to do.

`audit` looks at what was fetched of each seed host and names the first thing that is wrong with it; `suggest` looks at
where the pages of seed hosts point: redirects, canonical URLs, twins (www.), links of trusted hosts. Nothing here needs
a ranking, and nothing is decided: an operator reads it. `connection` is any DuckDB connection with the views of the
lake.
"""

from typing import Any, NamedTuple

import duckdb

from crawl_platform.quality.measure import SUCCESSES

TABLES = (
    *("hosts", "fetches", "pages", "links", "requests"),
    *("near_duplicates", "page_values", "host_graph", "host_ranks", "decisions"),
)
"""What the statements read; the last five may be empty, and tell less then."""
ATTEMPTS = 3
"""Less than so many attempts without an answer prove nothing: the network may have been away."""
PAGES = 3
"""Nothing is said of the pages of a host of which fewer were read."""
MOST = 0.8
"""Share of pages from which on a fault is the host's and not a page's."""
HALF = 0.5
FEW_WORDS = 10
PARKED = (
    r"domain( name)?( is| may be)?( currently)? (for sale|parked)|buy this domain|this domain (has )?expired|"
    r"domain parking|parked (free|by|with)|the domain .{1,80} is for sale"
)
PARKED_CHARACTERS = 1_500
"""A first page that says so and says more than this is about domains."""
NAMED = 5
"""Hosts that a finding names."""
SUPPORT = 2
"""Trusted hosts that link to a host before it is suggested for that."""

_HOST_OF = r"regexp_extract({url}, '^https?://(\[[^\]]*\]|[^/:?#]+)', 1)"
_NEWEST = """
    SELECT host, url, max(started_at) AS ended, arg_max(outcome, started_at) AS outcome,
        arg_max(redirect_to, started_at) AS redirect_to, count(*) AS attempts,
        count(*) FILTER (status IS NOT NULL) AS answers
    FROM fetches WHERE kind = 'page' GROUP BY host, url
"""

FACTS = f"""
WITH seed AS (
    SELECT host, coalesce(trusted, false) AS trusted, robots_status FROM hosts_now WHERE state = 'seed'
), entered AS (
    SELECT host, min(happened_at) FILTER (event IN ('seeded', 'promoted')) AS since FROM hosts GROUP BY host
), asked AS (
    SELECT host, count(*) AS attempts, count(status) AS answers,
        min(started_at) AS first_at, max(started_at) AS last_at,
        arg_max(outcome, started_at) AS outcome, arg_max(detail, started_at) AS detail,
        count(*) FILTER (kind = 'robots' AND status IS NOT NULL) AS robots
    FROM fetches SEMI JOIN seed USING (host) GROUP BY host
), newest AS ({_NEWEST}
), tried AS (
    SELECT host, count(*) AS tried, count(*) FILTER (outcome IN {SUCCESSES}) AS read,
        count(*) FILTER (outcome = 'redirect' AND {_HOST_OF.format(url="redirect_to")} <> host) AS away,
        count(*) FILTER (outcome = 'redirect') AS redirects, arg_max(outcome, ended) AS outcome,
        mode({_HOST_OF.format(url="redirect_to")}) FILTER (
            outcome = 'redirect' AND {_HOST_OF.format(url="redirect_to")} <> host) AS target
    FROM newest SEMI JOIN seed USING (host) GROUP BY host
), content AS (
    SELECT host, count(*) AS pages, count(*) FILTER (text_hash IS NULL) AS empty,
        count(*) FILTER (CASE
            WHEN NOT ends_with(url, '/') OR NOT regexp_full_match(url, 'https?://[^/]+/') THEN false
            WHEN length(text) >= {PARKED_CHARACTERS} THEN false
            ELSE regexp_matches(lower(concat_ws(' ', title, text)), '{PARKED}') END) AS parked
    FROM pages_now SEMI JOIN seed USING (host)
    WHERE coalesce(kept, 'all') <> 'facts' AND coalesce(kind, 'html') IN ('html', 'text') GROUP BY host
), judged AS (
    SELECT host, count(*) AS judged, count(*) FILTER (soft_error) AS soft, count(*) FILTER (words < {FEW_WORDS}) AS thin
    FROM page_values SEMI JOIN seed USING (host) WHERE fetch_id IS NOT NULL GROUP BY host
), copied AS (
    SELECT d.host, count(*) AS copies, mode({_HOST_OF.format(url="d.representative")}) AS original
    FROM near_duplicates d SEMI JOIN seed USING (host)
    WHERE NOT d.is_representative AND {_HOST_OF.format(url="d.representative")} <> d.host GROUP BY d.host
)
SELECT s.host, s.trusted, s.robots_status, e.since, a.first_at, a.last_at, a.outcome, a.detail,
    coalesce(a.attempts, 0) AS attempts, coalesce(a.answers, 0) AS answers, coalesce(a.robots, 0) AS robots,
    coalesce(t.tried, 0) AS tried, coalesce(t.read, 0) AS read, coalesce(t.away, 0) AS away,
    t.redirects, t.outcome AS page_outcome, t.target, coalesce(c.pages, 0) AS pages, coalesce(c.empty, 0) AS empty,
    coalesce(c.parked, 0) AS parked, coalesce(j.judged, 0) AS judged, coalesce(j.soft, 0) AS soft,
    coalesce(j.thin, 0) AS thin, coalesce(d.copies, 0) AS copies, d.original,
    t.target IN (SELECT host FROM seed) AS target_in_seed, d.original IN (SELECT host FROM seed) AS original_in_seed
FROM seed s LEFT JOIN entered e USING (host) LEFT JOIN asked a USING (host) LEFT JOIN tried t USING (host)
LEFT JOIN content c USING (host) LEFT JOIN judged j USING (host) LEFT JOIN copied d USING (host)
ORDER BY s.host
"""
"""What was fetched of each seed host, in numbers. A CASE stops where an AND would look for words of parked domains
in every page: half of the time."""

POINTED = f"""
WITH known AS (SELECT host, state, coalesce(trusted, false) AS trusted FROM hosts_now),
seed AS (SELECT host, trusted FROM known WHERE state = 'seed'),
barred AS (
    SELECT target AS pattern FROM requests WHERE kind IN ('exclude', 'lift')
    GROUP BY target HAVING arg_max(kind, requested_at) = 'exclude'
    UNION SELECT host FROM known WHERE state = 'excluded'
), vetoed AS (
    SELECT target AS host, arg_max(requested_by, requested_at) AS who, arg_max(reason, requested_at) AS why
    FROM requests WHERE kind = 'promote' OR (kind = 'remove' AND via = 'exchange') GROUP BY target
    HAVING arg_max(kind, requested_at) = 'remove'
), newest AS ({_NEWEST}
), pointing AS (
    SELECT {_HOST_OF.format(url="redirect_to")} AS host, host AS source, 'redirect' AS way
    FROM newest WHERE outcome = 'redirect'
    UNION ALL
    SELECT {_HOST_OF.format(url="canonical")} AS host, host AS source, 'canonical' AS way
    FROM pages_now WHERE canonical IS NOT NULL
    UNION ALL
    SELECT dst_host AS host, src_host AS source, 'twin' AS way FROM links_now
    WHERE dst_host = 'www.' || src_host OR src_host = 'www.' || dst_host
    UNION ALL
    SELECT g.dst_host AS host, g.src_host AS source, 'linked' AS way FROM host_graph g
    JOIN seed s ON s.host = g.src_host WHERE g.editorial > 0 AND s.trusted
), counted AS (
    SELECT p.host, p.way, count(*) AS pages, count(DISTINCT p.source) AS hosts,
        (list(DISTINCT p.source ORDER BY p.source))[:{NAMED}] AS sources
    FROM pointing p SEMI JOIN seed s ON s.host = p.source
    WHERE p.host <> '' AND p.host <> p.source AND p.host NOT IN (SELECT host FROM seed)
        AND NOT EXISTS (
            SELECT 1 FROM barred b WHERE b.pattern = p.host
                OR (b.pattern LIKE '*.%' AND ('.' || p.host) LIKE '%.' || substr(b.pattern, 3)))
    GROUP BY p.host, p.way HAVING p.way <> 'linked' OR hosts >= {SUPPORT}
), held AS (
    SELECT subject AS host, arg_max(verdict, decided_at) AS verdict, arg_max(reason, decided_at) AS reason
    FROM decisions WHERE kind IN ('promotion', 'probation') GROUP BY subject
)
SELECT c.host, list({{way: c.way, pages: c.pages, hosts: c.hosts, sources: c.sources}} ORDER BY c.way) AS ways,
    max(c.hosts) AS hosts, any_value(r.position) AS position, any_value(h.verdict) AS verdict,
    any_value(h.reason) AS held, any_value(v.who) AS vetoed_by, any_value(v.why) AS veto
FROM counted c LEFT JOIN host_ranks r USING (host) LEFT JOIN held h USING (host) LEFT JOIN vetoed v USING (host)
GROUP BY c.host
ORDER BY count(*) FILTER (c.way <> 'linked') > 0 DESC, hosts DESC, c.host LIMIT $most
"""
"""Hosts outside the seed that seed hosts point to, and how."""


class Finding(NamedTuple):
    """`kind`: problem or suggestion. `reason` is a word, `evidence` and `advice` are sentences; `others`: hosts that
    they are about; `strength`: pages behind a problem, seed hosts behind a suggestion."""

    host: str
    kind: str
    reason: str
    evidence: str
    advice: str
    others: list[str]
    strength: int


Row = dict[str, Any]


def audit(connection: duckdb.DuckDBPyConnection) -> list[Finding]:
    """Seed hosts that something is wrong with, each with the first thing that is."""
    rows: list[Row] = connection.execute(FACTS).to_arrow_table().to_pylist()
    return [finding for row in rows if (finding := _problem(row)) is not None]


def suggest(connection: duckdb.DuckDBPyConnection, most: int = 1_000) -> list[Finding]:
    """Hosts outside the seed that it seems to lack; those that seed hosts stand for or move to come first."""
    rows: list[Row] = connection.execute(POINTED, {"most": most}).to_arrow_table().to_pylist()
    return [_suggestion(row) for row in rows]


def _problem(row: Row) -> Finding | None:
    for look in (_silent, _forbidden, _moved, _failing, _parked, _soft, _copied, _empty):
        if (finding := look(row)) is not None:
            return finding
    return None


def _found(row: Row, reason: str, evidence: str, advice: str, strength: int, *others: str) -> Finding:
    return Finding(row["host"], "problem", reason, evidence, advice, list(others), strength)


def _silent(row: Row) -> Finding | None:
    if row["answers"] or row["attempts"] < ATTEMPTS:
        return None
    days = (row["last_at"] - row["first_at"]).total_seconds() / 86_400
    said = f" ({row['detail']})" if row["detail"] else ""
    evidence = f"{row['attempts']} attempts over {days:.1f} days, no answer; the last: {row['outcome']}{said}"
    return _found(row, "silent", evidence, f"check its name, or {_remove(row)}", row["attempts"])


def _forbidden(row: Row) -> Finding | None:
    if row["tried"] or not row["robots"]:
        return None
    if row["robots_status"] in ("disallow_all", "given_up"):
        why = "its robots.txt can't be had, so nothing may be fetched"
    else:
        why = "its robots.txt was read and no page fetched: it forbids all that is known, or all lies outside the scope"
    return _found(
        row, "forbidden", why, f"`crawl explain {row['host']}`; ask its owner, or {_remove(row)}", 0
    )


def _moved(row: Row) -> Finding | None:
    if not row["away"] or row["away"] < MOST * row["tried"]:
        return None
    evidence = f"pages that redirect to other hosts: {row['away']} of {row['tried']}, most to {row['target']}"
    if row["target_in_seed"]:
        advice = f"{row['target']} is in the seed: {_remove(row)}"
    else:
        advice = f"`crawl seed {row['target']}`, and {_remove(row)}"
    return _found(row, "moved", evidence, advice, row["away"], row["target"])


def _failing(row: Row) -> Finding | None:
    if row["read"] or row["redirects"] or row["tried"] < 1 or row["attempts"] < ATTEMPTS:
        return None
    evidence = f"none of {_pages(row['tried'])} could be read; the last ended as {row['page_outcome']}"
    return _found(row, "failing", evidence, f"`crawl explain {row['host']}`, or {_remove(row)}", row["tried"])


def _parked(row: Row) -> Finding | None:
    if not row["parked"]:
        return None
    evidence = "its first page says that the domain is for sale or parked, and little else"
    return _found(row, "parked", evidence, _remove(row), row["parked"])


def _soft(row: Row) -> Finding | None:
    if row["judged"] < PAGES or row["soft"] < MOST * row["judged"]:
        return None
    evidence = f"pages that answer 200 and say that there is none: {row['soft']} of {row['judged']}"
    return _found(row, "soft_errors", evidence, f"seed a page that exists, or {_remove(row)}", row["soft"])


def _copied(row: Row) -> Finding | None:
    if row["copies"] < PAGES or row["copies"] < HALF * row["read"]:
        return None
    first = row["original"]
    evidence = (
        f"pages that say what pages of other hosts say: {row['copies']} of {row['read']}, most of {first}"
    )
    known = "in the seed" if row["original_in_seed"] else "not in the seed any more"
    advice = f"{first} was read before and is {known}: keep one of the two, like {_remove(row)}"
    return _found(row, "mirrored", evidence, advice, row["copies"], first)


def _empty(row: Row) -> Finding | None:
    empty = max(row["empty"], row["thin"] if row["judged"] >= row["pages"] else 0)
    if row["pages"] < PAGES or empty < row["pages"]:
        return None
    evidence = f"none of {_pages(row['pages'])} has main text"
    return _found(row, "no_text", evidence, f"it may need a browser; else {_remove(row)}", empty)


def _remove(row: Row) -> str:
    return f"`crawl seed remove {row['host']}`"


def _pages(number: int) -> str:
    return f"{number} page{'' if number == 1 else 's'}"


_WAYS = {
    "redirect": "redirects of {pages} of {hosts} lead there ({by})",
    "canonical": "the canonical URLs of {pages} of {hosts} lie there ({by})",
    "twin": "it is {by} with or without www., and linked from there",
    "linked": "{trusted} link to it ({by})",
}


def _suggestion(row: Row) -> Finding:
    ways = {way["way"]: way for way in row["ways"]}
    said = [_way_in_words(ways[name]) for name in _WAYS if name in ways]
    if row["position"] is not None:
        said.append(f"rank {row['position']} of the horizon by trust")
    if row["verdict"] is not None:
        said.append(f"{row['verdict']} at the last decision: {row['held']}")
    if row["vetoed_by"] is not None:
        said.append(f"vetoed by {row['vetoed_by']}: {row['veto'] or 'no reason given'}")
    advice = f"`crawl seed {row['host']}`" + ("" if row["vetoed_by"] is None else ", which lifts the veto")
    first = next(name for name in _WAYS if name in ways)
    return Finding(
        row["host"], "suggestion", first, "; ".join(said), advice, ways[first]["sources"], row["hosts"]
    )


def _way_in_words(way: Row) -> str:
    by = ", ".join(way["sources"]) + (", …" if way["hosts"] > len(way["sources"]) else "")
    hosts = f"{way['hosts']} seed host{'' if way['hosts'] == 1 else 's'}"
    trusted = f"{way['hosts']} trusted seed hosts"
    return _WAYS[way["way"]].format(pages=_pages(way["pages"]), hosts=hosts, by=by, trusted=trusted)
