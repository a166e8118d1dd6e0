"""A client with no manners and no cleverness: one request on one socket, every byte as it came."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.message import Address
from crawl_platform.simulation.running import Ready
from crawl_platform.simulation.verdict import read_log


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@contextlib.asynccontextmanager
async def connect(
    ready: Ready, host: Address, secure: bool | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    secure = host.scheme == "https" if secure is None else secure
    context = ssl.create_default_context(cafile=ready.ca_file) if secure else None
    reader, writer = await asyncio.open_connection(
        host.address,
        ready.https_port if secure else ready.http_port,
        ssl=context,
        server_hostname=host.name if secure else None,
    )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def head(host: str, path: str, method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def read_answer(reader: asyncio.StreamReader, method: str = "GET") -> Answer:
    """One response; raises `IncompleteReadError` if the body is cut short."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:]) if n}
    answer = Answer(int(lines[0].split()[1]), headers)
    if method != "HEAD" and answer.status != 304:
        answer.body = await reader.readexactly(int(headers.get("content-length", "0")))
    return answer


async def get(ready: Ready, host: Address, url: str, method: str = "GET", **headers: str) -> Answer:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    async with connect(ready, host) as (reader, writer):
        writer.write(head(host.name, path, method, **headers))
        return await read_answer(reader, method)


async def logged(ready: Ready, wanted: Callable[[Entry], bool], within: float = 3.0) -> Entry:
    """The first entry that is `wanted`, as soon as the log shows it."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        for entry in read_log(Path(ready.log)):
            if wanted(entry):
                return entry
        await asyncio.sleep(0.02)
    raise AssertionError("the request was not logged")
