"""Blogs: posts that appear now and then, an archive, a blogroll, comments with links that readers leave."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.change import Stream
from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.site import Site

_POST = re.compile(r"/(\d{4})/(\d+)-[a-z-]+(/print)?")
_SHOWN = 10


class Blog(Site):
    """/ · /<year>/<n>-<slug> (+ /print) · /archive?page=k · /blogroll."""

    post_every = 240.0
    """Seconds between posts at pace 1."""

    feed = True

    def news(self, t: float) -> tuple[tuple[str, str], ...]:
        newest = self.posts.count(t)
        return tuple(
            (self._path(n), self.title("post", n)) for n in range(newest - 1, max(-1, newest - 11), -1)
        )

    def hubs(self) -> tuple[str, ...]:
        return ("/", "/blogroll")

    def entries(self) -> tuple[str, ...]:
        return ("/", self._path(0), self._path(1))

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (("/archive?page=1", "Archive"), ("/blogroll", "Blogroll"))

    def paths(self, t: float) -> Iterator[str]:
        count = self.posts.count(t)
        yield from ("/", "/blogroll", "/about")
        yield from (f"/archive?page={p}" for p in range(1, self._archive_pages(t) + 1))
        for n in range(count):
            yield self._path(n)
            if n % 5 == 0:
                yield self._path(n) + "/print"

    def twins(self) -> Iterator[tuple[str, ...]]:
        for n in range(0, self.host.pages, 5):
            yield (self._path(n), self._path(n) + "/print")

    @property
    def posts(self) -> Stream:
        return self.stream("posts", self.host.pages, 1 / self.post_every)

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 0.0, self._front, (self.posts,))
        if path == "/blogroll":
            return self.page(path, path, 1 / 20_000, lambda _: self.sketch(path, "Blogroll", 4))
        if path.startswith("/archive?page="):
            number = path.removeprefix("/archive?page=")
            if not number.isdecimal() or not 1 <= int(number) <= self._archive_pages(t):
                return None
            return self.page(path, "/archive", 0.0, lambda at: self._archive(int(number), at), (self.posts,))
        return self._post_place(path, t)

    def _post_place(self, path: str, t: float) -> Place | None:
        match = _POST.fullmatch(path)
        n = int(match[2]) if match else -1
        born = self.posts.born(n, t)
        if born is None or path.removesuffix("/print") != self._path(n):
            return None
        group = "/*/*/print" if path.endswith("/print") else "/*/*"
        main = self._path(n)
        place = self.page(main, group, 1 / 1_800, lambda _: self._post(n, path), born=born)
        return place if n % 5 == 0 or path == main else None

    def _path(self, n: int) -> str:
        return f"/{2019 + n * 7 // max(1, self.host.pages)}/{n}-{self.slug('post', n)}"

    def _archive_pages(self, t: float) -> int:
        return 1 + (self.posts.count(t) - 1) // 20

    def _front(self, t: float) -> Sketch:
        newest = self.posts.count(t) - 1
        links = tuple(
            self.link(self._path(n), self.title("post", n))
            for n in range(newest, max(-1, newest - _SHOWN), -1)
        )
        return self.sketch("/", f"Notes on {self.host.topic}", 12, links)

    def _archive(self, page: int, t: float) -> Sketch:
        newest = self.posts.count(t) - 1 - 20 * (page - 1)
        links = [
            self.link(self._path(n), self.title("post", n)) for n in range(newest, max(-1, newest - 20), -1)
        ]
        if page < self._archive_pages(t):
            links.append(self.link(f"/archive?page={page + 1}", "Older", rel="next"))
        return self.sketch(f"/archive?page={page}", f"Archive, page {page}", 1, tuple(links))

    def _post(self, n: int, path: str) -> Sketch:
        main = self._path(n)
        printed = path != main
        links = [self.link(self._path(n - k), self.title("post", n - k), "aside") for k in (1, 3) if n >= k]
        if n % 5 == 0:
            links.append(
                self.link(main if printed else main + "/print", "Read" if printed else "Print", "footer")
            )
        return self.sketch(
            path,
            self.title("post", n),
            self.size(18, n),
            tuple(links),
            () if printed else self.comments(main, 6),
            text_key=self.host.name + main,
            canonical=self.host.url(main) if printed else "",
        )
