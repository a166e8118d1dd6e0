"""Hosts behind a login: some pages redirect to the form, some show it with a friendly 200."""

from collections.abc import Iterator
from dataclasses import replace

from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.plain import Plain


class Walled(Plain):
    """The root and /about are open; articles show a form, /members/… redirect to /login."""

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*super().menu(), ("/members/area", "Members"), ("/login", "Sign in"))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/links", "/about", "/login")

    def place(self, path: str, t: float) -> Place | None:
        if path.startswith("/members/"):
            return self.moved("/members/*", 302, self.host.url(f"/login?next={path}"))
        if path == "/login" or path.startswith("/login?next="):
            return self.still("/login", lambda _: self._wall())
        place = super().place(path, t)
        if place and path.endswith(".html"):
            return replace(place, draw=lambda _: self._wall())
        return place

    def _wall(self) -> Sketch:
        bare = self.sketch("/login", "Please sign in", 1, meta_robots="noindex")
        return replace(bare, form="login")
