"""News: a front page that changes every few seconds, because articles keep appearing and a ticker runs."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.change import Stream
from crawl_platform.simulation.page import Link, Place, Sketch
from crawl_platform.simulation.sites.site import Site

_STORY = re.compile(r"/story/(\d+)-[a-z-]+")
SECTIONS = ("world", "science", "culture", "money")
_SHOWN = 25
_STORY_EVERY = 20.0
"""Seconds between new articles at pace 1."""


class News(Site):
    """/ · /section/<name> · /story/<n>-<slug> · /partners."""

    feed = True

    def news(self, t: float) -> tuple[tuple[str, str], ...]:
        newest = self._stories.count(t)
        return tuple(
            (self._path(n), self.title("story", n)) for n in range(newest - 1, max(-1, newest - 21), -1)
        )

    def hubs(self) -> tuple[str, ...]:
        return ("/partners",)

    def entries(self) -> tuple[str, ...]:
        return ("/", "/section/science", self._path(0))

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*((f"/section/{s}", s.title()) for s in SECTIONS), ("/partners", "Partners"))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/partners", "/about")
        yield from (f"/section/{s}" for s in SECTIONS)
        yield from (self._path(n) for n in range(self._stories.count(t)))

    @property
    def _stories(self) -> Stream:
        return self.stream("stories", self.host.pages, 1 / _STORY_EVERY)

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 1 / 12, self._front, (self._stories,))
        if path == "/partners":
            return self.page(path, path, 1 / 20_000, lambda _: self.sketch(path, "Partners", 3))
        if path.removeprefix("/section/") in SECTIONS:
            return self.page(path, "/section/*", 0.0, lambda at: self._section(path, at), (self._stories,))
        return self._story(path, t)

    def _story(self, path: str, t: float) -> Place | None:
        match = _STORY.fullmatch(path)
        n = int(match[1]) if match else -1
        born = self._stories.born(n, t)
        if born is None or path != self._path(n):
            return None
        return self.page(path, "/story/*", 1 / 600, lambda _: self._article(n), born=born)

    def _path(self, n: int) -> str:
        return f"/story/{n}-{self.slug('story', n)}"

    def _teaser(self, n: int) -> Link:
        return self.link(self._path(n), self.title("story", n))

    def _front(self, t: float) -> Sketch:
        newest = self._stories.count(t)
        links = tuple(self._teaser(n) for n in range(newest - 1, max(-1, newest - 1 - _SHOWN), -1))
        return self.sketch("/", f"{self.host.name}: today", 6, links)

    def _section(self, path: str, t: float) -> Sketch:
        mine = SECTIONS.index(path.removeprefix("/section/"))
        newest = self._stories.count(t)
        ours = [n for n in range(newest - 1, -1, -1) if n % len(SECTIONS) == mine]
        return self.sketch(
            path, path.removeprefix("/section/").title(), 2, tuple(map(self._teaser, ours[:60]))
        )

    def _article(self, n: int) -> Sketch:
        path = self._path(n)
        section = SECTIONS[n % len(SECTIONS)]
        older = tuple(self._teaser(n - k) for k in (1, 2, 5) if n >= k)
        related = tuple(Link(x.url, x.anchor, "aside") for x in older)
        links = (self.link(f"/section/{section}", section.title()), *related)
        return self.sketch(path, self.title("story", n), self.size(14, n), links, self.comments(path, 4))
