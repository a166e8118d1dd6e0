"""Hosts enter the seed, many at a time: a list may be as long as it likes, since it is read and sent in chunks.

    read     `CHUNK` lines; each is a host or URL, or is refused with its number and the reason
    send     the policy of each host and its URLs: many are on their way at a time
    confirm  all of the chunk stand in NATS before the next one is read

Each message may come again: the host is in the seed then, its URLs are known. Whoever was cut off sends the whole list
again, and what is known already costs less the second time.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from crawl_platform.admission.hosts import EXCLUDED, SEED
from crawl_platform.errors import ConfigurationError, OwnershipLostError
from crawl_platform.fleet.exchange import Exchange, directive_key
from crawl_platform.fleet.messages import Admit, DiscoveredUrl, HostPolicy, encode, is_crawlable
from crawl_platform.fleet.policies import excluding, host_policy, policy_of
from crawl_platform.frontier.records import SITEMAP
from crawl_platform.web.host import shard_of
from crawl_platform.web.url import canonicalize, host_of

CHUNK = 2_000
"""Lines of a list that are held at a time: some 4,000 messages."""
ON_THEIR_WAY = 500
"""Messages that are sent before the first is confirmed: one by one each waits for the one before, 0.5 ms and more."""
URLS = 500
"""URLs of one host per message: 2 kB each, and NATS' limit is 8 MB."""
UNREADABLE = "\ufffd"
"""What stands in a text for bytes that are no UTF-8."""
REMEMBERED = 1_000
"""Refused lines that are kept; all are counted."""
READABLE = 80
"""Characters of a refused line that are told."""


class Refused(NamedTuple):
    """A line (counted from 1) of a list that nothing was done about."""

    line: int
    text: str
    why: str


@dataclass
class Listed:
    """What became of a list so far. `hosts`: entered the seed, or were there and are told again."""

    lines: int = 0
    hosts: int = 0
    lines_refused: int = 0
    refused: list[Refused] = field(default_factory=list)

    def refuse(self, line: int, text: str, why: str) -> None:
        self.lines_refused += 1
        if len(self.refused) < REMEMBERED:
            self.refused.append(Refused(line, text[:READABLE], why))


def said(line: str) -> str:
    """What a line of a list names; empty if it is blank or a comment."""
    return line.partition("#")[0].strip().removeprefix("\ufeff")


def crawlable(text: str) -> str | None:
    """The URL that a host or URL stands for; None for what no cell would fetch."""
    if not text or UNREADABLE in text:
        return None
    url = canonicalize(text if "://" in text else f"https://{text}")
    return url if url is not None and is_crawlable(host_of(url)) else None


def entry_url(text: str) -> str:
    """The same. Raises `ConfigurationError` for what no cell would fetch."""
    url = crawlable(text)
    if url is None:
        raise ConfigurationError(f"not a URL or host that can be crawled: {text[:200]!r}")
    return url


def grouped(urls: Iterable[str], sitemaps: Iterable[str]) -> dict[str, list[DiscoveredUrl]]:
    """Hosts with what is to be fetched there: `urls` are canonical, a sitemap may list any page of its own host."""
    by_host: dict[str, list[DiscoveredUrl]] = {}
    for url in urls:
        known = by_host.setdefault(host_of(url), [])
        known.append(DiscoveredUrl(url, 1 if known else 0))
    for url in sitemaps:
        host = host_of(url)
        by_host.setdefault(host, []).append(DiscoveredUrl(url, 1, 1.0, SITEMAP, vouched=(host,)))
    return by_host


