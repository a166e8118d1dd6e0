"""`crawl explain URL`: why (not) crawled yet, and what happens next, from live state and the lake."""

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from crawl_platform.admission.robots import RobotsCache, Verdict
from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import json_option, print_json, show
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import policy_for
from crawl_platform.fleet.supervisor import is_running
from crawl_platform.frontier.records import (
    LANES,
    NO_LANE,
    STATES,
    HostRecord,
    RobotsRecord,
    UrlRecord,
    decode,
    host_key,
    robots_key,
    url_key,
)
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.web import url as urls
from crawl_platform.web.host import is_hostname, shard_of
from crawl_platform.web.traps import trap_reason


@dataclass(slots=True)
class Found:
    """What the cells' stores know, read live beside them."""

    cell: str = ""
    host: HostRecord | None = None
    robots: RobotsRecord | None = None
    url: UrlRecord | None = None


@click.command()
@click.argument("url")
@json_option
@home_option
def explain(url: str, as_json: bool, home: Path) -> None:
    """Say everything that is known about URL: its host, robots, place in the queue, fetches, and why."""
    crawl = Crawl.at(home)
    facts = explain_url(crawl, url)
    if as_json:
        print_json(facts)
        return
    for line in in_words(facts):
        click.echo(line)


def explain_url(crawl: Crawl, url: str) -> dict[str, Any]:
    """All facts as one JSON-able dict. Raises `ConfigurationError` if `url` can't be crawled at all."""
    canonical = urls.canonicalize(_root_of(crawl, url) if is_hostname(url) else url)
    if canonical is None:
        raise ConfigurationError(f"not a URL that can be crawled: {url!r} (http or https, with a host)")
    host = urls.host_of(canonical)
    shard = shard_of(host, crawl.lake.n_shards)
    found = _live(crawl, shard, host, canonical)
    now = SystemClock().now()
    return {
        "url": canonical,
        "rules_fired": urls.explain(url),
        "trap": trap_reason(canonical, crawl.settings.frontier),
        "host": _host_facts(crawl, host, shard, found, now),
        "robots": _robots_facts(crawl, canonical, found.robots, now),
        "state": None if found.url is None else _url_facts(found.url),
        "window": _window_facts(crawl, host, now),
        "decision": _decision(crawl, host),
        "last_fetches": _fetches(crawl, canonical),
        "robots_fetches": _fetches(crawl, urls.origin_of(canonical) + "/robots.txt")[:1],
        "linked_by": _linkers(crawl, canonical),
    }


def _root_of(crawl: Crawl, host: str) -> str:
    """The first page of a host that was named without a scheme, as the crawl knows it."""
    found = crawl.lake.query(
        "SELECT url FROM fetches WHERE host = $1 AND kind = 'page' ORDER BY depth, started_at LIMIT 1", [host]
    )
    if not found.num_rows:
        found = crawl.lake.query(
            "SELECT dst_url FROM links WHERE dst_host = $1 GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
            [host],
        )
    known: list[str] = found.column(0).to_pylist()
    return known[0] if known else f"https://{host}/"


def _live(crawl: Crawl, shard: int, host: str, url: str) -> Found:
    found = Found()
    for store in sorted(crawl.home.glob("cells/*/state")):
        with tempfile.TemporaryDirectory() as scratch:
            kv = RocksKV.read_beside(store, Path(scratch))
            record = kv.get(host_key(shard, host))
            if record is not None:
                found.cell = store.parent.name
                found.host = decode(record, HostRecord)
                robots = kv.get(robots_key(shard, urls.origin_of(url)))
                found.robots = decode(robots, RobotsRecord) if robots is not None else None
                page = kv.get(url_key(shard, host, url))
                found.url = decode(page, UrlRecord) if page is not None else None
            kv.close()
    return found


def _host_facts(crawl: Crawl, host: str, shard: int, found: Found, now: float) -> dict[str, Any]:
    policies = crawl.fleet.hosts() if is_running(crawl.home) else {}
    policy = policy_for(policies, host)
    if policy is not None:
        state = policy.state
    elif found.host is not None:
        state = "seed"
    else:
        seen = crawl.lake.query("SELECT 1 FROM links WHERE dst_host = $1 LIMIT 1", [host]).num_rows
        state = "horizon" if seen else "unknown"
    facts: dict[str, Any] = {"name": host, "shard": shard, "cell": found.cell or None, "state": state}
    if policy is not None:
        facts |= {"trusted": policy.trusted, "reason": policy.reason, "since": as_datetime(policy.since)}
    if found.host is not None:
        record = found.host
        delay = max(record.crawl_delay, crawl.settings.politeness.host_delay)
        facts |= {
            "known_urls": record.known,
            "queued": record.queued,
            "fetched": record.fetched,
            "delay": delay,
        }
        facts["surface_mode"] = record.surface
        facts["backed_off_until"] = as_datetime(record.not_before) if record.not_before > now else None
    return facts


def _robots_facts(crawl: Crawl, url: str, record: RobotsRecord | None, now: float) -> dict[str, Any]:
    if record is None:
        return {"verdict": "unknown", "detail": "robots.txt has not been read yet: it comes before any page"}
    cache = RobotsCache(crawl.settings.identity.agent, crawl.settings.politeness)
    delay = cache.store(urls.origin_of(url), record.rule, record.body, record.expires_at)
    verdict, _ = cache.verdict(urls.origin_of(url), url, min(now, record.expires_at - 1))
    return {
        "verdict": "denied" if verdict is Verdict.DENIED else verdict.value,
        "read_at": as_datetime(record.fetched_at),
        "expires_at": as_datetime(record.expires_at),
        "crawl_delay": delay or None,
    }


