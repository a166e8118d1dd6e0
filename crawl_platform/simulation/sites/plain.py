"""Ordinary small sites: a few topics with articles, a page of links, nothing special."""

import re
from collections.abc import Iterator
from functools import cached_property

from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.site import Site

_ARTICLE = re.compile(r"/([a-z-]+)/(\d+)\.html")
_PER_TOPIC = 10


class Plain(Site):
    """/ · /<topic>/ · /<topic>/<n>.html · /links."""

    @cached_property
    def topics(self) -> tuple[str, ...]:
        count = max(1, self.host.pages // _PER_TOPIC)
        return tuple(f"{self.slug('topic', i)}-{chr(97 + i % 26)}" for i in range(count))

    def hubs(self) -> tuple[str, ...]:
        return ("/", "/links")

    def entries(self) -> tuple[str, ...]:
        return ("/", f"/{self.topics[0]}/", f"/{self.topics[0]}/1.html")

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (("/links", "Links"),)

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/links", "/about")
        for topic in self.topics:
            yield f"/{topic}/"
            yield from (f"/{topic}/{n}.html" for n in range(1, _PER_TOPIC + 1))

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 1 / 300, lambda _: self._root())
        if path == "/links":
            return self.page(path, path, 1 / 20_000, lambda _: self.sketch(path, "Links", 3))
        if path.strip("/") in self.topics and path == f"/{path.strip('/')}/":
            return self.page(path, "/*/", 1 / 3_600, lambda _: self._topic(path))
        match = _ARTICLE.fullmatch(path)
        if not match or match[1] not in self.topics or not 1 <= int(match[2]) <= _PER_TOPIC:
            return None
        return self.page(path, "/*/*.html", 1 / 1_200, lambda _: self._article(path, match[1], int(match[2])))

    def _root(self) -> Sketch:
        links = tuple(self.link(f"/{t}/", t.replace("-", " ").title()) for t in self.topics)
        return self.sketch("/", f"{self.host.name}: all about {self.host.topic}", 8, links)

    def _topic(self, path: str) -> Sketch:
        links = tuple(self.link(f"{path}{n}.html", self.title(path, n)) for n in range(1, _PER_TOPIC + 1))
        return self.sketch(path, path.strip("/").replace("-", " ").title(), 3, links)

    def _article(self, path: str, topic: str, n: int) -> Sketch:
        following = n % _PER_TOPIC + 1
        links = [
            self.link(f"/{topic}/", "Overview", "aside"),
            self.link(f"/{topic}/{following}.html", self.title(f"/{topic}/", following)),
        ]
        if self.key("broken", path) % 20 == 0:
            links.append(self.link(f"/{topic}/{n + 500}.html", "An article that is gone"))
        return self.sketch(path, self.title(f"/{topic}/", n), self.size(16, topic, n), tuple(links))
