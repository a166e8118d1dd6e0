"""How a promotion is decided from one reading of the lake: candidates, requests, exclusions, evidence.

Pure but for the reading; the asset that writes the outcome is in `assets/promotion.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import xxhash

from assets.probation import resting
from crawl_platform.graph.promotion import FLOOR_SHARE, Bars, Candidate, Rules, Verdict, decide, explain
from crawl_platform.settings import Orchestration
from crawl_platform.web.host import matches
from resources.lake import Reading

RANK_INPUTS = ("links", "fetches", "hosts")
"""What a decision id is derived from: the fleet's tables behind the ranks."""
MEMORY = ("promotions", "probation")
"""What was decided before: who was promoted, and who rests."""
ALL_INPUTS = (*RANK_INPUTS, "host_graph", "host_ranks", "related_hosts", "requests", "pages", *MEMORY)
"""Versions of these, and the rules in the evidence, give the same decisions again (`assets/promotion_replay.py`)."""
SHOWN_SUPPORTERS = 10
SHOWN_RELATIVES = 5
MANY_RELATED = 5
"""Hosts in a component from which on the reason names it: farms share an address, and so do some honest hosts."""
HORIZON = """
SELECT r.host, r.position, r.trust, r.uniform, r.spam_mass, r.eligible, r.support, r.independent_support,
    r.per_supporter, r.vouched, r.strangers, r.by_strangers
FROM host_ranks r WHERE r.state = 'horizon' AND r.trust > 0 ORDER BY r.position
"""
SUPPORTERS = """
SELECT g.dst_host AS host, g.src_host AS value FROM host_graph g JOIN host_ranks r ON r.host = g.src_host
WHERE g.editorial > 0 AND g.dst_host IN (SELECT unnest($hosts::VARCHAR[]))
QUALIFY row_number() OVER (PARTITION BY g.dst_host ORDER BY r.trusted DESC, g.editorial DESC, g.src_host) <= $most
ORDER BY g.dst_host, r.trusted DESC, g.editorial DESC, g.src_host
"""
KNOWN_URLS = """
SELECT dst_host AS host, dst_url AS value FROM links_now
WHERE dst_host IN (SELECT unnest($hosts::VARCHAR[])) GROUP BY dst_host, dst_url
QUALIFY row_number() OVER (
    PARTITION BY dst_host ORDER BY count(DISTINCT src_host) DESC, count(*) DESC, dst_url) <= $most
ORDER BY dst_host, count(DISTINCT src_host) DESC, count(*) DESC, dst_url
"""
RELATED = """
WITH component AS (
    SELECT component, list(host ORDER BY host) AS hosts, count(*) FILTER (state = 'seed') AS seed,
        count(*) FILTER (state = 'excluded') AS excluded
    FROM related_hosts GROUP BY component
)
SELECT r.host, r.size, r.shared, c.seed, c.excluded, list_filter(c.hosts, lambda h: h <> r.host)[:$most] AS others
FROM related_hosts r JOIN component c USING (component)
WHERE r.host IN (SELECT unnest($hosts::VARCHAR[]))
"""
FLOOR = "SELECT median(trust) AS level FROM host_ranks WHERE trusted"
EXCLUDED = """
SELECT target AS pattern FROM requests WHERE kind IN ('exclude', 'lift')
GROUP BY target HAVING arg_max(kind, requested_at) = 'exclude'
UNION SELECT host FROM hosts_now WHERE state = 'excluded'
"""
VETOED = """
SELECT target AS host, arg_max(requested_by, requested_at) AS who, arg_max(reason, requested_at) AS why
FROM requests WHERE kind = 'promote' OR (kind = 'remove' AND via = 'exchange') GROUP BY target
HAVING arg_max(kind, requested_at) = 'remove'
"""
"""An operator has taken them out of the seed, and nobody has asked for them since. What only stands in the table was
refused."""
REQUESTED = """
SELECT r.request_id, r.target, r.requested_by, r.reason, r.priority FROM requests r
LEFT JOIN hosts_now h ON h.host = r.target
ANTI JOIN promotions p ON p.decision_id = r.request_id
WHERE r.kind = 'promote' AND (h.host IS NULL OR h.state <> 'seed' OR h.decision_id = r.request_id)
    AND NOT EXISTS (
        SELECT 1 FROM requests v WHERE v.kind = 'remove' AND v.via = 'exchange' AND v.target = r.target
            AND v.requested_at > r.requested_at)
ORDER BY coalesce(r.priority, 0) DESC, r.requested_at, r.request_id
"""
PROMOTED = "SELECT host, arg_max(decision_id, decided_at) AS decision_id FROM promotions GROUP BY host"
"""The last promotion of each host."""
FREE_AGAIN = """
SELECT host FROM promotions GROUP BY host
HAVING arg_max(decision_id, decided_at) IN (SELECT promotion FROM probation WHERE verdict = 'demoted')
"""


