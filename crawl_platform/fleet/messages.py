"""What travels over the exchange: messages for one shard's inbox, and directives that every cell watches.

Every message is idempotent: discoveries by the seen set, requests by their id (kept 7 days), directives
because the last one wins.
"""

import msgspec


class DiscoveredUrl(msgspec.Struct, frozen=True, array_like=True):
    url: str
    depth: int = 0
    value: float = 0.0


class Discover(msgspec.Struct, frozen=True, tag="discover"):
    """Links to seed hosts of this shard, found by another cell or known from the lake."""

    urls: tuple[DiscoveredUrl, ...]


class Admit(msgspec.Struct, frozen=True, tag="admit"):
    """A host enters the seed: chosen by an operator (`trusted`) or promoted."""

    host: str
    urls: tuple[DiscoveredUrl, ...]
    decision_id: str
    reason: str
    trusted: bool


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


InboxMessage = Discover | Admit | Recrawl | Redeliver


class HostPolicy(msgspec.Struct, frozen=True):
    """Directive about a host or `*.domain`: in the seed, or excluded. An exclusion beats a seed entry."""

    name: str
    state: str
    """seed or excluded"""
    trusted: bool = False
    decision_id: str = ""
    reason: str = ""
    since: float = 0.0


class ScheduleWindow(msgspec.Struct, frozen=True):
    """Allocation of one window: at most so many fetches per host until `ends_at` (UTC seconds).

    In force from its arrival. Hosts that are not named are bound by politeness alone; `fastlane` is outside
    every allocation. `starts_at` and `budget` say what the allocations were computed for.
    """

    window_id: str
    starts_at: float
    ends_at: float
    budget: int
    allocations: dict[str, int]


class ShardOwner(msgspec.Struct, frozen=True):
    """Ownership record of a shard. Its revision in the bucket is the fencing token."""

    cell: str
    incarnation: str


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
    """Raises `msgspec.ValidationError` for an unknown or malformed message."""
    return _inbox_decoder.decode(data)


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message)
