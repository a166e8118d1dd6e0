"""Everything that is known about one URL: from the cells' stores, the directives in force and the lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from crawl_platform.admission.identities import Identities, pool_of
from crawl_platform.admission.pace import in_force
from crawl_platform.admission.robots import RobotsCache, Verdict
from crawl_platform.admission.rules import HostRules
from crawl_platform.clock import DAY, as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.live import live_stores
from crawl_platform.frontier.kv import OrderedKV
from crawl_platform.frontier.listed import sitemap_group
from crawl_platform.frontier.overlay import promised_within
from crawl_platform.frontier.posterior import prior_of
from crawl_platform.frontier.records import (
    KINDS,
    LANES,
    NO_LANE,
    PAGE,
    STATES,
    HostRecord,
    RobotsRecord,
    SitemapRecord,
    UrlRecord,
    decode,
    host_key,
    robots_key,
    sitemap_key,
    url_key,
)
from crawl_platform.frontier.series import trapped
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.views import create_views
from crawl_platform.networks import Networks
from crawl_platform.scheduling.change_rate import Gamma, posterior
from crawl_platform.scheduling.refresh import change_chance, index_one
from crawl_platform.settings import Settings
from crawl_platform.web import url as urls
from crawl_platform.web.host import is_hostname, shard_of
from crawl_platform.web.parameters import host_form

TABLES_READ = (
    *("fetches", "links", "decisions", "frontier", "url_groups", "change_rates", "cold_priors"),
    "page_values",
)
VIEWS_READ = ("links_now", "frontier_now")
SNAPSHOT = """
SELECT state, lane, due_at, value, depth, fails, group_id, rate_a, rate_b, discovered_at, last_success_at, kind, lastmod
FROM frontier_now WHERE url = $1
"""
GROUP = """
SELECT g.group_id, g.template, g.pages, c.rate, c.rate_low, c.rate_high
FROM url_groups g LEFT JOIN change_rates c USING (host, group_id) WHERE g.host = $1 AND g.group_id = $2
"""
PRIOR = """
SELECT prior_a, prior_b FROM (
    SELECT prior_a, prior_b, 0 AS place FROM cold_priors WHERE host = $1 AND group_id = $2
    UNION ALL SELECT prior_a, prior_b, 1 FROM change_rates WHERE host = $1 AND group_id = $2
) WHERE prior_a > 0 AND prior_b > 0 ORDER BY place LIMIT 1
"""

LAST_REQUEST = """
SELECT epoch(started_at) + coalesce(duration_ms, 0) / 1000 AS ended, address FROM fetches
WHERE host = $1 AND address IS NOT NULL ORDER BY started_at DESC LIMIT 1
"""
LAST_AT_ADDRESS = """
SELECT coalesce(max(epoch(started_at) + coalesce(duration_ms, 0) / 1000), 0) AS ended FROM fetches
WHERE address = $1 AND started_at > $2
"""
SIGNALS = """
SELECT business, ir, corpus, technical, exploration, importance, base, value, told, reason, critical, retrievals,
    computed_at
FROM page_values WHERE url = $1
"""


@dataclass(frozen=True)
class Sources:
    """Where to look. `client` is None while no fleet runs; `now` is UTC seconds."""

    settings: Settings
    lake: Lake
    client: FleetClient | None
    now: float


@dataclass(frozen=True)
class Look(Sources):
    """One look at the lake, all of it at one commit."""

    connection: duckdb.DuckDBPyConnection

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.connection.execute(sql, parameters).to_arrow_table().to_pylist()
        return found


@contextmanager
def _looking(sources: Sources) -> Iterator[Look]:
    """Only the views that are needed: each costs some 10 ms to create."""
    vector, commit_id = sources.lake.vector(tables=TABLES_READ)
    with open_duckdb() as connection:
        create_views(connection, sources.lake.root, vector, commit_id, frozenset((*TABLES_READ, *VIEWS_READ)))
        yield Look(sources.settings, sources.lake, sources.client, sources.now, connection)


@dataclass(slots=True)
class Found:
    """What the cells' stores know, read live beside them. `stores`: how many there are on this machine."""

    cell: str = ""
    host: HostRecord | None = None
    robots: RobotsRecord | None = None
    url: UrlRecord | None = None
    sitemap: SitemapRecord | None = None
    """The one that lists the URL; of a sitemap itself: its own."""
    stores: int = 0