@dataclass(frozen=True)
class Relatives:
    """The hosts that a host belongs together with: `size` counts it too, `seed` and `excluded` are of these."""

    size: int
    shared: list[str]
    seed: int
    excluded: int
    others: list[str]

    def in_words(self) -> str:
        """For the reason: '' while they are few."""
        if self.size < MANY_RELATED:
            return ""
        barred = f", {self.excluded} of them excluded" if self.excluded else ""
        shared = " and ".join(label.replace(":", " ", 1) for label in self.shared)
        return f"; belongs together with {self.size - 1} other hosts{barred} (shares {shared})"


@dataclass(frozen=True)
class Promotion:
    """One decision about one host, ready to be written."""

    decision_id: str
    host: str
    promoted: bool
    cause: str
    reason: str
    requested: bool
    candidate: Candidate | None
    supporters: list[str]
    urls: list[str]
    rules: Rules
    most_urls: int
    relatives: Relatives | None = None

    @property
    def evidence(self) -> dict[str, Any]:
        numbers = self.candidate._asdict() if self.candidate else {"host": self.host}
        return {
            **numbers,
            "cause": self.cause,
            "requested": self.requested,
            "supporters": self.supporters,
            "known_urls": len(self.urls),
            "related_hosts": asdict(self.relatives) if self.relatives else None,
            "rules": {**self.rules._asdict(), "urls": self.most_urls},
        }


def decide_promotions(reading: Reading, limits: Orchestration, *, repeat: bool = True) -> list[Promotion]:
    """All decisions that these inputs give: requests first, then ranks; see the module's docstring. With `repeat` also
    those that these very inputs have given before."""
    inputs = {name: reading.inputs[name] for name in RANK_INPUTS}
    rules, bars = rules_of(reading, limits), bars_of(reading)
    candidates = {row["host"]: Candidate(**row) for row in reading.rows(HORIZON)}
    asked = [row for row in reading.rows(REQUESTED) if not bars.excluded(row["target"])]
    named = {row["target"] for row in asked}
    before = {row["host"]: row["decision_id"] for row in reading.rows(PROMOTED)}
    again = {row["host"] for row in reading.rows(FREE_AGAIN)}
    free = [
        candidate
        for host, candidate in candidates.items()
        if host not in named
        and (host in again or host not in before or (repeat and before[host] == decision_id(host, inputs)))
    ]
    verdicts = decide(free, rules, bars)
    evidence = gather(reading, [*named, *(v.candidate.host for v in verdicts)], limits.promotion_urls)
    words = [explain(v, rules, evidence.supporters(v.candidate.host), len(candidates)) for v in verdicts]
    return [
        *(_requested(row, candidates.get(row["target"]), rules, evidence) for row in asked),
        *(
            _ranked(verdict, why, rules, inputs, evidence)
            for verdict, why in zip(verdicts, words, strict=True)
        ),
    ]


