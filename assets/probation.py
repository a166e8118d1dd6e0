"""What was read of promoted hosts on probation, and what follows from it (`crawl_platform/graph/probation.py`).

Pure but for the reading; `assets/promotion.py` writes the outcome. Time is that of the last fetch: the same inputs give
the same verdicts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from crawl_platform.duplicates.near_duplicates import jaccard, shingles, words
from crawl_platform.graph.probation import DAY, Outcome, Terms, Trial, judge
from crawl_platform.quality.measure import SUCCESSES
from crawl_platform.settings import Orchestration
from resources.lake import Reading

READS = ("pages", "promotions", "probation")
"""Tables beside those that the ranks rest on."""
FEW_WORDS = 10
"""Fewer say next to nothing."""
COMPARED_WORDS = 50
"""Shorter texts count as copies only if they are equal (decision 0010)."""
ALIKE = 0.85
MANY_LINKS, WORDS_PER_LINK = 20, 5
"""Links to so many other hosts among fewer words than these per link: a page made for links."""

ON_TRIAL = """
WITH last AS (
    SELECT host, arg_max(decision_id, decided_at) AS promotion, max(decided_at) AS since,
        arg_max(requested, decided_at) AS requested
    FROM promotions GROUP BY host
)
SELECT l.host, l.promotion, l.since,
    (SELECT count(*) FROM probation p WHERE p.host = l.host AND p.verdict = 'demoted') AS demotions
FROM last l JOIN hosts_now h USING (host)
WHERE NOT l.requested AND h.state = 'seed' AND NOT coalesce(h.trusted, false)
    AND l.promotion NOT IN (SELECT promotion FROM probation)
    AND NOT EXISTS (
        SELECT 1 FROM requests r WHERE r.kind = 'promote' AND r.target = l.host AND r.requested_at >= l.since)
ORDER BY l.host
"""
PAGES = f"""
WITH trial AS (SELECT unnest($hosts::VARCHAR[]) AS host, unnest($since::TIMESTAMPTZ[]) AS since),
tried AS (
    SELECT f.host, f.url, arg_max(f.outcome, f.started_at) IN {SUCCESSES} AS read
    FROM fetches f JOIN trial t ON f.host = t.host AND f.started_at >= t.since
    WHERE f.kind = 'page' AND f.outcome NOT IN ('redirect', 'rate_limited', 'internal_error') GROUP BY f.host, f.url
),
content AS (
    SELECT url, arg_max(text, fetched_at) AS text, arg_max(text_hash, fetched_at) AS text_hash,
        arg_max(kind, fetched_at) AS kind, arg_max(kept, fetched_at) AS kept
    FROM pages WHERE host IN (SELECT host FROM trial) GROUP BY url
),
first_with AS (
    SELECT text_hash, arg_min(url, row(fetched_at, fetch_id)) AS url FROM pages
    WHERE text_hash IN (SELECT text_hash FROM content) GROUP BY text_hash
),
outward AS (
    SELECT src_url AS url, count(DISTINCT dst_host) AS hosts FROM links_now
    WHERE src_host IN (SELECT host FROM trial) AND dst_host <> src_host GROUP BY src_url
)
SELECT t.host, t.url, t.read, c.text, c.kind, c.kept, coalesce(w.url <> t.url, false) AS copied,
    coalesce(o.hosts, 0) AS outward
FROM tried t LEFT JOIN content c USING (url) LEFT JOIN first_with w ON w.text_hash = c.text_hash
LEFT JOIN outward o ON o.url = t.url
ORDER BY t.host, t.url
"""
KNOWN_URLS = """
SELECT dst_host AS host, dst_url AS url FROM links_now WHERE dst_host IN (SELECT unnest($hosts::VARCHAR[]))
GROUP BY dst_host, dst_url
QUALIFY row_number() OVER (
    PARTITION BY dst_host ORDER BY count(DISTINCT src_host) DESC, count(*) DESC, dst_url) <= $most
