"""Manuals: a linked tree of chapters and sections, an index, and an older edition that says nearly the same."""

import re
from collections.abc import Iterator

from crawl_platform.simulation.page import File, Link, Place, Sketch
from crawl_platform.simulation.sites.site import Site

_SECTION = re.compile(r"/(guide|old)/part-(\d+)/(?:section-(\d+)\.html)?")
_PER_PART = 12
_PDF = "/files/manual.pdf"


class Manual(Site):
    """/ · /guide/part-k/ · /guide/part-k/section-j.html · /genindex.html · /links.html · /old/… (older edition)."""

    @property
    def parts(self) -> int:
        return max(2, self.host.pages // (_PER_PART + 1))

    def hubs(self) -> tuple[str, ...]:
        return ("/", "/links.html")

    def entries(self) -> tuple[str, ...]:
        return ("/", "/guide/part-1/", "/guide/part-1/section-2.html")

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (("/guide/part-1/", "Guide"), ("/genindex.html", "Index"), ("/links.html", "Related"))

    def paths(self, t: float) -> Iterator[str]:
        yield from ("/", "/genindex.html", "/links.html", "/about")
        for part in range(1, self.parts + 1):
            yield f"/guide/part-{part}/"
            for section in range(1, _PER_PART + 1):
                yield f"/guide/part-{part}/section-{section}.html"
        yield "/old/part-1/"
        yield from (f"/old/part-1/section-{s}.html" for s in range(1, _PER_PART + 1))

    def twins(self) -> Iterator[tuple[str, ...]]:
        for section in range(1, _PER_PART + 1):
            yield (f"/guide/part-1/section-{section}.html", f"/old/part-1/section-{section}.html")

    def place(self, path: str, t: float) -> Place | None:
        if path == "/about":
            return self.about()
        if path in ("/", "/genindex.html", "/links.html"):
            return self.page(path, path, 1 / 20_000, lambda _: self._fixed(path))
        if path == _PDF:
            return self.file("/files/*", File("application/pdf", self._pdf))
        match = _SECTION.fullmatch(path)
        if not match:
            return None
        edition, part, section = match[1], int(match[2]), int(match[3] or 0)
        if not 1 <= part <= (self.parts if edition == "guide" else 1) or section > _PER_PART:
            return None
        if section == 0:
            return self.page(path, f"/{edition}/*/", 1 / 20_000, lambda _: self._part(edition, part))
        rate = 1 / 900 if edition == "guide" else 0.0
        return self.page(path, f"/{edition}/*/*", rate, lambda _: self._section(path, edition, part, section))

    def _pdf(self) -> bytes:
        return b"%PDF-1.4\n" + self.key("pdf").to_bytes(8, "big") * 5_000 + b"\n%%EOF\n"

    def _fixed(self, path: str) -> Sketch:
        if path == "/":
            links = [self.link(f"/guide/part-{p}/", self.title("part", p)) for p in range(1, self.parts + 1)]
            links.append(self.link("/old/part-1/", "Older edition"))
            links.append(self.link(_PDF, "All of it as PDF"))
            return self.sketch(path, f"Manual of {self.host.name}", 4, tuple(links))
        if path == "/links.html":
            return self.sketch(path, "Related projects", 5)
        every = range(1, self.parts + 1)
        entries = tuple(
            self.link(f"/guide/part-{p}/section-{s}.html", self.title("section", p, s))
            for p in every
            for s in range(1, _PER_PART + 1)
        )
        return self.sketch(path, "General index", 2, entries)

    def _part(self, edition: str, part: int) -> Sketch:
        base = f"/{edition}/part-{part}/"
        links = [
            self.link(f"{base}section-{s}.html", self.title("section", part, s))
            for s in range(1, _PER_PART + 1)
        ]
        return self.sketch(base, self.title("part", part), 3, (*links, *self._ways(edition, part, 0)))

    def _section(self, path: str, edition: str, part: int, section: int) -> Sketch:
        lead = "" if edition == "guide" else "This describes an older edition."
        return self.sketch(
            path,
            self.title("section", part, section),
            self.size(18, part, section),
            (*self._ways(edition, part, section), *self._related(part, section)),
            lead=lead,
            text_key=f"{self.host.name}/guide/{part}/{section}",
        )

    def _ways(self, edition: str, part: int, section: int) -> tuple[Link, ...]:
        """Up, previous, next."""
        base = f"/{edition}/part-{part}/"
        ways = [self.link("/" if section == 0 else base, "Up", "aside")]
        if section > 1:
            ways.append(self.link(f"{base}section-{section - 1}.html", "Previous", "aside"))
        if section < _PER_PART:
            ways.append(self.link(f"{base}section-{section + 1}.html", "Next", "aside"))
        return tuple(ways)

    def _related(self, part: int, section: int) -> tuple[Link, ...]:
        bits = self.key("related", part, section)
        other = 1 + bits % self.parts
        target = 1 + (bits >> 8) % _PER_PART
        return (
            self.link(f"/guide/part-{other}/section-{target}.html", self.title("section", other, target)),
        )
