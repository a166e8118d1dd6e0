"""A connection that counts and times what it is sent: an answer may be endless without a byte of body.

Interim responses (1xx), chunk extensions and trailers come before, between or after the bytes that a body cap
sees. One host that sends them at the speed of the wire takes a whole core until the request's deadline.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import set_exception
from aiohttp.http import HttpResponseParser

from crawl_platform.errors import SiteError
from crawl_platform.fetch.attempt import Attempt
from crawl_platform.fetch.deadlines import Deadlines
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.parser import AnswerParser
from crawl_platform.fetch.warm import Origin
from crawl_platform.settings import Fetch

HEADS = 16
"""Bytes before the final head is complete, in header caps: as many full heads, interim ones included."""
OVERHEAD = 8
"""Bytes of a body on the wire per byte of its cap; a chunk of one byte takes six."""
LARGE_OVERHEAD = 2
"""The same where the cap is a large one (a sitemap's): no server sends 50 MB byte by byte."""
BUFFERED = 1 << 18
"""Bytes of a body that wait to be taken before no more is read, about."""
IDLE = 1.0
"""Seconds of idleness after which the other end may have closed a kept connection: servers wait 2 s or longer."""


class Metered(ResponseHandler):
    """aiohttp's protocol of one connection, cut off once an answer has used up its time or its bytes."""

    def __init__(
        self,
        settings: Fetch,
        body: int,
        on_loss: Callable[["Metered"], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`body`: most bytes of a body on the wire. `on_loss` is told when the connection has ended."""
        super().__init__(loop)
        self._settings = settings
        self._on_loss = on_loss
        self._head, self._body = HEADS * settings.header_cap, body
        self._allowances = self._head, self._head + body
        self._received = 0
        self._last_used = 0.0
        self._resting = False
        self.attempt: Attempt | None = None
        self.peer = ""
        """The address at the other end."""
        self.origin: Origin = False, 0
        self.tunnel: tuple[str, tuple[str, int]] | None = None
        """The site's address, and the proxy that this connection goes through."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.peer = (transport.get_extra_info("peername") or ("",))[0]

    def begin(self, attempt: Attempt) -> None:
        """The connection is `attempt`'s from now on."""
        self.attempt, self._resting = attempt, False
        body = max(self._body, LARGE_OVERHEAD * attempt.cap)
        self._allowances = self._head, self._head + body
        attempt.kept = self._last_used > 0
        attempt.stale = attempt.kept and self._loop.time() - self._last_used >= IDLE

    def rest(self) -> None:
        """The answer has been read. Of the attempt, which leads to all of it, nothing is kept."""
        self.attempt = self._payload = self._parser = None
        self._resting = True

    def ask(self, head: bytes) -> None:
        """Write a request; its answer's head is what `read` gives next."""
        assert self.attempt is not None
        assert self.transport is not None
        self.attempt.written_at = self._loop.time()
        self._received, self._payload = 0, None
        self._deadlines = Deadlines(self._settings, self.attempt.written_at)
        parser = AnswerParser(self._make_parser(), self._make_parser, self.attempt, self._settings.header_cap)
        self._parser = cast(HttpResponseParser, parser)
        self.transport.write(head)
        self._arm()
        self._drain_tail()

    def _make_parser(self) -> HttpResponseParser:
        cap = self._settings.header_cap
        return HttpResponseParser(
            self, self._loop, BUFFERED, payload_exception=ClientPayloadError, read_until_eof=True,
            auto_decompress=False, max_line_size=cap, max_field_size=cap, max_headers=self._settings.header_count,
        )  # fmt: skip

    def data_received(self, data: bytes) -> None:
        attempt = self.attempt
        if data and self._resting:  # nobody asked: it would be taken for the answer to the next request
            self.abort()
            return
        if data and attempt is not None:
            now = self._loop.time()
            if attempt.done or self._answered():
                self.abort()
                return
            if not self._received:
                attempt.first_byte_at = now
            self._received += len(data)
            self._last_used = now
            self._deadlines.received(len(data), now)
        super().data_received(data)
        if data and isinstance(self._parser, AnswerParser):
            self._after(self._parser)

    def _answered(self) -> bool:
        return isinstance(self._parser, AnswerParser) and self._parser.ended

    def _after(self, parser: AnswerParser) -> None:
        if parser.spoilt:
            self.force_close()
        if parser.ended:
            return
        if (
            self._deadlines.phase(parser.headed)
            or (self._read_timeout_handle is None and not self._reading_paused)
        ):  # its deadlines may come earlier than those of the phase before; and aiohttp stops the clock at a 1xx
            self._drop_timeout()
            self._arm()
        if self._received > self._allowances[parser.headed]:
            what = f"{self._received} bytes and no end: more than any answer needs"
            self.cut(SiteError(Outcome.RESPONSE_FLOOD, what))

    def cut(self, error: SiteError) -> None:
        """End the answer and the connection now; the request's outcome is `error`'s."""
        if self.attempt is not None and self.attempt.failure is None:
            self.attempt.failure = error
        raised = ClientPayloadError(str(error))
        payload, transport = self._payload, self.transport
        self.set_exception(raised)
        if payload is not None:
            set_exception(payload, raised)
        if transport is not None:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.attempt is not None:
            self.attempt.reset = exc is not None
        super().connection_lost(exc)
        self._on_loss(self)

    # the clock: one timer for all deadlines, armed at the request's write, moved only when it fires

    def _reschedule_timeout(self) -> None:
        if self._read_timeout_handle is None and self.attempt is not None:
            self._arm()

    def _arm(self) -> None:
        self._read_timeout_handle = self._loop.call_at(self._deadlines.due(), self._on_read_timeout)

    def _on_read_timeout(self) -> None:
        error = self._deadlines.verdict(self._loop.time())
        if error is None:
            self._arm()
        else:
            self._read_timeout_handle = None
            self.cut(error)
