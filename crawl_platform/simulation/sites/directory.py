"""Directories: categories that list other hosts with a word about each."""

from collections.abc import Iterator
from functools import cached_property

from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.site import Site


class Directory(Site):
    """/ · /category/<k>: every category may carry links to other hosts."""

    @cached_property
    def categories(self) -> tuple[str, ...]:
        return tuple(f"/category/{k}-{self.slug('category', k)}" for k in range(max(4, self.host.pages)))

    def hubs(self) -> tuple[str, ...]:
        return self.categories

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/about", *self.categories)

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 1 / 2_000, lambda _: self._root())
        if path not in self.categories:
            return None
        return self.page(
            path, "/category/*", 1 / 2_000, lambda _: self.sketch(path, self.title(path), self.size(6, path))
        )

    def _root(self) -> Sketch:
        links = tuple(self.link(c, c.rpartition("/")[2].replace("-", " ")) for c in self.categories)
        return self.sketch("/", f"Directory of {self.host.topic}", 3, links)
