"""Hosts that have moved: everything answers 301, one way or another."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.host import Host
from crawl_platform.simulation.page import Place
from crawl_platform.simulation.sites.plain import Plain
from crawl_platform.simulation.sites.site import Ground, Site

_HOP = re.compile(r"/hop/(\d)")


class Moved(Site):
    """Every path is a 301 to the same path on `target`."""

    def __init__(self, host: Host, ground: Ground, target: Site) -> None:
        super().__init__(host, ground)
        self.target = target

    def hubs(self) -> tuple[str, ...]:
        return ()

    def paths(self, t: float) -> Iterator[str]:
        yield "/"

    def place(self, path: str, t: float) -> Place | None:
        return self.moved("*", 301, self.target.host.url(path))


class Winding(Plain):
    """An ordinary site with redirect chains (/hop/0 → … → /hop/9 → /) and loops (/loop/a ⇄ /loop/b)."""

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*super().menu(), ("/hop/7", "Short way"), ("/hop/0", "Long way"), ("/loop/a", "Round"))

    def place(self, path: str, t: float) -> Place | None:
        match = _HOP.fullmatch(path)
        if match:
            step = int(match[1])
            return self.moved("/hop/*", 302, self.host.url("/" if step == 9 else f"/hop/{step + 1}"))
        if path in ("/loop/a", "/loop/b"):
            return self.moved("/loop/*", 301, self.host.url("/loop/b" if path.endswith("a") else "/loop/a"))
        return super().place(path, t)
