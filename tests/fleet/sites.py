"""Small sites of HTML whose pages and links are known: what a crawl of them must bring."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


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


def write_site(root: Path, host: str, pages: int, abroad: Iterable[str] = ()) -> Site:
    """`pages` pages: a tree of two branches with cross links; `abroad` are hosts that the root links to.

    Links abroad name no port, so they are other hosts even where a host of that name is served.
    """
    folder = root / host
    folder.mkdir(parents=True)
    rng = random.Random(host)
    names = ["", *(f"p{n}.html" for n in range(1, pages))]
    edges: set[tuple[str, str]] = set()
    for number, name in enumerate(names):
        children = [n for n in (2 * number + 1, 2 * number + 2) if n < pages]
        targets = {names[n] for n in [*children, rng.randrange(pages), rng.randrange(pages)]}
        if not number:
            targets |= {f"http://{other}/" for other in abroad}
        edges |= {(name, target) for target in targets}
        (folder / (name or "index.html")).write_text(_page(host, number, sorted(targets), rng))
    return Site(host, folder, frozenset(edges))


def _page(host: str, number: int, targets: list[str], rng: random.Random) -> str:
    links = " ".join(f'<a href="{_href(t)}">to {t or "the start"}</a>' for t in targets)
    words = " ".join(f"word{rng.randrange(5000)}" for _ in range(80))
    return (
        f"<!doctype html><html><head><title>{host} {number}</title></head>"
        f"<body><nav>{links}</nav><main><h1>Page {number}</h1><p>{words}.</p></main></body></html>"
    )


def _href(target: str) -> str:
    return target if "://" in target else f"/{target}"


def page_of(url: str) -> str:
    """A URL as a page of its site: path and query without the leading slash."""
    parts = urlsplit(url)
    return parts.path.lstrip("/") + (f"?{parts.query}" if parts.query else "")
