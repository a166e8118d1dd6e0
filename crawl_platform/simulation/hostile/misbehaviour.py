"""One row of the table: a host, what it does to a crawler, and how a fetch of it has to end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from crawl_platform.simulation.hostile.names import Answering, own_address
from crawl_platform.simulation.hostile.visit import Visit, allow_all, plain_page

Act = Callable[[Visit], Awaitable[None]]

Door = Literal["open", "refuses", "full", "resets", "drops", "plaintext", "silent"]
"""What happens before the first request: nobody listens; SYNs stay unanswered; the connection is reset at once; it
ends at the first byte; plain text answers a TLS handshake; nothing is ever said."""

Tls = Literal["", "good", "expired", "early", "foreign", "elsewhere", "old", "weak"]
"""Certificate and protocol: none; fine; run out; not valid yet; of an unknown authority; of another host; TLS 1.1;
an RSA key of 1,024 bits."""


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """`act` answers whatever is asked for but robots.txt, which `robots` answers; both may do nothing of the kind.

    `outcomes`: how each fetch of `watched` (a path; "": any) may end: names of `fetch.outcome`. `seen`: the one of
    them that has to come. `truncated`, `odd`: a fetch of it is flagged as cut, or with this oddity. `most`: requests
    that a whole crawl of the host may take where a URL gets two attempts and a host 36 pages. `seed`: the URL that is
    seeded instead of the host's root, with {http} for the port.
    """

    family: str
    name: str
    does: str
    outcomes: tuple[str, ...]
    act: Act = plain_page
    robots: Act = allow_all
    names: Answering = own_address
    door: Door = "open"
    tls: Tls = ""
    watched: str = "/"
    seen: str = ""
    truncated: bool = False
    odd: str = ""
    most: int = 12
    seed: str = ""
