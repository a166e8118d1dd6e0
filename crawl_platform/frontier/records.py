"""What the frontier remembers, how it is encoded, and under which keys.

A value is one version byte and a msgpack array. New fields go to the end with a default, so older records
still decode; a value of a newer version is refused, never guessed. Keys (`s` = shard, 2 bytes):

    u s host 0 url                 a URL                 q s host 0 lane rank url    its place in a queue,
                                                         with what a claim must know of it (`Waiting`)
    h s host                       a host                r s origin                  robots of an origin
    g s host                       a host outside the seed that a robots.txt redirected to, backed off (a host record)
    t s host                       an order to cut its queue (`frontier.trim`)
    i address                      an address that is slowed (its `Pace`)
    s s host 0 group               a sitemap or feed, by the number of the group of what it lists
    l s host 0 group               what it listed when it was last read (`frontier.listing`)
"""

from functools import cache, lru_cache
from typing import TypeVar

import msgspec

from crawl_platform.admission.pace import STEADY, Pace
from crawl_platform.clock import DAY
from crawl_platform.errors import StateError, StateTooNewError
from crawl_platform.frontier.parameter_order import OrderEvidence
from crawl_platform.scheduling.lastmod import Trust

VERSION = b"\x01"
ADDRESS = b"i"
PREFIXES = 16_384
"""Beginnings of keys that are kept at hand: a page and its result need the same few of its host a dozen times."""

FASTLANE, FRESHLANE, DEADLINE, DISCOVERY, REFRESH = range(5)
LANES = ("fastlane", "freshlane", "deadline", "discovery", "refresh")
NO_LANE = -1

QUEUED, FETCHED, GONE, DROPPED = range(4)
STATES = ("queued", "fetched", "gone", "dropped")

PAGE, SITEMAP, FEED = range(3)
KINDS = ("page", "sitemap", "feed")


def manifest_label(series: str, manifest: int) -> str:
    return f"{series}/{manifest}"


class UrlRecord(msgspec.Struct, array_like=True, gc=False):
    """A known URL. Times are UTC seconds; `rank` orders its queue (milliseconds): fetched when rank <= now.

    `rate_a` and `rate_b` (days) are the page's posterior increments over its group's prior.
    """

    state: int = QUEUED
    lane: int = NO_LANE
    rank: int = 0
    depth: int = 0
    hops: int = 0
    fails: int = 0
    value: float = 0.0
    """What a visit is worth beside others: by depth (`value_at`), unless an appraisal has said otherwise."""
    rate_a: float = 0.0
    rate_b: float = 0.0
    group: int = 0
    second_group: int = 0
    discovered_at: float = 0.0
    last_success_at: float = 0.0
    body_hash: int = 0
    links_hash: int = 0
    fingerprint: str = ""
    link_set: str = ""
    etag: str = ""
    last_modified: str = ""
    reason: str = ""
    request_id: str = ""
    series: str = ""
    manifest: int = 0
    """The last manifest with a row about it; the next two: those that brought its present links and page."""
    links_in: str = ""
    page_in: str = ""
    worth: str = ""
    """Why it has the value that an appraisal gave it, for people."""
    kind: int = PAGE
    lastmod: float = 0.0
    """When a sitemap or feed said last that it has changed (UTC seconds); 0: never."""
    claimed: float = 0.0
    """A lastmod claims a change since the last visit: how likely that is to be true (`scheduling.lastmod`)."""
    pulled: bool = False
    """Its visit has been brought forward by that claim."""
    deadline: int = 0
    """Rank of its second place, in the deadline lane: what is promised of its host (`frontier.promises`). 0: none."""
    every: float = 0.0
    """Seconds between two visits, of a page that is watched in the freshlane for the links it brings; 0: it is not."""
    types: tuple[str, ...] = ()
    """Of the types that its content declares, those of which something was promised when it was read."""

    def rows_in(self, series: str, manifest: int) -> bool:
        """Whether rows that still count came with that manifest."""
        label = manifest_label(series, manifest)
        return (self.series, self.manifest) == (series, manifest) or label in (self.links_in, self.page_in)


