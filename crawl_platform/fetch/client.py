"""One request on the wire: aiohttp with our resolver, our caps and no habits of its own.

No redirects, cookies, automatic inflating or second tries: a request is written at most once, and the
caller's `on_write` has the last word in the same loop step as the write.
"""

import asyncio
import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from socket import AF_INET, AF_INET6, AddressFamily
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from crawl_platform.clock import Clock
from crawl_platform.errors import PlatformError, SiteError
from crawl_platform.fetch.inflate import ACCEPTED, inflate
from crawl_platform.fetch.metered import HEADS, OVERHEAD, Metered
from crawl_platform.fetch.outcome import REDIRECTS, Outcome, of_status
from crawl_platform.settings import Fetch
from crawl_platform.web.robots import MAX_BYTES

CHUNK = 65_536
OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Not the site's fault: the host must not be backed off for it."""
NO_BODY = REDIRECTS | {204, 304}


@dataclass(slots=True)
class Response:
    """How a fetch ended. `started_at` is UTC, `ended` CLOCK_BOOTTIME (seconds); `sent`: a request was written."""

    outcome: Outcome
    detail: str = ""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    wire: bytes = b""
    body: bytes = b""
    encoding: str = "identity"
    truncated: bool = False
    address: str = ""
    started_at: float = 0.0
    duration: float = 0.0
    sent: bool = False

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


class _Pins(AbstractResolver):
    """Resolves only to the address that the caller has pinned and whose clock it holds."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_INET) -> list[ResolveResult]:
        address = self.addresses[host]
        kind = AF_INET6 if ":" in address else AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        self.addresses.clear()


class _Connections(aiohttp.TCPConnector):
    """aiohttp keeps connections by name; ours also have to end with the name's address, and are metered."""

    def __init__(self, settings: Fetch, **options: Any) -> None:
        super().__init__(**options)
        body = OVERHEAD * max(settings.body_cap, MAX_BYTES)
        make: Callable[..., ResponseHandler] = Metered
        self._factory = partial(make, HEADS * settings.header_cap, body, loop=self._loop)

    def drop(self, host: str) -> None:
        """Close the idle connections of `host` (it has no other: one request in flight)."""
        for key in [key for key in self._conns if key.host == host]:
            for protocol, _ in self._conns.pop(key):
                protocol.close()


class _Wire:
    """Per-request state that the trace hook sees."""

    def __init__(self, on_write: Callable[[], None]) -> None:
        self.on_write = on_write
        self.writes = 0


class HttpClient:
    def __init__(self, settings: Fetch, user_agent: str, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._pins = _Pins()
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_before_write)
        self._connections = _Connections(
            settings,
            resolver=self._pins,
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=settings.keepalive,
            ssl=_tls(settings),
            force_close=False,
            happy_eyeballs_delay=None,
        )
        self._session = aiohttp.ClientSession(
            connector=self._connections,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"User-Agent": user_agent, "Accept-Encoding": ACCEPTED},
            max_line_size=settings.header_cap,
            max_field_size=settings.header_cap,
            timeout=aiohttp.ClientTimeout(
                total=settings.total_timeout,
                sock_connect=settings.connect_timeout,
                sock_read=settings.read_timeout,
            ),
            trace_configs=[trace],
        )

    async def get(
        self,
        url: str,
        host: str,
        address: str,
        *,
        on_write: Callable[[], None],
        headers: dict[str, str],
        cap: int,
    ) -> Response:
        """Fetch `url` from `address`; never raises for what the site does.

        `cap`: most body bytes, on the wire and inflated. A kept connection to another address than
        `address`, from an earlier DNS life of `host`, is not used: that address's clock is not held.
        """
        self._pin(host, address)
        response = Response(Outcome.CONNECTION_LOST, address=address)
        begun = self._clock.boottime()

        def written() -> None:
            on_write()
            response.sent, response.started_at = True, self._clock.now()
            nonlocal begun
            begun = self._clock.boottime()

        try:
            async with self._session.get(
                URL(url, encoded=True),
                headers={**headers, "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"},
                allow_redirects=False,
                trace_request_ctx=_Wire(written),
            ) as reply:
                await self._read(reply, response, cap)
        except SiteError as error:
            response.outcome, response.detail = Outcome(error.outcome), error.detail
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            if getattr(error, "errno", None) in OURS:
                raise PlatformError(
                    f"no request can be sent: {error}. Raise the limit of open files."
                ) from error
            response.outcome, response.detail = _outcome_of(error, response.sent), _describe(error)
        if not response.started_at:
            response.started_at = self._clock.now()
        response.duration = self._clock.boottime() - begun
        return response

    def _pin(self, host: str, address: str) -> None:
        if self._pins.addresses.get(host, address) != address:
            self._connections.drop(host)
        self._pins.addresses[host] = address

    async def _read(self, reply: aiohttp.ClientResponse, response: Response, cap: int) -> None:
        response.status = reply.status
        response.headers = {name.lower(): _text(value) for name, value in reply.headers.items()}
        response.wire, complete = await _read_capped(reply, cap)
        if not complete:
            reply.close()
        response.outcome = of_status(reply.status)
        if response.outcome is Outcome.OK or reply.status not in NO_BODY:
            self._inflate(response, cap, complete)

    def _inflate(self, response: Response, cap: int, complete: bool) -> None:
        try:
            inflated = inflate(response.wire, response.header("content-encoding"), cap, complete=complete)
        except SiteError as error:
            if response.outcome is Outcome.OK:
                raise
            response.detail = str(error)  # a 429 stays one, whatever its body is
            return
        response.body, response.truncated = inflated.body, inflated.truncated
        response.encoding = inflated.encoding

    async def close(self) -> None:
        await self._session.close()


async def _read_capped(reply: aiohttp.ClientResponse, cap: int) -> tuple[bytes, bool]:
    """(at most `cap` bytes, whether that is all)."""
    parts: list[bytes] = []
    size = 0
    while size <= cap:
        part = await reply.content.read(CHUNK)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"".join(parts)[:cap], False


def _text(value: str) -> str:
    """aiohttp hides bytes that are not UTF-8 in lone surrogates, which no row or record can hold."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _before_write(session: object, context: object, params: object) -> None:
    """Runs in the same loop step as the write of the request (nothing here awaits)."""
    wire = context.trace_request_ctx  # type: ignore[attr-defined]
    wire.writes += 1
    if wire.writes > 1:  # aiohttp would silently try again on a fresh connection
        raise SiteError(Outcome.CONNECTION_LOST, "the kept connection was closed under the request")
    wire.on_write()


def _tls(settings: Fetch) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings.ca_file:
        context.load_verify_locations(settings.ca_file)
    return context


def _outcome_of(error: Exception, sent: bool) -> Outcome:
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return Outcome.TLS_FAILURE
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Outcome.CONNECT_TIMEOUT
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return Outcome.READ_TIMEOUT if sent else Outcome.CONNECT_TIMEOUT
    if isinstance(error, aiohttp.ClientConnectorError):
        return Outcome.CONNECT_REFUSED
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL | ValueError):
        return Outcome.BAD_HTTP
    if isinstance(error, aiohttp.ClientPayloadError) and "encoding" in str(error).lower():
        return Outcome.BAD_HTTP
    return Outcome.CONNECTION_LOST


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
