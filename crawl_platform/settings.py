"""One frozen settings object, read once at the edge (`load`) and passed down in parts.

A crawl's home is a folder; `crawl.toml` in it overrides the defaults below, section by section. Times are
in seconds and sizes in bytes unless a name says otherwise.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from crawl_platform.errors import ConfigurationError

CONFIG_NAME = "crawl.toml"
Section = TypeVar("Section", bound=msgspec.Struct)


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who we say we are. `contact` (mail or URL) goes into the user agent and is required to fetch."""

    agent: str = "crawl-platform"
    contact: str = ""

    @property
    def user_agent(self) -> str:
        return f"{self.agent}/0.1 (+{self.contact})"


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


class Fetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wire. `nameservers` are "ip" or "ip:port"; empty means the system's."""

    slots: int = 128
    body_cap: int = 250_000
    connect_timeout: float = 10.0
    read_timeout: float = 20.0
    total_timeout: float = 60.0
    robots_redirects: int = 5
    """Redirects followed for robots.txt only (RFC 9309 2.3.1.2); pages redirect through the frontier."""
    keepalive: float = 75.0
    header_cap: int = 65_536
    nameservers: tuple[str, ...] = ()
    dns_ttl_floor: float = 60.0
    dns_ttl_ceiling: float = 3600.0
    dns_negative_ttl: float = 300.0
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
    page_budget: int = 100_000
    surface_depth: int = 2
    max_attempts: int = 5
    retry_delay: float = 60.0
    bloom_capacity: int = 2_000_000
    max_urls_per_page: int = 5_000


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a page's revisit interval, seconds, and the split's constants (SCHEDULING §5)."""

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
    least_change: float = 0.05
    """A page is not visited again before it has changed with this probability: cost has a floor."""


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


class HostRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[hosts]]` entry: settings of whole sections that differ for the hosts that `match` (a host or
    `*.domain`, which means the domain too). Of several that match, the later entry wins, field by field."""

    match: str
    frontier: dict[str, Any] = {}
    politeness: dict[str, Any] = {}


class HostSettings(msgspec.Struct, frozen=True):
    """The sections that may differ from host to host, as they hold for one host."""

    frontier: Frontier = Frontier()
    politeness: Politeness = Politeness()


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    home: str
    identity: Identity = Identity()
    politeness: Politeness = Politeness()
    fetch: Fetch = Fetch()
    frontier: Frontier = Frontier()
    refresh: Refresh = Refresh()
    commit: Commit = Commit()
    fleet: Fleet = Fleet()
    orchestration: Orchestration = Orchestration()
    retention: Retention = Retention()
    api: Api = Api()
    hosts: tuple[HostRule, ...] = ()

    @property
    def root(self) -> Path:
        return Path(self.home)

    @property
    def lake_root(self) -> Path:
        return self.root / "lake"

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
        if len({server.rpartition(":")[2] for server in self.fetch.nameservers if ":" in server}) > 1:
            raise ConfigurationError("fetch.nameservers must all have the same port")
        if self.orchestration.profile not in ("demo", "production"):
            raise ConfigurationError('orchestration.profile must be "demo" or "production"')
        if self.refresh.interval_min > self.refresh.interval_max:
            raise ConfigurationError("refresh.interval_min is above refresh.interval_max")
        for rule in self.hosts:
            self.with_rules((rule,))

    def with_rules(self, rules: Iterable[HostRule]) -> HostSettings:
        """The sections with these rules applied in order. Raises `ConfigurationError` for what is no setting."""
        sections = {name: getattr(self, name) for name in HostSettings.__struct_fields__}
        for rule in rules:
            for name, section in sections.items():
                sections[name] = _overridden(section, getattr(rule, name), f"[[hosts]] {rule.match}: {name}")
        _require_delays(sections["politeness"])
        return HostSettings(**sections)

    def require_contact(self) -> None:
        """Raise unless the crawl says whom to write to."""
        contact = self.identity.contact
        if "@" not in contact and not contact.startswith(("http://", "https://")):
            raise ConfigurationError(
                "no contact given: site owners must be able to reach you. "
                "Pass --contact you@example.org (or set identity.contact in crawl.toml)."
            )


def _require_delays(politeness: Politeness) -> None:
    if politeness.host_delay <= 0 or politeness.address_delay <= 0:
        raise ConfigurationError(
            "politeness.host_delay and politeness.address_delay must be above 0: "
            "nothing switches politeness off"
        )


def _overridden(section: Section, values: dict[str, Any], where: str) -> Section:
    if not values:
        return section
    try:
        return msgspec.convert(msgspec.structs.asdict(section) | values, type(section), strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def load(home: str | Path) -> Settings:
    """Settings of the crawl at `home`: defaults overridden by its `crawl.toml`, if there is one."""
    root = Path(home).resolve()
    path = root / CONFIG_NAME
    values: dict[str, object] = {}
    if path.exists():
        try:
            values = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    try:
        settings = msgspec.convert({**values, "home": str(root)}, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    settings.validate()
    return settings


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value)


def save(settings: Settings) -> Path:
    """Write what differs from the defaults to `crawl.toml` in the home (atomically) and return its path."""
    defaults = Settings(home=settings.home)
    lines: list[str] = []
    for section in settings.__struct_fields__:
        if section in ("home", "hosts"):
            continue
        chosen, default = getattr(settings, section), getattr(defaults, section)
        changed = [
            f"{name} = {_toml(getattr(chosen, name))}"
            for name in chosen.__struct_fields__
            if getattr(chosen, name) != getattr(default, name)
        ]
        if changed:
            lines += [f"[{section}]", *changed, ""]
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
