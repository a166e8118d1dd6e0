"""What a page costs without a crawler: aiohttp, and the links of each page by Lexbor or the whole digest.

    python -m bench.throughput.bare --hosts N --port P --ca FILE --delay S [--digest] [--tuned]

Asks every host in turn for its pages 0, 1, 2 …, `delay` seconds after the answer before. No robots.txt, no seen set,
no rows. `--tuned`: uvloop and isal's inflate. Runs until SIGTERM.
"""

import argparse
import asyncio
import heapq
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

from bench.throughput.pages import host_address, host_name, host_number, path_of
from crawl_platform.digest import digest

SLOTS = 128


class Known(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = host_address(host_number(host))
        return [ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        return None


def links(body: bytes, _: str) -> int:
    return len([node.attributes.get("href") for node in LexborHTMLParser(body).css("a[href]")])


def digested(body: bytes, url: str) -> int:
    return len(digest(body, url, "text/html; charset=utf-8").links)


@dataclass
class Client:
    hosts: int
    port: int
    delay: float
    read: Callable[[bytes, str], int]
    links: int = 0
    _turns: list[tuple[float, int, int]] = field(default_factory=list)

    async def run(self, session: aiohttp.ClientSession) -> None:
        now = asyncio.get_running_loop().time()
        self._turns = [(now, host, 0) for host in range(self.hosts)]
        await asyncio.gather(*[self._slot(session) for _ in range(SLOTS)])

    async def _slot(self, session: aiohttp.ClientSession) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._turns or (wait := self._turns[0][0] - loop.time()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait if self._turns else 0.01)
            _, host, page = heapq.heappop(self._turns)
            url = f"https://{host_name(host)}:{self.port}{path_of(page)}"
            async with session.get(url) as reply:
                body = await reply.read()
            heapq.heappush(self._turns, (loop.time() + self.delay, host, page + 1))
            self.links += self.read(body, url)


async def crawl(client: Client, ca_file: str) -> None:
    context = ssl.create_default_context(cafile=ca_file)
    connector = aiohttp.TCPConnector(
        resolver=Known(), limit=0, keepalive_timeout=75.0, ssl=context, use_dns_cache=False
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with aiohttp.ClientSession(connector=connector) as session:
        work = asyncio.ensure_future(client.run(session))
        await asyncio.wait([work, asyncio.ensure_future(stopped.wait())], return_when="FIRST_COMPLETED")
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    asked = parser.parse_args()
    if asked.tuned:
        aiohttp.set_zlib_backend(isal_zlib)
    client = Client(asked.hosts, asked.port, asked.delay, digested if asked.digest else links)
    run = uvloop.run if asked.tuned else asyncio.run
    run(crawl(client, asked.ca))


if __name__ == "__main__":
    main()
