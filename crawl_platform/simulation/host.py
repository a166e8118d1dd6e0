"""A host of the synthetic web: its character, and what it truly is."""

from dataclasses import dataclass, field
from typing import Literal

from crawl_platform.simulation.robots import Robots

Role = Literal["trusted", "honest-horizon", "weak-horizon", "remote-horizon", "gone-horizon", "farm"]
"""`trusted`: on the operator's seed list. `honest-horizon`: several independent trusted hosts link to it.
`weak-horizon`: one does. `remote-horizon`: only horizon hosts do. `gone-horizon`: linked, but no longer there.
`farm`: spam that links to itself."""

Fault = Literal[
    "", "slow", "drip", "flaky", "limited", "outage", "stuck", "dead", "unresolvable", "servfail", "mute"
]  # fmt: skip
"""`stuck`: some requests are read and never answered. `dead`: resolves and refuses. `unresolvable`, `servfail`,
`mute`: the name server says there is none, fails, or says nothing."""

UNREACHABLE = ("dead", "unresolvable", "servfail", "mute")
NAMELESS = ("unresolvable", "servfail", "mute")

Validators = Literal["", "etag", "last-modified", "both", "noisy"]
"""`noisy`: an ETag that differs on every response, so a conditional request never helps."""


@dataclass(frozen=True, slots=True)
class Ports:
    http: int = 80
    https: int = 443


@dataclass(frozen=True, slots=True)
class Host:
    """`pages`: size of its regular part. `popularity`: log-normal, median 1. `address` is "" if it has none.

    `fault`: how it misbehaves ("" for not). `encoding`: content coding it offers. `charset`: of its HTML.
    `relative`: links at home are relative. `sessions`: links carry session ids. `soft404`: missing pages come with
    status 200.
    """

    name: str
    kind: str
    role: Role
    address: str
    ports: Ports
    pages: int
    popularity: float
    topic: str
    scheme: Literal["http", "https"] = "http"
    robots: Robots = field(default_factory=Robots)
    fault: Fault = ""
    validators: Validators = ""
    encoding: Literal["", "gzip", "br"] = ""
    charset: str = "utf-8"
    relative: bool = False
    sessions: bool = False
    soft404: bool = False

    @property
    def spam(self) -> bool:
        return self.role == "farm"

    @property
    def crawl_delay(self) -> float | None:
        """Seconds that robots.txt asks every crawler to wait between requests, if it does."""
        return self.robots.group("*").crawl_delay

    @property
    def reachable(self) -> bool:
        """Whether it resolves and accepts connections."""
        return self.fault not in UNREACHABLE

    @property
    def origin(self) -> str:
        port = self.ports.https if self.scheme == "https" else self.ports.http
        default = 443 if self.scheme == "https" else 80
        return f"{self.scheme}://{self.name}" + ("" if port == default else f":{port}")

    @property
    def root(self) -> str:
        return self.origin + "/"

    def url(self, path: str) -> str:
        """Absolute URL of a path with query."""
        return self.origin + path
