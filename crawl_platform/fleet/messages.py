"""What travels over the exchange: messages for one shard's inbox, and directives that every cell watches.

Every message is idempotent: discoveries by the seen set, requests by their id (kept 7 days), directives
because the last one wins.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from crawl_platform.frontier.errands import HopReply
from crawl_platform.web.host import is_hostname
from crawl_platform.web.robots import MAX_BYTES
from crawl_platform.web.url import canonicalize, host_of, origin_of

Depth = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Value = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
"""Bounds far beyond what we send: a number that no record can hold must not reach one."""


class DiscoveredUrl(msgspec.Struct, frozen=True, array_like=True):
    url: str
    depth: Depth = 0
    value: Value = 0.0
    """0: not said; then it goes by depth."""
    kind: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    sitemap: str = ""
    lastmod: Annotated[float, msgspec.Meta(ge=0.0, le=1e11)] = 0.0
    vouched: tuple[str, ...] = ()
    level: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    """The last five as in `frontier.lease.Found`."""


class Discover(msgspec.Struct, frozen=True, tag="discover"):
    """Links to seed hosts of this shard, found by another cell or known from the lake."""

    urls: tuple[DiscoveredUrl, ...]


MESSAGE_URLS, MESSAGE_BYTES = 500, 500_000
"""Discoveries per message: NATS takes 1 MB unless told otherwise, and refuses what is larger."""


def discoveries(urls: Iterable[DiscoveredUrl]) -> Iterator[bytes]:
    """Encoded `Discover` messages that together name `urls`, in order: of at most `MESSAGE_URLS` and about
    `MESSAGE_BYTES`, unless a single URL is longer."""
    part: list[DiscoveredUrl] = []
    size = 0
    for url in urls:
        length = len(encode(url)) + 1
        if part and (len(part) == MESSAGE_URLS or size + length > MESSAGE_BYTES):
            yield encode(Discover(tuple(part)))
            part, size = [], 0
        part.append(url)
        size += length
    if part:
        yield encode(Discover(tuple(part)))


class Admit(msgspec.Struct, frozen=True, tag="admit"):
    """A host enters the seed: chosen by an operator (`trusted`) or promoted."""

    host: str
    urls: tuple[DiscoveredUrl, ...]
    decision_id: str
    reason: str
    trusted: bool


class AdmitMany(msgspec.Struct, frozen=True, tag="admit_many"):
    """An `Admit` for each of many hosts of a shard: host and its URLs."""

    hosts: tuple[tuple[str, tuple[DiscoveredUrl, ...]], ...]
    reason: str
    trusted: bool

    def each(self) -> Iterator[Admit]:
        return (Admit(host, urls, "", self.reason, self.trusted) for host, urls in self.hosts)


class Recrawl(msgspec.Struct, frozen=True, tag="recrawl"):
    """Fetch `url` once, now. `accepted_at` is when the sender published it (UTC seconds)."""

    url: str
    request_id: str
    accepted_at: float


class Redeliver(msgspec.Struct, frozen=True, tag="redeliver"):
    """The rows of this manifest were quarantined: fetch its URLs again."""

    incarnation: str
    series: str
    number: int


class Worth(msgspec.Struct, frozen=True, array_like=True):
    """What a URL is worth now, in place of what it was thought to be worth when it was found."""

    url: str
    value: Value
    reason: str = ""
    """Why, for people: like "duplicate of https://…"."""


class Appraise(msgspec.Struct, frozen=True, tag="appraise"):
    """New values of known URLs of this shard: duplicates are worth less, for example."""

    urls: tuple[Worth, ...]


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Visit `url` every so many seconds from now on, for the links that it brings; 0: as any other page again."""

    url: str
    every: Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Trim(msgspec.Struct, frozen=True, tag="trim"):
    """Keep the first `keep` URLs of the host's discovery queue, and none deeper than `deepest` clicks; −1: no such
    bound. The others are dropped and stay known."""

    host: str
    keep: Annotated[int, msgspec.Meta(ge=-1, le=1_000_000_000)]
    deepest: Annotated[int, msgspec.Meta(ge=-1, le=1_000_000)]
    request_id: str


