"""What goes out of the frontier to be fetched (a lease) and what comes back (a result)."""

from dataclasses import dataclass, field

from crawl_platform.frontier.records import PAGE, UrlRecord


@dataclass(slots=True)
class Lease:
    """A URL handed to a fetch. It stays in its durable queue until the result's epoch is committed. Never changed: to
    be frozen would cost a microsecond."""

    url: str
    host: str
    shard: int
    lane: int
    record: UrlRecord
    share: float | None = None
    """Discovery's share at which the turn was charged to the split; None if it was not."""
    as_page: bool = False
    """It was handed out as a sitemap or feed, and what came is a page: that is what it is from now on."""
    refused: str = ""
    """Why it is not fetched after all, of one that was claimed and turned down at once."""


@dataclass(frozen=True, slots=True)
class Hop:
    """The robots.txt of `origin` has redirected to `url`, its redirect number `hops`; after `until` (UTC seconds)
    nobody waits for the reply."""

    origin: str
    url: str
    hops: int
    until: float


@dataclass(frozen=True, slots=True)
class RobotsLease:
    """robots.txt of `origin` has to be fetched before anything else of the host. `url` is where it is
    asked for, after `hops` redirects.

    An errand is asked of `host` for origins elsewhere, whose robots.txt has led here: those of `errand`.
    """

    origin: str
    host: str
    shard: int
    url: str
    hops: int
    errand: tuple[Hop, ...] = ()


@dataclass(slots=True)
class Found:
    """A canonical URL found on a page (or named by a redirect, a sitemap, a promotion). Never changed: to be frozen
    would cost a microsecond, and a page has sixty.

    `sitemap`: the sitemap or feed that lists it, which says that it changed at `lastmod` (UTC seconds; 0: it doesn't
    say); itself, if it was fetched as a page and is one. `vouched` and `level` are of a sitemap
    (`records.SitemapRecord`); of a page `vouched` is its own host where that has asked for it to be listed elsewhere.
    """

    url: str
    depth: int
    value: float
    hops: int = 0
    kind: int = PAGE
    sitemap: str = ""
    lastmod: float = 0.0
    vouched: tuple[str, ...] = ()
    level: int = 0
    anchor: str | None = None
    """Text of the link that shows it, for `Frontier.interest`; None: its place in the queue goes by `value` alone."""


def value_at(depth: int) -> float:
    """What a URL is worth of which only its depth is known: 1 at a root, ½ one click from it."""
    return 1.0 / (1 + depth)


@dataclass(slots=True)
class PageResult:
    """An ended page fetch, as far as the frontier needs it. Times are UTC seconds.

    `group`: the URL group that it was fetched as, and whose prior `posterior` is over; 0: to be told by the URL.
    `disposition`: success, redirect, retry, gone or refused (see `fetch.outcome`). `found` is empty when
    the link set is unchanged.
    """

    lease: Lease
    at: float
    disposition: str
    reason: str = ""
    changed: bool | None = None
    body_hash: int = 0
    links_hash: int = 0
    fingerprint: str = ""
    link_set: str = ""
    etag: str = ""
    last_modified: str = ""
    found: list[Found] = field(default_factory=list)
    posterior: tuple[float, float] | None = None
    group: int = 0
    types: tuple[str, ...] | None = None
    """Of the types that its content declares, those of which something is promised; None: the content was not read."""
    listed: bytes | None = None
    """Of a sitemap or feed that is not as it was: what it lists now (`frontier.listing`)."""


@dataclass(slots=True)
class RobotsResult:
    """An ended robots fetch, its redirects followed: what is in force at the lease's origin from now on (see
    `RobotsRecord`). `fetched_at`: when the rules came, if that was not just now. `sitemaps`: what they name, as
    written."""

    lease: RobotsLease
    at: float
    rule: str
    body: bytes
    expires_at: float
    fetched_at: float = 0.0
    unreachable_since: float = 0.0
    failures: int = 0
    sitemaps: tuple[str, ...] = ()
