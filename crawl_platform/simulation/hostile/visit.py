"""One request of a crawler at a hostile host, and the bytes it gets: whole, broken, or without end."""

import asyncio
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SUFFIX = ".hostile.test"
DECOYS = ("127.81.0.1", "127.81.0.2")
"""Addresses that stand for a private network: they listen, and nobody may ever connect."""
Headers = Iterable[tuple[str, str]]


@dataclass(slots=True)
class Visit:
    """`path` with query. `host`: the full name; `http`: the port that all plain hosts share.

    Every method that sends raises `ConnectionError` once the crawler has gone.
    """

    host: str
    http: int
    path: str
    headers: Mapping[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    memory: dict[str, int]
    """What the host remembers from visit to visit."""
    earlier: int = 0
    """Requests that the connection has carried before this one."""
    status: int | None = None
    kept: bool = field(default=False)
    """Whether the connection may carry another request."""

    async def send(self, data: bytes) -> None:
        """Hand `data` over to the kernel, and let others have their turn: who reads fast never makes us wait."""
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)

    async def head(self, status: int = 200, headers: Headers = (), body: bytes = b"") -> None:
        """A status line and headers, with the empty line after them and whatever follows in the same write."""
        self.status = status
        lines = [f"HTTP/1.1 {status} Fine", *(f"{name}: {value}" for name, value in headers)]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def answer(
        self, body: bytes, status: int = 200, headers: Headers = (), kind: str = "text/html; charset=utf-8"
    ) -> None:
        """A correct response; the connection stays."""
        fixed = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        await self.head(status, [*fixed, *headers], body)
        self.kept = True

    async def redirect(self, location: str, status: int = 302, headers: Headers = ()) -> None:
        await self.answer(b"", status, [("Location", location), *headers])

    async def gone(self) -> None:
        """Say nothing until the crawler leaves."""
        while await self.reader.read(65_536):
            pass
        raise ConnectionResetError("the crawler has gone")

    async def pour(self, data: bytes) -> None:
        """Send `data` again and again, as fast as the wire takes it, until the crawler leaves."""
        while True:
            await self.send(data)

    async def drip(self, data: bytes, every: float = 0.1) -> None:
        """One byte each `every` seconds, again and again, until the crawler leaves."""
        while True:
            for byte in data:
                await self.send(bytes([byte]))
                await asyncio.sleep(every)

    def reset(self) -> None:
        """End the connection with RST instead of FIN."""
        reset(self.writer)

    def url(self, path: str, name: str = "") -> str:
        """Absolute URL on this host, or on the hostile host `name`."""
        return f"http://{name + SUFFIX if name else self.host}:{self.http}{path}"

    def count(self, what: str) -> int:
        """How often the host has counted `what` before."""
        number = self.memory.get(what, 0)
        self.memory[what] = number + 1
        return number


def reset(writer: asyncio.StreamWriter) -> None:
    """Linger on with no time: the kernel sends RST."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def page(title: str, body: str = "", head: str = "") -> bytes:
    """A small page of correct HTML."""
    return (
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()
    )


async def plain_page(visit: Visit) -> None:
    await visit.answer(page(visit.path, f"<p>The page {visit.path} of {visit.host}.</p>"))


async def allow_all(visit: Visit) -> None:
    await visit.answer(b"User-agent: *\nAllow: /\n", kind="text/plain")