class HostRecord(msgspec.Struct, array_like=True):
    """A seed host of this cell. `not_before` (UTC seconds) and `backoff` (seconds) outlive a restart."""

    trusted: bool = False
    decision_id: str = ""
    since: float = 0.0
    known: int = 0
    queued: int = 0
    fetched: int = 0
    not_before: float = 0.0
    backoff: float = 0.0
    crawl_delay: float = 0.0
    surface: bool = False
    admitted: bool = False
    """An `Admit` message has arrived (its event row is written once)."""
    excluded: bool = False
    """The exclusion's event row has been written."""
    dead: int = 0
    """Known URLs that were given up, dropped or gone before their first success."""
    window: str = ""
    window_used: int = 0
    """Fetches that the schedule window `window` has been charged with, as of the last commit."""

    @property
    def in_seed(self) -> bool:
        """Its entry has been told, and no exclusion since: another `Admit` is no news."""
        return self.admitted and not self.excluded

    ports: tuple[int, ...] = ()
    """Ports other than the schemes' own that URLs of the host may name."""
    shapes: dict[int, tuple[int, ...]] = {}
    """What its URLs have taught about path templates (`scheduling.templates`); replaced, never changed."""
    threshold: float = 0.0
    """Index above which its pages are visited (`scheduling.threshold`); 0: none yet."""
    window_groups: dict[int, int] = {}
    """Of `window_used`, by URL group, for the groups that the window names."""
    pace: Pace = STEADY
    """How far it has been slowed down, and what its answers usually take."""
    from_abroad: int = 0
    """Of `known`, those that links on other hosts brought: they may take only a share of its page budget."""
    order: OrderEvidence = OrderEvidence()
    """Whether the order of parameters in its URLs means anything."""
    series: dict[int, int] = {}
    """URLs per series that may have no end (`frontier.series`); replaced, never changed."""
    turned_away: dict[str, int] = {}
    """Links to it that a trap filter turned away, by its name; replaced, never changed."""
    wishes: str = ""
    """What its robots.txt says about uses of it, as last told in `hosts`."""
    tdm: tuple[tuple[str, bool], ...] = ()
    """Rules of its tdmrep.json: (location, reserved)."""
    claims: Trust = Trust()
    """How true its lastmods have been."""
    pulled: int = 0
    """URLs whose visit a lastmod has brought forward and that have not been visited since."""
    sitemaps: int = 0
    """Sitemaps and feeds among its known URLs."""
    sitemap_day: int = 0
    sitemap_bytes: int = 0
    """Bytes of sitemaps and feeds read on that day (days since 1970)."""
    refused: str = ""
    """Name of the identity that it has refused (401, 403) and not answered since: no other asks in its place."""
    not_before_boot: float = 0.0
    """`not_before` by CLOCK_BOOTTIME, which no operator can step."""
    left_alone: float = DAY
    """Seconds between the setting of `not_before` and that moment."""
    within: float = 0.0
    """The promise (seconds) by which the deadlines of its pages were set."""
    first_within: float = 0.0
    """The same for first visits."""
    within_by_type: dict[str, float] = {}
    """The same by declared type; replaced, never changed."""

    def held(self, now: float, boot: float) -> float:
        """Seconds for which it is still left alone, by the clock that says more: UTC may have been stepped forward,
        boottime be another machine's. Never longer than it was to be at first."""
        return min(max(self.not_before - now, self.not_before_boot - boot, 0.0), self.left_alone)


class Waiting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a claim must know of a queued URL, kept beside its place in the queue: a copy from its record."""

    group: int = 0
    value: float = 0.0
    rate_a: float = 0.0
    rate_b: float = 0.0
    last_success_at: float = 0.0
    fails: int = 0
    kind: int = PAGE
    claimed: float = 0.0
    depth: int = 0
    hops: int = 0
    discovered_at: float = 0.0
    whole: bool = False
    """Nothing else has happened to it since it was discovered: this is all that its record says."""

    def record(self, rank: int) -> UrlRecord:
        """The record of a URL of which this is the `whole`, in its place in the discovery queue."""
        return UrlRecord(
            lane=DISCOVERY, rank=rank, depth=self.depth, hops=self.hops, value=self.value, group=self.group,
            discovered_at=self.discovered_at,
        )  # fmt: skip


class SitemapRecord(msgspec.Struct, array_like=True):
    """A sitemap or feed, beside its record as a URL; or, at a host whose pages one elsewhere lists, its name."""

    url: str
    vouched: tuple[str, ...] = ()
    """Hosts whose robots.txt names it: it may list any URL of theirs."""
    level: int = 0
    """Indexes above it."""


class RobotsRecord(msgspec.Struct, array_like=True, gc=False):
    """What is known of an origin's robots.txt. `rule` is rules, allow_all, disallow_all or given_up; `body` is the
    file, and `fetched_at` when it came, which may be before the last tries."""

    rule: str
    fetched_at: float
    expires_at: float
    body: bytes = b""
    unreachable_since: float = 0.0
    """When the present outage was first met (UTC seconds); 0: the last try got an answer."""
    failures: int = 0
    """Tries in that outage."""


R = TypeVar("R", UrlRecord, HostRecord, RobotsRecord, Waiting, Pace, SitemapRecord)


_encode = msgspec.msgpack.Encoder().encode
_decoder = cache(msgspec.msgpack.Decoder)


def encode(record: UrlRecord | HostRecord | RobotsRecord | Waiting | Pace | SitemapRecord) -> bytes:
    return VERSION + _encode(record)


def encode_found(record: UrlRecord) -> bytes:
    """`encode` of a URL that was found and no more: all that follows `discovered_at` is as it is by default, and need
    not be written."""
    return VERSION + _encode(
        (
            record.state, record.lane, record.rank, record.depth, record.hops, 0, record.value, 0, 0, record.group, 0,
            record.discovered_at,
        )
    )  # fmt: skip


def decode(data: bytes, type_: type[R]) -> R:
    """Raises `StateError` for a version this program doesn't know, or damage."""
    if not data:
        raise StateError(f"damaged {type_.__name__}: it is empty")
    if data[:1] != VERSION:
        raise StateTooNewError(
            f"state record of version {data[0]} found, this program knows {VERSION[0]}: run the newer release"
        )
    try:
        decoded: R = _decoder(type_).decode(data[1:])
    except msgspec.DecodeError as error:
        raise StateError(f"damaged {type_.__name__}: {error}") from error
    return decoded


