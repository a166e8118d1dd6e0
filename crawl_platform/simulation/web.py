"""The synthetic web as an object that knows the truth about itself.

The same (seed, started_at, pace, scale, ports) gives the same web in every process, at every time.
Times are UTC seconds, rates are per second.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from urllib.parse import urlsplit

from crawl_platform.simulation import answer, chance, markup, noise, plan, text
from crawl_platform.simulation.host import Host, Ports
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.page import Link, Page, Place
from crawl_platform.simulation.sites.mirror import Mirror
from crawl_platform.simulation.sites.site import Ground, Site

_CACHED_BYTES = 64_000_000
"""Most bytes of drawn pages kept; an average page has 12 KB, so the default web fits."""


class SyntheticWeb:
    """`pace` multiplies every rate of change, `scale` the size (1.0: about 75 hosts, a few thousand pages)."""

    def __init__(
        self,
        seed: int,
        started_at: float,
        pace: float = 1.0,
        scale: float = 1.0,
        http_port: int = 80,
        https_port: int = 443,
    ) -> None:
        self.seed = seed
        self.started_at = started_at
        self.pace = pace
        self.scale = scale
        ground = Ground(seed, started_at, pace)
        self.sites: dict[str, Site] = plan.build(seed, ground, scale, Ports(http_port, https_port))
        self._drawn: OrderedDict[tuple[str, str, int], markup.Template] = OrderedDict()
        self._drawn_bytes = 0
        self._answers = answer.Answers(self)

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        return {name: site.host for name, site in self.sites.items()}

    def seeds(self) -> list[str]:
        """Root URLs of the trusted hosts."""
        return [h.root for h in self.hosts.values() if h.role == "trusted"]

    def page(self, url: str, t: float | None = None) -> Page | None:
        """The page as it is at `t` (the start if not given); None if there is none."""
        t = self.started_at if t is None else t
        site, path = self.locate(url)
        place = site.place(path, t) if site else None
        if site is None or place is None:
            return None
        sketch = place.draw(t)
        version = place.version(t)
        return Page(
            url=site.host.url(path),
            host=site.host.name,
            group=site.host.name + place.group,
            title=sketch.title,
            version=version,
            modified=place.modified(t),
            links=sketch.links,
            text=text.main_text(self.seed, sketch, version, site.words),
            canonical=sketch.canonical,
            meta_robots=sketch.meta_robots,
            redirect=place.redirect,
            trap=place.trap,
        )

    def version(self, url: str, t: float) -> int:
        """Number of meaningful changes since the start."""
        return self._place(url, t).version(t)

    def changes(self, url: str, t0: float, t1: float) -> list[float]:
        """Times of the meaningful changes in (t0, t1]."""
        return self._place(url, t1).changes(t0, t1)

    def rate(self, url: str, t: float | None = None) -> float:
        """True λ of the page, meaningful changes per second."""
        return self._place(url, self.started_at if t is None else t).rate

    def group(self, url: str, t: float | None = None) -> str:
        """Host and path template of pages that behave alike."""
        site, _ = self.locate(url)
        place = self._place(url, self.started_at if t is None else t)
        return (site.host.name if site else "") + place.group

    def links(self, url: str, t: float) -> tuple[Link, ...]:
        """Links that the page shows at `t`, without session ids."""
        return self._place(url, t).draw(t).links

    def host_links(self) -> dict[str, frozenset[str]]:
        """The true host graph: for each host the other hosts that its pages link to."""
        graph = {}
        for name, site in self.sites.items():
            targets = {urlsplit(link.url).hostname or "" for link in _outgoing(site)}
            graph[name] = frozenset(targets - {name})
        return graph

    def allowed(self, url: str, agent: str = "*") -> bool:
        """Whether the host's robots rules let `agent` fetch the URL; False for hosts that never answer."""
        site, path = self.locate(url)
        return site is not None and site.host.reachable and site.host.robots.allows(path, agent)

    def urls(self, host: str, t: float | None = None) -> list[str]:
        """Regular pages of a host at `t`: without traps, and finite even where the host is not."""
        site = self.sites[host]
        return [site.host.url(p) for p in site.paths(self.started_at if t is None else t)]

    def duplicates(self) -> list[frozenset[str]]:
        """Clusters of URLs that say (nearly) the same: mirrors and twins within a host."""
        clusters: list[set[str]] = []
        for site in self.sites.values():
            if isinstance(site, Mirror):
                original = site.original.host
                clusters += [{site.host.url(p), original.url(p)} for p in site.paths(self.started_at)]
            clusters += [{site.host.url(p) for p in twins} for twins in site.twins()]
        return _merged(clusters)

    def reply(self, request: Request, now: float) -> Reply:
        return self._answers.reply(request, now)

    def body(self, url: str, t: float, serial: int, session: str = "") -> bytes:
        """HTML of the page at `t` with the noise of response number `serial`, in the host's charset."""
        site, path = self.locate(url)
        if site is None:
            raise KeyError(url)
        drawn = self.drawn(site, path, self._place(url, t), t)
        return markup.fill(drawn, noise.draw(self.seed, t, serial, session))

    def drawn(self, site: Site, path: str, place: Place, t: float) -> markup.Template:
        """Template of the page's version at `t`, from the cache if it was drawn before."""
        entry = (site.host.name, path, place.version(t))
        template = self._drawn.get(entry)
        if template is None:
            template = markup.template(self.seed, site.host, path, place.draw(t), entry[2], site.words)
            self._remember(entry, template)
        else:
            self._drawn.move_to_end(entry)
        return template

    def popularity(self, url: str) -> float:
        """How much the page is in demand: its host's popularity times a log-normal of its own."""
        site, path = self.locate(url)
        if site is None:
            return 0.0
        return site.host.popularity * chance.rng(
            self.seed, "popularity", url.split("://")[0], path
        ).lognormvariate(0, 1)

    def locate(self, url: str) -> tuple[Site | None, str]:
        """The site and the path with query, session id removed; ports and schemes are not looked at."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        site = self.sites.get(parts.hostname or "")
        return site, answer.without_session(path)[0] if site and site.host.sessions else path

    def _place(self, url: str, t: float) -> Place:
        site, path = self.locate(url)
        place = site.place(path, t) if site else None
        if place is None:
            raise KeyError(f"no page at {url} at {t}")
        return place

    def _remember(self, entry: tuple[str, str, int], template: markup.Template) -> None:
        self._drawn[entry] = template
        self._drawn_bytes += sum(map(len, template))
        while self._drawn_bytes > _CACHED_BYTES:
            _, old = self._drawn.popitem(last=False)
            self._drawn_bytes -= sum(map(len, old))


def _outgoing(site: Site) -> Iterator[Link]:
    if isinstance(site, Mirror):
        yield from _outgoing(site.original)
        return
    for links in site.outward.values():
        yield from links
    yield from site.injected
    yield from (Link(a.host.root, "") for a in getattr(site, "accomplices", ()))


def _merged(clusters: list[set[str]]) -> list[frozenset[str]]:
    """Clusters joined where they share a member."""
    home: dict[str, set[str]] = {}
    for cluster in clusters:
        joined = set(cluster).union(*(home[u] for u in cluster if u in home))
        home.update(dict.fromkeys(joined, joined))
    return sorted({frozenset(c) for c in home.values()}, key=sorted)
