"""Wikis: pages drawn on demand, a thousand million of them; a few are read and edited far more than the rest."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.page import Link, Place, Sketch
from crawl_platform.simulation.sites.site import Site

SIZE = 10**9
_ARTICLE = re.compile(r"/wiki/([A-Z][A-Za-z-]*)-(\d+)")
_OLD = re.compile(r"/w/index\.php\?title=(\d+)&action=history&rev=(\d+)")


class Wiki(Site):
    """/ → /wiki/<Slug>-<n> with n below `SIZE`; /w/index.php?… (histories, a trap that robots forbids)."""

    def hubs(self) -> tuple[str, ...]:
        return ("/", self._path(0), self._path(1))

    def entries(self) -> tuple[str, ...]:
        return ("/", self._path(0), self._path(2))

    def menu(self) -> tuple[tuple[str, str], ...]:
        return ((self._path(0), "Main topic"), (self._path(1), "Portal"))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/about")
        yield from (self._path(n) for n in range(self.host.pages))

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 1 / 60, lambda _: self._root())
        old = _OLD.fullmatch(path)
        if old:
            n, rev = int(old[1]), int(old[2])
            return self.still("/w/index.php", lambda _: self._history(path, n, rev), trap=True)
        match = _ARTICLE.fullmatch(path)
        if not match or int(match[2]) >= SIZE or path != self._path(int(match[2])):
            return None
        n = int(match[2])
        # Edits follow attention: the n-th most linked page is edited at a rate that falls with n.
        rate = 0.2 / (n + 5) + 1e-6
        return self.page(path, "/wiki/*", rate, lambda _: self._article(path, n))

    def _path(self, n: int) -> str:
        return f"/wiki/{self.slug('article', n).title()}-{n}"

    def _to(self, n: int) -> Link:
        return self.link(self._path(n), self.title("article", n))

    def _root(self) -> Sketch:
        return self.sketch("/", f"The {self.host.topic} wiki", 6, tuple(self._to(n) for n in range(25)))

    def _article(self, path: str, n: int) -> Sketch:
        bits = [self.key("to", n, i) for i in range(18)]
        # Half of the links go to the few well-known pages, half anywhere: that is what makes it endless.
        known = {b % max(20, self.host.pages) for b in bits[:10]}
        far = {b % SIZE for b in bits[10:]}
        history = self.link(f"/w/index.php?title={n}&action=history&rev=1", "History", "footer")
        links = (*(self._to(m) for m in sorted(known | far)), history)
        return self.sketch(path, self.title("article", n), max(19, self.size(20, n)), links)

    def _history(self, path: str, n: int, rev: int) -> Sketch:
        older = self.link(f"/w/index.php?title={n}&action=history&rev={rev + 1}", "Older")
        return self.sketch(path, f"Revision {rev}", 2, (older,), meta_robots="noindex,nofollow")
