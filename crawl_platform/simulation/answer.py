"""Request → reply: robots, sitemap, pages with validators and codings, and each host's way of misbehaving."""

import re
import zlib
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING

import brotli
from isal import isal_zlib

from crawl_platform.simulation import chance, faults, markup, noise
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.page import Place
from crawl_platform.simulation.sites.site import Site

if TYPE_CHECKING:
    from crawl_platform.simulation.web import SyntheticWeb

_SESSION = re.compile(rf"[?&]{noise.SESSION_PARAMETER}=([0-9a-f]*)")
_GZIP_WINDOW = 31
"""zlib's way to ask for a gzip wrapper with the largest window."""


def without_session(path: str) -> tuple[str, str]:
    """Path without its session id, and the id ("" if it has none)."""
    match = _SESSION.search(path)
    if not match:
        return path, ""
    rest = path[: match.start()] + path[match.end() :]
    if "?" not in rest and "&" in rest:
        rest = rest.replace("&", "?", 1)
    return rest, match[1]


def http_date(t: float) -> str:
    return format_datetime(datetime.fromtimestamp(int(t), UTC), usegmt=True)


class Answers:
    """Answers for one web; the only state is each host's patience (`faults`)."""

    def __init__(self, web: "SyntheticWeb") -> None:
        self._web = web
        self._faults = faults.Faults(web.seed, web.started_at)

    def reply(self, request: Request, now: float) -> Reply:
        site = self._web.sites.get(request.host)
        if site is None:
            return Reply(421, [("Content-Type", "text/plain")], b"no such host here\n")
        if request.method not in ("GET", "HEAD"):
            return Reply(405, [("Allow", "GET, HEAD")])
        host = site.host
        if request.secure != (host.scheme == "https"):
            return Reply(301, [("Location", host.url(request.path))])
        if request.path == "/robots.txt":
            return _robots(host)
        refusal = self._faults.refusal(host, now)
        reply = refusal or self._page(site, request, now)
        return self._faults.spoil(reply, host, request, now)

    def _page(self, site: Site, request: Request, now: float) -> Reply:
        host = site.host
        if host.robots.moved and request.path == host.robots.moved:
            return _text(host.robots.text(host.url("/sitemap.xml")))
        if request.path == "/sitemap.xml":
            return self._sitemap(site, now)
        path, session = without_session(request.path) if host.sessions else (request.path, "")
        place = site.place(path, now)
        if place is None:
            return Reply(404, [("Content-Type", "text/html")], _NOT_FOUND)
        if place.redirect:
            return Reply(place.redirect[0], [("Location", place.redirect[1])])
        headers = self._validators(host, path, place, request, now)
        if is_fresh(request, dict(headers)):
            return Reply(304, headers)
        drawn = self._web.drawn(site, path, place, now)
        body = markup.fill(drawn, noise.draw(self._web.seed, now, request.number, session))
        # Half of the hosts with an odd charset say so only in the page.
        charset = f"; charset={host.charset}" if host.charset == "utf-8" or len(host.name) % 2 else ""
        headers.append(("Content-Type", f"text/html{charset}"))
        return _encoded(host, request, headers, body)

    def _validators(
        self, host: Host, path: str, place: Place, request: Request, now: float
    ) -> list[tuple[str, str]]:
        headers = []
        if host.validators in ("etag", "both"):
            headers.append(
                ("ETag", f'"{chance.key(self._web.seed, host.name, path, place.version(now)):016x}"')
            )
        if host.validators == "noisy":
            headers.append(("ETag", f'"{request.number:x}-{now:.3f}"'))
        if host.validators in ("last-modified", "both"):
            headers.append(("Last-Modified", http_date(place.modified(now))))
        return headers

    def _sitemap(self, site: Site, now: float) -> Reply:
        if not site.host.robots.sitemap:
            return Reply(404)
        entries = []
        for path in site.paths(now):
            place = site.place(path, now)
            if place and not place.redirect:
                at = datetime.fromtimestamp(place.modified(now), UTC).isoformat(timespec="seconds")
                url = site.host.url(path).replace("&", "&amp;")
                entries.append(f"<url><loc>{url}</loc><lastmod>{at}</lastmod></url>")
        xml = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        body = (xml + "\n".join(entries) + "</urlset>\n").encode()
        return Reply(200, [("Content-Type", "application/xml")], body)


_NOT_FOUND = (
    b"<!doctype html><title>Not found</title><h1>Not found</h1><p>There is nothing at this address.</p>\n"
)


def _robots(host: Host) -> Reply:
    if host.robots.status != 200:
        return Reply(host.robots.status, [("Content-Type", "text/plain")], b"no robots here\n")
    if host.robots.moved:
        return Reply(301, [("Location", host.url(host.robots.moved))])
    return _text(host.robots.text(host.url("/sitemap.xml")))


def _text(text: str) -> Reply:
    return Reply(200, [("Content-Type", "text/plain; charset=utf-8")], text.encode())


def is_fresh(request: Request, headers: dict[str, str]) -> bool:
    """RFC 9110 §13.2.2: If-None-Match goes before If-Modified-Since."""
    known = request.headers.get("if-none-match")
    if known is not None:
        return "ETag" in headers and headers["ETag"] in known
    since = request.headers.get("if-modified-since")
    if since is None or "Last-Modified" not in headers:
        return False
    try:
        return parsedate_to_datetime(headers["Last-Modified"]) <= parsedate_to_datetime(since)
    except ValueError:
        return False


def _encoded(host: Host, request: Request, headers: list[tuple[str, str]], body: bytes) -> Reply:
    accepted = request.headers.get("accept-encoding", "")
    if host.encoding == "gzip" and "gzip" in accepted:
        packer = isal_zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
        body = packer.compress(body) + packer.flush()
        headers.append(("Content-Encoding", "gzip"))
    elif host.encoding == "br" and "br" in accepted:
        body = brotli.compress(body, quality=1)
        headers.append(("Content-Encoding", "br"))
    return Reply(200, headers, body)
