"""What an operator's request would come to, before it is made: nothing is written, nobody is told."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from assets.promotion_decision import (
    ALL_INPUTS,
    HORIZON,
    bars_of,
    gather,
    rules_of,
)
from crawl_platform.graph.promotion import Candidate, explain, judge
from crawl_platform.settings import Orchestration
from crawl_platform.web.host import matches
from crawl_platform.web.url import canonicalize, host_of
from resources.lake import LakeResource, Reading
from resources.requests import named_target, require_host

NOW = "SELECT state, event, happened_at, detail, trusted FROM hosts_now WHERE host = ?"
SEEDS = "SELECT host, coalesce(known_urls, 0) AS known_urls FROM hosts_now WHERE state = 'seed' ORDER BY host"
LAST_FETCH = """
SELECT started_at, outcome, status FROM fetches WHERE url = ? AND kind = 'page' ORDER BY started_at DESC LIMIT 1
"""
SHOWN = 10


def preview(lake: LakeResource, kind: str, target: str, limits: Orchestration) -> dg.MarkdownMetadataValue:
    """In words. Raises `ConfigurationError` for a target that makes no sense."""
    with lake.read(*ALL_INPUTS) as reading:
        lines = PREVIEWS[kind](reading, target, limits)
    return dg.MetadataValue.md(
        "\n".join(["**Nothing has been done.**", "", *(f"- {line}" for line in lines)])
    )


def _promote(reading: Reading, target: str, limits: Orchestration) -> list[str]:
    host = require_host(target)
    rules, bars = rules_of(reading, limits), bars_of(reading)
    known = {row["host"]: Candidate(**row) for row in reading.rows(HORIZON)}
    evidence = gather(reading, [host], limits.promotion_urls)
    lines = [_state(reading, host)]
    if bars.excluded(host):
        return [*lines, "it is excluded: a request for it is refused (`crawl exclude --lift` first)"]
    if host in bars.vetoed:
        lines.append(f"{bars.vetoed[host]}; the request lifts the veto")
    if (candidate := known.get(host)) is None:
        lines.append("it has no rank: no path of links leads to it from a trusted host")
    else:
        verdict = judge(candidate, rules, bars)
        by_rank = "promoted once the quota reaches it" if verdict.promoted else f"held ({verdict.cause})"
        words = explain(verdict, rules, evidence.supporters(host), len(known))
        lines.append(f"by its rank it would be {by_rank}: {words}{evidence.related_in_words(host)}")
    lines.append(
        f"by this request it enters the seed whatever its rank, with {len(evidence.urls(host))} known URLs"
    )
    return lines


def _exclude(reading: Reading, target: str, limits: Orchestration) -> list[str]:
    pattern = named_target(target)
    whole = "://" not in pattern
    host = pattern if whole else host_of(pattern)
    named = [row for row in reading.rows(SEEDS) if matches(host, row["host"])]
    shown = ", ".join(row["host"] for row in named[:SHOWN]) + (", …" if len(named) > SHOWN else "")
    urls = sum(row["known_urls"] for row in named)
    if not named:
        return [f"no seed host is meant by {pattern}; what it means later would be barred"]
    if not whole:
        return [f"URLs of {shown} that begin with {pattern} are never fetched again; its other pages are"]
    return [
        f"{len(named)} seed hosts are fetched no more: {shown}",
        f"at least {urls:,} URLs are known of them",
    ]


def _recrawl(reading: Reading, target: str, limits: Orchestration) -> list[str]:
    url = canonicalize(target)
    if url is None:
        return [f"{target} is no URL that can be crawled: the request is refused"]
    lines = [_state(reading, host_of(url))]
    for fetch in reading.rows(LAST_FETCH, [url]):
        lines.append(f"{url} was fetched last at {fetch['started_at']:%Y-%m-%d %H:%M:%S}: {fetch['outcome']}")
    return lines if len(lines) > 1 else [*lines, f"{url} was never fetched"]


def _state(reading: Reading, host: str) -> str:
    rows: list[dict[str, Any]] = reading.rows(NOW, [host])
    if not rows:
        return f"{host} stands on the horizon, or is unknown"
    row = rows[0]
    why = (
        f": {row['detail']}" if row["detail"] and row["event"] in ("excluded", "demoted", "promoted") else ""
    )
    place = {"seed": "in the seed", "horizon": "on the horizon"}.get(row["state"], row["state"])
    return f"{host} is {place} ({row['event']} at {row['happened_at']:%Y-%m-%d}{why})"


PREVIEWS: dict[str, Callable[[Reading, str, Orchestration], list[str]]] = {
    "promote": _promote,
    "exclude": _exclude,
    "recrawl": _recrawl,
}
