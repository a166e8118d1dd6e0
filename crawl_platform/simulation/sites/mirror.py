"""Mirrors: another host's pages under a name of their own."""

from collections.abc import Iterator
from dataclasses import replace

from crawl_platform.simulation.host import Host
from crawl_platform.simulation.page import Link, Place, Sketch
from crawl_platform.simulation.sites.site import Ground, Site


class Mirror(Site):
    """Says at every path what `original` says there, with links that stay on this host."""

    def __init__(self, host: Host, ground: Ground, original: Site) -> None:
        super().__init__(host, ground)
        self.original = original
        self.words = original.words

    def hubs(self) -> tuple[str, ...]:
        return ()

    def paths(self, t: float) -> Iterator[str]:
        return self.original.paths(t)

    def place(self, path: str, t: float) -> Place | None:
        place = self.original.place(path, t)
        return replace(place, draw=lambda at: self._mirrored(place.draw(at))) if place else None

    def _mirrored(self, sketch: Sketch) -> Sketch:
        return replace(sketch, links=tuple(self._moved(link) for link in sketch.links), canonical="")

    def _moved(self, link: Link) -> Link:
        theirs = self.original.host
        if not link.url.startswith(theirs.root):
            return link
        return replace(link, url=self.host.origin + link.url[len(theirs.origin) :])
