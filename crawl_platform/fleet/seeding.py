"""Hosts enter the seed, many at a time: a list may be as long as it likes, since it is read and sent in chunks.

    read     `CHUNK` lines; each is a host or URL, or is refused with its number and the reason
    policies of all hosts of the chunk: new ones are written at once, the others looked at
    send     their URLs, the hosts of a shard together
    confirm  all of the chunk stand in NATS before the next one is read

Each message may come again: the host is in the seed then, its URLs are known. Whoever was cut off sends the whole list
again, or goes on after the last chunk.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from crawl_platform.admission.hosts import EXCLUDED, SEED
from crawl_platform.errors import ConfigurationError, OwnershipLostError
from crawl_platform.fleet.exchange import Exchange, directive_key
from crawl_platform.fleet.messages import AdmitMany, DiscoveredUrl, HostPolicy, encode, is_crawlable
from crawl_platform.fleet.policies import excluding, host_policy, policy_of
from crawl_platform.frontier.records import SITEMAP
from crawl_platform.frontier.seen import RecentSet
from crawl_platform.web.host import shard_of
from crawl_platform.web.url import canonicalize, host_of

CHUNK = 2_000
"""Lines of a list that are held at a time."""
ON_THEIR_WAY = 500
"""Messages of URLs that are sent before the first is confirmed."""
URLS = 500
"""URLs per message: 2 kB each, and NATS' limit is 8 MB."""
REMEMBERED_HOSTS = 500_000
"""Hosts of a list that are known to have been named, 70 bytes each: what comes after a host's first line is no root."""
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


class Admitted(NamedTuple):
    """`new` hosts of which nothing had been said before; `barred` ones → the name by which they are excluded."""

    new: int
    barred: dict[str, str]


@dataclass
class Listed:
    """What became of a list so far. `hosts`: entered the seed, or were there and are told again; `new`: nothing was
    said of them before."""

    lines: int = 0
    hosts: int = 0
    new: int = 0
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

    async def admit(self, by_host: Mapping[str, Sequence[DiscoveredUrl]]) -> Admitted:
        """Every host enters the seed but those that are excluded. Returns once NATS has all of it."""
        barred = {host: p.name for host in by_host if (p := excluding(self._patterns, host)) is not None}
        keys = {directive_key("host", host): host for host in by_host if host not in barred}
        policies = {key: encode(self._policy(host)) for key, host in keys.items()}
        known = await self._exchange.create_all("directives", policies)
        barred |= await self._enter_again([keys[key] for key in known])
        await self._send({host: found for host, found in by_host.items() if host not in barred})
        return Admitted(len(keys) - len(known), barred)

    def _policy(self, host: str) -> HostPolicy:
        return HostPolicy(host, SEED, self._trusted, "", self._reason, self._now)

    async def _enter_again(self, hosts: Sequence[str]) -> dict[str, str]:
        """Hosts of which something was said before; those that are excluded → by what name."""
        keys = [directive_key("host", host) for host in hosts]
        said = await self._exchange.values("directives", keys)
        barred: dict[str, str] = {}
        for host, key in zip(hosts, keys, strict=True):
            known = msgspec.json.decode(said[key], type=HostPolicy) if key in said else None
            if known is not None and known.state == SEED and known.trusted >= self._trusted:
                continue
            if name := await self._enter(host):
                barred[host] = name
        return barred

    async def _send(self, by_host: Mapping[str, Sequence[DiscoveredUrl]]) -> None:
        """Tell the cells: the hosts of a shard in few messages, a host with many URLs in several."""
        by_shard: dict[int, list[tuple[str, tuple[DiscoveredUrl, ...]]]] = {}
        for host, found in by_host.items():
            parts = [(host, tuple(found[start : start + URLS])) for start in range(0, len(found), URLS)]
            by_shard.setdefault(shard_of(host, self._n_shards), []).extend(parts)
        messages = [(shard, part) for shard, parts in by_shard.items() for part in _messages(parts)]
        for start in range(0, len(messages), ON_THEIR_WAY):
            await asyncio.gather(
                *(
                    self._exchange.publish(
                        f"inbox.{shard}", encode(AdmitMany(part, self._reason, self._trusted))
                    )
                    for shard, part in messages[start : start + ON_THEIR_WAY]
                )
            )

    async def _enter(self, host: str) -> str:
        """Put the host's policy in the place of what was said before: an exclusion stands, and its name is returned."""
        while True:
            known, revision = await host_policy(self._exchange, host) or (None, 0)
            if known is not None and known.state == EXCLUDED:
                return host
            if known is not None and known.state == SEED and known.trusted >= self._trusted:
                return ""
            with contextlib.suppress(OwnershipLostError):  # somebody else was faster: look again
                await self._exchange.swap(
                    "directives", directive_key("host", host), encode(self._policy(host)), revision
                )
                return ""

    async def admit_list(
        self, lines: Iterable[str], told: Callable[[Listed], None], after: int = 0
    ) -> Listed:
        """Admit what the lines say (`#` starts a comment) and go on where one is no good. `told` hears of it.

        `after`: number of the last line that is passed over.
        """
        listed, rest = Listed(after), islice(lines, after, None)
        entered = RecentSet(REMEMBERED_HOSTS)
        while chunk := await asyncio.to_thread(lambda: list(islice(rest, CHUNK))):
            places: dict[str, tuple[int, str]] = {}
            by_host = grouped(self._wanted(chunk, listed, places), ())
            again = {host for host in by_host if host.encode() in entered}
            for host in again:
                by_host[host] = [msgspec.structs.replace(found, depth=1) for found in by_host[host]]
            admitted = await self.admit(by_host)
            for host, name in admitted.barred.items():
                listed.refuse(*places[host], f"excluded as {name}")
            for host in by_host.keys() - admitted.barred.keys() - again:
                entered.add(host.encode())
                listed.hosts += 1
            listed.new += admitted.new
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


Parts = Sequence[tuple[str, tuple[DiscoveredUrl, ...]]]


def _messages(parts: Parts) -> Iterator[tuple[tuple[str, tuple[DiscoveredUrl, ...]], ...]]:
    """`parts` in their order, as many together as have `URLS` URLs at most."""
    some: list[tuple[str, tuple[DiscoveredUrl, ...]]] = []
    urls = 0
    for part in parts:
        if some and urls + len(part[1]) > URLS:
            yield tuple(some)
            some, urls = [], 0
        some.append(part)
        urls += len(part[1])
    if some:
        yield tuple(some)
