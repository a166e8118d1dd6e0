"""The server of `bench.crawl`: thousands of TLS hosts on one port, cheap enough that clients are what is measured.

    python -m bench.throughput.server --hosts 3000 --bytes 145000 --delay 1.0 --folder DIR

Prints one line of JSON when it answers (port, name server, certificate authority), and one of what it has seen for
each line that it reads. Ends when its standard input does.
"""

import argparse
import asyncio
import contextlib
import datetime
import resource
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from bench.throughput.pages import Pages, host_address, host_name, host_number, page_of
from crawl_platform.simulation.dns import Nameserver, Zone
from crawl_platform.simulation.tls import Authority, write_ca

LATENCY = 0.03
"""Seconds from a request to its answer: so that requests to one host that overlap can be seen to."""
HOSTS_PER_CERTIFICATE = 50
"""A certificate of as many names is about as long as those of the web."""
TTL = 3_600
ROBOTS = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 1\n"


class Listening(msgspec.Struct):
    port: int
    nameserver: str
    ca_file: str


class Seen(msgspec.Struct):
    """Counts since the start. `cpu` and `at` in seconds; `short` are starts too close to the end of the request before
    at the same host, by more than a tolerance of min(20 ms, delay/4)."""

    at: float
    cpu: float
    connections: int
    robots: int
    pages: int
    other: int
    repeated: int
    overlaps: int
    short: int
    least_gap: float | None
    sent_bytes: int
    latest_page: int


class Web:
    """What is served, and how politely it was asked for."""

    def __init__(self, hosts: int, size: int, delay: float, port: int) -> None:
        self.pages = Pages(size, hosts, port)
        self._least = delay - min(0.02, delay / 4)
        self._ended = [0.0] * hosts
        self._busy = [0] * hosts
        self._served: list[set[int]] = [set() for _ in range(hosts)]
        self.seen = Seen(0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, None, 0, 0)

    def begins(self, host: int) -> None:
        seen, now = self.seen, time.monotonic()
        if self._busy[host]:
            seen.overlaps += 1
        elif self._ended[host]:
            gap = now - self._ended[host]
            seen.short += gap < self._least
            seen.least_gap = gap if seen.least_gap is None else min(seen.least_gap, gap)
        self._busy[host] += 1

    def ends(self, host: int) -> None:
        self._busy[host] -= 1
        self._ended[host] = time.monotonic()

    def answer(self, host: int, path: str) -> bytes:
        seen = self.seen
        if path == "/robots.txt":
            seen.robots += 1
            return _response(b"200 OK", b"text/plain", b"", ROBOTS)
        page = page_of(path)
        if page is None:
            seen.other += 1
            return _response(b"404 Not Found", b"text/plain", b"", b"nothing here\n")
        seen.pages += 1
        seen.repeated += page in self._served[host]
        seen.latest_page = max(seen.latest_page, page)
        self._served[host].add(page)
        return _response(
            b"200 OK", b"text/html; charset=utf-8", b"Content-Encoding: gzip\r\n", self.pages.body(host, page)
        )

    def now(self) -> Seen:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.seen.at, self.seen.cpu = time.monotonic(), usage.ru_utime + usage.ru_stime
        return self.seen


def _response(status: bytes, kind: bytes, headers: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\n%bContent-Length: %d\r\n\r\n%b" % (
        status, kind, headers, len(body), body,
    )  # fmt: skip


class Connection(asyncio.Protocol):
    def __init__(self, web: Web) -> None:
        self._web = web
        self._buffer = b""
        self._host: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._web.seen.connections += 1

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, self._buffer = self._buffer[:end].decode("latin-1"), self._buffer[end + 4 :]
            lines = head.split("\r\n")
            named = next(line for line in lines if line[:5].lower() == "host:")
            self._host = host_number(named[5:].strip())
            self._web.begins(self._host)
            self._loop.call_later(LATENCY, self._reply, self._host, lines[0].split(" ")[1])

    def _reply(self, host: int, path: str) -> None:
        if self._host is None:  # the client has left: its request has ended with that
            return
        data = self._web.answer(host, path)
        self._web.ends(host)
        self._host = None
        self._web.seen.sent_bytes += len(data)
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._host is not None:
            self._web.ends(self._host)
            self._host = None


def _listener() -> socket.socket:
    """One socket for all of 127.0.0.0/8: bound to every address, but of the loopback device only."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    sock.bind(("0.0.0.0", 0))
    sock.listen(4_096)
    return sock


def _contexts(hosts: int, ca_file: Path) -> list[ssl.SSLContext]:
    authority = Authority(datetime.datetime.now(tz=datetime.UTC).timestamp())
    write_ca(authority, ca_file)
    return [
        authority.context([host_name(n) for n in range(first, min(first + HOSTS_PER_CERTIFICATE, hosts))])
        for first in range(0, hosts, HOSTS_PER_CERTIFICATE)
    ]


async def serve(hosts: int, size: int, delay: float, folder: Path) -> None:
    ca_file = folder / "ca.pem"
    contexts = _contexts(hosts, ca_file)

    def choose(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        with contextlib.suppress(ValueError, IndexError):
            tls.context = contexts[host_number(name or "") // HOSTS_PER_CERTIFICATE]
            return None
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    contexts[0].sni_callback = choose
    sock = _listener()
    port = sock.getsockname()[1]
    web = Web(hosts, size, delay, port)
    zone = Zone({}, TTL, overrides={host_name(n): (host_address(n),) for n in range(hosts)})
    nameserver = Nameserver(zone)
    await nameserver.start("127.0.0.1")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(web), sock=sock, ssl=contexts[0])
    _tell(Listening(port, nameserver.address, str(ca_file)))
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        _tell(web.now())
    server.close()
    nameserver.close()


def _tell(fact: Listening | Seen) -> None:
    print(msgspec.json.encode(fact).decode(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    uvloop.run(serve(asked.hosts, asked.bytes, asked.delay, asked.folder))


if __name__ == "__main__":
    main()
