"""Small sites of HTML whose pages and links are known: what a crawl of them must bring."""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from crawl_platform.simulation.running import Ready, launch


@dataclass(frozen=True)
class Site:
    """`edges`: (page, page or URL it links to); a page is its path without the slash, "" is the root."""

    host: str
    folder: Path
    edges: frozenset[tuple[str, str]]

    @property
    def option(self) -> str:
        """The argument of `crawl_platform.simulation files`."""
        return f"{self.host}={self.folder}"

    @property
    def pages(self) -> set[str]:
        return {source for source, _ in self.edges}


def free_port() -> int:
    """A port for a web whose pages name each other's hosts: it has to be known before they are written."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def write_site(root: Path, host: str, pages: int, *, hidden: int = 0, abroad: Sequence[str] = ()) -> Site:
    """`pages` pages: a tree of two branches with cross links; `abroad` are URLs elsewhere, spread over them.

    `hidden` more pages (x1.html, x2.html …) are linked from nowhere on this host.
    """
    folder = root / host
    folder.mkdir(parents=True)
    rng = random.Random(host)
    names = ["", *(f"p{n}.html" for n in range(1, pages))]
    links: dict[str, set[str]] = {}
    for number, name in enumerate(names):
        children = [n for n in (2 * number + 1, 2 * number + 2) if n < pages]
        links[name] = {names[n] for n in [*children, rng.randrange(pages), rng.randrange(pages)]}
    for number, url in enumerate(abroad):
        links[names[number % pages]].add(url)
    links |= {f"x{n}.html": {""} for n in range(1, hidden + 1)}
    for name, targets in links.items():
        (folder / (name or "index.html")).write_text(_page(f"{host}/{name}", sorted(targets), rng))
    return Site(host, folder, frozenset((name, target) for name in links for target in links[name]))


def _page(title: str, targets: list[str], rng: random.Random) -> str:
    links = " ".join(f'<a href="{_href(t)}">to {t or "the start"}</a>' for t in targets)
    words = " ".join(f"word{rng.randrange(5000)}" for _ in range(80))
    return (
        f"<!doctype html><html><head><title>{title}</title></head>"
        f"<body><nav>{links}</nav><main><h1>{title}</h1><p>{words}.</p></main></body></html>"
    )


def _href(target: str) -> str:
    return target if "://" in target else f"/{target}"


def page_of(url: str) -> str:
    """A URL as a page of its site: path and query without the leading slash."""
    parts = urlsplit(url)
    return parts.path.lstrip("/") + (f"?{parts.query}" if parts.query else "")


@dataclass(frozen=True)
class Plan:
    """A site to be written and served. `abroad`: (host, page) that its pages link to."""

    host: str
    pages: int
    hidden: int = 0
    abroad: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class World:
    """A running web of planned sites, by host."""

    web: Ready
    sites: dict[str, Site]

    def url(self, host: str, page: str = "") -> str:
        return f"http://{self.sites[host].host}:{self.web.http_port}/{page}"


@contextmanager
def serve(folder: Path, *plans: Plan) -> Iterator[World]:
    """Write the planned sites to `folder` and serve them, with the request log beside them."""
    port = free_port()
    sites = {}
    for plan in plans:
        abroad = [f"http://{host}:{port}/{page}" for host, page in plan.abroad]
        sites[plan.host] = write_site(folder, plan.host, plan.pages, hidden=plan.hidden, abroad=abroad)
    options = [site.option for site in sites.values()]
    with launch(["files", *options], folder / "requests.jsonl", http_port=port) as web:
        yield World(web.ready, sites)
