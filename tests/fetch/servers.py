"""Small servers on loopback, each with one habit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Habit = Callable[[bytes, Reader, Writer], Awaitable[None]]
"""Gets the head of a request and answers it, or not."""


@dataclass
class Server:
    port: int
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", scheme: str = "http") -> str:
        return f"{scheme}://site.test:{self.port}{path}"


@contextlib.asynccontextmanager
async def serving(habit: Habit, ssl: object = None) -> AsyncIterator[Server]:
    """A server that keeps connections open and lets `habit` answer each request."""

    async def connected(reader: Reader, writer: Writer) -> None:
        server.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                server.heads.append(head)
                await habit(head, reader, writer)
        writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=ssl)  # type: ignore[arg-type]
    server = Server(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()


def reply(status: str = "200 OK", body: bytes = b"", *headers: str, length: bool = True) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answers(*replies: bytes) -> Habit:
    """Give `replies` in turn, the last one for ever."""
    waiting = list(replies)

    async def habit(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(waiting.pop(0) if len(waiting) > 1 else waiting[0])
        await writer.drain()

    return habit


def then_closes(data: bytes) -> Habit:
    async def habit(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return habit


async def says_nothing(head: bytes, reader: Reader, writer: Writer) -> None:
    await asyncio.sleep(30)
