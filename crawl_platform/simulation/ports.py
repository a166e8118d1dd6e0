"""Listening sockets on loopback: one free port, the same on many addresses."""

import ipaddress
import socket
from collections.abc import Iterable

from crawl_platform.errors import ConfigurationError

_TRIES = 50


def listen(addresses: Iterable[str], port: int = 0) -> tuple[int, dict[str, socket.socket]]:
    """The port and one TCP listener per address; `port` 0 looks for one that is free on all of them.

    Raises `ConfigurationError` for an address that is not loopback, or if no port could be had.
    """
    wanted = list(addresses)
    for address in wanted:
        if not ipaddress.ip_address(address).is_loopback:
            raise ConfigurationError(f"the simulation binds loopback addresses only, not {address}")
    for _ in range(_TRIES):
        sockets: dict[str, socket.socket] = {}
        try:
            chosen = port or _free()
            for address in wanted:
                sockets[address] = _bound(address, chosen)
            return chosen, sockets
        except OSError:
            for s in sockets.values():
                s.close()
            if port:
                break
    raise ConfigurationError(f"no port is free on all addresses (asked for {port or 'any'})")


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _bound(address: str, port: int) -> socket.socket:
    s = socket.socket()
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        s.listen(512)
    except OSError:
        s.close()
        raise
    s.setblocking(False)
    return s
