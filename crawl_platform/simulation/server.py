"""A web on the wire: every host at its own loopback address, all on one HTTP and one HTTPS port."""

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from crawl_platform.clock import Clock
from crawl_platform.simulation.connection import Connection
from crawl_platform.simulation.log import RequestLog
from crawl_platform.simulation.message import Address, Served
from crawl_platform.simulation.ports import listen
from crawl_platform.simulation.tls import Authority, write_ca


class WebServer:
    """Binds first (`bind`: the ports go into the web's URLs), then serves (`start`)."""

    def __init__(self, clock: Clock, log: Path, ca_file: Path) -> None:
        self._clock = clock
        self._log = RequestLog(log)
        self._ca_file = ca_file
        self._number = itertools.count(1)
        self._servers: list[asyncio.Server] = []
        self._open: set[Connection] = set()
        self.http_port = self.https_port = 0

    def bind(self, hosts: Mapping[str, Address], http_port: int = 0, https_port: int = 0) -> None:
        """Take the ports on the address of every host that accepts connections."""
        addresses = sorted({h.address for h in hosts.values() if h.address and h.fault != "dead"})
        self.http_port, self._http = listen(addresses, http_port)
        self.https_port, self._https = listen(addresses, https_port)

    async def start(self, web: Served) -> None:
        authority = Authority(self._clock.now())
        write_ca(authority, self._ca_file)
        for address, sock in self._http.items():
            await self._serve(web, sock, None)
            names = [h.name for h in web.hosts.values() if h.address == address]
            await self._serve(web, self._https[address], authority.context(names))

    def close(self) -> None:
        """Stop at once; requests under way are logged as disconnected."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._open):
            connection.abort()
        self._log.close()

    async def _serve(self, web: Served, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._factory(web, context is not None), sock=sock, ssl=context)
        self._servers.append(server)

    def _factory(self, web: Served, secure: bool) -> Callable[[], Connection]:
        def connect() -> Connection:
            return Connection(
                web.reply, self._log.write, self._clock, self._number.__next__, secure, self._open
            )

        return connect
