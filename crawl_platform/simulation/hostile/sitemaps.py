"""Hosts whose sitemaps never end, or grow; their pages are honest."""

import asyncio
import zlib
from functools import cache, partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_MAP = "/sitemap.xml"


async def _names_map(visit: Visit) -> None:
    text = f"User-agent: *\nAllow: /\nSitemap: {visit.url(_MAP)}\n"
    await visit.answer(text.encode(), kind="text/plain")


def _or_page(act: Act) -> Act:
    """Pages are honest: only what begins like the sitemap's name is not."""

    async def both(visit: Visit) -> None:
        if visit.path.startswith("/sitemap"):
            await act(visit)
        else:
            await visit.answer(page(visit.path))

    return both


async def _index(visit: Visit) -> None:
    """An index that names three new indexes, each time."""
    maps = [visit.url(f"/sitemap-{visit.count('maps')}.xml") for _ in range(3)]
    entries = "".join(f"<sitemap><loc>{name}</loc></sitemap>" for name in maps)
    await _xml(visit, f"<sitemapindex {_NAMESPACE}>{entries}</sitemapindex>")


async def _entities(visit: Visit) -> None:
    """Billion laughs: ten levels of ten."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 11))
    declared = f'<!DOCTYPE urlset [<!ENTITY e0 "ha">{levels}<!ENTITY file SYSTEM "file:///etc/passwd">]>'
    body = f"<urlset {_NAMESPACE}><url><loc>{visit.url('/')}&e10;&file;</loc></url></urlset>"
    await _xml(visit, declared + body)


async def _long(visit: Visit) -> None:
    """50,000 entries, each as long as a URL may be and longer."""
    await visit.head(headers=[("Content-Type", "application/xml")])
    await visit.send(f'<?xml version="1.0"?><urlset {_NAMESPACE}>'.encode())
    for number in range(50_000):
        await visit.send(f"<url><loc>{visit.url(f'/{number}/' + 'x' * 1_900)}</loc></url>".encode())
    await visit.send(b"</urlset>")


@cache
def _packed() -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    head = packer.compress(f"<urlset {_NAMESPACE}>".encode())
    body = b"".join(packer.compress(b"<url><loc>/x</loc></url>" * 40_000) for _ in range(200))
    return head + body + packer.flush()


async def _gzip(visit: Visit) -> None:
    """200 MB of sitemap as gzip."""
    await visit.answer(await asyncio.to_thread(_packed), kind="application/gzip")


async def _endless(visit: Visit) -> None:
    await visit.head(headers=[("Content-Type", "application/xml")])
    await visit.send(f"<urlset {_NAMESPACE}>".encode())
    await visit.pour(f"<url><loc>{visit.url('/x')}</loc></url>".encode() * 500)


async def _abroad(visit: Visit) -> None:
    """Entries of other hosts, of no host, of private ones."""
    places = (
        "http://dns-inward.hostile.test/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "javascript:x",
    )
    entries = "".join(f"<url><loc>{place}</loc></url>" for place in places)
    await _xml(visit, f"<urlset {_NAMESPACE}>{entries}</urlset>")


async def _xml(visit: Visit, text: str) -> None:
    await visit.answer(b'<?xml version="1.0"?>' + text.encode(), kind="application/xml")


_row = partial(Misbehaviour, "sitemaps", outcomes=("ok",), robots=_names_map, most=90)
ROWS = (
    _row("sitemap-index", "indexes of indexes without end", act=_or_page(_index)),
    _row("sitemap-entities", "entities that grow to ten billion", act=_or_page(_entities)),
    _row("sitemap-long", "50,000 entries of 1,900 bytes", act=_or_page(_long)),
    _row("sitemap-gzip", "200 MB as gzip", act=_or_page(_gzip)),
    _row("sitemap-endless", "a sitemap without end", act=_or_page(_endless)),
    _row("sitemap-abroad", "entries of other and of private hosts", act=_or_page(_abroad)),
)
