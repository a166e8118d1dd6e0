"""One frozen settings object, read once at the edge (`load`) and passed down in parts.

A crawl's home is a folder; `crawl.toml` in it overrides the defaults below, section by section. Times are
in seconds and sizes in bytes unless a name says otherwise.
"""

import math
import tomllib
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from crawl_platform.bounds import (
    check_agent,
    check_match,
    check_nameservers,
    check_networks,
    check_numbers,
    check_patterns,
    explain,
)
from crawl_platform.errors import ConfigurationError
from crawl_platform.networks import read_networks

CONFIG_NAME = "crawl.toml"
Section = TypeVar("Section", bound=msgspec.Struct)
TrapName = Literal[
    "url-too-long",
    "bad-port",
    "too-many-parameters",
    "repeated-segments",
    "calendar-run",
    "session-segment",
    "parameter-explosion",
    "endless-calendar",
]
"""What a trap filter is called (`web.traps`)."""


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who we say we are. `contact` (mail or URL) goes into the user agent and is required to fetch."""

    agent: str = "crawl-platform"
    contact: str = ""

    @property
    def user_agent(self) -> str:
        return f"{self.agent}/0.1 (+{self.contact})"


class NamedIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An `[[identities]]` entry: one of several ways to ask. What it leaves out is said by `[identity]`.

    `proxy` is the URL of an HTTP proxy that names an address (http://192.0.2.1:3128). `hosts`: who may be asked so
    (a host or `*.domain`); empty means all.
    """

    name: str
    agent: str = ""
    contact: str = ""
    proxy: str = ""
    hosts: tuple[str, ...] = ()
    proxy_delay: float = 0.1
    """Seconds between two requests through the proxy; one is in flight at a time."""


class IdentityHealth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When an identity of a pool is set aside, and how it comes back."""

    half_life: float = 1800.0
    """Seconds after which an outcome counts half."""
    least_hosts: float = 5.0
    """Weight of outcomes (one per host that answered lately) below which nothing is concluded."""
    failing_share: float = 0.5
    """Share of bans and time-outs from which on the identity is set aside."""
    quarantine: float = 600.0
    """Seconds for which it is; doubles with each probe that fails."""
    quarantine_cap: float = 86_400.0
    explore_share: float = 0.02
    """Share of hosts that a day's draw gives to any identity of the pool, so that the pool can be judged."""


class Politeness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delays run from the end of one request to the start of the next, per host and per address."""

    host_delay: float = 1.0
    address_delay: float = 1.0
    crawl_delay_cap: float = 120.0
    backoff_first: float = 5.0
    backoff_cap: float = 3600.0
    retry_after_cap: float = 86_400.0
    robots_ttl: float = 86_400.0
    robots_bytes: int = 512_000
    robots_retry: float = 300.0
    """Seconds until an unreachable robots.txt is tried again; an eighth of its outage, if that is longer."""
    robots_stale: float = 7 * 86_400.0
    """How long past its day an older copy is used while robots.txt is unreachable."""
    robots_patience: float = 30 * 86_400.0
    """How long robots.txt may be unreachable before the URLs of its origin are dropped."""
    robots_given_up_retry: float = 7 * 86_400.0
    """When such an origin is looked at again."""
    robots_hop_patience: float = 300.0
    """How long the reply of another host, to which robots.txt redirects, is waited for."""
    robots_cache_bytes: int = 128_000_000
    """Parsed robots files kept in a cell's memory; the others are on its disk."""
    slowdown_cap: float = 30.0
    """Most times the delay that an unwell host or address may be slowed down to."""
    latency_rise: float = 3.0
    """Answers are slow when they take this many times what is usual for the host …"""
    latency_noise: float = 0.5
    """… and at least this much longer (seconds): less is noise of the network."""
    recovery_run: int = 5
    """Healthy answers in a row before a slowed host gets one step faster."""
    recovery_step: float = 0.05
    """Size of that step: share of the rate that the host's own delay allows."""
    front_ends: str = ""
    """File (relative to the home) of CIDRs, one a line: addresses of CDNs, behind which many machines stand."""
    front_end_rate: float = 10.0
    """Requests per second to such an address, over all of its hosts; each host has its own delay all the same."""
    front_end_in_flight: int = 16
    domain_rate: float = 0.0
    """Requests per second to all hosts of a registrable domain together; 0: no cap but those of hosts and addresses.
    A `[[hosts]]` entry for *.DOMAIN sets it for one."""
    domain_in_flight: int = 16


class Fetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wire. `nameservers` are "ip" or "ip:port"; empty means the system's."""

    slots: int = 128
    body_cap: int = 250_000
    connect_timeout: float = 10.0
    tls_timeout: float = 10.0
    first_byte_timeout: float = 20.0
    """From the request's write to the first byte of its answer."""
    head_timeout: float = 30.0
    """From the request's write to the end of the answer's head."""
    read_timeout: float = 20.0
    """Longest silence between two pieces of an answer."""
    total_timeout: float = 60.0
    """From the request's write to the end of its answer."""
    min_rate: float = 100.0
    """Bytes per second below which an answer is cut off, averaged over each `rate_window` seconds."""
    rate_window: float = 15.0
    robots_redirects: int = 5
    """Redirects followed for robots.txt only (RFC 9309 2.3.1.2); pages redirect through the frontier."""
    keepalive: float = 75.0
    """Seconds that a connection may rest."""
    warm_bytes: int = 512_000_000
    """Memory for connections at rest, at 0.2 MB each (2,560 of them). Those whose hosts are asked again last are
    closed first."""
    header_cap: int = 65_536
    """Bytes of one head, status line included."""
    header_count: int = 256
    nameservers: tuple[str, ...] = ()
    dns_ttl_floor: float = 60.0
    dns_ttl_ceiling: float = 3600.0
    dns_moving_ceiling: float = 300.0
    """Ceiling for hosts whose address has changed lately."""
    dns_negative_ttl: float = 300.0
    """How long a failure is remembered whose zone does not say."""
    dns_negative_floor: float = 60.0
    dns_negative_ceiling: float = 3600.0
    dns_stale: float = 3600.0
    """How long an address outlives its time while the name server is silent or sick."""
    dns_timeout: float = 5.0
    allow_networks: tuple[str, ...] = ()
    """CIDRs that may be contacted although they are not public (the demo allows 127.0.0.0/8)."""
    ca_file: str = ""
    """Extra certificate authority to trust (the synthetic web's own)."""


class Frontier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may enter. Beyond `page_budget` a host is in surface mode: only `surface_depth` and less."""

    max_depth: int = 32
    max_hops: int = 5
    """Redirects that may follow one another."""
    max_url_length: int = 2048
    max_repeated_segments: int = 3
    max_parameters: int = 8
    max_parameter_variants: int = 20_000
    """URLs of one path and one parameter; each further parameter that they have makes it a quarter."""
    max_calendar_pages: int = 4_000
    """Pages of one calendar: 11 years of days."""
    page_budget: int = 100_000
    abroad_share: float = 0.25
    """Most of a host's page budget that links on other hosts may fill: what they make up crowds nobody out."""
    surface_depth: int = 2
    max_attempts: int = 5
    retry_delay: float = 60.0
    bloom_capacity: int = 2_000_000
    seen_cache: int = 16_777_216
    """URLs that are known without a look at the disk, as far as they come: 8 bytes each, 11 with the tables that this
    one has grown from."""
    active_hosts: int = 10_000
    """Hosts of a cell that are kept in memory with the heads of their queues, some 15 KB each; the others rest."""
    max_urls_per_page: int = 5_000