def explain_url(sources: Sources, url: str) -> dict[str, Any]:
    """All facts as one JSON-able dict. Raises `ConfigurationError` if `url` can't be crawled at all."""
    with _looking(sources) as look:
        canonical = urls.canonicalize(_root_of(look, url) if is_hostname(url) else url)
        if canonical is None:
            raise ConfigurationError(f"not a URL that can be crawled: {url!r} (http or https, with a host)")
        form, fired = _host_form(look, canonical)
        return {"url": form, "rules_fired": [*urls.explain(url), *fired], **_facts(look, form)}


def _host_form(look: Look, url: str) -> tuple[str, list[str]]:
    """The form in which the canonical `url` is known, and the rules of its host that make it so."""
    if "?" not in url:
        return url, []
    host = urls.host_of(url)
    found = _live(look.settings.root, shard_of(host, look.lake.n_shards), host, url)
    if found.url is not None:
        return url, []
    settings, fired = HostRules(look.settings).of(host).urls, list[str]()
    learned = found.host is not None and found.host.order.irrelevant
    sort = learned if settings.sort_parameters == "learned" else settings.sort_parameters
    return host_form(url, settings, sort=sort, fired=fired), fired


def _facts(look: Look, url: str) -> dict[str, Any]:
    host = urls.host_of(url)
    shard = shard_of(host, look.lake.n_shards)
    found = _live(look.settings.root, shard, host, url)
    state = _state(look, url, found)
    group_id = state["group_id"] if state is not None else 0
    return {
        "trap": _trap(look, host, url, found),
        "scope": _scope(look, host, url, found),
        "host": _host_facts(look, host, url, shard, found),
        "robots": _robots_facts(look, url, found),
        "state": state,
        "group": _group(look, host, group_id),
        "signals": next(iter(look.rows(SIGNALS, url)), None),
        "belief": _belief(look, host, found),
        "window": _window_facts(look, host, group_id),
        "decision": _decision(look, host),
        "last_fetches": _fetches(look, url),
        "robots_fetches": _fetches(look, urls.origin_of(url) + "/robots.txt")[:1],
        "linked_by": _linkers(look, url),
        "listed": _listed(found),
    }


def _trap(look: Look, host: str, url: str, found: Found) -> str | None:
    """The filter that turns the URL away. One that is known has passed those that count its like."""
    counts = found.host.series if found.host is not None and found.url is None else {}
    return trapped(url, HostRules(look.settings).of(host), counts)


def _scope(look: Look, host: str, url: str, found: Found) -> str | None:
    """Why the URL lies outside the scope of its host. How deep one lies that is not known, nobody knows."""
    depth = found.url.depth if found.url is not None else 0
    return HostRules(look.settings).scope(host).in_words(url, depth) or None


def _root_of(look: Look, host: str) -> str:
    """The first page of a host that was named without a scheme, as the crawl knows it."""
    found = look.rows(
        "SELECT url FROM fetches WHERE host = $1 AND kind = 'page' ORDER BY depth, started_at LIMIT 1", host
    ) or look.rows(
        "SELECT dst_url AS url FROM links WHERE dst_host = $1 GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
        host,
    )
    return str(found[0]["url"]) if found else f"https://{host}/"


def _live(home: Path, shard: int, host: str, url: str) -> Found:
    found = Found()
    for cell, kv in live_stores(home):
        found.stores += 1
        record = kv.get(host_key(shard, host))
        if record is not None:
            found.cell = cell
            found.host = decode(record, HostRecord)
            robots = kv.get(robots_key(shard, urls.origin_of(url)))
            found.robots = decode(robots, RobotsRecord) if robots is not None else None
            page = kv.get(url_key(shard, host, url))
            found.url = decode(page, UrlRecord) if page is not None else None
            found.sitemap = _sitemap(kv, shard, host, url, found.url)
    return found


def _sitemap(
    kv: OrderedKV, shard: int, host: str, url: str, record: UrlRecord | None
) -> SitemapRecord | None:
    group = record.second_group if record is not None else 0
    if record is not None and record.kind != PAGE and not group:
        group = sitemap_group(host, url)
    data = kv.get(sitemap_key(shard, host, group)) if group else None
    return decode(data, SitemapRecord) if data is not None else None


