"""Hosts that hurt careless readers: bombs, floods, headers without measure, bytes that are not text."""

from collections.abc import Callable
from functools import cache

from isal import isal_zlib

from crawl_platform.simulation import chance
from crawl_platform.simulation.page import File, Place
from crawl_platform.simulation.sites.plain import Plain

_BOMB = 60_000_000
_PAGE = b"<!doctype html><title>Hazard</title>"
_GZIP_WINDOW = 31


@cache
def _bomb() -> bytes:
    """60 MB of nothing, as about 60 KB of gzip."""
    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(_PAGE + b" " * _BOMB) + packer.flush()


def _huge() -> bytes:
    """3 MB of one page."""
    return _PAGE + b"<p>more and more and more</p>\n" * 100_000


def _flood() -> bytes:
    """20,000 links."""
    return _PAGE + b"".join(b'<a href="/flood/%d">%d</a>\n' % (i, i) for i in range(20_000))


def _nest() -> bytes:
    """30,000 elements within each other."""
    return _PAGE + b"<div>" * 30_000


def _junk() -> bytes:
    """Bytes that claim to be HTML."""
    return chance.rng(1, "junk").randbytes(40_000)


_FILES: dict[str, tuple[Callable[[], bytes], tuple[tuple[str, str], ...]]] = {
    "/hazard/bomb": (_bomb, (("Content-Encoding", "gzip"),)),
    "/hazard/huge": (_huge, ()),
    "/hazard/flood": (_flood, ()),
    "/hazard/nest": (_nest, ()),
    "/hazard/junk": (_junk, ()),
    "/hazard/header": (lambda: _PAGE, (("X-Padding", "x" * 300_000),)),
    "/hazard/cookies": (lambda: _PAGE, tuple(("Set-Cookie", f"c{i}=1") for i in range(500))),
    "/hazard/coding": (lambda: _PAGE, (("Content-Encoding", "gzip"),)),
}


class Hazard(Plain):
    """An ordinary site whose menu leads to /hazard/<what>; the hazards never change and have no truth but this."""

    def menu(self) -> tuple[tuple[str, str], ...]:
        return (*super().menu(), *((path, path.rpartition("/")[2]) for path in _FILES))

    def place(self, path: str, t: float) -> Place | None:
        if path in _FILES:
            read, headers = _FILES[path]
            return self.file("/hazard/*", File("text/html", read, headers))
        return super().place(path, t)
