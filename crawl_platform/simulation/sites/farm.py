"""Link farms: many thin pages on many hosts that link to each other and say next to nothing."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.page import Link, Place, Sketch
from crawl_platform.simulation.sites.site import Site

_PAGE = re.compile(r"/p/(\d+)")
_OUT = 25


class Farm(Site):
    """/ · /p/<n>; `accomplices` are the hosts of the farm, the first of which it exists to lift."""

    accomplices: tuple[Site, ...] = ()

    def entries(self) -> tuple[str, ...]:
        return ("/", "/p/1")

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/about")
        yield from (f"/p/{n}" for n in range(1, self.host.pages + 1))

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        match = _PAGE.fullmatch(path)
        if path != "/" and (not match or not 1 <= int(match[1]) <= self.host.pages):
            return None
        n = int(match[1]) if match else 0
        return self.page(path, "/p/*" if n else "/", 1 / 60, lambda _: self._thin(path, n))

    def _thin(self, path: str, n: int) -> Sketch:
        home = [self.link(f"/p/{n * 3 % self.host.pages + k}", "best bonus offer") for k in (1, 2, 3)]
        return self.sketch(path, self.title("thin", n), 2, (*home, *self._lift(n)))

    def _lift(self, n: int) -> Iterator[Link]:
        if not self.accomplices:
            return
        yield Link(self.accomplices[0].host.root, "best bonus offer")
        for i in range(_OUT):
            bits = self.key("lift", n, i)
            other = self.accomplices[bits % len(self.accomplices)].host
            yield Link(other.url(f"/p/{1 + (bits >> 16) % other.pages}"), "best bonus offer")
