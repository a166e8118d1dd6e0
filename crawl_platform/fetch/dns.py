"""A DNS cache of our own: TTL floor and ceiling, negative and stale entries, single flight, bounded.

One address is pinned per host and DNS life, so that the politeness clock of an address means something.
Times are CLOCK_BOOTTIME seconds.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from ipaddress import ip_address

from crawl_platform.clock import Clock
from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.resolver import ResolveError, Resolver
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch

CACHE_SIZE = 100_000
"""Hosts; an entry takes about 0.5 kB."""
MOVING_LIVES = 5
"""Lives after a change of address for which a host counts as one that moves."""
STALE_RETRY = 30.0
"""Seconds until a silent or sick name server is asked again for a host that lives on with its old address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A pinned address, or an error, until `expires_at`."""

    expires_at: float
    address: str = ""
    error: SiteError | None = None
    addresses: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()
    """Of `addresses`, those that could not be connected to."""
    both: bool = False
    """Asked for IPv6 too; otherwise only where there is no IPv4."""
    good_until: float = 0.0
    """When the records' own life ends; a stale answer is used beyond it."""
    moved: int = MOVING_LIVES
    """Lives since the last change of address."""

    @property
    def spent(self) -> bool:
        return bool(self.addresses) and self.failed.issuperset(self.addresses)


class DnsCache:
    def __init__(self, settings: Fetch, guard: AddressGuard, clock: Clock) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._resolver = Resolver(settings)

    def pinned(self, host: str) -> str | None:
        """The host's address if it is known and still alive."""
        answer = self._answers.get(host)
        return (
            answer.address
            if answer and answer.address and self._clock.boottime() < answer.expires_at
            else None
        )

    async def address(self, host: str) -> str:
        """The address pinned for `host`.

        Raises `SiteError` (no_such_host, dns_failure, dns_timeout, unsafe_address).
        """
        answer = self._answers.get(host)
        if answer is None or self._clock.boottime() >= answer.expires_at:
            answer = await self._single_flight(host)
        if answer.error is not None:
            raise SiteError(answer.error.outcome, answer.error.detail)
        return answer.address

    def failed(self, host: str, address: str) -> None:
        """No connection to `address` could be made: the next attempt at `host` takes the next one of its answer.

        When all have failed, IPv6 gets its turn, and after that the first one again.
        """
        answer = self._answers.get(host)
        if answer is None or answer.address != address or _literal(host) is not None:
            return
        answer = replace(answer, failed=answer.failed | {address})
        if answer.spent and not answer.both:
            self._answers[host] = replace(answer, expires_at=self._clock.boottime())
        else:
            self._answers[host] = _pin(answer)

    async def _single_flight(self, host: str) -> Answer:
        task = self._pending.get(host)
        if task is None:
            task = self._pending[host] = asyncio.create_task(self._resolve(host))
            task.add_done_callback(lambda _: self._pending.pop(host, None))
        answer = await asyncio.shield(task)
        self._answers[host] = answer
        self._answers.move_to_end(host)
        while len(self._answers) > CACHE_SIZE:
            self._answers.popitem(last=False)
        return answer

    async def _resolve(self, host: str) -> Answer:
        before = self._answers.get(host)
        try:
            return await self._fresh(host, before)
        except SiteError as error:
            now = self._clock.boottime()
            sick = error.outcome in (Outcome.DNS_FAILURE, Outcome.DNS_TIMEOUT)
            if sick and before and before.address and now < before.good_until + self._settings.dns_stale:
                return replace(before, expires_at=now + STALE_RETRY)
            return Answer(now + self._negative_life(error), error=error)

    def _negative_life(self, error: SiteError) -> float:
        s = self._settings
        ttl = error.ttl if isinstance(error, ResolveError) else None
        return (
            s.dns_negative_ttl if ttl is None else min(max(ttl, s.dns_negative_floor), s.dns_negative_ceiling)
        )

    async def _fresh(self, host: str, before: Answer | None) -> Answer:
        both = before is not None and (before.spent or (before.both and ":" in before.address))
        addresses, ttl = await self._lookup(host, both)
        for address in addresses:
            # One unsafe address among safe ones is enough to refuse: that is how rebinding looks.
            if not self._guard.permits(address):
                raise SiteError(Outcome.UNSAFE_ADDRESS, f"{host} resolves to {address}")
        failed = before.failed if before and both else frozenset()
        address = before.address if before else ""
        answer = _pin(
            Answer(0.0, address=address, addresses=addresses, failed=failed & {*addresses}, both=both)
        )
        moved = 0 if address and address not in addresses else before.moved + 1 if before else MOVING_LIVES
        s = self._settings
        ceiling = min(s.dns_ttl_ceiling, s.dns_moving_ceiling) if moved < MOVING_LIVES else s.dns_ttl_ceiling
        until = self._clock.boottime() + min(max(ttl, s.dns_ttl_floor), ceiling)
        return replace(answer, expires_at=until, good_until=until, moved=moved)

    async def _lookup(self, host: str, both: bool) -> tuple[tuple[str, ...], float]:
        """Addresses, IPv4 first, and their time to live (seconds)."""
        literal = _literal(host)
        if literal is not None:
            return (literal,), self._settings.dns_ttl_ceiling
        found = await self._resolver.addresses(host, ("A", "AAAA"))
        if not both or ":" in found.addresses[0]:
            return found.addresses, found.ttl
        try:
            more = await self._resolver.addresses(host, ("AAAA",))
        except ResolveError:
            return found.addresses, found.ttl
        return found.addresses + more.addresses, min(found.ttl, more.ttl)

    async def close(self) -> None:
        for task in list(self._pending.values()):
            task.cancel()
        await self._resolver.close()


def _pin(answer: Answer) -> Answer:
    """The pinned address if it is still offered and not known to fail, else the first that is not."""
    if answer.spent:
        answer = replace(answer, failed=frozenset(), address=answer.addresses[0])
    if answer.address in answer.addresses and answer.address not in answer.failed:
        return answer
    return replace(answer, address=next(a for a in answer.addresses if a not in answer.failed))


def _literal(host: str) -> str | None:
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        return None
