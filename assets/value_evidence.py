"""What the lake says about the worth of pages, one row each: gathered in the database, texts and links scored here.

Of texts only those are read that no run has read before, or not with the topics file as it is now; of links only
those of pages whose link texts have changed, and of unread pages that files of links name which have come since the
last run. Each kind has a bound per run, the newest first. The arithmetic is in `crawl_platform/value/`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crawl_platform.fetch.outcome import DISPOSITIONS
from crawl_platform.lake.tables import STRENGTHS
from crawl_platform.value.signals import DEMAND_HALF_LIFE, IMPORTANT
from crawl_platform.value.texts import text_facts
from crawl_platform.value.topics import MOST_ANCHORS, Topics
from resources.lake import Reading

INPUTS = (
    "pages",
    "fetches",
    "links",
    "hosts",
    "frontier",
    "url_groups",
    "near_duplicates",
    "usage",
    "page_ranks",
)
MOST_PAGES = 1_000_000
"""Pages that have a row, those read last: about 1 GB."""
MOST_UNREAD = 200_000
MOST_IMPORTANT = 50_000
"""Of these, pages that only links speak for: those that rank first."""
MOST_TEXTS = 200_000
"""Texts scored by one run: some three minutes."""
MOST_LINKED = 500_000
TEXTS_AT_ONCE = 500

_OVER = ", ".join(f"'{o}'" for o, d in DISPOSITIONS.items() if d in ("gone", "refused"))
_SEEN = ", ".join(f"'{o}'" for o, d in DISPOSITIONS.items() if d in ("success", "redirect"))

FETCHED = """
CREATE TEMP TABLE fetched AS
SELECT host, url, arg_max(group_id, started_at) AS group_id, arg_min(value, started_at)::DOUBLE AS first_value,
    arg_max(value, started_at)::DOUBLE AS last_value, arg_max(outcome, started_at) AS outcome,
    arg_max(depth, started_at) AS depth
FROM fetches WHERE kind = 'page' GROUP BY host, url
"""
READ = """
CREATE TEMP TABLE read_page AS
SELECT p.url, p.host, p.fetch_id, p.date, p.fetched_at, coalesce(p.title, '') AS title, coalesce(p.links, 0) AS links,
    p.text_hash, coalesce(p.noindex, false) AS noindex, coalesce(p.canonical, p.url) <> p.url AS elsewhere,
    coalesce(p.entity_types, []) AS types
FROM pages_now p ANTI JOIN (SELECT host FROM hosts_now WHERE state = 'excluded') barred ON barred.host = p.host
WHERE coalesce(p.kind, 'html') IN ('html', 'text') ORDER BY p.fetched_at DESC, p.url LIMIT $most
"""
POINTED = f"""
CREATE TEMP TABLE pointed AS
WITH said AS (
    SELECT l.dst_url AS url, l.dst_host AS host, trim(coalesce(l.anchor, '')) AS anchor, count(*) AS n,
        max(l.seen_at) AS seen_at, min(f.depth) AS depth
    FROM links_now l LEFT JOIN fetched f ON f.url = l.src_url
    SEMI JOIN (SELECT host FROM hosts_now WHERE state = 'seed') s ON s.host = l.dst_host
    WHERE NOT coalesce(l.nofollow, false) GROUP BY ALL
)
SELECT url, any_value(host) AS host, sum(n) AS links, max(seen_at) AS seen_at, 1 + min(depth) AS depth,
    coalesce(list(anchor ORDER BY n DESC, anchor) FILTER (anchor <> '')[1:{MOST_ANCHORS}], []) AS anchors