ORDER BY dst_host, dst_url
"""
DEMOTED = """
SELECT host, arg_max(rests_until, decided_at) AS until, arg_max(reason, decided_at) AS reason
FROM probation WHERE verdict = 'demoted' GROUP BY host
"""
NOW = "SELECT max(started_at) AS at FROM fetches"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one host, ready to be written. `urls`: handed over if it has passed."""

    trial: Trial
    outcome: Outcome
    promotion: str
    rests_until: datetime | None
    urls: list[str]

    @property
    def evidence(self) -> dict[str, Any]:
        until = self.rests_until.isoformat() if self.rests_until else None
        return {**self.trial._asdict(), "promotion": self.promotion, "rests_until": until}


def terms_of(limits: Orchestration) -> Terms:
    return Terms(
        limits.probation_pages, limits.probation_enough, limits.probation_days, limits.probation_rest
    )


def judge_promoted(reading: Reading, limits: Orchestration) -> list[Judgement]:
    """A judgement on every host on probation, by host; those that wait are among them."""
    on_trial = reading.rows(ON_TRIAL) if limits.probation_pages else []
    now = reading.rows(NOW)[0]["at"]
    if not on_trial or now is None:
        return []
    hosts = [row["host"] for row in on_trial]
    pages: dict[str, list[dict[str, Any]]] = {host: [] for host in hosts}
    found = reading.connection.execute(PAGES, {"hosts": hosts, "since": [row["since"] for row in on_trial]})
    for page in found.to_arrow_table().to_pylist():
        pages[page["host"]].append(page)
    trials = [(row, _trial(row, pages[row["host"]], now)) for row in on_trial]
    outcomes = [(row, trial, judge(trial, terms_of(limits))) for row, trial in trials]
    urls = _urls(reading, [t.host for _, t, o in outcomes if o.verdict == "passed"], limits.promotion_urls)
    return [
        Judgement(
            trial, outcome, row["promotion"], now + timedelta(days=outcome.rest) if outcome.rest else None,
            urls.get(trial.host, []),
        )
        for row, trial, outcome in outcomes
    ]  # fmt: skip


def resting(reading: Reading) -> dict[str, str]:
    """Hosts that were demoted and rest still → why, and until when, in words."""
    now = reading.rows(NOW)[0]["at"]
    return {
        row["host"]: f"on probation {row['reason']} (until {row['until']:%Y-%m-%d})"
        for row in reading.rows(DEMOTED)
        if now is None or row["until"] > now
    }


def _trial(row: Mapping[str, Any], pages: Iterable[Mapping[str, Any]], now: datetime) -> Trial:
    kinds = list(_kinds(pages))
    counts = {kind: kinds.count(kind) for kind in ("failed", "copies", "thin", "stuffed")}
    days = max(0.0, (now - row["since"]).total_seconds() / DAY)
    return Trial(row["host"], days, len(kinds), demotions=row["demotions"], **counts)


def _kinds(pages: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What each page is: failed, copies, thin, stuffed or useful. Pages of which the site lets us keep facts alone are
    passed over."""
    seen: list[Any] = []
    for page in pages:
        if not page["read"]:
            yield "failed"
            continue
        if page["kept"] == "facts":
            continue
        text = words(page["text"] or "")
        parts = shingles(text) if len(text) >= COMPARED_WORDS else None
        if page["kind"] not in (None, "html", "text"):
            yield "useful"
        elif len(text) < FEW_WORDS:
            yield "thin"
        elif page["copied"] or (parts is not None and any(jaccard(parts, other) >= ALIKE for other in seen)):
            yield "copies"
        elif page["outward"] >= MANY_LINKS and len(text) < WORDS_PER_LINK * page["outward"]:
            yield "stuffed"
        else:
            yield "useful"
        if parts is not None:
            seen.append(parts)


def _urls(reading: Reading, hosts: list[str], most: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, url in reading.connection.execute(KNOWN_URLS, {"hosts": hosts, "most": most}).fetchall():
        found.setdefault(host, []).append(url)
    return found
