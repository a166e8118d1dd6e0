"""One request as its connection sees it: what the client asks for, and what becomes of it on the wire."""

from collections.abc import Callable
from dataclasses import dataclass, field

from crawl_platform.errors import SiteError
from crawl_platform.fetch.oddities import Oddity


@dataclass(slots=True)
class Attempt:
    """`address`: the only one that may be contacted. Times are of the loop's clock, durations in seconds."""

    address: str
    on_write: Callable[[], None]
    cap: int = 0
    """Most bytes of the body."""
    written_at: float = 0.0
    first_byte_at: float = 0.0
    connect: float | None = None
    """TCP and TLS; None on a kept connection."""
    via: tuple[str, int] | None = None
    """Address and port of the proxy to go through; None: straight."""
    kept: bool = False
    stale: bool = False
    """It goes out on a connection that has been idle for long enough to be closed at the other end."""
    head: bytes = b""
    """The raw head (and what came with it), kept until it has been looked at."""
    failure: SiteError | None = None
    """Why we have cut the answer off: goes before whatever the HTTP library says about it."""
    reset: bool = False
    done: bool = False
    oddities: set[Oddity] = field(default_factory=set)
