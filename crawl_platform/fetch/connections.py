"""Connections: opened to one checked address, kept per host, never to another address than the request's.

Each phase of opening has its deadline and its failure, and the socket's real peer is checked before a byte is sent,
so that no name server's second answer counts. Nothing is ever written twice: a kept connection that has died under
its request is the request's end.
"""

import asyncio
import errno
import socket
from socket import AF_INET, AF_INET6

from crawl_platform.errors import PlatformError, SiteError
from crawl_platform.fetch import tls
from crawl_platform.fetch.attempt import Attempt
from crawl_platform.fetch.metered import OVERHEAD, Metered
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.proxy import ProxyFailedError, tunnel
from crawl_platform.fetch.request import Target
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.fetch.secure import Secured
from crawl_platform.fetch.warm import Warm
from crawl_platform.settings import Fetch
from crawl_platform.web.robots import MAX_BYTES

OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Not the site's fault: the host must not be backed off for it."""
SWEEP = 5.0
"""Seconds between two looks at connections that have rested for too long, while there are any."""


class Connections:
    def __init__(self, settings: Fetch, guard: AddressGuard) -> None:
        self._settings = settings
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._tls = tls.context(settings)
        self._body = OVERHEAD * max(settings.body_cap, MAX_BYTES)
        self._warm: Warm[Metered] = Warm(settings.warm_bytes, settings.keepalive)
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Connections at rest."""
        return len(self._warm)

    async def open(self, target: Target, attempt: Attempt) -> Metered:
        """A connection for `attempt`, kept or new: nothing has been written for it yet. Raises `SiteError`."""
        origin = target.secure, target.port
        connection = self._warm.take(
            target.name, origin, lambda kept: _leads(kept, attempt) and kept.is_connected()
        )
        if connection is None:
            connection = await self._connect(target, attempt)
            connection.origin = origin
        connection.begin(attempt)
        return connection

    def rest(self, target: Target, connection: Metered) -> None:
        """Its answer has been read: keep it for the next request if that is possible, else close it."""
        if connection.should_close or not connection.is_connected():
            connection.close()
            return
        connection.rest()
        self._warm.put(target.name, connection, self._loop.time())
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._settings.keepalive, self._sweep_again)

    def expect(self, host: str, seconds: float | None) -> None:
        """`host` is asked again in so many seconds; None: nobody knows."""
        now = self._loop.time()
        self._warm.expect(host, None if seconds is None else now + seconds, now)

    def _sweep_again(self) -> None:
        self._warm.sweep(self._loop.time())
        again = len(self._warm) > 0
        self._sweep = self._loop.call_later(SWEEP, self._sweep_again) if again else None

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._warm.close()

    async def _connect(self, target: Target, attempt: Attempt) -> Metered:
        """TCP, the check of the peer, then TLS. Raises `SiteError` and nothing else for what the site does."""
        begun = self._loop.time()
        via, address = attempt.via, attempt.address
        if via is not None and not self._guard.permits(address):
            raise SiteError(Outcome.UNSAFE_ADDRESS, f"{address}, through a proxy")
        family = AF_INET6 if ":" in address else AF_INET
        where = address, target.port
        sock = await (self._open(family, where) if via is None else self._open_proxy(via))
        try:
            if via is None:
                self.check_peer(sock)
            else:
                await tunnel(sock, address, target.port, self._settings.connect_timeout)
            connection = await self._secure(sock, target)
        except BaseException:
            sock.close()
            raise
        attempt.connect = self._loop.time() - begun
        if via is not None:
            connection.tunnel = address, via
        return connection

    async def _open_proxy(self, proxy: tuple[str, int]) -> socket.socket:
        """A connection to the proxy that the settings name: its address is theirs to choose, that of the
        site is not: it is checked, and it is what the proxy is told, instead of a name."""
        family = AF_INET6 if ":" in proxy[0] else AF_INET
        try:
            return await self._open(family, proxy)
        except SiteError as error:
            raise ProxyFailedError(error.outcome, f"proxy: {error.detail}") from error

    async def _open(self, family: int, where: tuple[str, int]) -> socket.socket:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
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

    async def _secure(self, sock: socket.socket, target: Target) -> Metered:
        connection = Metered(self._settings, self._body, self._warm.lost, loop=self._loop)
        if target.secure:
            await self._shake_hands(sock, target, connection)
            return connection
        try:
            await self._loop.create_connection(lambda: connection, sock=sock)
        except (OSError, ValueError) as error:
            raise _connect_failure(error) from error
        return connection

    async def _shake_hands(self, sock: socket.socket, target: Target, connection: Metered) -> None:
        try:
            secured = Secured(self._tls, target.name, connection, self._loop)
        except ValueError as error:
            raise tls.failure(error) from error
        try:
            async with asyncio.timeout(self._settings.tls_timeout):
                await self._loop.create_connection(lambda: secured, sock=sock)
                await secured.handshake()
        except TimeoutError as error:
            secured.abort()
            raise SiteError(Outcome.TLS_TIMEOUT, f"within {self._settings.tls_timeout:g} s") from error
        except OSError as error:  # ssl.SSLError is one
            secured.abort()
            raise tls.failure(error) from error
        except BaseException:
            secured.abort()
            raise


def _leads(protocol: Metered, attempt: Attempt) -> bool:
    """Whether a kept connection goes where this attempt has to go, the way that it has to go."""
    if attempt.via is None:
        return protocol.tunnel is None and protocol.peer == attempt.address
    return protocol.tunnel == (attempt.address, attempt.via)


def lost(attempt: Attempt) -> SiteError:
    """What became of a request whose connection has ended before the answer's head."""
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
