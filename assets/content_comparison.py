"""Which pages of the lake say (nearly) the same, from one reading.

Texts are read twice, a few at a time: all of them for their signatures, and again those that have candidates.
The asset that writes and publishes what comes out is in `assets/content.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crawl_platform.duplicates.duplicate_clusters import Member, Page, Texts, clusters
from crawl_platform.duplicates.near_duplicates import (
    MOST_SAMPLE,
    SHORT_WORDS,
    Pair,
    Signature,
    candidates,
    shingles,
    signature,
    template,
    verified,
    words,
)
from resources.lake import Reading

MOST_TEXTS = 300_000
"""Distinct texts compared by one run, those that were read last: about 500 MB and five minutes."""
TEXTS_AT_ONCE = 500

PAGES = """
CREATE TEMP TABLE page AS
SELECT p.url, p.host, p.fetch_id, p.text_hash, p.fetched_at, coalesce(p.canonical, p.url) <> p.url AS variant
FROM pages_now p
ANTI JOIN (SELECT url FROM fetches WHERE kind = 'page' GROUP BY url
           HAVING arg_max(status, started_at) BETWEEN 300 AND 499
               AND arg_max(status, started_at) NOT IN (304, 429)) gone ON gone.url = p.url
ANTI JOIN (SELECT host FROM hosts_now WHERE state = 'excluded') barred ON barred.host = p.host
WHERE p.text_hash IS NOT NULL AND NOT coalesce(p.noindex, false)
    AND coalesce(p.content_type, 'html') ILIKE '%html%'
"""
TEXTS = """
CREATE TEMP TABLE shown AS
SELECT text_hash, min(fetch_id) AS fetch_id, list(DISTINCT host ORDER BY host) AS hosts, count(*) AS pages
FROM page GROUP BY text_hash ORDER BY max(fetched_at) DESC, text_hash LIMIT $most
"""
READ = """
SELECT s.text_hash, p.text FROM pages p JOIN shown s ON p.fetch_id = s.fetch_id AND p.text_hash = s.text_hash
WHERE $all OR s.text_hash IN (SELECT unnest($wanted::VARCHAR[]))
"""
MEMBERS = """
SELECT page.url, page.host, page.fetch_id, page.text_hash AS text, epoch(first.at) AS since, page.variant
FROM page
JOIN shown s USING (text_hash)
JOIN (SELECT url, min(fetched_at) AS at FROM pages GROUP BY url) first ON first.url = page.url
WHERE s.pages > 1 OR s.text_hash IN (SELECT unnest($wanted::VARCHAR[]))
ORDER BY page.url
"""


@dataclass(frozen=True)
class Compared:
    """One comparison: the clusters, the texts behind them, and how much was looked at."""

    members: list[Member]
    texts: Texts
    counts: dict[str, int]


def compare(reading: Reading) -> Compared:
    """Clusters of the pages as they are now."""
    reading.connection.execute(PAGES)
    reading.connection.execute(TEXTS, {"most": MOST_TEXTS})
    hosts = {row["text_hash"]: row["hosts"] for row in reading.rows("SELECT text_hash, hosts FROM shown")}
    counts, signatures = _signatures(reading)
    pairs = _candidates(signatures)
    sites = {pair: host for pair in pairs if (host := _site(hosts, pair))}
    samples = _samples(hosts, sorted(signatures), set(sites.values()))
    wanted = {text for pair in pairs for text in pair}.union(*samples.values())
    known = {name: shingles(words(text)) for name, text in _texts(reading, sorted(wanted))}
    repeated = {host: template([known[name] for name in sample]) for host, sample in samples.items()}
    alike = verified(pairs, known, {pair: repeated[host] for pair, host in sites.items()})
    texts = Texts(counts, {name: known[name] for pair in alike for name in pair}, alike)
    looked_at = {
        "pages": reading.number("SELECT count(*) FROM page"),
        "texts": len(hosts),
        "texts_not_compared": reading.number("SELECT count(DISTINCT text_hash) FROM page") - len(hosts),
        "candidate_pairs": len(pairs),
        "verified_pairs": len(alike),
    }
    return Compared(clusters(_pages(reading, texts), texts), texts, looked_at)


def _texts(reading: Reading, wanted: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """Hash and text of those `wanted`, by default of all."""
    parameters = {"all": wanted is None, "wanted": list(wanted or ())}
    for batch in reading.connection.execute(READ, parameters).to_arrow_reader(TEXTS_AT_ONCE):
        yield from zip(batch["text_hash"].to_pylist(), batch["text"].to_pylist(), strict=True)


def _signatures(reading: Reading) -> tuple[dict[str, int], dict[str, Signature]]:
    """Words of each text, and the signature of those that are not short."""
    counts, signatures = {}, {}
    for name, text in _texts(reading):
        found = words(text)
        counts[name] = len(found)
        if len(found) >= SHORT_WORDS:
            signatures[name] = signature(shingles(found))
    return counts, signatures


def _candidates(signatures: dict[str, Signature]) -> list[Pair]:
    if not signatures:
        return []
    # By name, not as they were read: the same texts give the same candidates.
    names = sorted(signatures)
    return [(names[a], names[b]) for a, b in candidates(np.stack([signatures[name] for name in names]))]


def _site(hosts: dict[str, list[str]], pair: Pair) -> str | None:
    """The host that shows both texts of a pair, None if there is none."""
    return min(set(hosts[pair[0]]) & set(hosts[pair[1]]), default=None)


def _samples(hosts: dict[str, list[str]], texts: Sequence[str], sites: set[str]) -> dict[str, list[str]]:
    """For each of `sites` some of its texts: the first by hash, which is as good as drawn."""
    samples: dict[str, list[str]] = {site: [] for site in sorted(sites)}
    for text in texts:
        for host in hosts[text]:
            if host in samples and len(samples[host]) < MOST_SAMPLE:
                samples[host].append(text)
    return samples


def _pages(reading: Reading, texts: Texts) -> Iterator[Page]:
    """The pages whose text is shown by several, or is like another."""
    rows = reading.connection.execute(MEMBERS, {"wanted": sorted(texts.shingles)}).fetchall()
    return (Page(*row) for row in rows)
