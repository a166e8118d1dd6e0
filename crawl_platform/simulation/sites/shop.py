"""Shops: products whose prices move, and listings whose facets multiply without end."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode

from crawl_platform.simulation.page import Link, Place, Sketch
from crawl_platform.simulation.sites.site import Site

FACETS: dict[str, tuple[str, ...]] = {
    "color": ("red", "green", "blue", "black", "white", "sand"),
    "size": ("xs", "s", "m", "l", "xl"),
    "brand": ("vela", "tarn", "lumo", "ostara", "quanto", "cobalt"),
    "price": ("0-20", "20-50", "50-100", "100-"),
    "sort": ("price", "name", "newest", "rating"),
    "view": ("grid", "list"),
}
"""7·6·7·5·5·3 = 22,050 listings per category, in any order of parameters."""

_PER_CATEGORY = 20
_PRODUCT = re.compile(r"/product/(\d+)")


class Shop(Site):
    """/ · /category/<c> · /category/<c>?facets (trap) · /product/<n>."""

    @property
    def categories(self) -> int:
        return max(1, self.host.pages // _PER_CATEGORY)

    def entries(self) -> tuple[str, ...]:
        return ("/", "/category/1", "/product/1")

    def menu(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"/category/{c}", f"Category {c}") for c in range(1, self.categories + 1))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/about")
        yield from (f"/category/{c}" for c in range(1, self.categories + 1))
        yield from (f"/product/{n}" for n in range(self.categories * _PER_CATEGORY))

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path == "/":
            return self.page(path, "/", 1 / 120, lambda _: self.sketch(path, f"{self.host.name} shop", 6))
        match = _PRODUCT.fullmatch(path)
        if match and int(match[1]) < self.categories * _PER_CATEGORY:
            return self.page(path, "/product/*", 1 / 90, lambda _: self._product(path, int(match[1])))
        base, _, query = path.partition("?")
        number = base.removeprefix("/category/")
        if number == base or not number.isdecimal() or not 1 <= int(number) <= self.categories:
            return None
        if not query:
            return self.page(path, "/category/*", 1 / 600, lambda _: self._listing(base, {}))
        chosen = dict(parse_qsl(query))
        if any(v not in FACETS.get(k, ()) for k, v in chosen.items()):
            return None
        return self.still("/category/*?*", lambda _: self._listing(base, chosen), trap=True)

    def _product(self, path: str, n: int) -> Sketch:
        links = (
            self.link(f"/category/{n // _PER_CATEGORY + 1}", "Category", "aside"),
            *(
                self.link(f"/product/{n + k}", self.title("product", n + k), "aside")
                for k in (1, 2)
                if (n + k) % _PER_CATEGORY
            ),
        )
        return self.sketch(
            path, self.title("product", n), 4, links, self.comments(path, 5), ("Price", "In stock")
        )

    def _listing(self, base: str, chosen: dict[str, str]) -> Sketch:
        category = int(base.removeprefix("/category/"))
        first = (category - 1) * _PER_CATEGORY
        shown = [n for n in range(first, first + _PER_CATEGORY) if self._fits(n, chosen)]
        path = f"{base}?{urlencode(chosen)}" if chosen else base
        links = (
            *(self.link(f"/product/{n}", self.title("product", n)) for n in shown),
            *self._facets(base, chosen),
        )
        canonical = self.host.url(base) if chosen else ""
        return self.sketch(
            path, f"Category {category}", 2, links, canonical=canonical, text_key=self.host.name + base
        )

    def _fits(self, n: int, chosen: dict[str, str]) -> bool:
        return all(self.key("fits", n, k, v) % 4 for k, v in chosen.items() if k not in ("sort", "view"))

    def _facets(self, base: str, chosen: dict[str, str]) -> Iterator[Link]:
        for name, values in FACETS.items():
            for value in values:
                if chosen.get(name) != value:
                    query = urlencode({k: v for k, v in chosen.items() if k != name} | {name: value})
                    yield self.link(f"{base}?{query}", f"{name}: {value}", "aside")
