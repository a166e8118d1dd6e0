"""Sitemaps and feeds: what a site says about its own pages."""

from datetime import UTC, datetime
from xml.sax.saxutils import escape

from crawl_platform.simulation.conditional import http_date
from crawl_platform.simulation.sites.site import Site

SITEMAP = "/sitemap.xml"
FEED = "/feed.xml"

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def sitemap(site: Site, t: float) -> bytes:
    """All regular pages that are no redirects, with the true time of their last change (lastmod)."""
    entries = []
    for path in site.paths(t):
        place = site.place(path, t)
        if place and not place.redirect:
            at = datetime.fromtimestamp(place.modified(t), UTC).isoformat(timespec="seconds")
            entries.append(f"<url><loc>{escape(site.host.url(path))}</loc><lastmod>{at}</lastmod></url>")
    opening = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    return (_DECLARATION + opening + "\n".join(entries) + "\n</urlset>\n").encode()


def rss(site: Site, t: float) -> bytes:
    """RSS 2.0 with the newest items of `site.news(t)`."""
    items = []
    for path, title in site.news(t):
        place = site.place(path, t)
        born = max(site.ground.started_at, place.born) if place else t
        url = escape(site.host.url(path))
        items.append(
            f"<item><title>{escape(title)}</title><link>{url}</link><guid>{url}</guid>"
            f"<pubDate>{http_date(born)}</pubDate></item>"
        )
    channel = f"<title>{site.host.name}</title><link>{site.host.root}</link><description>News</description>"
    body = f'<rss version="2.0"><channel>{channel}\n' + "\n".join(items) + "\n</channel></rss>\n"
    return (_DECLARATION + body).encode()
