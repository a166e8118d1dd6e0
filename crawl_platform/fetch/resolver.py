"""One question to the name servers: what addresses a name has, and for how long.

c-ares asks: UDP with retransmission, TCP for long answers, all configured servers. Its own cache of answers has a
bound in time only, so its channel is renewed now and then.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import aiodns
import pycares

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch
from crawl_platform.web.host import registrable_domain

_NO_SUCH_NAME = frozenset({pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_EBADNAME})
_NO_DATA = frozenset({pycares.errno.ARES_ENODATA})
_TIMEOUT = frozenset({pycares.errno.ARES_ETIMEOUT})
ALIASES = 8
"""CNAMEs followed where a server has not followed them itself; resolvers stop at about as many."""
TRIES = 3
RENEWED_AFTER = 20_000
"""Questions of one c-ares channel: about 1 kB of its cache for each."""

Kind = Literal["A", "AAAA"]


@dataclass(frozen=True, slots=True)
class Records:
    """`ttl` in seconds: the least of all records, aliases included."""

    addresses: tuple[str, ...]
    ttl: float


class ResolveError(SiteError):
    """A failed question. `ttl`: seconds for which the zone says that this stays so (None: it doesn't)."""

    def __init__(self, outcome: Outcome, detail: str, ttl: float | None = None) -> None:
        super().__init__(outcome, detail)
        self.ttl = ttl


class Resolver:
    def __init__(self, settings: Fetch) -> None:
        self._settings = settings
        self._questions = 0
        self._channel = _channel(settings)
        self._retired: set[asyncio.Task[None]] = set()

    async def addresses(self, host: str, kinds: tuple[Kind, ...]) -> Records:
        """The addresses of the first of `kinds` that has any.

        Raises `ResolveError`: no_such_host (no name, or no address), dns_failure, dns_timeout.
        """
        errors: list[int] = []
        for kind in kinds:
            try:
                found = await self._chase(host, kind)
            except aiodns.error.DNSError as error:
                errors.append(error.args[0])
                if error.args[0] in _TIMEOUT:
                    break
                continue
            if found.addresses:
                return found
            errors.append(pycares.errno.ARES_ENODATA)
        raise await self._failure(host, set(errors))

    async def _chase(self, host: str, kind: Kind) -> Records:
        name, ttl = host, float("inf")
        for _ in range(ALIASES):
            answer = (await self._ask(name, kind)).answer
            ttl = min([ttl, *(float(record.ttl) for record in answer)])
            addresses = tuple(record.data.addr for record in answer if hasattr(record.data, "addr"))
            aliases = [record.data.cname for record in answer if hasattr(record.data, "cname")]
            if addresses or not aliases:
                return Records(addresses, ttl if answer else 0.0)
            name = aliases[-1]
        raise aiodns.error.DNSError(pycares.errno.ARES_ESERVFAIL, "too many aliases")

    async def _ask(self, name: str, kind: str) -> Any:
        self._questions += 1
        if self._questions % RENEWED_AFTER == 0:
            self._renew()
        try:
            return await asyncio.wait_for(self._channel.query_dns(name, kind), self._settings.dns_timeout)
        except TimeoutError:
            raise aiodns.error.DNSError(pycares.errno.ARES_ETIMEOUT, "no answer in time") from None
        except (UnicodeError, ValueError) as error:  # a label of more than 63 bytes, an empty one
            raise aiodns.error.DNSError(pycares.errno.ARES_EBADNAME, str(error)) from None

    async def _failure(self, host: str, codes: set[int]) -> ResolveError:
        if codes & _TIMEOUT:
            return ResolveError(Outcome.DNS_TIMEOUT, "the name server did not answer in time")
        if not codes <= _NO_SUCH_NAME | _NO_DATA:
            bad = sorted(codes - _NO_SUCH_NAME - _NO_DATA)
            return ResolveError(
                Outcome.DNS_FAILURE, "; ".join(str(pycares.errno.strerror(code)) for code in bad)
            )
        what = "the name has no address" if codes & _NO_DATA else "the name does not exist"
        return ResolveError(Outcome.NO_SUCH_HOST, what, await self._negative_ttl(host))

    async def _negative_ttl(self, host: str) -> float | None:
        """The lesser of the SOA's own life and its minimum (RFC 2308 §5), asked of the zone above `host`."""
        domain = registrable_domain(host)
        zone = domain if domain != host else host.partition(".")[2]
        if not zone:
            return None
        try:
            answer = (await self._ask(zone, "SOA")).answer
        except aiodns.error.DNSError:
            return None
        lives = [min(float(r.ttl), float(r.data.minimum)) for r in answer if hasattr(r.data, "minimum")]
        return min(lives, default=None)

    def _renew(self) -> None:
        old, self._channel = self._channel, _channel(self._settings)
        task = asyncio.create_task(self._retire(old))
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _retire(self, channel: aiodns.DNSResolver) -> None:
        await asyncio.sleep(2 * self._settings.dns_timeout)  # its last questions are answered or given up
        await channel.close()

    async def close(self) -> None:
        for task in list(self._retired):
            task.cancel()
        await self._channel.close()


def _channel(settings: Fetch) -> aiodns.DNSResolver:
    options: dict[str, Any] = {"timeout": settings.dns_timeout / TRIES, "tries": TRIES}
    if settings.nameservers:
        hosts = [server.rpartition(":")[0] or server for server in settings.nameservers]
        ports = {int(server.rpartition(":")[2]) for server in settings.nameservers if ":" in server}
        options["nameservers"] = hosts
        if ports:
            options |= {"udp_port": ports.pop()}
            options["tcp_port"] = options["udp_port"]
    return aiodns.DNSResolver(**options)
