"""What a frontier knows of robots.txt files that lead elsewhere: chains of its own hosts, and guests.

A *guest* is a host outside the seed to which a robots.txt has redirected. Nothing is asked of it but that, at its own
pace, and it is forgotten when nothing waits there any more; only a back-off is written down, and outlives a restart.
"""

from collections.abc import Container, Iterator
from typing import Literal

from crawl_platform.admission.hosts import EXCLUDED, HostBook
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import Known
from crawl_platform.admission.rules import HostRules
from crawl_platform.frontier.errands import Errands
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.frontier.lease import Hop, RobotsLease
from crawl_platform.frontier.records import HostRecord, RobotsRecord, decode, robots_key, shard_range
from crawl_platform.web.traps import trap_reason
from crawl_platform.web.url import host_of

Follow = Literal["followed", "elsewhere", "ended", "barred"]
"""What a redirect of robots.txt leads to: a turn of a host of ours, one of another cell's host, the end of the chain,
or a host that must not be asked."""


class MovedRobots:
    """Pure over the store; times are UTC seconds (`now`) and CLOCK_BOOTTIME (`boot`)."""

    def __init__(self, kv: OrderedKV, shards: frozenset[int], book: HostBook, rules: HostRules) -> None:
        self._kv = kv
        self.shards = shards
        self._book = book
        self._rules = rules
        self.errands = Errands()
        self.guests: dict[str, HostState] = {}

    def recall_guests(self, gates: Gates, now: float, boot: float) -> None:
        """Hold the guests that are still backed off; the records of the others have served."""
        for shard in sorted(self.shards):
            for key, value in self._kv.scan(*shard_range(b"g", shard)):
                gates.hold_host(key[3:].decode(), boot + decode(value, HostRecord).held(now, boot))
        self.forget_guests(now, boot)

    def forget_guests(self, now: float, boot: float) -> None:
        """Drop the back-offs of guests that have run out: their records have served."""
        over = Batch()
        for shard in sorted(self.shards):
            for key, value in self._kv.scan(*shard_range(b"g", shard)):
                if not decode(value, HostRecord).held(now, boot):
                    over.delete(key)
        self._kv.write(over)

    # what was found

    def record(self, origin: str) -> RobotsRecord | None:
        """What was last written down about the robots.txt of `origin`."""
        data = self._kv.get(robots_key(self._book.shard(host_of(origin)), origin))
        return None if data is None else decode(data, RobotsRecord)

    def written(self, origin: str) -> Known | None:
        known = self.record(origin)
        return None if known is None else Known(known.rule, known.body, known.expires_at)

    # chains of our own origins

    def next_of(self, state: HostState, origin: str, now: float) -> RobotsLease | float:
        """The host's next request for the robots.txt of `origin`, or the seconds for which another host's reply is
        still waited for."""
        hop = self.errands.chains.get(origin)
        if hop is None:
            return RobotsLease(origin, state.host, state.shard, origin + "/robots.txt", 0)
        if host_of(hop.url) == state.host:
            return RobotsLease(origin, state.host, state.shard, hop.url, hop.hops)
        if now >= hop.until:
            self.errands.lose(origin)
        return max(hop.until - now, 1.0)

    def follow(self, origin: str, hops: int, target: str | None, hop_limit: int, now: float) -> Follow:
        """Where the chain of `origin` goes after `hops` redirects and one more, to `target` (canonical; None:
        nowhere): at most `hop_limit`, each an ordinary turn of its host (RFC 9309 §2.3.1.2)."""
        if target is None or hops >= hop_limit:
            return "ended"
        home, host = host_of(origin), host_of(target)
        if trap_reason(target, self._rules.of(host).frontier) is not None:
            return "ended"
        if self._book.state(host) == EXCLUDED:
            return "barred"
        hop = Hop(origin, target, hops + 1, now + self._rules.of(home).politeness.robots_hop_patience)
        ours = self._book.shard(host) in self.shards
        if host != home and ours and not self.errands.wait_at(host, hop, now):
            return "barred"
        self.errands.chains[origin] = hop
        return "followed" if ours else "elsewhere"

    # errands at hosts of ours

    def newly_wanted(self, hosts: Container[str], now: float) -> Iterator[str]:
        """Hosts at which something has begun to wait; those that are not among `hosts` become guests."""
        while self.errands.fresh:
            host = next(iter(self.errands.fresh))
            del self.errands.fresh[host]
            if not self.errands.waits(host):
                continue
            if host not in hosts and host not in self.guests:
                record = HostRecord(since=now)
                self.guests[host] = HostState(host, self._book.shard(host), record, guest=True)
            yield host

    def errand(self, state: HostState, now: float) -> RobotsLease | None:
        """What waits longest at the host; None if nobody waits any more."""
        hops = self.errands.take(state.host, now)
        if not hops:
            return None
        first = hops[0]
        return RobotsLease(first.origin, state.host, state.shard, first.url, first.hops, hops)

    def leave(self, host: str) -> bool:
        """A guest at which nothing waits and nothing is in flight is forgotten; whether one was."""
        guest = self.guests.get(host)
        if guest is None or guest.in_flight or self.errands.waits(host):
            return False
        del self.guests[host]
        return True