class Urls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which URLs of a host are one page, beyond what holds everywhere (`web.parameters`). Names of parameters are
    case-sensitive; `*` stands for any run of characters."""

    keep_parameters: tuple[str, ...] = ()
    """If there are any: a parameter that matches none of these is dropped."""
    drop_parameters: tuple[str, ...] = ()
    traps_off: tuple[TrapName, ...] = ()
    sort_parameters: bool | Literal["learned"] = "learned"
    """Whether the order of parameters means nothing; learned: where the host's own pages have shown it."""


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pages belong to the crawl (docs/urls.md, "Scopes"). A pattern is the beginning of path and query; `*` is
    any run of characters, `$` the end.

    The longest that matches decides; of two as long, the one that excludes.
    """

    include: tuple[str, ...] = ()
    """If there are any: a page that matches none of these is outside."""
    exclude: tuple[str, ...] = ()
    depths: dict[str, int] = {}
    """Pattern → most clicks from a root; the longest that matches is in force in place of `frontier.max_depth`."""


class Sitemaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What sites say of their own pages: sitemaps and feeds. `interval_min` and `interval_max` bound how often one
    is read again, in place of those of `refresh`."""

    sitemaps: bool = True
    """Whether those that robots.txt names are read."""
    feeds: bool = True
    """Whether those that pages name (`link rel=alternate`) are read."""
    lastmod: bool = True
    """Whether a lastmod may bring a visit forward, once the host's have been seen to be true."""
    body_cap: int = 52_428_800
    """Bytes of one, inflated: the protocol's own limit."""
    small_cap: int = 1_000_000
    """The same while `large_at_once` that may be larger are being read: memory has a bound."""
    large_at_once: int = 2
    entries_max: int = 50_000
    """Locations taken from one: the protocol's own limit."""
    max_level: int = 3
    """Indexes above a sitemap, and pages of an archive in front of a feed."""
    max_known: int = 2_000
    """Sitemaps and feeds known of one host."""
    bytes_per_day: int = 500_000_000
    """Inflated bytes of all of a host's; what is over waits a day."""
    interval_min: float = 3_600.0
    interval_max: float = 14 * 86_400.0
    prior_rate: float = 1.0
    """Changes per day expected of one of which nothing is known."""


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a page's revisit interval, seconds, and the split's constants."""

    interval_min: float = 86_400.0
    interval_max: float = 180 * 86_400.0
    prior_shape: float = 0.5
    prior_rate: float = 0.3
    """Changes per day expected of a page of which nothing is known (mean of the prior)."""
    split_floor: float = 0.10
    split_ceiling: float = 0.90
    drain_short: float = 3_600.0
    drain_long: float = 7 * 86_400.0
    oldest_first_share: float = 0.03
    """Share of refresh turns that take the page due longest, whatever its index says."""
    watch_min: float = 60.0
    """Least seconds between two visits of a page that is watched for new links (`crawl frontier watch`)."""
    least_change: float = 0.05
    """A page is not visited again before it has changed with this probability: cost has a floor."""


class Promises(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is promised of pages whatever they are worth; in a `[[hosts]]` entry, of some hosts."""

    within: float = 0.0
    """Seconds after its last success within which a page is fetched again; 0: nothing is promised. A fetch that fails
    does not count."""
    first_within: float = 0.0
    """The same for a page that was never fetched, after its discovery: a deadline for what never wins by its worth."""
    types: dict[str, float] = {}
    """`within` of pages that declare such a type (JSON-LD), like NewsArticle; the shortest of all that holds counts."""
    lead: float = 0.1
    """Part of that time by which a page comes early: it goes before all others from then on."""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What pages are worth (docs/values.md). The weights are powers of two per unit of a signal."""

    topics: str = "topics.toml"
    """File (relative to the home) that says what the crawl is for; `crawl topics FILE` puts it there."""
    business: float = 3.0
    """A page wholly about a topic of weight 1 is worth eight times as much."""
    ir: float = 1.0
    corpus: float = 0.5
    exploration: float = 0.5
    importance: float = 1.5
    """From the page that all others rank above to the one that they rank below it is a factor of 2.8."""
    critical_floor: float = 1.0
    """Least value of pages and hosts that were called critical: that of a root page."""


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What upkeep keeps, in days. A page's current links and last version are kept whatever their age, and
    `fetches` outlives every row that cites it."""

    history_days: float = 7.0
    """Past versions of a table can be read for this long (vacuum)."""
    staged_days: float = 7.0
    """Staged files that neither log nor manifest names are swept after this."""
    fetches_days: float = 400.0
    links_days: float = 400.0
    pages_days: float = 400.0
    frontier_days: float = 14.0
    fleet_stats_days: float = 90.0
    compact_file_bytes: int = 256_000_000
    """Size that compaction aims for."""
    compact_after_files: int = 8
    """A closed partition with more files than this is compacted."""


