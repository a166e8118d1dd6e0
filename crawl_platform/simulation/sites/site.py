"""What every family of sites shares: keyed draws, links in their usual places, change processes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from crawl_platform.simulation import chance
from crawl_platform.simulation.change import Poisson, Stream
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.page import Comment, File, Link, Place, Position, Sketch
from crawl_platform.simulation.words import Vocabulary, person, vocabulary


@dataclass(frozen=True, slots=True)
class Ground:
    """What all sites of a web stand on. `pace` multiplies every rate of change."""

    seed: int
    started_at: float
    pace: float


class Site(ABC):
    """One host's content. `place` is the whole truth about a path; everything else is read off it.

    `outward` (by path) and `citations` are the links to other hosts; the plan of the web sets them once, before
    anything is drawn. `injected` are links that strangers leave in comments.
    """

    feed = False
    """Whether it has /feed.xml with the items of `news`."""

    def __init__(self, host: Host, ground: Ground) -> None:
        self.host = host
        self.ground = ground
        self.outward: dict[str, tuple[Link, ...]] = {}
        self.citations: tuple[Link, ...] = ()
        self.injected: tuple[Link, ...] = ()
        self._processes: dict[str, Poisson] = {}
        self._streams: dict[str, Stream] = {}

    @abstractmethod
    def place(self, path: str, t: float) -> Place | None:
        """What stands at `path` (with query) at `t`, None for 404."""

    @abstractmethod
    def paths(self, t: float) -> Iterator[str]:
        """The regular pages at `t`: finite even where the site is not, without traps."""

    def hubs(self) -> tuple[str, ...]:
        """Pages at most one click from the root that may carry links to other hosts."""
        return ("/",)

    def entries(self) -> tuple[str, ...]:
        """Lasting pages that other hosts link to."""
        return ("/",)

    def twins(self) -> Iterator[tuple[str, ...]]:
        """Paths of this host that say (nearly) the same."""
        return iter(())

    def news(self, t: float) -> tuple[tuple[str, str], ...]:
        """Path and title of the newest items, newest first."""
        return ()

    @cached_property
    def words(self) -> Vocabulary:
        return vocabulary(self.host.topic)

    def key(self, *parts: object) -> int:
        return chance.key(self.ground.seed, self.host.name, *parts)

    def title(self, *parts: object) -> str:
        return self.words.title(chance.rng(self.ground.seed, self.host.name, "title", *parts))

    def slug(self, *parts: object) -> str:
        return self.words.slug(chance.rng(self.ground.seed, self.host.name, "slug", *parts))

    def size(self, median: float, *parts: object) -> int:
        """Log-normal number of paragraphs, at most 80 (about 40 KB)."""
        rng = chance.rng(self.ground.seed, self.host.name, "size", *parts)
        return max(2, min(80, round(median * rng.lognormvariate(0.0, 0.5))))

    def process(self, path: str, rate: float) -> Poisson:
        """The page's own changes: its group's `rate` (per second) times a Gamma(3, 1/3) of its own, times pace."""
        process = self._processes.get(path)
        if process is None:
            if len(self._processes) >= _REMEMBERED:
                self._processes.clear()
            own = chance.rng(self.ground.seed, self.host.name, "rate", path).gammavariate(3.0, 1 / 3)
            key = self.key("changes", path)
            process = Poisson(key, rate * own * self.ground.pace, self.ground.started_at)
            self._processes[path] = process
        return process

    def stream(self, name: str, stock: int, rate: float) -> Stream:
        """Items of one kind that keep appearing at `rate` per second times pace."""
        stream = self._streams.get(name)
        if stream is None:
            arrivals = Poisson(self.key("stream", name), rate * self.ground.pace, self.ground.started_at)
            stream = self._streams[name] = Stream(arrivals, stock)
        return stream

    def link(self, path: str, anchor: str, position: Position = "main", rel: str = "") -> Link:
        """A link within this host."""
        return Link(self.host.url(path), anchor, position, rel)

    def menu(self) -> tuple[tuple[str, str], ...]:
        """Path and anchor of the navigation that every page carries."""
        return ()

    def sketch(
        self,
        path: str,
        title: str,
        paragraphs: int,
        links: tuple[Link, ...] = (),
        comments: tuple[Comment, ...] = (),
        facts: tuple[str, ...] = (),
        lead: str = "",
        text_key: str = "",
        canonical: str = "",
        meta_robots: str = "",
    ) -> Sketch:
        """A page of this host with its usual frame around `links`."""
        spoken = tuple(c.link for c in comments if c.link)
        framed = (*self._frame(), *links, *self._out(path), *spoken)
        key = text_key or f"{self.host.name}{path}"
        feed = self.host.url("/feed.xml") if self.feed else ""
        return Sketch(
            title, key, paragraphs, framed, comments, facts, lead, canonical, meta_robots, feed=feed
        )

    def page(
        self,
        path: str,
        group: str,
        rate: float,
        draw: Callable[[float], Sketch],
        streams: tuple[Stream, ...] = (),
        born: float = float("-inf"),
        trap: bool = False,
    ) -> Place:
        return Place(group, draw, self.process(path, rate), streams, born, trap=trap)

    def moved(self, group: str, status: int, target: str) -> Place:
        """A redirect to an absolute URL."""
        still = Poisson(0, 0.0, self.ground.started_at)
        return Place(group, lambda _: NOTHING, still, redirect=(status, target))

    def file(self, group: str, file: File) -> Place:
        """Something that is not a page, and never changes."""
        return Place(group, lambda _: NOTHING, Poisson(0, 0.0, self.ground.started_at), file=file)

    def _frame(self) -> tuple[Link, ...]:
        home = self.link("/", self.host.name, "header")
        menu = tuple(self.link(path, anchor, "nav") for path, anchor in self.menu())
        return (home, *menu, self.link("/about", "About", "footer"))

    def _out(self, path: str) -> tuple[Link, ...]:
        if path in self.outward:
            return self.outward[path]
        if not self.citations or path == "/about":
            return ()
        bits = self.key("cites", path)
        if bits % 3:
            return ()
        return (self.citations[(bits >> 8) % len(self.citations)],)

    def still(self, group: str, draw: Callable[[float], Sketch], trap: bool = False) -> Place:
        """A page that never changes."""
        return Place(group, draw, Poisson(0, 0.0, self.ground.started_at), trap=trap)

    def comments(self, path: str, most: int) -> tuple[Comment, ...]:
        """Up to `most` comments; on one page in six a stranger has left a link in one."""
        bits = self.key("comments", path)
        said = [Comment(person(chance.rng(bits, i))) for i in range(bits % (most + 1))]
        if self.injected and bits % 6 == 0:
            said.append(Comment("guest", self.injected[(bits >> 16) % len(self.injected)]))
        return tuple(said)

    def about(self) -> Place:
        return self.page(
            "/about",
            "/about",
            1e-5,
            lambda _: self.sketch("/about", f"About {self.host.name}", self.size(6, "about")),
        )


_REMEMBERED = 50_000
"""Processes kept per host; forgotten ones come back the same, so a site without end costs bounded memory."""

NOTHING = Sketch("", "", 0, ())
"""The sketch of a place that has no page, such as a redirect."""