def waiting(record: UrlRecord) -> Waiting:
    """The copy that goes with the record's place in a queue."""
    if record.lane == DISCOVERY and not record.fails:
        whole = Waiting(
            record.group, record.value, depth=record.depth, hops=record.hops,
            discovered_at=record.discovered_at, whole=True,
        )  # fmt: skip
        if whole.record(record.rank) == record:
            return whole
    return Waiting(
        record.group, record.value, record.rate_a, record.rate_b, record.last_success_at, record.fails,
        record.kind, record.claimed,
    )  # fmt: skip


def waiting_found(record: UrlRecord) -> bytes:
    """The same, encoded, for a URL that was found and no more."""
    copy = (
        record.group,
        record.value,
        0,
        0,
        0,
        0,
        PAGE,
        0,
        record.depth,
        record.hops,
        record.discovered_at,
        True,
    )
    return VERSION + _encode(copy)


def shard_key(kind: bytes, shard: int) -> bytes:
    return kind + shard.to_bytes(2, "big")


def shard_range(kind: bytes, shard: int) -> tuple[bytes, bytes]:
    """Bounds of a scan over everything of one kind in a shard (names are ASCII, so 255 is above them)."""
    prefix = shard_key(kind, shard)
    return prefix, prefix + b"\xff"


def host_key(shard: int, host: str) -> bytes:
    return shard_key(b"h", shard) + host.encode()


def guest_key(shard: int, host: str) -> bytes:
    return shard_key(b"g", shard) + host.encode()


@lru_cache(PREFIXES)
def url_prefix(shard: int, host: str) -> bytes:
    return shard_key(b"u", shard) + host.encode() + b"\0"


def url_key(shard: int, host: str, url: str) -> bytes:
    return url_prefix(shard, host) + url.encode()


def url_of_key(key: bytes) -> tuple[str, str]:
    """(host, url) of a `u` key."""
    host, _, url = key[3:].partition(b"\0")
    return host.decode(), url.decode()


@lru_cache(PREFIXES)
def lane_prefix(shard: int, host: str, lane: int) -> bytes:
    return shard_key(b"q", shard) + host.encode() + b"\0" + bytes((lane,))


def queue_key(shard: int, host: str, lane: int, rank: int, url: str) -> bytes:
    return lane_prefix(shard, host, lane) + rank.to_bytes(8, "big") + url.encode()


def places_of(shard: int, host: str, url: str, record: UrlRecord) -> list[bytes]:
    """The queue keys of a URL: none if it is in no queue, two if it also has a deadline."""
    if record.lane == NO_LANE:
        return []
    places = [queue_key(shard, host, record.lane, record.rank, url)]
    if record.deadline:
        places.append(queue_key(shard, host, DEADLINE, record.deadline, url))
    return places


def parse_queue_key(key: bytes, prefix_length: int) -> tuple[int, str]:
    """(rank, url) of a queue key whose lane prefix has `prefix_length` bytes."""
    return int.from_bytes(key[prefix_length : prefix_length + 8], "big"), key[prefix_length + 8 :].decode()


def address_key(address: str) -> bytes:
    return ADDRESS + address.encode()


def robots_key(shard: int, origin: str) -> bytes:
    return shard_key(b"r", shard) + origin.encode()


def sitemap_key(shard: int, host: str, group: int) -> bytes:
    return shard_key(b"s", shard) + host.encode() + b"\0" + group.to_bytes(4, "big")


def listing_key(shard: int, host: str, group: int) -> bytes:
    return shard_key(b"l", shard) + host.encode() + b"\0" + group.to_bytes(4, "big")