def _listed(found: Found) -> dict[str, Any] | None:
    """Which sitemap or feed lists the URL, and what its lastmod has said; None if none does."""
    record, sitemap = found.url, found.sitemap
    if record is None or sitemap is None or found.host is None:
        return None
    claims = found.host.claims
    return {
        "sitemap": sitemap.url,
        "vouched_for_by": list(sitemap.vouched),
        "lastmod": as_datetime(record.lastmod) if record.lastmod else None,
        "claims_change": record.claimed > 0.0,
        "brought_forward": record.pulled,
        "claims_checked": claims.kept + claims.broken,
        "claims_kept": claims.chance if claims.kept + claims.broken else None,
    }


def _host_facts(look: Look, host: str, url: str, shard: int, found: Found) -> dict[str, Any]:
    policy = look.client.policy(host, url) if look.client is not None else None
    if policy is not None:
        state = policy.state
    elif found.host is not None and found.host.excluded:
        state = "excluded"
    elif found.host is not None:
        state = "seed"
    else:
        seen = look.rows("SELECT 1 FROM links WHERE dst_host = $1 LIMIT 1", host)
        state = "horizon" if seen else "unknown"
    facts: dict[str, Any] = {"name": host, "shard": shard, "cell": found.cell or None, "state": state}
    if policy is not None:
        facts["rule"] = policy.name
        facts |= {"trusted": policy.trusted, "reason": policy.reason, "since": as_datetime(policy.since)}
    if found.host is not None:
        record = found.host
        facts |= {
            "known_urls": record.known,
            "queued": record.queued,
            "fetched": record.fetched,
            **_pace(look, host, record),
        }
        facts["surface_mode"] = record.surface
        facts["wishes"] = record.wishes or None
        facts["turned_away"] = record.turned_away
        promised = HostRules(look.settings).of(host).promises
        facts["promised_within"] = promised_within(found.url or UrlRecord(), promised) or None
        facts["promised_first_within"] = promised.first_within or None
        backed_off = record.not_before > look.now
        facts["backed_off_until"] = as_datetime(record.not_before) if backed_off else None
        facts |= _next_allowed(look, host, record, float(facts["delay"]))
    return facts


def _next_allowed(look: Look, host: str, record: HostRecord, delay: float) -> dict[str, Any]:
    """When its clock and that of its address allow the next request: the last one known to have ended, and the delay
    in force; after a backoff, its end. Requests that no epoch has written down yet are not known."""
    last = look.rows(LAST_REQUEST, host)
    allowed = max(record.not_before, look.now)
    if last:
        address = last[0]["address"]
        allowed = max(allowed, last[0]["ended"] + delay)
        if address not in Networks(look.settings.front_ends()):
            (at_address,) = look.rows(LAST_AT_ADDRESS, address, as_datetime(look.now - DAY))
            allowed = max(allowed, at_address["ended"] + look.settings.politeness.address_delay)
    return {"next_allowed_at": as_datetime(allowed), "next_allowed_in": round(allowed - look.now, 1)}


def _pace(look: Look, host: str, record: HostRecord) -> dict[str, Any]:
    """The delay in force, and how far above its floor it is."""
    settings = HostRules(look.settings).of(host).politeness
    floor = max(record.crawl_delay, settings.host_delay)
    delay = in_force(record.pace, floor, settings)
    return {"delay": delay, "slowed_down": round(delay / floor, 2) if delay > floor else None}


def _robots_facts(look: Look, url: str, found: Found) -> dict[str, Any]:
    """What robots.txt says to whoever asks the host as a rule; which of a pool is unwell only its cell knows."""
    record, settings = found.robots, look.settings
    if record is None:
        return {"verdict": "unknown", "detail": "robots.txt has not been read yet: it comes before any page"}
    pool = pool_of(settings)
    refused = found.host.refused if found.host is not None else ""
    who = Identities(pool, settings.identity_health).own(urls.host_of(url), refused)
    rules = HostRules(settings)
    cache = RobotsCache(who.agent, settings.politeness, rules=rules, agents=(one.agent for one in pool))
    delay = cache.store(urls.origin_of(url), record.rule, record.body, record.expires_at)
    verdict, _ = cache.verdict(urls.origin_of(url), url, min(look.now, record.expires_at - 1))
    return {
        "verdict": "denied" if verdict is Verdict.DENIED else verdict.value,
        "read_at": as_datetime(record.fetched_at),
        "expires_at": as_datetime(record.expires_at),
        "crawl_delay": delay or None,
        "unreachable_since": as_datetime(record.unreachable_since) if record.unreachable_since else None,
        "failures": record.failures,
    }


