"""Forums: threads and profiles that users write; comment sections where strangers leave links."""

import re
from collections.abc import Iterator
from functools import cached_property

from crawl_platform.simulation import chance
from crawl_platform.simulation.change import Stream
from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.site import Site
from crawl_platform.simulation.words import person

_THREAD = re.compile(r"/thread/(\d+)")
_BOARDS = 6
_USERS = 40


class Forum(Site):
    """/ · /board/<b> · /thread/<n> · /user/<name> · /resources."""

    def hubs(self) -> tuple[str, ...]:
        return ("/resources",)

    def entries(self) -> tuple[str, ...]:
        return ("/", "/board/1")

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*((f"/board/{b}", f"Board {b}") for b in range(1, _BOARDS + 1)), ("/resources", "Resources"))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/resources", "/about")
        yield from (f"/board/{b}" for b in range(1, _BOARDS + 1))
        yield from (f"/thread/{n}" for n in range(self._threads.count(t)))
        authors = map(self._author, range(self._threads.count(t)))
        yield from (f"/user/{u}" for u in dict.fromkeys(authors))

    @property
    def _threads(self) -> Stream:
        return self.stream("threads", self.host.pages, 1 / 45)

    @cached_property
    def _users(self) -> tuple[str, ...]:
        names = (person(chance.rng(self.key("user", i))) for i in range(_USERS))
        return tuple(dict.fromkeys(names))

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 0.0, self._front, (self._threads,))
        if path == "/resources":
            return self.page(path, path, 1 / 20_000, lambda _: self.sketch(path, "Resources", 4))
        board = path.removeprefix("/board/")
        if board != path and board.isdecimal() and 1 <= int(board) <= _BOARDS:
            return self.page(
                path, "/board/*", 0.0, lambda at: self._board(path, int(board), at), (self._threads,)
            )
        if path.removeprefix("/user/") in self._users:
            return self.page(path, "/user/*", 1 / 5_000, lambda _: self._user(path))
        match = _THREAD.fullmatch(path)
        born = self._threads.born(int(match[1]), t) if match else None
        if match is None or born is None:
            return None
        return self.page(path, "/thread/*", 1 / 120, lambda _: self._thread(path, int(match[1])), born=born)

    def _author(self, n: int) -> str:
        return self._users[self.key("author", n) % len(self._users)]

    def _front(self, t: float) -> Sketch:
        newest = self._threads.count(t)
        links = tuple(
            self.link(f"/thread/{n}", self.title("thread", n))
            for n in range(newest - 1, max(-1, newest - 21), -1)
        )
        return self.sketch("/", f"{self.host.topic.title()} forum", 3, links)

    def _board(self, path: str, board: int, t: float) -> Sketch:
        newest = self._threads.count(t)
        ours = [n for n in range(newest - 1, -1, -1) if n % _BOARDS == board - 1]
        links = tuple(self.link(f"/thread/{n}", self.title("thread", n)) for n in ours[:50])
        return self.sketch(path, f"Board {board}", 2, links)

    def _user(self, path: str) -> Sketch:
        return self.sketch(path, path.removeprefix("/user/"), 2, meta_robots="noindex")

    def _thread(self, path: str, n: int) -> Sketch:
        author = self._author(n)
        links = (
            self.link(f"/user/{author}", author, "main", "nofollow"),
            self.link(f"/board/{n % _BOARDS + 1}", f"Board {n % _BOARDS + 1}", "aside"),
            *(self.link(f"/thread/{m}", self.title("thread", m), "aside") for m in (n - _BOARDS,) if m >= 0),
        )
        return self.sketch(path, self.title("thread", n), self.size(5, n), links, self.comments(path, 14))
