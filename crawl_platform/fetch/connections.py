"""Connections: opened to one checked address, kept per host, never to another address than the request's.

aiohttp's connector keeps and closes them. Opening is our own: each phase has its deadline and its failure, and
the socket's real peer is checked before a byte is sent, so that no name server's second answer counts.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial
from socket import AF_INET, AF_INET6, AddressFamily
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from crawl_platform.errors import PlatformError, SiteError
from crawl_platform.fetch import tls
from crawl_platform.fetch.attempt import Attempt
from crawl_platform.fetch.metered import OVERHEAD, Metered
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.proxy import ProxyFailedError, tunnel
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch
from crawl_platform.web.robots import MAX_BYTES

OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Not the site's fault: the host must not be backed off for it."""


class Pinned(AbstractResolver):
    """Resolves only to the address that the caller has pinned and whose clock it holds."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        """By host as in URLs (IPv6 without brackets): only of requests in flight, so it stays small."""

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_INET) -> list[ResolveResult]:
        address = self.attempts[host].address
        kind = AF_INET6 if ":" in address else AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        self.attempts.clear()


class Connections(aiohttp.TCPConnector):
    def __init__(self, settings: Fetch, guard: AddressGuard) -> None:
        self.pinned = Pinned()
        super().__init__(
            resolver=self.pinned,
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=settings.keepalive,
            ssl=tls.context(settings),
            happy_eyeballs_delay=None,
        )
        self._settings = settings
        self._guard = guard
        make: Callable[..., ResponseHandler] = Metered
        body = OVERHEAD * max(settings.body_cap, MAX_BYTES)
        self._factory = partial(make, settings, body, loop=self._loop)

    async def connect(self, req: Any, *args: Any, **options: Any) -> Connection:
        """A connection for the one attempt of its host that is in flight.

        aiohttp writes the request in the loop step in which this returns, so `on_write` is asked here, last.
        """
        attempt = self.pinned.attempts[req.url.raw_host]
        self.check_unwritten(attempt)
        connection = await super().connect(req, *args, **options)
        try:
            attempt.on_write()
        except BaseException:
            connection.close()
            raise
        attempt.written_at = self._loop.time()
        return connection

    async def _get(self, key: Any, traces: Any) -> Connection | None:
        """A kept connection to the address of its host's attempt; those to an earlier one are closed."""
        attempt = self.pinned.attempts[key.host]
        while (connection := await super()._get(key, traces)) is not None:
            protocol = cast(Metered, connection.protocol)
            if _leads(protocol, attempt):
                protocol.begin(attempt)
                return connection
            connection.close()
        return None

    def check_unwritten(self, attempt: Attempt) -> None:
        """Raise `SiteError` (connection_lost, connection_stale) if the attempt's request has been written before:
        aiohttp would silently write it again, on a fresh connection."""
        if attempt.written_at:
            raise _lost(attempt)

    async def _wrap_create_connection(self, *args: Any, addr_infos: Any, req: Any, **options: Any) -> Any:
        """TCP, the check of the peer, then TLS. Raises `SiteError` and nothing else for what the site does."""
        begun = self._loop.time()
        attempt = self.pinned.attempts.get(req.url.raw_host)
        via = attempt.via if attempt is not None else None
        if via is not None and not self._guard.permits(addr_infos[0][4][0]):
            raise SiteError(Outcome.UNSAFE_ADDRESS, f"{addr_infos[0][4][0]}, through a proxy")
        sock = await self._open(*addr_infos[0]) if via is None else await self._open_proxy(via)
        try:
            if via is None:
                self.check_peer(sock)
            else:
                address, port = addr_infos[0][4][:2]
                await tunnel(sock, address, port, self._settings.connect_timeout)
            result = await self._secure(sock, *args, **options)
        except BaseException:
            sock.close()
            raise
        if attempt is not None:
            attempt.connect = self._loop.time() - begun
            cast(Metered, result[1]).begin(attempt)
            if via is not None:
                cast(Metered, result[1]).tunnel = (attempt.address, via)
        return result

    async def _open_proxy(self, proxy: tuple[str, int]) -> socket.socket:
        """A connection to the proxy that the settings name: its address is theirs to choose, that of the
        site is not: it is checked, and it is what the proxy is told, instead of a name."""
        family = AF_INET6 if ":" in proxy[0] else AF_INET
        try:
            return await self._open(family, socket.SOCK_STREAM, 0, "", proxy)
        except SiteError as error:
            raise ProxyFailedError(error.outcome, f"proxy: {error.detail}") from error

    async def _open(self, family: int, kind: int, proto: int, _: str, where: Any) -> socket.socket:
        try:
            sock = socket.socket(family, kind or socket.SOCK_STREAM, proto)
        except OSError as error:
            raise _connect_failure(error) from error
        sock.setblocking(False)
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                await self._loop.sock_connect(sock, where)
        except TimeoutError as error:
            sock.close()
            if error.errno is not None:  # the kernel's own patience
                raise _connect_failure(error) from error
            raise SiteError(Outcome.CONNECT_TIMEOUT, f"within {self._settings.connect_timeout:g} s") from None
        except OSError as error:
            sock.close()
            raise _connect_failure(error) from error
        except BaseException:
            sock.close()
            raise
        return sock

    def check_peer(self, sock: socket.socket) -> None:
        """Raise `SiteError(unsafe_address)` unless the socket's peer may be contacted."""
        try:
            peer = sock.getpeername()[0]
        except OSError as error:
            raise SiteError(Outcome.CONNECT_REFUSED, "closed as soon as it was open") from error
        if not self._guard.permits(peer):
            raise SiteError(Outcome.UNSAFE_ADDRESS, f"connected to {peer}")

    async def _secure(self, sock: socket.socket, *args: Any, **options: Any) -> Any:
        secure = bool(options.get("ssl"))
        for name in ("client_error", "timeout"):  # aiohttp's own, which ours stand for
            options.pop(name, None)
        try:
            async with asyncio.timeout(self._settings.tls_timeout if secure else None):
                return await self._loop.create_connection(*args, **options, sock=sock)
        except TimeoutError as error:
            raise SiteError(Outcome.TLS_TIMEOUT, f"within {self._settings.tls_timeout:g} s") from error
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if not secure:
                raise _connect_failure(error) from error
            raise tls.failure(error) from error


def _leads(protocol: Metered, attempt: Attempt) -> bool:
    """Whether a kept connection goes where this attempt has to go, the way that it has to go."""
    if attempt.via is None:
        return protocol.tunnel is None and protocol.peer == attempt.address
    return protocol.tunnel == (attempt.address, attempt.via)


def _lost(attempt: Attempt) -> SiteError:
    if attempt.stale and not attempt.first_byte_at:
        return SiteError(Outcome.CONNECTION_STALE, "the kept connection had been closed at the other end")
    how = "reset" if attempt.reset else "closed"
    which = "the kept connection was" if attempt.kept else "the connection was"
    return SiteError(Outcome.CONNECTION_LOST, f"{which} {how} under the request")


def _connect_failure(error: Exception) -> SiteError | PlatformError:
    number = getattr(error, "errno", None)
    if number in OURS:
        return PlatformError(f"no request can be sent: {error}. Raise the limit of open files.")
    if number == errno.ETIMEDOUT:
        return SiteError(Outcome.CONNECT_TIMEOUT, str(error)[:300])
    return SiteError(Outcome.CONNECT_REFUSED, str(error)[:300])
