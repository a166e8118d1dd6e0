"""A tunnel through an HTTP proxy (RFC 9110 §9.3.6, CONNECT) to an address that was looked up and checked here.

The proxy is told the address and never the name, so it has nothing to look up, and what must not be contacted isn't.
TLS is spoken with the site itself, through the tunnel.
"""

import asyncio
import socket

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome

HEAD_CAP = 16_384
UNREACHED = frozenset({502, 503, 504})
"""Answers of a proxy that is well and could not reach the site."""


class ProxyFailedError(SiteError):
    """The proxy is away, refuses us or does not speak HTTP: that is nothing about the site."""


async def tunnel(sock: socket.socket, address: str, port: int, seconds: float) -> None:
    """Have the proxy at the other end of `sock` connect to `address`. Raises `ProxyFailedError` if it does not, and
    a plain `SiteError` if the site could not be reached by it."""
    loop = asyncio.get_running_loop()
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_sendall(sock, f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
            head = await _head(sock)
    except TimeoutError:
        raise ProxyFailedError(Outcome.CONNECT_TIMEOUT, f"proxy: no answer within {seconds:g} s") from None
    except OSError as error:
        raise ProxyFailedError(Outcome.CONNECT_REFUSED, f"proxy: {error}"[:300]) from error
    words = head.split(b" ", 2)
    status = int(words[1][:3]) if len(words) > 1 and words[1][:3].isdigit() else 0
    whole = head.startswith(b"HTTP/1.") and head.endswith(b"\r\n\r\n")
    if whole and status in UNREACHED:
        raise SiteError(Outcome.CONNECT_REFUSED, f"through the proxy, which answered {status}")
    if status != 200 or not whole:
        raise ProxyFailedError(Outcome.CONNECT_REFUSED, f"proxy answered {status if whole else 'no HTTP'}")


async def _head(sock: socket.socket) -> bytes:
    """The answer's head, byte by byte at its end, so that nothing of what follows in the tunnel is swallowed."""
    loop = asyncio.get_running_loop()
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < HEAD_CAP:
        byte = await loop.sock_recv(sock, 1)
        if not byte:
            break
        head += byte
    return head
