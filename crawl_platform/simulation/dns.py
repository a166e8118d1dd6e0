"""A name server for the web's hosts, over UDP and TCP on one loopback port."""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from typing import Any, cast

from dnslib import QTYPE, RCODE, RR, A, DNSRecord
from dnslib.dns import DNSError

from crawl_platform.simulation.message import Address
from crawl_platform.simulation.ports import listen


class Zone:
    """Question → answer. `ttl` in seconds; `overrides` (name → addresses) go before the web's own records."""

    def __init__(
        self,
        hosts: Mapping[str, Address],
        ttl: int = 60,
        overrides: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._hosts = hosts
        self.ttl = ttl
        self.overrides = {name: tuple(addresses) for name, addresses in (overrides or {}).items()}

    def answer(self, query: bytes) -> bytes | None:
        """Wire format in, wire format out; None for what is not a query or a name that is kept silent about."""
        try:
            record = DNSRecord.parse(query)
        except DNSError:
            return None
        if record.header.qr or not record.questions:
            return None
        if self._is_mute(str(record.q.qname).rstrip(".").lower()):
            return None
        reply = record.reply()
        question = record.q
        name = str(question.qname).rstrip(".").lower()
        reply.header.rcode = self._rcode(name)
        if reply.header.rcode == RCODE.NOERROR and question.qtype in (QTYPE.A, QTYPE.ANY):
            for address in self.addresses(name):
                reply.add_answer(RR(question.qname, QTYPE.A, ttl=self.ttl, rdata=A(address)))
        return bytes(reply.pack())

    def addresses(self, name: str) -> tuple[str, ...]:
        if name in self.overrides:
            return self.overrides[name]
        host = self._hosts.get(name)
        return (host.address,) if host and host.address else ()

    def _is_mute(self, name: str) -> bool:
        host = self._hosts.get(name)
        return host is not None and host.fault == "mute" and name not in self.overrides

    def _rcode(self, name: str) -> int:
        if self.addresses(name):
            return int(RCODE.NOERROR)
        host = self._hosts.get(name)
        broken = host is not None and host.fault == "servfail"
        return int(RCODE.SERVFAIL if broken else RCODE.NXDOMAIN)


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        answer = self._zone.answer(data)
        if answer:
            self._transport.sendto(answer, addr)


class _Tcp(asyncio.Protocol):
    """RFC 1035 §4.2.2: every message after two bytes of its length."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 2 + (size := int.from_bytes(self._buffer[:2], "big")):
            query, self._buffer = self._buffer[2 : 2 + size], self._buffer[2 + size :]
            answer = self._zone.answer(query)
            if answer:
                self._transport.write(len(answer).to_bytes(2, "big") + answer)


class Nameserver:
    """`zone` on the wire; `address` is "ip:port" once started."""

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self.address = ""

    async def start(self, host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        udp, tcp = _pair(host)
        self.address = f"{host}:{udp.getsockname()[1]}"
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(self.zone), sock=udp)
        self._tcp = await loop.create_server(lambda: _Tcp(self.zone), sock=tcp)

    def close(self) -> None:
        self._udp.close()
        self._tcp.close()


def _pair(host: str, tries: int = 50) -> tuple[socket.socket, socket.socket]:
    """A UDP and a TCP socket on the same free port."""
    for _ in range(tries):
        port, listeners = listen((host,))
        udp = socket.socket(type=socket.SOCK_DGRAM)
        try:
            udp.bind((host, port))
        except OSError:
            udp.close()
            listeners[host].close()
            continue
        udp.setblocking(False)
        return udp, listeners[host]
    raise OSError("no port is free for both UDP and TCP")
