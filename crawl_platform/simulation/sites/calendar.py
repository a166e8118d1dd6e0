"""Calendars: every month links to the next one, and every month exists."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.page import Place, Sketch
from crawl_platform.simulation.sites.plain import Plain

_MONTH = re.compile(r"/calendar/(\d{4,6})/(0[1-9]|1[0-2])(?:/(0[1-9]|[12]\d|3[01]))?")
_FIRST = 2020


class Calendar(Plain):
    """An ordinary site with /calendar/<year>/<month>[/<day>] that never ends in either direction."""

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*super().menu(), (f"/calendar/{_FIRST}/01", "Calendar"))

    def paths(self, t: float) -> Iterator[str]:
        yield from super().paths(t)

    def place(self, path: str, t: float) -> Place | None:
        match = _MONTH.fullmatch(path)
        if not match:
            return super().place(path, t)
        year, month = int(match[1]), int(match[2])
        group = "/calendar/*/*/*" if match[3] else "/calendar/*/*"
        return self.still(group, lambda _: self._month(path, year, month), trap=True)

    def _month(self, path: str, year: int, month: int) -> Sketch:
        months = [year * 12 + month - 1 + step for step in (-1, 1)]
        links = [self.link(f"/calendar/{m // 12:04d}/{m % 12 + 1:02d}", "Month", rel="next") for m in months]
        links += [self.link(f"/calendar/{year:04d}/{month:02d}/{d:02d}", str(d)) for d in range(1, 29)]
        return self.sketch(path, f"Events in {year}-{month:02d}", 2, tuple(links))