FROM said GROUP BY url
"""
"""URLs of seed hosts that pages link to, and what most of these links say. Links that a site does not vouch for don't
speak: else comments would say what a page is about."""

SCORED = "SELECT count(*) FROM page_values WHERE text_scored_by = $digest"
FRESH = "CREATE TEMP TABLE fresh AS SELECT DISTINCT dst_url AS url FROM read_parquet($files)"
ALL_FRESH = "CREATE TEMP TABLE fresh AS SELECT url FROM pointed"
NONE_FRESH = "CREATE TEMP TABLE fresh AS SELECT url FROM pointed LIMIT 0"
UNREAD = f"""
CREATE TEMP TABLE unread AS
WITH critical AS (
    SELECT host FROM usage WHERE url IS NULL GROUP BY host HAVING arg_max(critical, row(used_at, imported_at, line))
), wanted AS (
    SELECT p.url, p.host FROM pointed p SEMI JOIN fresh n ON n.url = p.url WHERE $topics
    UNION SELECT url, host FROM page_values WHERE fetch_id IS NULL
    UNION (SELECT url, host FROM page_ranks WHERE NOT read AND importance >= {IMPORTANT} AND in_links > 0
        ORDER BY rank DESC, url LIMIT {MOST_IMPORTANT})
    UNION SELECT u.url, u.host FROM usage u
        SEMI JOIN (SELECT url FROM pointed UNION SELECT url FROM frontier_now UNION SELECT url FROM fetched) k
        ON k.url = u.url
    UNION SELECT f.url, f.host FROM frontier_now f SEMI JOIN critical c ON c.host = f.host WHERE f.kind = 'page'
)
SELECT w.url, w.host FROM wanted w
ANTI JOIN read_page r ON r.url = w.url
ANTI JOIN (SELECT url FROM fetched WHERE outcome IN ({_OVER}) OR outcome IN ({_SEEN})) f ON f.url = w.url
ANTI JOIN (SELECT host FROM hosts_now WHERE state = 'excluded') barred ON barred.host = w.host
LEFT JOIN pointed p ON p.url = w.url
ORDER BY p.seen_at DESC NULLS FIRST, w.url LIMIT $most
"""
"""URLs that were never read: those that new links speak of, those that have a row, those that rank first, those in
use, those of critical hosts."""

DUE_TEXTS = """
CREATE TEMP TABLE due AS
SELECT fetch_id, date, title, types FROM read_page r
ANTI JOIN (SELECT fetch_id FROM page_values WHERE text_scored_by = $digest) v ON v.fetch_id = r.fetch_id
ORDER BY fetched_at DESC, url LIMIT $most
"""
TEXTS = """
SELECT d.fetch_id, d.title, coalesce(p.text, '') AS text, d.types FROM due d JOIN pages p ON p.fetch_id = d.fetch_id
WHERE p.date >= (SELECT min(date) FROM due)
"""
DUE_LINKS = """
SELECT k.url, coalesce(p.anchors, []) AS anchors, hash($digest, coalesce(p.anchors, []))::VARCHAR AS state
FROM (SELECT url FROM read_page UNION ALL SELECT url FROM unread) k LEFT JOIN pointed p ON p.url = k.url
ANTI JOIN page_values v ON v.url = k.url AND v.links_scored_by = hash($digest, coalesce(p.anchors, []))::VARCHAR
WHERE $topics ORDER BY p.links DESC NULLS LAST, k.url LIMIT $most
"""

PAGES = f"""
WITH used AS (
    SELECT url, host, coalesce(arg_max(critical, row(used_at, imported_at, line)), false) AS critical,
        coalesce(sum(retrievals * pow(0.5, greatest($now - epoch(used_at), 0) / 86400 / {DEMAND_HALF_LIFE})), 0)::DOUBLE
            AS retrievals
    FROM usage GROUP BY url, host
), known AS (
    SELECT url, host, fetch_id FROM read_page UNION ALL SELECT url, host, NULL FROM unread
), facts AS (
    SELECT r.*, coalesce(t.words, v.words) AS words, coalesce(t.language, v.language) AS language,
        coalesce(t.soft_error, v.soft_error) AS soft_error, coalesce(t.topics, v.text_topics) AS text_topics,
        CASE WHEN t.fetch_id IS NULL THEN v.text_scored_by ELSE $digest END AS text_scored_by,
        count(*) FILTER (r.title <> '') OVER (PARTITION BY r.host, r.title) AS same_title,
        CASE WHEN r.text_hash IS NULL THEN 1 ELSE count(*) OVER (PARTITION BY r.text_hash) END AS same_text
    FROM read_page r LEFT JOIN scored_texts t ON t.fetch_id = r.fetch_id
    LEFT JOIN page_values v ON v.url = r.url AND v.fetch_id = r.fetch_id
), spoken AS (
    SELECT language, count(*) / (SELECT count(*) FROM facts WHERE language IS NOT NULL) AS share
    FROM facts WHERE language IS NOT NULL GROUP BY language
), kinds AS (
    SELECT entity, count(*) / (SELECT count(*) FROM read_page WHERE len(types) > 0) AS share
    FROM (SELECT unnest(list_distinct(types)) AS entity FROM read_page) GROUP BY entity
), rarest AS (
    SELECT url, arg_min(entity, row(share, entity)) AS entity, min(share) AS share
    FROM (SELECT url, unnest(types) AS entity FROM read_page) JOIN kinds USING (entity) GROUP BY url
), groups AS (
    SELECT host, group_id, count(*) AS pages FROM fetched WHERE group_id > 0 AND outcome IN ({_SEEN}) GROUP BY ALL
)
SELECT k.url, k.host, k.fetch_id, nullif(coalesce(f.group_id, q.group_id, v.group_id), 0)::INTEGER AS group_id,
    coalesce(v.base, f.first_value, q.value) AS base, coalesce(f.depth, q.depth, p.depth, 1) AS depth,
    coalesce(v.told, v.base, f.last_value, q.value) AS believed, v.told,
    r.words, r.language, r.soft_error, r.text_topics, r.text_scored_by, r.links, r.same_title, r.same_text,
    coalesce(l.topics, v.link_topics) AS link_topics, coalesce(l.state, v.links_scored_by) AS links_scored_by,
    coalesce(r.elsewhere, false) AS elsewhere, coalesce(r.noindex, false) AS noindex,
    coalesce(f.outcome IN ({_OVER}), false) AS gone,
    coalesce(f.outcome NOT IN ({_OVER}) AND f.outcome NOT IN ({_SEEN}), false) AS failing,
    d.url IS NOT NULL AS duplicate, n.share AS language_share, y.share AS type_share, y.entity AS entity_type,
    coalesce(g.pages, 0)::DOUBLE AS group_pages, g.pages / nullif(greatest(u.known_urls, g.pages), 0) AS group_read,
    w.importance, coalesce(a.retrievals, 0) AS retrievals,
    coalesce(a.critical, false) OR coalesce(h.critical, false) AS critical
