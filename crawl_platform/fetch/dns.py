"""A DNS cache of our own: TTL floor and ceiling, negative entries, single flight, bounded.

One address is pinned per host and DNS life, so that the politeness clock of an address means something.
Times are CLOCK_BOOTTIME seconds.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import aiodns
import pycares

from crawl_platform.clock import Clock
from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch

_NO_SUCH_HOST = frozenset(
    {pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENODATA, pycares.errno.ARES_EBADNAME}
)
CACHE_SIZE = 100_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A pinned address, or an error, until `expires_at`."""

    expires_at: float
    address: str = ""
    error: SiteError | None = None


class DnsCache:
    def __init__(self, settings: Fetch, guard: AddressGuard, clock: Clock) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._resolver = _resolver(settings)

    def pinned(self, host: str) -> str | None:
        """The host's address if it is known and still alive."""
        answer = self._answers.get(host)
        return (
            answer.address
            if answer and answer.address and self._clock.boottime() < answer.expires_at
            else None
        )

    async def address(self, host: str) -> str:
        """The address pinned for `host`. Raises `SiteError` (no_such_host, dns_failure, unsafe_address)."""
        answer = self._answers.get(host)
        if answer is None or self._clock.boottime() >= answer.expires_at:
            answer = await self._single_flight(host)
        if answer.error is not None:
            raise SiteError(answer.error.outcome, answer.error.detail)
        return answer.address

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
        try:
            addresses, ttl = await self._lookup(host)
            address = self._choose(host, addresses)
        except SiteError as error:
            return Answer(self._clock.boottime() + self._settings.dns_negative_ttl, error=error)
        life = min(max(ttl, self._settings.dns_ttl_floor), self._settings.dns_ttl_ceiling)
        return Answer(self._clock.boottime() + life, address)

    def _choose(self, host: str, addresses: list[str]) -> str:
        """The pinned address if it is still offered, else the first safe one.

        One unsafe address among safe ones is enough to refuse: that is how rebinding looks.
        """
        if not addresses:
            raise SiteError(Outcome.NO_SUCH_HOST, "no address records")
        for address in addresses:
            if not self._guard.permits(address):
                raise SiteError(Outcome.UNSAFE_ADDRESS, f"{host} resolves to {address}")
        before = self._answers.get(host)
        return before.address if before and before.address in addresses else addresses[0]

    async def _lookup(self, host: str) -> tuple[list[str], float]:
        literal = _literal(host)
        if literal is not None:
            return [literal], self._settings.dns_ttl_ceiling
        records: list[Any] = []
        errors: list[aiodns.error.DNSError] = []
        for kind in ("A", "AAAA"):
            try:
                result = await asyncio.wait_for(
                    self._resolver.query_dns(host, kind), self._settings.dns_timeout
                )
            except aiodns.error.DNSError as error:
                errors.append(error)
                continue
            except TimeoutError:
                raise SiteError(Outcome.DNS_FAILURE, "the name server did not answer in time") from None
            records += [r for r in result.answer if hasattr(r.data, "addr")]
            if records:
                break
        if not records:
            raise _site_error(errors)
        return [r.data.addr for r in records], float(min(r.ttl for r in records))

    async def close(self) -> None:
        for task in list(self._pending.values()):
            task.cancel()
        await self._resolver.close()


def _site_error(errors: list[aiodns.error.DNSError]) -> SiteError:
    codes = {error.args[0] for error in errors}
    if codes <= _NO_SUCH_HOST:
        return SiteError(Outcome.NO_SUCH_HOST, "the name does not exist")
    return SiteError(Outcome.DNS_FAILURE, "; ".join(str(error.args[-1]) for error in errors))


def _literal(host: str) -> str | None:
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        return None


def _resolver(settings: Fetch) -> aiodns.DNSResolver:
    options: dict[str, Any] = {"timeout": settings.dns_timeout, "tries": 2}
    if settings.nameservers:
        hosts = [server.rpartition(":")[0] or server for server in settings.nameservers]
        ports = {int(server.rpartition(":")[2]) for server in settings.nameservers if ":" in server}
        options["nameservers"] = hosts
        if ports:
            options |= {"udp_port": ports.pop()}
            options["tcp_port"] = options["udp_port"]
    return aiodns.DNSResolver(**options)