def rules_of(reading: Reading, limits: Orchestration) -> Rules:
    median = reading.rows(FLOOR)[0]["level"] or 0.0
    return Rules(limits.promotion_quota, limits.promotion_min_support, FLOOR_SHARE * median)


def bars_of(reading: Reading) -> Bars:
    patterns = [row["pattern"] for row in reading.rows(EXCLUDED)]
    vetoed = {
        row["host"]: f"vetoed by {row['who']}: {row['why'] or 'no reason given'}"
        for row in reading.rows(VETOED)
    }
    return Bars(lambda host: any(matches(pattern, host) for pattern in patterns), vetoed, resting(reading))


@dataclass(frozen=True)
class Evidence:
    """Who links to a host, to which of its pages (`most_urls` at most), and whom it is related to, for all hosts of one
    decision."""

    most_urls: int
    linking: dict[str, list[str]]
    linked: dict[str, list[str]]
    related: dict[str, Relatives]

    def supporters(self, host: str) -> list[str]:
        return self.linking.get(host, [])

    def urls(self, host: str) -> list[str]:
        return self.linked.get(host, [])

    def related_in_words(self, host: str) -> str:
        relatives = self.related.get(host)
        return relatives.in_words() if relatives else ""


def gather(reading: Reading, hosts: list[str], most_urls: int) -> Evidence:
    """The evidence about these hosts."""

    def by_host(query: str, most: int) -> dict[str, list[str]]:
        rows = reading.connection.execute(query, {"hosts": hosts, "most": most}).fetchall()
        found: dict[str, list[str]] = {}
        for host, value in rows:
            found.setdefault(host, []).append(value)
        return found

    parameters = {"hosts": hosts, "most": SHOWN_RELATIVES}
    rows = reading.connection.execute(RELATED, parameters).fetchall()
    related = {host: Relatives(*columns) for host, *columns in rows}
    return Evidence(most_urls, by_host(SUPPORTERS, SHOWN_SUPPORTERS), by_host(KNOWN_URLS, most_urls), related)


def decision_id(subject: str, inputs: Mapping[str, int], kind: str = "promotion") -> str:
    """The same subject and inputs give the same id."""
    text = "|".join([kind, subject, *(f"{name}={inputs[name]}" for name in sorted(inputs))])
    return f"{kind}-{xxhash.xxh3_128_hexdigest(text.encode())}"


def _ranked(
    verdict: Verdict, reason: str, rules: Rules, inputs: Mapping[str, int], evidence: Evidence
) -> Promotion:
    host = verdict.candidate.host
    # A host that stays held for the same cause is one decision, not one per ranking.
    identity = (
        decision_id(host, inputs)
        if verdict.promoted
        else decision_id(f"{host}|{verdict.cause}{verdict.said}", {}, "held")
    )
    return Promotion(
        identity,
        host,
        verdict.promoted,
        verdict.cause,
        reason + evidence.related_in_words(host),
        False,
        verdict.candidate,
        evidence.supporters(host),
        evidence.urls(host) if verdict.promoted else [],
        rules,
        evidence.most_urls,
        evidence.related.get(host),
    )


def _requested(
    row: Mapping[str, Any], candidate: Candidate | None, rules: Rules, evidence: Evidence
) -> Promotion:
    host = row["target"]
    supporters = evidence.supporters(host)
    if candidate is not None:
        place = f"; rank {candidate.position} among horizon hosts"
    else:
        place = "; not ranked yet" if supporters else "; not linked from the seed yet"
    related = evidence.related_in_words(host)
    reason = f"asked for by {row['requested_by']}: {row['reason'] or 'no reason given'}{place}{related}"
    return Promotion(
        row["request_id"],
        host,
        True,
        "requested",
        reason,
        True,
        candidate,
        supporters,
        evidence.urls(host),
        rules,
        evidence.most_urls,
        evidence.related.get(host),
    )
