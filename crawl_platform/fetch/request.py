"""A request as bytes: where a URL leads, and the head that asks for it (RFC 9112 §3). Sans-IO."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[!-Z^-~]+?)(?::([0-9]{1,5}))?([/?][!-~]*)?")
_NO_HOST = re.compile(r"[/?#@:]")
_BREAKS = re.compile(r"[\r\n\0]")
PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """`name`: the host as a name server or a certificate has it: an IPv6 address has no brackets. `host`: as the Host
    header has it, with a port that is not the scheme's own. `path`: with the query."""

    secure: bool
    name: str
    port: int
    host: str
    path: str


def target_of(url: str) -> Target:
    """Raises `ValueError` for a URL that no request can be made of (canonical ones are all well)."""
    match = _URL.fullmatch(url)
    if match is None or "#" in url:
        raise ValueError(f"no URL to ask for: {url[:100]!r}")
    scheme, host, port, rest = match.groups()
    name = host[1:-1] if host.startswith("[") else host.rstrip(".")
    number = int(port) if port else PORTS[scheme]
    if not name or (host[0] != "[" and _NO_HOST.search(host)) or not 0 < number < 65_536:
        raise ValueError(f"no host to ask: {url[:100]!r}")
    shown = f"[{name}]" if host[0] == "[" else name
    path = f"/{rest}" if rest and rest[0] == "?" else rest or "/"
    return Target(
        scheme == "https", name, number, shown if number == PORTS[scheme] else f"{shown}:{number}", path
    )


def head_of(target: Target, headers: Mapping[str, str]) -> bytes:
    """The head of a GET. Raises `ValueError` for a header that would end its line."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any(map(_BREAKS.search, lines)):
        raise ValueError("a header of the request holds a line break")
    return "\r\n".join([f"GET {target.path} HTTP/1.1", f"Host: {target.host}", *lines, "", ""]).encode()
