"""What a page is before it is markup: its links, its text's identity, and how it changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from crawl_platform.simulation.change import Poisson, Stream

Position = Literal["header", "nav", "main", "comments", "aside", "footer"]


@dataclass(frozen=True, slots=True)
class Link:
    """`url` is absolute; `rel` as written, lower case."""

    url: str
    anchor: str
    position: Position = "main"
    rel: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    author: str
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Sketch:
    """A page at one version.

    `text_key` names its text: two pages with the same key and version say the same. `facts`: labels of a table
    whose values change with each version. `lead`: a first paragraph of its own. `form`: "login" shows one.
    `feed`: URL of the feed that the head names.
    """

    title: str
    text_key: str
    paragraphs: int
    links: tuple[Link, ...]
    comments: tuple[Comment, ...] = ()
    facts: tuple[str, ...] = ()
    lead: str = ""
    canonical: str = ""
    meta_robots: str = ""
    form: Literal["", "login"] = ""
    feed: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """Anything that is not a drawn page: bytes as they are sent."""

    content_type: str
    read: Callable[[], bytes]
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at one path: its group, the processes that change it, and how to draw it at a time.

    `redirect` = (status, absolute target) or `file` instead of a page. `trap`: one of endlessly many such URLs.
    """

    group: str
    draw: Callable[[float], Sketch]
    process: Poisson
    streams: tuple[Stream, ...] = field(default=())
    born: float = float("-inf")
    redirect: tuple[int, str] | None = None
    trap: bool = False
    file: File | None = None

    @property
    def rate(self) -> float:
        """Meaningful changes per second."""
        return self.process.rate + sum(s.arrivals.rate for s in self.streams)

    def changes(self, t0: float, t1: float) -> list[float]:
        """Times of meaningful changes in (t0, t1]; its birth is not one."""
        t0 = max(t0, self.born)
        times = self.process.between(t0, t1)
        for stream in self.streams:
            times += stream.arrivals.between(t0, t1)
        return sorted(times)

    def version(self, t: float) -> int:
        """Number of meaningful changes up to `t`."""
        return self.process.count(t) + sum(s.arrivals.count(t) for s in self.streams)

    def modified(self, t: float) -> float:
        """When the version at `t` came about."""
        return max(self.born, self.process.last(t), *(s.arrivals.last(t) for s in self.streams))


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it truly is at one time."""

    url: str
    host: str
    group: str
    title: str
    version: int
    modified: float
    links: tuple[Link, ...]
    text: str
    """Main text: lead, paragraphs and facts."""
    canonical: str = ""
    meta_robots: str = ""
    redirect: tuple[int, str] | None = None
    trap: bool = False
