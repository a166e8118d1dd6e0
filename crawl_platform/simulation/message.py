"""One request and one reply, and what the server needs from a web to give it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` have lower-case names. `host` is without port. `number` counts the server's requests."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    secure: bool
    number: int

    @property
    def agent(self) -> str:
        return self.headers.get("user-agent", "")


@dataclass(slots=True)
class Reply:
    """A response and how it goes wrong.

    `delay`: seconds before the head. `speed`: body bytes per second, 0 for at once. `cut`: body bytes after which
    the connection ends as `ending` says (None: not at all); a cut of -1 comes before the head.
    """

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    delay: float = 0.0
    speed: float = 0.0
    cut: int | None = None
    ending: Literal["close", "reset"] = "close"


class Address(Protocol):
    """What the server and the DNS need to know of a host."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def scheme(self) -> Literal["http", "https"]: ...
    @property
    def fault(self) -> str: ...


class Served(Protocol):
    """A web that can be put on the wire."""

    @property
    def hosts(self) -> Mapping[str, Address]: ...

    def reply(self, request: Request, now: float) -> Reply:
        """Answer at `now` (UTC seconds)."""
        ...