class RobotsHop(msgspec.Struct, frozen=True, tag="robots_hop"):
    """The robots.txt of `origin`, a host of another shard, has redirected to `url` here, its redirect number `hops`.
    Ask for it at an ordinary turn of its host, and reply; after `until` (UTC seconds) nobody waits."""

    origin: str
    url: str
    hops: Annotated[int, msgspec.Meta(ge=1, le=100)]
    until: Annotated[float, msgspec.Meta(ge=0.0, le=1e11)]


class RobotsReply(msgspec.Struct, frozen=True, tag="robots_reply"):
    """What a `RobotsHop` brought. `status` is null where there was no answer; `target` is a redirect's."""

    origin: str
    url: str
    hops: Annotated[int, msgspec.Meta(ge=1, le=100)]
    outcome: str
    status: int | None = None
    target: str = ""
    body: bytes = b""

    @staticmethod
    def of(reply: HopReply) -> "RobotsReply":
        return RobotsReply(
            reply.origin, reply.url, reply.hops, reply.outcome, reply.status, reply.target, reply.body
        )

    def reply(self) -> HopReply:
        return HopReply(
            self.origin, self.url, self.hops, self.outcome, self.status, self.target, self.body[:MAX_BYTES]
        )


InboxMessage = (
    Discover | Admit | AdmitMany | Recrawl | Redeliver | Appraise | Watch | Trim | RobotsHop | RobotsReply
)


class HostPolicy(msgspec.Struct, frozen=True):
    """Directive about a host or `*.domain`: in the seed, on the horizon again, or excluded. An exclusion beats a seed
    entry."""

    name: str
    state: str
    """seed, excluded, horizon (demoted), or lifted: what was said before no longer holds"""
    trusted: bool = False
    decision_id: str = ""
    reason: str = ""
    since: float = 0.0
    most_pages: int = 0
    """Of a host on probation: pages that may be known of it; 0: as many as of any host."""


class PurgeOrder(msgspec.Struct, frozen=True):
    """Directive `purge.<hash>`: everything about `pattern` (a host, `*.domain` or the beginning of URLs) is to be
    deleted from the cells' state. An exclusion of its own keeps it out afterwards."""

    request_id: str
    pattern: str
    at: float


class GroupPriors(msgspec.Struct, frozen=True):
    """Directive `priors.<shard>`: what is believed of a page's change rate before it has a history.

    Gamma priors (shape, rate parameter in days): of a URL group (host → group id → prior), else of the host,
    else the `default` of all groups.
    """

    default: tuple[float, float]
    hosts: dict[str, tuple[float, float]]
    groups: dict[str, dict[int, tuple[float, float]]]


class ScheduleWindow(msgspec.Struct, frozen=True):
    """Allocation of one window: at most so many fetches per host until `ends_at` (UTC seconds).

    In force from its start. Hosts that are not named are bound by politeness alone; `fastlane` is outside
    every allocation. `starts_at` and `budget` say what the allocations were computed for.
    `groups` (host → group id → fetches) caps single URL groups within their host's allocation; groups that
    are not named share what the host has. Published per shard (`window.<shard>`), each with its own hosts.
    """

    window_id: str
    starts_at: float
    ends_at: float
    budget: int
    allocations: dict[str, int]
    groups: dict[str, dict[int, int]] = {}


