"""aiohttp's parser for one answer, made as lenient as browsers are.

The C parser does all the work as long as it accepts the bytes. What it refuses in a head is repaired and fed to
a new one; what comes after the end of a body is dropped. Either way the connection is not used again: nobody
knows any more where its next answer begins.
"""

from collections.abc import Callable
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from crawl_platform.errors import SiteError
from crawl_platform.fetch.attempt import Attempt
from crawl_platform.fetch.head import looks_like_http, mend
from crawl_platform.fetch.oddities import Oddity
from crawl_platform.fetch.outcome import Outcome

NOTHING: tuple[tuple[()], bool, bytes] = ((), False, b"")
"""What a parser answers when no message has ended its head."""
TOO_MANY = "Too many headers"
"""What aiohttp's parser says, for which it has no class."""


class AnswerParser:
    """Stands in for aiohttp's `HttpResponseParser`, which is `parser`. `make` gives another for the same request.

    Failures go to `attempt.failure`; the exception that is raised beside it only stops the protocol.
    """

    __slots__ = (
        "_attempt",
        "_head",
        "_left",
        "_make",
        "_parser",
        "_payload",
        "_refused",
        "_size",
        "_surplus",
        "cap",
        "headed",
    )

    def __init__(self, parser: Any, make: Callable[[], Any], attempt: Attempt, cap: int) -> None:
        self._make = make
        self._parser = parser
        self._attempt = attempt
        self.cap = cap
        self.headed = False
        """Whether the final head has been read."""
        self._head: list[bytes] = []
        self._size = 0
        self._payload: Any = None
        self._refused: Exception | None = None
        self._surplus = Oddity.LONG_BODY
        self._left: int | None = None
        """Bytes of a mended answer's body that are still to come, where that is known."""

    @property
    def ended(self) -> bool:
        return self.headed and bool(self._payload.is_eof())

    def feed_data(self, data: bytes) -> tuple[Any, bool, bytes]:
        if self.headed:
            return self._feed_body(data)
        if data:
            self._head.append(data)
            self._size += len(data)
        if self._refused is not None:
            return self._mend(self._refused)
        try:
            result = self._parser.feed_data(data)
        except LineTooLong as error:
            raise self._fails(Outcome.HEADERS_TOO_LARGE, "one line is longer than allowed") from error
        except HttpProcessingError as error:
            return self._mend(error)
        if result[0]:
            self._take_messages(result[0])
        elif self._size > self.cap:
            raise self._fails(Outcome.HEADERS_TOO_LARGE, f"{self._size} bytes and no end of the head")
        return result  # type: ignore[no-any-return]

    def _take_messages(self, messages: list[tuple[Any, Any]]) -> None:
        self._size = len(self._head[-1])  # interim answers are counted by the connection's allowance
        for number, (message, payload) in enumerate(messages, 1):
            if message.code >= 200 or message.code == 101:
                self.headed, self._payload = True, payload
                self._attempt.head = self._head[0] if len(self._head) == 1 else b"".join(self._head)
                self._head = []
                if message.code == 101:
                    raise self._fails(Outcome.BAD_HTTP, "switches to a protocol that nobody asked for")
                if number < len(messages):
                    self._attempt.oddities.add(Oddity.LONG_BODY)
                return

    def _feed_body(self, data: bytes) -> tuple[Any, bool, bytes]:
        if self._left is not None:
            data = self._within(data)
        try:
            return self._parser.feed_data(data)  # type: ignore[no-any-return]
        except HttpProcessingError as error:
            if self._payload.is_eof():
                self._attempt.oddities.add(Oddity.LONG_BODY)
                return NOTHING
            trailers = isinstance(error, LineTooLong) or TOO_MANY in str(error)
            outcome = Outcome.HEADERS_TOO_LARGE if trailers else Outcome.BAD_HTTP
            raise self._fails(outcome, _reason(error)) from error

    def _mend(self, error: Exception) -> tuple[Any, bool, bytes]:
        raw = b"".join(self._head)
        if TOO_MANY in str(error):
            raise self._fails(Outcome.HEADERS_TOO_LARGE, "more header lines than allowed") from error
        if not looks_like_http(raw):
            raise self._fails(Outcome.BAD_HTTP, f"no HTTP: {raw[:60]!r}") from error
        if self._size > self.cap:
            raise self._fails(Outcome.HEADERS_TOO_LARGE, f"{self._size} bytes and no end of the head")
        try:
            mended = mend(raw)
        except ValueError as reason:
            raise self._fails(Outcome.BAD_HTTP, f"{reason}: {raw[:60]!r}") from error
        self._head, self._refused = [raw], error
        if mended is None:
            return NOTHING
        self._attempt.oddities |= mended.oddities
        self._left = mended.length
        if mended.head[9:12] in (b"204", b"304"):
            self._surplus = Oddity.FORBIDDEN_BODY
        body = self._within(raw[mended.start :]) if mended.length is not None else raw[mended.start :]
        self._parser = self._make()
        try:
            messages, upgraded, tail = self._parser.feed_data(mended.head + body)
        except HttpProcessingError as again:
            raise self._fails(Outcome.BAD_HTTP, _reason(again)) from error
        self._head = [raw[: mended.start]]
        self._take_messages(messages)
        return messages, upgraded, tail

    def _within(self, data: bytes) -> bytes:
        """`data` up to the body's end; whatever follows is dropped."""
        left = self._left or 0
        if len(data) > left:
            self._attempt.oddities.add(self._surplus)
            data = data[:left]
        self._left = left - len(data)
        return data

    def _fails(self, outcome: Outcome, detail: str) -> HttpProcessingError:
        self._attempt.failure = self._attempt.failure or SiteError(outcome, detail)
        return HttpProcessingError(message=detail)

    @property
    def spoilt(self) -> bool:
        """Whether the connection must not be used for another request."""
        return self._refused is not None or Oddity.LONG_BODY in self._attempt.oddities

    def feed_eof(self) -> Any:
        if self._refused is not None and not self.headed:
            self._fails(Outcome.BAD_HTTP, _reason(self._refused))
        return self._parser.feed_eof()

    def pause_reading(self) -> None:
        self._parser.pause_reading()


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "message", "") or error).split())[:200]