def _state(look: Look, url: str, found: Found) -> dict[str, Any] | None:
    """The URL's place in the frontier: live, or of the last snapshot where the stores are elsewhere."""
    if found.url is not None:
        return _url_facts(found.url)
    if found.stores:
        return None
    rows = look.rows(SNAPSHOT, url)
    unknown = dict.fromkeys(("reason", "worth", "deadline_at", "watched_every"))
    return {**rows[0], **unknown} if rows else None


def _url_facts(record: UrlRecord) -> dict[str, Any]:
    queued = record.lane != NO_LANE
    return {
        "state": STATES[record.state],
        "reason": record.reason or None,
        "lane": LANES[record.lane] if queued else None,
        "due_at": as_datetime(record.rank / 1000) if queued else None,
        "deadline_at": as_datetime(record.deadline / 1000) if record.deadline else None,
        "watched_every": record.every or None,
        "value": record.value,
        "worth": record.worth or None,
        "depth": record.depth,
        "fails": record.fails,
        "group_id": record.group,
        "rate_a": record.rate_a,
        "rate_b": record.rate_b,
        "discovered_at": as_datetime(record.discovered_at),
        "last_success_at": as_datetime(record.last_success_at) if record.last_success_at else None,
        "kind": KINDS[record.kind],
        "lastmod": as_datetime(record.lastmod) if record.lastmod else None,
    }


def _group(look: Look, host: str, group_id: int) -> dict[str, Any] | None:
    """The URL's group and how often its pages change (per day), as far as it has been analysed."""
    found = look.rows(GROUP, host, group_id) if group_id else []
    return found[0] if found else None


def _belief(look: Look, host: str, found: Found) -> dict[str, Any] | None:
    """What is believed of the page's changes (per day), and what a visit now would be worth (days of freshness)
    against what its host visits pages for. None before its first fetch."""
    record = found.url
    if record is None or found.host is None or record.kind != PAGE or not record.last_success_at:
        return None
    told = look.rows(PRIOR, host, record.group)
    refresh = look.settings.refresh
    prior = Gamma(*told[0].values()) if told else prior_of(refresh.prior_shape, refresh.prior_rate)
    a, b = posterior(prior, record.rate_a, record.rate_b)
    age = (look.now - record.last_success_at) / DAY
    return {
        "prior_a": prior.a,
        "prior_b": prior.b,
        "a": a,
        "b": b,
        "rate": a / b,
        "chance_of_change": change_chance(a, b, age),
        "index": index_one(a, b, age, record.value),
        "threshold": found.host.threshold or None,
    }


def _window_facts(look: Look, host: str, group_id: int) -> dict[str, Any] | None:
    window = look.client.window(host) if look.client is not None else None
    if window is None or window.ends_at < look.now:
        return None
    return {
        "window_id": window.window_id,
        "ends_at": as_datetime(window.ends_at),
        "fetches_for_host": window.allocations.get(host),
        "fetches_for_group": window.groups.get(host, {}).get(group_id),
    }


def _fetches(look: Look, url: str) -> list[dict[str, Any]]:
    return look.rows(
        "SELECT started_at, kind, lane, outcome, status, changed, duration_ms FROM fetches "
        "WHERE url = $1 ORDER BY started_at DESC LIMIT 5",
        url,
    )


def _decision(look: Look, host: str) -> dict[str, Any] | None:
    """The last decision about the host: promoted, or held and why."""
    found = look.rows(
        "SELECT decided_at, verdict, reason, decision_id FROM decisions WHERE subject = $1 AND kind <> 'schedule' "
        "ORDER BY decided_at DESC LIMIT 1",
        host,
    )
    return found[0] if found else None


def _linkers(look: Look, url: str) -> list[str]:
    found = look.rows("SELECT DISTINCT src_url FROM links_now WHERE dst_url = $1 ORDER BY 1 LIMIT 5", url)
    return [row["src_url"] for row in found]
