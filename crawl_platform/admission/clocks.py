"""Which clocks a request has to respect beside its host's, and how much each of them lets through.

    name                 meant for                                slots                a slot rests
    ───────────────────  ───────────────────────────────────────  ───────────────────  ─────────────────────────────
    192.0.2.1            an address; of IPv6 the /64 around it    1                    `address_delay` after the end
    front 192.0.2.1      an address of a front end (a CDN)        `front_end_in_flight`  see below
    domain example.org   all hosts of one registrable domain      `domain_in_flight`   see below
    proxy NAME           an identity's proxy                      1                    the identity's `proxy_delay`

Where a rate is set, a slot rests from the *start* of its request for as long as makes all slots together keep the
rate: of n slots, each at rest for n / rate seconds, no more than n requests start within n / rate seconds. They are
fewer than what may be in flight where `BURST` seconds' worth of requests are fewer.

Of a clock with several slots every cell has a part of its own (`front 192.0.2.1 #1`), so that cells need not talk
about it. Where there are more cells than slots, several share a part, in turns like an ordinary address.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

from crawl_platform.admission.rules import HostRules
from crawl_platform.networks import Networks, address_of
from crawl_platform.settings import Politeness
from crawl_platform.web.host import registrable_domain

FRONT, DOMAIN = "front ", "domain "
BURST = 2.0
"""Seconds' worth of a rate that may start at once."""
CACHED = 20_000


class Limit(NamedTuple):
    """What one clock lets through. `rest`: seconds that a slot rests, from its request's end or its start."""

    slots: int
    rest: float
    from_start: bool = False
    shared: bool = False
    """Whether other cells use the same clock, so that it is ours only in turns."""


class Clocks:
    """Names of clocks and their limits, for one of `cells` cells."""

    def __init__(
        self,
        settings: Politeness,
        rules: HostRules | None = None,
        front_ends: Iterable[IPv4Network | IPv6Network] = (),
        cell: int = 0,
        cells: int = 1,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._front_ends = Networks(front_ends)
        self._cell = cell
        self._cells = cells
        self._ordinary = Limit(1, settings.address_delay, shared=cells > 1)
        self._proxy = Limit(1, 0.0)
        self.address = lru_cache(CACHED)(self._address)
        """Name of the clock of an IP address."""
        capped = settings.domain_rate > 0 or (rules is not None and rules.sets("politeness", "domain_rate"))
        self.domain = lru_cache(CACHED)(self._domain) if capped else _uncapped
        """Name of the clock of a host's registrable domain, empty if that has no cap."""
        self.limit = lru_cache(CACHED)(self._limit)
        """What the clock of that name lets through."""

    def _address(self, address: str) -> str:
        if self._front_ends and address in self._front_ends:
            return FRONT + clock_of(address) + self._part(self._slots(*self._front_end()))
        return clock_of(address)

    def _domain(self, host: str) -> str:
        name = registrable_domain(host)
        rate, in_flight = self._of_domain(name)
        return DOMAIN + name + self._part(self._slots(rate, in_flight)) if rate else ""

    def _front_end(self) -> tuple[float, int]:
        return self._settings.front_end_rate, self._settings.front_end_in_flight

    def _of_domain(self, domain: str) -> tuple[float, int]:
        settings = self._settings if self._rules is None else self._rules.of(domain).politeness
        return settings.domain_rate, settings.domain_in_flight

    def _limit(self, name: str) -> Limit:
        if name.startswith(FRONT):
            return self._spread(*self._front_end())
        if name.startswith(DOMAIN):
            domain = name.removeprefix(DOMAIN).partition(" #")[0]
            return self._spread(*self._of_domain(domain))
        return self._proxy if name.startswith("proxy ") else self._ordinary

    def _slots(self, rate: float, in_flight: int) -> int:
        return max(1, min(in_flight, math.ceil(rate * BURST)))

    def _part(self, slots: int) -> str:
        """Suffix of the part of a clock that this cell uses: cells are dealt out to parts in turn."""
        parts = min(slots, self._cells)
        return f" #{self._cell % parts}" if parts > 1 else ""

    def _spread(self, rate: float, in_flight: int) -> Limit:
        slots = self._slots(rate, in_flight)
        parts = min(slots, self._cells)
        ours = slots // parts + (self._cell % parts < slots % parts)
        return Limit(ours, slots / rate, from_start=True, shared=self._cells > parts)


def _uncapped(_host: str) -> str:
    return ""


def clock_of(address: str) -> str:
    """The name under which an address is paced: an IPv6 address is one of many that a server has, so the /64 that
    they share; IPv4 mapped into IPv6 is the same machine as IPv4."""
    if ":" not in address:
        return address
    ip = address_of(address)
    return f"{IPv6Address(int(ip) >> 64 << 64)}/64" if ip.version == 6 else str(ip)