FROM known k
LEFT JOIN facts r ON r.url = k.url
LEFT JOIN fetched f ON f.url = k.url
LEFT JOIN frontier_now q ON q.url = k.url
LEFT JOIN page_values v ON v.url = k.url
LEFT JOIN pointed p ON p.url = k.url
LEFT JOIN scored_links l ON l.url = k.url
LEFT JOIN (SELECT DISTINCT url FROM near_duplicates WHERE NOT is_representative) d ON d.url = k.url
LEFT JOIN page_ranks w ON w.url = k.url
LEFT JOIN spoken n ON n.language = r.language
LEFT JOIN rarest y ON y.url = k.url
LEFT JOIN groups g ON g.host = k.host AND g.group_id = coalesce(f.group_id, q.group_id, v.group_id)
LEFT JOIN url_groups u ON u.host = g.host AND u.group_id = g.group_id
LEFT JOIN used a ON a.url = k.url
LEFT JOIN used h ON h.url IS NULL AND h.host = k.host
ORDER BY k.url
"""

TEXT_FACTS = pa.schema(
    [
        *(("fetch_id", pa.string()), ("words", pa.int32()), ("language", pa.string())),
        *(("soft_error", pa.bool_()), ("topics", STRENGTHS)),
    ]
)
LINK_FACTS = pa.schema([("url", pa.string()), ("topics", STRENGTHS), ("state", pa.string())])


@dataclass(frozen=True)
class Evidence:
    """One row of `PAGES` per page, by URL; `before`: the URLs that had a row and have none, with what was told."""

    pages: pa.Table
    before: list[dict[str, Any]]
    counts: dict[str, int]


BEFORE = """
SELECT v.url, v.base, v.told FROM page_values v ANTI JOIN (
    SELECT url FROM read_page UNION ALL SELECT url FROM unread
) k ON k.url = v.url
ANTI JOIN (SELECT host FROM hosts_now WHERE state = 'excluded') barred ON barred.host = v.host
WHERE v.told IS NOT NULL AND v.told <> v.base ORDER BY v.url
"""


def gather(reading: Reading, topics: Topics, now: float, news: list[str] | None = None) -> Evidence:
    """What there is to know of each page at `now` (UTC seconds). `news`: data files of `links` that have come since the
    last run; None: all are new. After another topics file they are, too."""
    run, given = reading.connection.execute, bool(topics.entries)
    run(FETCHED)
    run(READ, {"most": MOST_PAGES})
    run(POINTED)
    scored = run(SCORED, {"digest": topics.digest}).fetchall()[0][0]
    if news is None or not scored:
        run(ALL_FRESH)
    elif news:
        run(FRESH, {"files": news})
    else:
        run(NONE_FRESH)
    run(UNREAD, {"topics": given, "most": MOST_UNREAD})
    run(DUE_TEXTS, {"digest": topics.digest, "most": MOST_TEXTS})
    texts = _together(TEXT_FACTS, _scored_texts(reading, topics))
    links = _together(LINK_FACTS, _scored_links(reading, topics))
    reading.connection.register("scored_texts", texts)
    reading.connection.register("scored_links", links)
    pages = run(PAGES, {"now": now, "digest": topics.digest}).to_arrow_table()
    before = run(BEFORE).to_arrow_table().to_pylist()
    counts = {
        "pages": reading.number("SELECT count(*) FROM read_page"),
        "pages_without_a_row": reading.number("SELECT count(DISTINCT url) FROM pages")
        - reading.number("SELECT count(*) FROM read_page"),
        "texts_scored": texts.num_rows,
        "links_scored": links.num_rows,
    }
    return Evidence(pages, before, counts)


def _together(schema: pa.Schema, batches: Iterable[list[dict[str, Any]]]) -> pa.Table:
    return pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(rows, schema=schema) for rows in batches], schema=schema
    )


def _scored_texts(reading: Reading, topics: Topics) -> Iterator[list[dict[str, Any]]]:
    if not reading.number("SELECT count(*) FROM due"):  # looking for nothing would still open every file
        return
    for batch in reading.connection.execute(TEXTS).to_arrow_reader(TEXTS_AT_ONCE):
        rows = []
        for row in batch.to_pylist():
            found = text_facts(row["title"], row["text"], tuple(row["types"]), topics)
            told = {**found._asdict(), "topics": list(found.topics.items())}
            rows.append({"fetch_id": row["fetch_id"], **told})
        yield rows


def _scored_links(reading: Reading, topics: Topics) -> Iterator[list[dict[str, Any]]]:
    wanted = {"digest": topics.digest, "topics": bool(topics.entries), "most": MOST_LINKED}
    for batch in reading.connection.execute(DUE_LINKS, wanted).to_arrow_reader(TEXTS_AT_ONCE):
        yield [
            {
                "url": row["url"],
                "topics": list(topics.of_link(row["url"], row["anchors"]).items()),
                "state": row["state"],
            }
            for row in batch.to_pylist()
        ]