class ShardOwner(msgspec.Struct, frozen=True):
    """Ownership record of a shard. Its revision in the bucket is the fencing token. It moves by `fleet.handoff`."""

    cell: str
    incarnation: str
    to: str = ""
    """The cell that is to have it next."""
    snapshot: str = ""
    """Draining: the file (`fleet.shard_file`) that holds all of it; `cell` asks nothing of its hosts any more."""
    sequence: int = 0
    """Of its inbox, what the snapshot has the effects of."""
    handed: str = ""
    """The snapshot by which its cell has got it; empty if it was given to it at first."""
    lost: str = ""
    """The incarnation whose state of it is gone: `cell` has to rebuild it from the lake (`fleet.rebuild`) first."""


class Heartbeat(msgspec.Struct, frozen=True):
    """Liveness of a cell, apart from ownership. `boottime` is CLOCK_BOOTTIME of its machine."""

    cell: str
    incarnation: str
    pid: int
    at: float
    boottime: float
    report: dict[str, float] = {}


_inbox_decoder: msgspec.json.Decoder[InboxMessage] = msgspec.json.Decoder(InboxMessage)


def decode_inbox(data: bytes) -> InboxMessage:
    """Raises `msgspec.DecodeError` for an unknown or malformed message, also one about what is no host or URL.

    URLs come out canonical; among those of a list, what is none is left out.
    """
    message = _inbox_decoder.decode(data)
    if isinstance(message, Recrawl | Watch):
        url = canonicalize(message.url)
        if url is None:
            raise msgspec.ValidationError(f"not a URL that can be crawled: {message.url[:200]!r}")
        return msgspec.structs.replace(message, url=url)
    if isinstance(message, Admit):
        if not is_crawlable(message.host):
            raise msgspec.ValidationError(f"not a host: {message.host[:200]!r}")
        return msgspec.structs.replace(message, urls=_canonical(message.urls))
    if isinstance(message, AdmitMany):
        named = tuple((host, _canonical(urls)) for host, urls in message.hosts if is_crawlable(host))
        return msgspec.structs.replace(message, hosts=named)
    if isinstance(message, Trim) and not is_crawlable(message.host):
        raise msgspec.ValidationError(f"not a host: {message.host[:200]!r}")
    if isinstance(message, Appraise):
        return Appraise(_canonical_worths(message.urls))
    if isinstance(message, RobotsHop | RobotsReply):
        _require_robots_urls(message)
    return Discover(_canonical(message.urls)) if isinstance(message, Discover) else message


def _require_robots_urls(message: RobotsHop | RobotsReply) -> None:
    target = message.target if isinstance(message, RobotsReply) else ""
    if any(canonicalize(url) != url for url in (message.url, target or message.url)):
        raise msgspec.ValidationError(f"not a canonical URL: {message.url[:200]!r} or {target[:200]!r}")
    root = canonicalize(message.origin + "/")
    if root is None or origin_of(root) != message.origin:
        raise msgspec.ValidationError(f"not an origin: {message.origin[:200]!r}")


def is_crawlable(name: str) -> bool:
    """Whether `name` is a host that cells take a message about: as URLs spell it, and one that can be looked up."""
    return host_of(f"http://{name}/") == name and (is_hostname(name) or name.startswith("["))


def subject_hosts(message: InboxMessage) -> Iterable[str]:
    """The hosts that the message is about; none if it is about the shard."""
    if isinstance(message, Admit | Trim):
        return (message.host,)
    if isinstance(message, AdmitMany):
        return (host for host, _ in message.hosts)
    if isinstance(message, RobotsReply):
        return (host_of(message.origin),)
    return (host_of(message.url),) if isinstance(message, Recrawl | Watch | RobotsHop) else ()


def _canonical(urls: tuple[DiscoveredUrl, ...]) -> tuple[DiscoveredUrl, ...]:
    known = ((canonicalize(found.url), found) for found in urls)
    return tuple(msgspec.structs.replace(found, url=url) for url, found in known if url is not None)


def _canonical_worths(urls: tuple[Worth, ...]) -> tuple[Worth, ...]:
    known = ((canonicalize(worth.url), worth) for worth in urls)
    return tuple(Worth(url, worth.value, worth.reason) for url, worth in known if url is not None)


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message)