class Seeding:
    """One run of it over one connection. `now` is UTC seconds; `patterns`: what is excluded by pattern."""

    def __init__(
        self, exchange: Exchange, n_shards: int, patterns: Iterable[HostPolicy], now: float, reason: str,
        *, trusted: bool = True,
    ) -> None:  # fmt: skip
        self._exchange = exchange
        self._n_shards = n_shards
        self._patterns = list(patterns)
        self._now = now
        self._reason = reason
        self._trusted = trusted

    async def require_free(self, hosts: Iterable[str]) -> None:
        """Raise `ConfigurationError` if one of the hosts is excluded."""
        names = await asyncio.gather(*(self._barred(host) for host in hosts))
        if barred := ", ".join(dict.fromkeys(filter(None, names))):
            raise ConfigurationError(f"excluded, nothing was added: {barred} (`crawl exclude --lift` first)")

    async def _barred(self, host: str) -> str:
        """The name by which `host` is excluded; empty if it isn't."""
        policy = await policy_of(self._exchange, self._patterns, host)
        return policy.name if policy is not None and policy.state == EXCLUDED else ""

    async def admit(self, by_host: Mapping[str, Sequence[DiscoveredUrl]]) -> dict[str, str]:
        """Every host enters the seed but those that are excluded: host → the name by which it is. Returns once NATS has
        all of it."""
        barred: dict[str, str] = {}
        hosts = iter(by_host)
        while some := list(islice(hosts, ON_THEIR_WAY)):
            names = await asyncio.gather(*(self._admit(host, by_host[host]) for host in some))
            barred |= {host: name for host, name in zip(some, names, strict=True) if name}
        return barred

    async def _admit(self, host: str, found: Sequence[DiscoveredUrl]) -> str:
        pattern = excluding(self._patterns, host)
        if barred := pattern.name if pattern is not None else await self._enter(host):
            return barred
        for start in range(0, len(found), URLS):
            message = Admit(host, tuple(found[start : start + URLS]), "", self._reason, self._trusted)
            await self._exchange.publish(f"inbox.{shard_of(host, self._n_shards)}", encode(message))
        return ""

    async def _enter(self, host: str, revision: int = 0) -> str:
        """Put the host's policy in the place of the one of `revision` (0: there is none). What was said meanwhile is
        looked at: an exclusion stands, and its name is returned."""
        policy = HostPolicy(host, SEED, self._trusted, "", self._reason, self._now)
        try:
            await self._exchange.swap("directives", directive_key("host", host), encode(policy), revision)
            return ""
        except OwnershipLostError:
            said = await host_policy(self._exchange, host)
        if said is None:
            return await self._enter(host)
        known, revision = said
        if known.state == EXCLUDED:
            return host
        if known.state == SEED and known.trusted >= self._trusted:
            return ""
        return await self._enter(host, revision)

    async def admit_list(self, lines: Iterable[str], told: Callable[[Listed], None]) -> Listed:
        """Admit what the lines say (`#` starts a comment) and go on where one is no good. `told` hears of it."""
        listed, rest = Listed(), iter(lines)
        entered: set[str] = set()
        while chunk := await asyncio.to_thread(lambda: list(islice(rest, CHUNK))):
            places: dict[str, tuple[int, str]] = {}
            by_host = grouped(self._wanted(chunk, listed, places), ())
            for host in by_host.keys() & entered:
                by_host[host] = [msgspec.structs.replace(found, depth=1) for found in by_host[host]]
            barred = await self.admit(by_host)
            for host, name in barred.items():
                listed.refuse(*places[host], f"excluded as {name}")
            entered |= by_host.keys() - barred.keys()
            listed.hosts = len(entered)
            told(listed)
        return listed

    @staticmethod
    def _wanted(chunk: Sequence[str], listed: Listed, places: dict[str, tuple[int, str]]) -> Iterator[str]:
        """Canonical URLs of lines that are any good; the others are noted. `places`: where a host is named first."""
        for line in chunk:
            listed.lines += 1
            text = said(line)
            if not text:
                continue
            url = crawlable(text)
            if url is None:
                listed.refuse(listed.lines, text, "not a host or URL that can be crawled")
            else:
                places.setdefault(host_of(url), (listed.lines, text))
                yield url
