"""robots.txt that has moved to another host: the hops of its redirects, and where they wait for their turn.

Theory of operation. The robots.txt of an origin may redirect across hosts (RFC 9309 §2.3.1.2); what is found at the
end holds for that origin alone. A hop within the host is one of its own next turns. A hop to another host is an
*errand* there: it waits for an ordinary turn of that host, by that host's clock, and hops to the same URL share one
request. When the host is another cell's, the hop travels to it as a message and the reply comes back as one.

Nothing here is durable. A chain that was cut off by a restart begins again at its own robots.txt; one whose reply
does not come in time (`Hop.until`) counts as unreachable. A reply that nobody waits for is dropped, so messages may
come twice.
"""

from dataclasses import dataclass, field

from crawl_platform.frontier.lease import Hop

MOST_URLS = 100
"""URLs that may wait at one host: each is a turn of it. Beyond, a chain counts as unreachable: whoever points
thousands of hosts of theirs at somebody else's must not use up that one's turns."""
MOST_HOSTS = 10_000
"""Hosts at which something may wait."""
SWEEP_EVERY = 60.0
"""Seconds between two looks through all of them, which are needed only when there are that many."""


@dataclass(frozen=True, slots=True)
class HopReply:
    """What one hop brought. `status` is None and `body` empty where there was no answer; `target`: canonical URL of
    a redirect, else empty."""

    origin: str
    url: str
    hops: int
    outcome: str
    status: int | None = None
    target: str = ""
    body: bytes = b""


@dataclass(slots=True)
class Errands:
    chains: dict[str, Hop] = field(default_factory=dict)
    """Origin of ours → the hop that its robots.txt has come to."""
    replies: list[HopReply] = field(default_factory=list)
    """From other cells, not looked at yet."""
    lost: list[Hop] = field(default_factory=list)
    """Chains that waited in vain, not accounted for yet."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Hosts at which something has begun to wait since the last claim; a set in order."""
    _waiting: dict[str, dict[str, dict[str, Hop]]] = field(default_factory=dict)
    """Host → URL → origin → hop."""
    _swept_at: float = 0.0

    def wait_at(self, host: str, hop: Hop, now: float) -> bool:
        """`hop` waits for a turn of `host`; False if too much waits already."""
        if len(self._waiting) >= MOST_HOSTS and now >= self._swept_at + SWEEP_EVERY:
            self._sweep(now)
        urls = self._waiting.get(host, {})
        full = len(self._waiting) >= MOST_HOSTS if not urls else len(urls) >= MOST_URLS
        if full and hop.url not in urls:
            return False
        self._waiting.setdefault(host, {}).setdefault(hop.url, {})[hop.origin] = hop
        self.fresh[host] = None
        return True

    def _sweep(self, now: float) -> None:
        """Forget the hosts at which nobody waits any more: some are never served again."""
        self._swept_at = now
        for host, urls in list(self._waiting.items()):
            if all(hop.until <= now for hops in urls.values() for hop in hops.values()):
                del self._waiting[host]

    def waits(self, host: str) -> bool:
        return host in self._waiting

    def take(self, host: str, now: float) -> tuple[Hop, ...]:
        """The hops that wait longest for one URL of `host`, as one errand; those that nobody waits for any more
        are dropped. Empty if nothing is left."""
        urls = self._waiting.get(host, {})
        while urls:
            url = next(iter(urls))
            hops = tuple(hop for hop in urls.pop(url).values() if hop.until > now)
            if hops:
                break
        else:
            hops = ()
        if not urls:
            self._waiting.pop(host, None)
        return hops

    def put_back(self, host: str, hops: tuple[Hop, ...]) -> None:
        """They were not asked for after all; whoever gives them back says when the host is looked at again."""
        for hop in hops:
            self._waiting.setdefault(host, {}).setdefault(hop.url, {})[hop.origin] = hop

    def drop(self, host: str) -> None:
        """Nothing may be asked of `host` any more."""
        self._waiting.pop(host, None)

    def end(self, reply: HopReply) -> bool:
        """Whether the chain of `reply` waits for just this reply; then it waits no longer."""
        hop = self.chains.get(reply.origin)
        if hop is None or (hop.url, hop.hops) != (reply.url, reply.hops):
            return False
        del self.chains[reply.origin]
        return True

    def lose(self, origin: str) -> None:
        """The reply did not come in time."""
        self.lost.append(self.chains.pop(origin))
