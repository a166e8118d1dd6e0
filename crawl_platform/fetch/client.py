"""One request on the wire: aiohttp's parser on connections of our own, with our caps.

No redirects, cookies, automatic inflating or second tries: a request is written at most once, and the
caller's `on_write` has the last word in the same loop step as the write.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy

from crawl_platform.clock import Clock
from crawl_platform.errors import PlatformError, SiteError
from crawl_platform.fetch.attempt import Attempt
from crawl_platform.fetch.connections import OURS, Connections, lost
from crawl_platform.fetch.head import oddities
from crawl_platform.fetch.inflate import ACCEPTED, GZIP, Inflated, inflate, inflate_unlabelled
from crawl_platform.fetch.metered import Metered
from crawl_platform.fetch.oddities import Oddity
from crawl_platform.fetch.outcome import REDIRECTS, Outcome, of_status
from crawl_platform.fetch.proxy import ProxyFailedError
from crawl_platform.fetch.redirect import location, redirect_to
from crawl_platform.fetch.request import Target, head_of, target_of
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch, proxy_endpoint

INFLATED_HERE = 1_000_000
"""Most bytes of a body that are inflated in a step of the loop: some milliseconds. More takes a thread."""
NO_BODY = REDIRECTS | {204, 304}
FIRST = frozenset({"location", "content-length", "retry-after", "etag", "date"})
LAST = frozenset({"content-type", "last-modified", "content-range"})
"""Headers of which one counts when there are several; values of all others are joined (RFC 9110 §5.3)."""
LINES = frozenset({"x-robots-tag"})
"""Headers whose values have to be told apart: an agent that one of them names is not meant by the next."""
WANTED = "text/html,application/xhtml+xml,*/*;q=0.8"
Headers = CIMultiDictProxy[str]
THEIRS = (SiteError, aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, ValueError)
"""How the site's doing, and a URL that can't be asked for, show themselves."""
TEXTS = ("text/html", "text/plain", "application/xhtml+xml")


@dataclass(slots=True)
class Response:
    """How a fetch ended. `started_at` is UTC, `duration` and the phases are in seconds; `sent`: a request was
    written. A phase that did not take place is None: on a kept connection there is no connecting."""

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
    dns: float | None = None
    connect: float | None = None
    first_byte: float | None = None
    redirect_to: str | None = None
    """Canonical target, where the outcome is `redirect`."""
    oddities: set[Oddity] = field(default_factory=set)
    inflating: float = 0.0
    """CPU seconds that undoing its encoding took."""
    proxy_failed: bool = False
    """The proxy, not the site, is to blame."""
    identity: str = ""
    """Who asked, why just this identity, and with which likelihood: filled in by whoever admitted the request."""
    admission: str = ""
    propensity: float | None = None

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


class HttpClient:
    def __init__(self, settings: Fetch, user_agent: str, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._guard = AddressGuard(settings.allow_networks)
        self._connections = Connections(settings, self._guard)
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": ACCEPTED, "Accept": WANTED}

    async def get(
        self,
        url: str,
        host: str,
        address: str,
        *,
        on_write: Callable[[], None],
        headers: dict[str, str],
        cap: int,
        proxy: str = "",
    ) -> Response:
        """Fetch `url` from `address`; never raises for what the site does.

        `cap`: most body bytes, on the wire and inflated. `proxy`: URL of an HTTP proxy that tunnels to `address`
        (`fetch.proxy`). A kept connection to another address than
        `address`, from an earlier DNS life of `host`, is not used: that address's clock is not held.
        """
        response = Response(Outcome.CONNECTION_LOST, address=address)
        begun = self._clock.boottime()

        def written() -> None:
            on_write()
            response.sent, response.started_at = True, self._clock.now()
            nonlocal begun
            begun = self._clock.boottime()

        attempt = Attempt(address, written, cap, via=proxy_endpoint(proxy) if proxy else None)
        try:
            target = target_of(url)
            head = head_of(target, self._headers | headers)
            await self._ask(target, head, attempt, response, url)
        except THEIRS as error:
            self._fail(response, attempt, error)
        finally:
            attempt.done = True
        self._conclude(response, attempt)
        response.duration = self._clock.boottime() - begun
        return response

    def expect(self, host: str, seconds: float | None) -> None:
        """`host` is asked again in so many seconds (None: nobody knows): whether a connection is kept for that."""
        self._connections.expect(host, seconds)

    async def _ask(self, target: Target, head: bytes, attempt: Attempt, response: Response, url: str) -> None:
        connection = await self._connections.open(target, attempt)
        try:
            attempt.on_write()
            connection.ask(head)
            message, content = await _final(connection, attempt)
            response.status = message.code
            attempt.oddities |= oddities(attempt.head, message.reason or "", message.code)
            response.headers = _headers(message.headers, message.code, attempt.oddities)
            response.wire, complete = await _read_capped(content, message.headers, attempt)
        except BaseException:
            connection.close()
            raise
        attempt.done = True
        self._connections.rest(target, connection)
        response.outcome = of_status(message.code)
        if response.outcome is Outcome.REDIRECT:
            self._lead(response, url)
        if response.outcome is Outcome.OK or message.code not in NO_BODY:
            if attempt.cap > INFLATED_HERE and response.header("content-encoding"):
                await asyncio.to_thread(self._inflate, response, attempt.cap, complete)
            else:
                self._inflate(response, attempt.cap, complete)

    def _lead(self, response: Response, url: str) -> None:
        try:
            response.redirect_to = redirect_to(response.header("location"), url, self._guard)
        except SiteError as error:
            response.outcome, response.detail = Outcome(error.outcome), error.detail

    def _inflate(self, response: Response, cap: int, complete: bool) -> None:
        begun = time.thread_time()
        try:
            inflated = _inflated(response, cap, complete)
        except SiteError as error:
            if response.outcome is Outcome.OK:
                raise
            response.detail = str(error)  # a 429 stays one, whatever its body is
            return
        finally:
            response.inflating = time.thread_time() - begun
        response.body, response.truncated = inflated.body, inflated.truncated
        response.encoding = inflated.encoding
        response.oddities |= inflated.oddities

    def _fail(self, response: Response, attempt: Attempt, error: Exception) -> None:
        """Name the failure: what we have cut off ourselves, before what the library makes of it."""
        if getattr(error, "errno", None) in OURS:
            raise PlatformError(f"no request can be sent: {error}. Raise the limit of open files.") from error
        known = attempt.failure or error
        if isinstance(known, SiteError):
            response.proxy_failed = isinstance(known, ProxyFailedError)
            response.outcome, response.detail = Outcome(known.outcome), known.detail
        else:
            response.outcome, response.detail = _outcome_of(error, response.sent), _describe(error)

    def _conclude(self, response: Response, attempt: Attempt) -> None:
        if not response.started_at:
            response.started_at = self._clock.now()
        response.connect = attempt.connect
        if attempt.first_byte_at and attempt.written_at:
            response.first_byte = attempt.first_byte_at - attempt.written_at
        response.oddities |= attempt.oddities
        if not response.oddities.isdisjoint((Oddity.SHORT_BODY, Oddity.CUT_CHUNKS, Oddity.RESET_AT_END)):
            response.truncated = True

    async def close(self) -> None:
        self._connections.close()


async def _final(connection: Metered, attempt: Attempt) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    """Head and body of the answer; interim answers (1xx) before it are passed over."""
    try:
        while True:
            message, content = await connection.read()
            if message.code >= 200 or message.code == 101:
                return message, content
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise lost(attempt) from error


async def _read_capped(
    content: aiohttp.StreamReader, headers: Headers, attempt: Attempt
) -> tuple[bytes, bool]:
    """(at most `cap` bytes, whether that is all). A body that its server has ended too early is all there is;
    one that was reset is lost."""
    parts: list[bytes] = []
    size, cap = 0, attempt.cap
    try:
        while size <= cap:
            part = await content.readany()
            if not part:
                if attempt.reset:
                    attempt.oddities.add(Oddity.RESET_AT_END)
                return b"".join(parts), True
            parts.append(part)
            size += len(part)
    except aiohttp.ClientPayloadError:
        if attempt.failure is not None or attempt.reset or not parts:
            raise
        chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        attempt.oddities.add(Oddity.CUT_CHUNKS if chunked else Oddity.SHORT_BODY)
        return b"".join(parts), True
    return b"".join(parts)[:cap], False


def _inflated(response: Response, cap: int, complete: bool) -> Inflated:
    encoding = response.header("content-encoding")
    if (
        not encoding
        and response.wire.startswith(GZIP)
        and response.header("content-type").lower().startswith(TEXTS)
    ):
        return inflate_unlabelled(response.wire, cap, complete=complete)
    return inflate(response.wire, encoding, cap, complete=complete)


def _headers(said: Headers, status: int, found: set[Oddity]) -> dict[str, str]:
    """By lower-case name. Says in `found` what is odd about them."""
    headers = {name.lower(): value for name, value in said.items()}
    again = len(said) - len(headers)
    if again and again != len(said.getall("Set-Cookie", ())) - 1:
        _settle(said, headers, found)
    if "location" in headers:
        plain = location(headers["location"])
        if plain != headers["location"].strip():
            found.add(Oddity.RAW_LOCATION)
        headers["location"] = plain
    if "content-disposition" in headers and headers["content-disposition"].lower().startswith("attachment"):
        found.add(Oddity.ATTACHMENT)
    if status == 206 or (status == 200 and "content-range" in headers):
        found.add(Oddity.UNASKED_RANGE)
    if not "".join(headers.values()).isascii():
        headers = {name: _text(value) for name, value in headers.items()}
    if Oddity.SPACE_BEFORE_COLON in found:
        headers = {name.rstrip(): value for name, value in headers.items()}
    return headers


def _settle(said: Headers, headers: dict[str, str], found: set[Oddity]) -> None:
    """One value for each header that came several times."""
    for name, times in Counter(name.lower() for name, _ in said.items()).items():
        if times == 1:
            continue
        values = said.getall(name)
        if name in FIRST:
            headers[name] = values[0]
        elif name not in LAST:
            headers[name] = ("\n" if name in LINES else ", ").join(values)
        if name == "content-type" and len(set(values)) > 1:
            found.add(Oddity.SEVERAL_TYPES)
        elif name == "location" and len(set(values)) > 1:
            found.add(Oddity.SEVERAL_LOCATIONS)


def _text(value: str) -> str:
    """aiohttp hides bytes that are not UTF-8 in lone surrogates, which no row or record can hold."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _outcome_of(error: Exception, sent: bool) -> Outcome:
    if isinstance(error, ValueError) and not sent:
        return Outcome.BAD_URL
    if isinstance(error, TimeoutError):
        return Outcome.TOO_SLOW if sent else Outcome.CONNECT_TIMEOUT
    if isinstance(error, HttpProcessingError | ValueError):
        return Outcome.BAD_HTTP
    return Outcome.CONNECTION_LOST if sent else Outcome.CONNECT_REFUSED


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