def _url_facts(record: UrlRecord) -> dict[str, Any]:
    queued = record.lane != NO_LANE
    return {
        "state": STATES[record.state],
        "reason": record.reason or None,
        "lane": LANES[record.lane] if queued else None,
        "due_at": as_datetime(record.rank / 1000) if queued else None,
        "value": record.value,
        "depth": record.depth,
        "fails": record.fails,
        "rate_a": record.rate_a,
        "rate_b": record.rate_b,
        "discovered_at": as_datetime(record.discovered_at),
        "last_success_at": as_datetime(record.last_success_at) if record.last_success_at else None,
    }


def _window_facts(crawl: Crawl, host: str, now: float) -> dict[str, Any] | None:
    window = crawl.fleet.window() if is_running(crawl.home) else None
    if window is None or window.ends_at < now:
        return None
    return {
        "window_id": window.window_id,
        "ends_at": as_datetime(window.ends_at),
        "fetches_for_host": window.allocations.get(host),
    }


def _fetches(crawl: Crawl, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = crawl.lake.query(
        "SELECT started_at, kind, lane, outcome, status, changed, duration_ms FROM fetches "
        "WHERE url = $1 ORDER BY started_at DESC LIMIT 5",
        [url],
    ).to_pylist()
    return found


def _decision(crawl: Crawl, host: str) -> dict[str, Any] | None:
    """The last decision about the host: promoted, or held and why."""
    found: list[dict[str, Any]] = crawl.lake.query(
        "SELECT decided_at, verdict, reason, decision_id FROM decisions WHERE subject = $1 AND kind <> 'schedule' "
        "ORDER BY decided_at DESC LIMIT 1",
        [host],
    ).to_pylist()
    return found[0] if found else None


def _linkers(crawl: Crawl, url: str) -> list[str]:
    found = crawl.lake.query(
        "SELECT DISTINCT src_url FROM links_now WHERE dst_url = $1 ORDER BY 1 LIMIT 5", [url]
    )
    linkers: list[str] = found.column(0).to_pylist()
    return linkers


def in_words(facts: dict[str, Any]) -> list[str]:
    """The facts as sentences; the last one says what it waits for."""
    host, robots, state = facts["host"], facts["robots"], facts["state"]
    lines = [facts["url"]]
    if facts["rules_fired"]:
        lines.append(f"  canonical form: changed by {', '.join(facts['rules_fired'])}")
    detail = f" ({host['reason']})" if host.get("reason") else ""
    lines.append(
        f"  host:   {host['name']} is {host['state']}{detail}, shard {host['shard']}, {host['cell'] or 'no cell'}"
    )
    if "known_urls" in host:
        lines.append(
            f"          {show(host['known_urls'])} URLs known, {show(host['fetched'])} fetched, "
            f"at least {show(host['delay'])} s between requests"
        )
    if facts["decision"] is not None:
        decision = facts["decision"]
        lines.append(f"          {show(decision['decided_at'])} {decision['verdict']}: {decision['reason']}")
    lines.append(f"  robots: {robots['verdict']}" + (f", {robots['detail']}" if "detail" in robots else ""))
    lines += [
        f"          {show(f['started_at'])} robots.txt: {f['outcome']} ({show(f['status'])})"
        for f in facts["robots_fetches"]
    ]
    if state is not None:
        reason = f" ({state['reason']})" if state["reason"] else ""
        lines.append(
            f"  state:  {state['state']}{reason}, depth {state['depth']}, value {show(state['value'])}, "
            f"found {show(state['discovered_at'])}"
        )
    lines += [
        f"  fetch:  {show(f['started_at'])} {f['lane']}: {f['outcome']} ({show(f['status'])}), "
        f"{f['duration_ms'] or 0:.0f} ms"
        for f in facts["last_fetches"]
    ]
    if facts["linked_by"]:
        lines.append(f"  linked by: {', '.join(facts['linked_by'])}")
    return [*lines, f"  next:   {_next(facts)}"]


def _next(facts: dict[str, Any]) -> str:
    host, state, window = facts["host"], facts["state"], facts["window"]
    if host["state"] == "unknown":
        return "nothing: no page that was fetched links to its host"
    if host["state"] == "horizon":
        held = facts["decision"]
        why = f"; {held['verdict']} at the last decision: {held['reason']}" if held else ""
        return f"nothing: its host is on the horizon and is only fetched once promoted{why}"
    if host["state"] == "excluded":
        return "nothing: its host is excluded"
    if facts["robots"]["verdict"] == "denied":
        return "nothing: robots.txt forbids it"
    if state is None:
        reason = (
            f"it looks like a trap ({facts['trap']})"
            if facts["trap"]
            else "no page that was fetched links to it"
        )
        return f"nothing: the URL is not known; {reason}"
    if state["lane"] is None:
        return f"nothing: {state['state']} ({state['reason']})"
    when = _when(state["due_at"])
    if host.get("backed_off_until"):
        when += f", and the host is left alone until {show(host['backed_off_until'])}"
    allotted = window["fetches_for_host"] if window else None
    share = (
        f"; its host has {allotted} fetches in window {window['window_id']}" if allotted is not None else ""
    )
    return f"waits in the {state['lane']} lane, {when}{share}"


def _when(due: datetime) -> str:
    ahead = due.timestamp() - SystemClock().now()
    return f"due in {_span(ahead)}" if ahead > 1 else "due now, as soon as it is its host's turn"


def _span(seconds: float) -> str:
    """A length of time in its largest fitting unit."""
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