class Api(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fleet's HTTP API. Its tokens are in `run/api.json` (made at the first start) or in the environment."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    """0: a free port, told in `run/api.json`."""


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When an epoch closes: by rows' bytes, by state operations, or by time. `fast` is the small series."""

    epoch_seconds: float = 10.0
    epoch_bytes: int = 64_000_000
    epoch_operations: int = 20_000
    fast_seconds: float = 0.5
    spool_bytes: int = 4_000_000_000
    """Staged but not yet forgotten bytes at which a cell stops claiming."""
    manifest_max_age: float = 5 * 86_400.0
    snapshot_seconds: float = 86_400.0
    stats_seconds: float = 10.0


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cells: int = 1
    shards: int = 64
    """Fixed when the lake is created."""
    nats_url: str = ""
    """Empty: the supervisor starts a server of its own on a free loopback port."""
    silence_limit: float = 900.0
    """T_dead: how long an owner may be out of contact before its shards may move."""
    takeover_seconds: float = 1_800.0
    """How long a cell is silent, while NATS can be reached, until its shards go to cells that live; 0: never."""
    log_bytes: int = 10_000_000
    log_files: int = 5
    min_free_disk: int = 500_000_000


class Orchestration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The Dagster layer. `profile` is "demo" or "production" and sets the cadences."""

    profile: str = "production"
    port: int = 3000
    window_seconds: float = 3600.0
    promotion_quota: int = 20
    """Most hosts promoted by one decision run."""
    promotion_min_support: int = 2
    """Least number of independent seed hosts that link to a host before it may be promoted."""
    promotion_urls: int = 1000
    """Most known URLs of a promoted host handed to the frontier with the promotion."""
    probation_pages: int = 20
    """Pages that may be known of a host that was promoted by its rank, until it has been judged by them; 0: none is."""
    probation_enough: int = 10
    """Pages read after which it is judged."""
    probation_days: float = 7.0
    """Days after which it is judged by what was read."""
    probation_rest: float = 30.0
    """Days that it stays on the horizon if it is demoted; twice as many each further time."""


class Signing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Web Bot Auth: requests signed with the crawl's key. `crawl identity` makes the key and shows what to publish."""

    enabled: bool = False
    agent: str = ""
    """The https origin that publishes our keys, like https://crawler.example.org; required to sign."""
    key_file: str = ""
    """PEM file of the Ed25519 key, relative to the home; empty: run/web-bot-auth.pem, made where there is none."""
    validity: float = 300.0
    """Seconds after which a signature is void. It has to outlive the request, and a day at most is recommended."""
    reuse: float = 60.0
    """Seconds for which a host's signature is used again; 0: each request has its own, with a nonce."""


class Citizenship(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this crawl is for, and what it does where a site does not want that (docs/politeness.md)."""

    purposes: tuple[str, ...] = ("search",)
    """Of search, ai-input, ai-train, ai-images, tdm."""
    on_refusal: str = "drop"
    """Where a purpose is refused: "drop" (keep no text, title or body), "stop" (that, and never fetch the page
    again) or "record" (keep all and write the refusal down)."""
    silence: str = "allow"
    """What it means when a site says nothing about a purpose: "allow" or "refuse"."""
    agreed: tuple[str, ...] = ()
    """Categories that are agreed on otherwise (a contract): no signal refuses them."""
    read_tdmrep: bool = False
    """Fetch /.well-known/tdmrep.json of each host, as one more page."""


class Payment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pay per crawl. Nothing is paid unless all three limits are above 0 and requests are signed."""

    currency: str = "USD"
    max_price: float = 0.0
    """Most for one page."""
    host_budget: float = 0.0
    """Most per host and UTC day."""
    day_budget: float = 0.0
    """Most per UTC day for all hosts. It is the whole crawl's: no `[[hosts]]` entry may set it."""

    @property
    def pays(self) -> bool:
        return min(self.max_price, self.host_budget, self.day_budget) > 0


class HostRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[hosts]]` entry: settings of whole sections that differ for the hosts that `match` (a host or
    `*.domain`, which means the domain too). Of several that match, the later entry wins, field by field."""

    match: str
    frontier: dict[str, Any] = {}
    politeness: dict[str, Any] = {}
    urls: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    citizenship: dict[str, Any] = {}
    payment: dict[str, Any] = {}
    sitemaps: dict[str, Any] = {}
    promises: dict[str, Any] = {}


class HostSettings(msgspec.Struct, frozen=True):
    """The sections that may differ from host to host, as they hold for one host."""

    frontier: Frontier = Frontier()
    politeness: Politeness = Politeness()
    urls: Urls = Urls()
    scope: Scope = Scope()
    citizenship: Citizenship = Citizenship()
    payment: Payment = Payment()
    sitemaps: Sitemaps = Sitemaps()
    promises: Promises = Promises()


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    home: str
    identity: Identity = Identity()
    politeness: Politeness = Politeness()
    fetch: Fetch = Fetch()
    frontier: Frontier = Frontier()
    urls: Urls = Urls()
    scope: Scope = Scope()
    refresh: Refresh = Refresh()
    promises: Promises = Promises()
    sitemaps: Sitemaps = Sitemaps()
    value: Value = Value()
    commit: Commit = Commit()
    fleet: Fleet = Fleet()
    orchestration: Orchestration = Orchestration()
    retention: Retention = Retention()
    api: Api = Api()
    signing: Signing = Signing()
    citizenship: Citizenship = Citizenship()
    payment: Payment = Payment()
    hosts: tuple[HostRule, ...] = ()
    identities: tuple[NamedIdentity, ...] = ()
    identity_health: IdentityHealth = IdentityHealth()

    @property
    def root(self) -> Path:
        return Path(self.home)

    @property
    def lake_root(self) -> Path:
        return self.root / "lake"

    def front_ends(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of `politeness.front_ends`. Raises `ConfigurationError` for a line that is none."""
        return read_networks(self.root / self.politeness.front_ends) if self.politeness.front_ends else ()

    def validate(self) -> None:
        """Raise `ConfigurationError` for a setting that would break a promise."""
        _require_delays(self.politeness)
        if not 1 <= self.fleet.shards <= 65_536:
            raise ConfigurationError("fleet.shards must lie between 1 and 65536")
        if self.fleet.cells < 1:
            raise ConfigurationError("fleet.cells must be at least 1")
        if self.fleet.silence_limit < self.fetch.total_timeout + 5.0:
            raise ConfigurationError(
                "fleet.silence_limit must be at least fetch.total_timeout + 5 s: "
                "a cell stops that long before its shards may move"
            )
        if 0 != self.fleet.takeover_seconds < self.fleet.silence_limit:
            raise ConfigurationError(
                "fleet.takeover_seconds must be 0 (never) or at least fleet.silence_limit: "
                "before that a cell may still crawl"
            )
        if len({server.rpartition(":")[2] for server in self.fetch.nameservers if ":" in server}) > 1:
            raise ConfigurationError("fetch.nameservers must all have the same port")
        if self.orchestration.profile not in ("demo", "production"):
            raise ConfigurationError('orchestration.profile must be "demo" or "production"')
        if self.refresh.interval_min > self.refresh.interval_max:
            raise ConfigurationError("refresh.interval_min is above refresh.interval_max")
        _require_signing(self.signing, self.fetch.total_timeout)
        _require_citizenship(self.citizenship)
        _require_payment(self.payment, self.signing)
        _require_identities(self.identities, self.identity_health)
        self.with_rules(())
        for rule in self.hosts:
            self.with_rules((rule,))
            if "day_budget" in rule.payment:
                raise ConfigurationError("payment.day_budget is the crawl's: no [[hosts]] entry may set it")
            if any(name.startswith("front_end") for name in rule.politeness):
                raise ConfigurationError("front ends are the crawl's: no [[hosts]] entry may set them")
        self._check_bounds()

    def _check_bounds(self) -> None:
        for name in self.__struct_fields__:
            section = getattr(self, name)
            if isinstance(section, msgspec.Struct):
                check_numbers(name, section)
        check_agent("identity", self.identity.agent, self.identity.contact)
        for one in self.identities:
            check_agent(f"identities {one.name}", one.agent or self.identity.agent, one.contact)
        check_networks(self.fetch.allow_networks)
        self.front_ends()
        check_nameservers(self.fetch.nameservers)
        for rule in self.hosts:
            check_match(rule.match)

    def with_rules(self, rules: Iterable[HostRule]) -> HostSettings:
        """The sections with these rules applied in order. Raises `ConfigurationError` for what is no setting."""
        sections, where = {name: getattr(self, name) for name in HostSettings.__struct_fields__}, "scope"
        for rule in rules:
            where = f"[[hosts]] {rule.match}: scope"
            for name, section in sections.items():
                sections[name] = _overridden(section, getattr(rule, name), f"[[hosts]] {rule.match}: {name}")
        _require_delays(sections["politeness"])
        _require_citizenship(sections["citizenship"])
        _require_payment(sections["payment"], self.signing)
        if sections["promises"].lead >= 1.0:
            raise ConfigurationError("promises.lead is a part of promises.within: it must be below 1")
        for kind, seconds in sections["promises"].types.items():
            if not 0.0 < seconds < math.inf:
                raise ConfigurationError(f"promises.types.{kind} must be seconds above 0, not {seconds}")
        for name, section in sections.items():
            check_numbers(name, section)
        _require_scope(where, sections["scope"])
        return HostSettings(**sections)

    def require_contact(self) -> None:
        """Raise unless the crawl says whom to write to."""
        for contact in (self.identity.contact, *(one.contact for one in self.identities if one.contact)):
            if "@" not in contact and not contact.startswith(("http://", "https://")):
                given = f"{contact!r} is no mail address or http(s) URL" if contact else "no contact given"
                raise ConfigurationError(
                    f"{given}: site owners must be able to reach you. "
                    "Pass --contact you@example.org (or set identity.contact in crawl.toml). "
                    "docs/politeness.md is written for those who will use it."
                )


def _require_delays(politeness: Politeness) -> None:
    if politeness.host_delay <= 0 or politeness.address_delay <= 0:
        raise ConfigurationError(
            "politeness.host_delay and politeness.address_delay must be above 0: "
            "nothing switches politeness off"
        )


def _require_signing(signing: Signing, longest_request: float) -> None:
    if not signing.enabled:
        return
    host = signing.agent.removeprefix("https://")
    plain = host.isascii() and host.isprintable() and not any(c in host for c in '/?#"\\ ')
    if host in ("", signing.agent) or not plain:
        raise ConfigurationError(
            "signing.agent must be the https origin that publishes the key directory, "
            'without a path: agent = "https://crawler.example.org"'
        )
    if not signing.reuse + longest_request < signing.validity <= 86_400.0:
        raise ConfigurationError(
            "signing.validity must be longer than signing.reuse + fetch.total_timeout, and a day at most"
        )


def _require_citizenship(citizenship: Citizenship) -> None:
    purposes = ("search", "ai-input", "ai-train", "ai-images", "tdm")
    for chosen, allowed, name in (
        (citizenship.purposes, purposes, "purposes"),
        (citizenship.agreed, (*purposes, "archive"), "agreed"),
        ((citizenship.on_refusal,), ("drop", "stop", "record"), "on_refusal"),
        ((citizenship.silence,), ("allow", "refuse"), "silence"),
    ):
        if wrong := set(chosen) - set(allowed):
            raise ConfigurationError(
                f"citizenship.{name}: {', '.join(sorted(wrong))} is none of {', '.join(allowed)}"
            )
    if not citizenship.purposes:
        raise ConfigurationError("citizenship.purposes must name what the crawl is for")


def _require_scope(where: str, scope: Scope) -> None:
    check_patterns(where, (*scope.include, *scope.exclude, *scope.depths))
    if any(most < 0 for most in scope.depths.values()):
        raise ConfigurationError(f"{where}.depths can't be negative")


def _require_payment(payment: Payment, signing: Signing) -> None:
    if min(payment.max_price, payment.host_budget, payment.day_budget) < 0:
        raise ConfigurationError("limits of [payment] can't be negative")
    if payment.pays and not signing.enabled:
        raise ConfigurationError("[payment] needs signed requests: set signing.enabled and signing.agent")


def _require_identities(pool: tuple[NamedIdentity, ...], health: IdentityHealth) -> None:
    names = [one.name for one in pool]
    if len(set(names)) < len(names) or "" in names:
        raise ConfigurationError("each of [[identities]] needs a name of its own")
    if pool and all(one.hosts for one in pool):
        raise ConfigurationError("one of [[identities]] must be for all hosts: leave out its `hosts`")
    for one in pool:
        if one.proxy and (proxy_endpoint(one.proxy) is None or one.proxy_delay <= 0):
            raise ConfigurationError(
                f"identities {one.name}: proxy must be a URL with an address and a port, like "
                "http://192.0.2.1:3128, and proxy_delay above 0"
            )
    if not 0 <= health.explore_share < 1 or not 0 < health.failing_share <= 1 or health.half_life <= 0:
        raise ConfigurationError("identity_health: shares lie between 0 and 1, half_life above 0")


def proxy_endpoint(url: str) -> tuple[str, int] | None:
    """Address and port of a proxy's URL; None if it does not name both (a proxy is contacted as configured, and
    never looked up)."""
    try:
        parts = urlsplit(url)
        address, port = parts.hostname or "", parts.port
        ip_address(address)
    except ValueError:
        return None
    return (address, port) if parts.scheme == "http" and port else None


def _overridden(section: Section, values: dict[str, Any], where: str) -> Section:
    if not values:
        return section
    try:
        return msgspec.convert(msgspec.structs.asdict(section) | values, type(section), strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {explain(error, type(section))}") from error


def load(home: str | Path) -> Settings:
    """Settings of the crawl at `home`: defaults overridden by its `crawl.toml`, if there is one."""
    root = Path(home).resolve()
    path = root / CONFIG_NAME
    values: dict[str, object] = {}
    if path.exists():
        try:
            values = tomllib.loads(path.read_bytes().decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
        except OSError as error:
            raise ConfigurationError(f"{path} can't be read: {error}") from error
    try:
        settings = msgspec.convert({**values, "home": str(root)}, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {explain(error, Settings)}") from error
    settings.validate()
    return settings


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return str(value)


def save(settings: Settings) -> Path:
    """Write what differs from the defaults to `crawl.toml` in the home (atomically) and return its path."""
    defaults = Settings(home=settings.home)
    lines: list[str] = []
    for section in settings.__struct_fields__:
        if section in ("home", "hosts", "identities"):
            continue
        chosen, default = getattr(settings, section), getattr(defaults, section)
        changed = [
            f"{name} = {_toml(getattr(chosen, name))}"
            for name in chosen.__struct_fields__
            if getattr(chosen, name) != getattr(default, name)
        ]
        if changed:
            lines += [f"[{section}]", *changed, ""]
    for one in settings.identities:
        said = msgspec.structs.asdict(one)
        lines += ["[[identities]]", *(f"{name} = {_toml(value)}" for name, value in said.items()), ""]
    for rule in settings.hosts:
        lines += ["[[hosts]]", f"match = {_toml(rule.match)}"]
        for section in HostSettings.__struct_fields__:
            values: dict[str, Any] = getattr(rule, section)
            lines += [f"{section}.{name} = {_toml(value)}" for name, value in values.items()]
        lines.append("")
    settings.root.mkdir(parents=True, exist_ok=True)
    path = settings.root / CONFIG_NAME
    draft = path.with_suffix(".tmp")
    draft.write_text("\n".join(lines))
    draft.replace(path)
    return path
