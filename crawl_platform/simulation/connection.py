"""One server connection: HTTP/1.1 requests in turn, each answered as its reply says, whole or broken.

States: reading a head → replying (maybe waiting, maybe in drips) → handing over → reading the next head.
A request that was begun is logged once, however it ends.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import cast

from crawl_platform.clock import Clock
from crawl_platform.simulation.log import EndedBy, Entry
from crawl_platform.simulation.message import Reply, Request

_HEAD_CAP = 65_536
_DRIP_EVERY = 0.25
"""Seconds between drips."""
_REASONS = {s.value: s.phrase for s in HTTPStatus}

Handler = Callable[[Request, float], Reply]


class Connection(asyncio.Protocol):
    """`handle` gives the reply to a request; `record` takes the log entry; `number` counts requests.

    It stands in `open_connections` while it is open.
    """

    def __init__(
        self,
        handle: Handler,
        record: Callable[[Entry], None],
        clock: Clock,
        number: Callable[[], int],
        secure: bool,
        open_connections: "set[Connection]",
    ) -> None:
        self._handle = handle
        self._record = record
        self._clock = clock
        self._number = number
        self._secure = secure
        self._open = open_connections
        self._buffer = b""
        self._request: Request | None = None
        self._began = (0.0, 0.0)
        self._status: int | None = None
        self._after: Callable[[], None] | None = None
        self._blocked = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Asked now: a TLS transport forgets it once the connection is lost.
        self._local: tuple[str, int] = transport.get_extra_info("sockname")[:2]
        self._open.add(self)
        # No buffer of ours: a reply counts as handed over only when the kernel has it.
        self._transport.set_write_buffer_limits(high=0)

    def abort(self) -> None:
        """End now; a request under way is logged as disconnected."""
        self.connection_lost(None)
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._timer:
            self._timer.cancel()
        if self._request:
            self._end("disconnect")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._request is None:
            self._next()

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        after, self._after = self._after, None
        if after:
            after()

    def _next(self) -> None:
        """Begin the next request if its head is complete."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_CAP:
                self._transport.abort()
            return
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        self._began = (self._clock.now(), self._clock.boottime())
        self._status = None
        request = _parse(head, self._secure, self._number())
        if request is None:
            self._transport.close()
            return
        self._request = request
        reply = self._handle(request, self._began[0])
        if reply.delay > 0:
            self._later(reply.delay, lambda: self._send(request, reply))
        else:
            self._send(request, reply)

    def _send(self, request: Request, reply: Reply) -> None:
        if reply.cut is not None and reply.cut < 0:
            self._break_off(reply)
            return
        self._status = reply.status
        body = b"" if request.method == "HEAD" else reply.body[: reply.cut]
        head = _head(reply)
        if reply.speed > 0:
            self._transport.write(head)
            self._drip(request, reply, body)
        else:
            self._transport.write(head + body)
            self._when_handed_over(lambda: self._finish(request, reply))

    def _drip(self, request: Request, reply: Reply, body: bytes) -> None:
        step = max(1, int(reply.speed * _DRIP_EVERY))
        self._transport.write(body[:step])
        if len(body) > step:
            self._later(_DRIP_EVERY, lambda: self._drip(request, reply, body[step:]))
        else:
            self._when_handed_over(lambda: self._finish(request, reply))

    def _finish(self, request: Request, reply: Reply) -> None:
        if reply.cut is not None:
            self._break_off(reply)
            return
        self._end("response")
        if request.headers.get("connection", "").lower() == "close":
            self._transport.close()
        elif self._buffer:
            self._next()

    def _break_off(self, reply: Reply) -> None:
        self._end("response")
        if reply.ending == "close":
            self._transport.close()
            return
        raw = self._transport.get_extra_info("socket")
        # Linger on with no time: the kernel sends RST instead of FIN.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _end(self, by: EndedBy) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        address, port = self._local
        self._record(
            Entry(
                host=request.host,
                address=address,
                port=port,
                path=request.path,
                method=request.method,
                agent=request.agent,
                start=self._began[0],
                end=self._clock.now(),
                start_boot=self._began[1],
                end_boot=self._clock.boottime(),
                status=self._status,
                ended_by=by,
            )
        )

    def _when_handed_over(self, then: Callable[[], None]) -> None:
        if self._blocked:
            self._after = then
        else:
            then()

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, then)


def _parse(head: bytes, secure: bool, number: int) -> Request | None:
    """The request in a head, None if it is not HTTP/1.1 without a body."""
    lines = head.decode("latin-1").split("\r\n")
    first = lines[0].split(" ")
    if len(first) != 3 or not first[2].startswith("HTTP/1."):
        return None
    headers = _headers(lines[1:])
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return None
    host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
    return Request(first[0], host.lower(), first[1], headers, secure, number)


def _headers(lines: list[str]) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _head(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}", "Server: synthetic"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if reply.status not in (204, 304) and not any(n == "Content-Length" for n, _ in reply.headers):
        lines.append(f"Content-Length: {len(reply.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
