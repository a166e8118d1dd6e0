"""Scripted answers through the real client, over a loopback socket: whatever comes, a fetch ends in one outcome."""

import asyncio
from collections.abc import Iterable

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.outcome import DISPOSITIONS, Outcome
from crawl_platform.settings import Fetch

CAP = 10_000
SETTINGS = Fetch(
    connect_timeout=2.0,
    first_byte_timeout=2.0,
    head_timeout=2.0,
    read_timeout=2.0,
    total_timeout=4.0,
    keepalive=0.001,
    header_cap=8_192,
    allow_networks=("127.0.0.0/8",),
)
LONGEST = 20.0
"""Seconds after which a fetch has not ended at all; its own deadlines come long before."""


class Script:
    """A server that answers each connection with the bytes that are next, and closes it."""

    def __init__(self) -> None:
        self.answer = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has given up: its outcome tells
        finally:
            writer.close()


async def ask(answers: Iterable[bytes]) -> list[tuple[bytes, str]]:
    """Fetch each of `answers`; returns those that broke a promise, with what it was."""
    script = Script()
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    client = HttpClient(SETTINGS, "fuzzer", SystemClock())
    broken: list[tuple[bytes, str]] = []
    try:
        for answer in answers:
            script.answer = answer
            writes: list[None] = []
            try:
                async with asyncio.timeout(LONGEST):
                    response = await client.get(
                        f"http://site.test:{port}/x", "site.test", "127.0.0.1",
                        on_write=lambda writes=writes: writes.append(None), headers={}, cap=CAP,
                    )  # fmt: skip
            except Exception as error:
                broken.append((answer, f"{type(error).__name__}: {error}"[:300]))
                continue
            if wrong := promise_broken(response, len(writes)):
                broken.append((answer, wrong))
    finally:
        await client.close()
        server.close()
    return broken


def promise_broken(response: Response, writes: int) -> str:
    """What an ended fetch has done that none may; empty if all is well."""
    if response.outcome not in DISPOSITIONS or response.outcome is Outcome.INTERNAL_ERROR:
        return f"it ended as {response.outcome}"
    if writes > 1:
        return f"the request was written {writes} times"
    if len(response.body) > CAP:
        return f"{len(response.body)} bytes of a body that is capped at {CAP}"
    try:
        "".join((*response.headers, *response.headers.values(), response.detail)).encode()
    except UnicodeEncodeError:
        return "a header that no row can hold"
    return ""
