"""The hostile hosts on the wire: raw connections whose every byte the misbehaviour decides, and a request log.

Decoys, addresses that stand for a private network, listen on the same ports. Whoever connects to one is logged
as a request to the host `DECOY`.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crawl_platform.clock import Clock
from crawl_platform.simulation.hostile.certificates import Certificates
from crawl_platform.simulation.hostile.misbehaviour import Door
from crawl_platform.simulation.hostile.table import HostileHost
from crawl_platform.simulation.hostile.visit import DECOYS, Visit, reset
from crawl_platform.simulation.log import EndedBy, Entry, RequestLog
from crawl_platform.simulation.ports import listen
from crawl_platform.simulation.tls import Authority, write_ca

DECOY = "decoy"
_UNANSWERED = 8
"""Connections that fill a backlog of none; each further SYN is dropped (listen(2), tcp(7))."""


class _Streams(asyncio.StreamReaderProtocol):
    """Streams of one connection that tell at once when the other side leaves, whatever is being sent."""

    def __init__(self, serve: "Callable[[_Streams], Awaitable[None]]") -> None:
        self.reader = asyncio.StreamReader()
        super().__init__(self.reader, self._connected)
        self._serve = serve
        self.lost = asyncio.Event()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No buffer of ours: what is sent counts as handed over only when the kernel has it. A limit of 0 would
        # make a TLS transport pause and resume by turns, whatever it holds.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        self.writer = writer
        self.local: tuple[str, int] = writer.get_extra_info("sockname")[:2]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(self)
        writer.close()

    def eof_received(self) -> bool | None:
        self.lost.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        super().connection_lost(exc)


@dataclass
class HostileServer:
    """Binds first (`bind`), then serves (`start`). `memory`: what each host remembers of its visitors."""

    hosts: Sequence[HostileHost]
    clock: Clock
    log: RequestLog
    http_port: int = 0
    https_port: int = 0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _kept: list[socket.socket] = field(default_factory=list)
    _visits: set[asyncio.Task[None]] = field(default_factory=set)

    def bind(self, http_port: int = 0, https_port: int = 0) -> None:
        """Take one HTTP and one HTTPS port on every host's address and on the decoys'."""
        doors = [host for host in self.hosts if host.row.door not in ("refuses", "full")]
        addresses = [*DECOYS, *(address for host in doors for address in host.bound)]
        self.http_port, self._http = listen(addresses, http_port)
        self.https_port, self._https = listen(addresses, https_port)
        for host in self.hosts:
            if host.row.door == "full":
                self._kept += _full(host.address, self.http_port)

    async def start(self, ca_file: Path) -> None:
        now = self.clock.now()
        authority = Authority(now)
        write_ca(authority, ca_file)
        certificates = Certificates(authority, now)
        for address in DECOYS:
            for sock in (self._http[address], self._https[address]):
                await self._listen(sock, self._decoy)
        for host in self.hosts:
            for address in host.bound if host.address in self._http else ():
                await self._open(host, address, certificates)

    async def _open(self, host: HostileHost, address: str, certificates: Certificates) -> None:
        door = self._door(host)
        plain_only = host.row.door != "open" or not host.row.tls
        context = None if plain_only else certificates.context(host.row.tls, host.name)
        await self._listen(self._http[address], door)
        await self._listen(self._https[address], door, context)

    async def _listen(
        self,
        sock: socket.socket,
        serve: Callable[[_Streams], Awaitable[None]],
        context: ssl.SSLContext | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: _Streams(serve), sock=sock, ssl=context))

    async def close(self) -> None:
        """Stop at once; requests under way are logged as disconnected."""
        for server in self._servers:
            server.close()
        for visit in tuple(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        for sock in self._kept:
            sock.close()
        self.log.close()

    def _door(self, host: HostileHost) -> Callable[[_Streams], Awaitable[None]]:
        async def requests(streams: _Streams) -> None:
            earlier = 0
            while await self._request(host, streams, earlier):
                earlier += 1

        closed: dict[Door, Callable[[_Streams], Awaitable[None]]] = {
            "resets": _resets,
            "drops": _drops,
            "plaintext": _plaintext,
            "silent": _silent,
        }
        return closed.get(host.row.door, requests)

    async def _request(self, host: HostileHost, streams: _Streams, earlier: int) -> bool:
        """Answer one request; whether the connection may carry another."""
        head = await streams.reader.readuntil(b"\r\n\r\n")
        visit = self._visit(host, streams, head, earlier)
        act = host.row.robots if visit.path == "/robots.txt" else host.row.act
        began = self.clock.now(), self.clock.boottime()
        acting = asyncio.ensure_future(act(visit))
        leaving = asyncio.ensure_future(streams.lost.wait())
        self._visits.add(acting)
        acting.add_done_callback(self._visits.discard)
        await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finished = acting.done() and not acting.cancelled() and acting.exception() is None
        self._note(host.name, visit.path, streams, began, visit, "response" if finished else "disconnect")
        leaving.cancel()
        if acting.done() and not acting.cancelled():
            acting.result()
        acting.cancel()
        return finished and visit.kept

    def _visit(self, host: HostileHost, streams: _Streams, head: bytes, earlier: int) -> Visit:
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        memory = self.memory.setdefault(host.name, {})
        path = first.split(" ")[1]
        return Visit(
            host.name, self.http_port, path, headers, streams.reader, streams.writer, memory, earlier
        )

    def _note(
        self,
        host: str,
        path: str,
        streams: _Streams,
        began: tuple[float, float],
        visit: Visit | None,
        ended_by: EndedBy,
    ) -> None:
        address, port = streams.local
        agent = visit.headers.get("user-agent", "") if visit else ""
        now, boot = self.clock.now(), self.clock.boottime()
        status = visit.status if visit else None
        entry = Entry(
            host, address, port, path, "GET", agent, began[0], now, began[1], boot, status, ended_by
        )
        self.log.write(entry)

    async def _decoy(self, streams: _Streams) -> None:
        began = self.clock.now(), self.clock.boottime()
        self._note(DECOY, "", streams, began, None, "disconnect")


async def _resets(streams: _Streams) -> None:
    reset(streams.writer)


async def _drops(streams: _Streams) -> None:
    await streams.reader.read(1)


async def _plaintext(streams: _Streams) -> None:
    await streams.reader.read(1)
    streams.writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def _silent(streams: _Streams) -> None:
    await streams.lost.wait()


def _full(address: str, port: int) -> list[socket.socket]:
    """A listener whose backlog is full: it never accepts, so whoever else connects gets no answer at all."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(0)
    fillers = [socket.socket() for _ in range(_UNANSWERED)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex((address, port))
    return [listener, *fillers]
