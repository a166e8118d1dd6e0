"""Request → reply: robots, sitemap, pages with validators and codings, and each host's way of misbehaving."""

import re
import zlib
from typing import TYPE_CHECKING

import brotli
from isal import isal_zlib

from crawl_platform.simulation import faults, feeds, markup, noise
from crawl_platform.simulation.conditional import Headers, is_fresh, validators
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.page import File
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
        side = _beside(site, request.path, now)
        if side:
            return side
        path, session = without_session(request.path) if host.sessions else (request.path, "")
        place = site.place(path, now)
        if place is None:
            return Reply(200 if host.soft404 else 404, [("Content-Type", "text/html")], _NOT_FOUND)
        if place.redirect:
            return Reply(place.redirect[0], [("Location", place.redirect[1])])
        headers = validators(self._web.seed, host, path, place, request, now)
        if is_fresh(request, dict(headers)):
            return Reply(304, headers)
        if place.file:
            return _file(place.file, headers)
        drawn = self._web.drawn(site, path, place, now)
        body = markup.fill(drawn, noise.draw(self._web.seed, now, request.number, session))
        # Half of the hosts with an odd charset say so only in the page.
        charset = f"; charset={host.charset}" if host.charset == "utf-8" or len(host.name) % 2 else ""
        headers.append(("Content-Type", f"text/html{charset}"))
        return _encoded(host, request, headers, body)


_NOT_FOUND = (
    b"<!doctype html><title>Not found</title><h1>Not found</h1><p>There is nothing at this address.</p>\n"
)


def _beside(site: Site, path: str, now: float) -> Reply | None:
    """What is not a page: sitemap, feed, the place that robots.txt has moved to."""
    host = site.host
    if host.robots.moved and path == host.robots.moved:
        return _text(host.robots.text(host.url(feeds.SITEMAP)))
    if path == feeds.SITEMAP and host.robots.sitemap:
        return Reply(200, [("Content-Type", "application/xml")], feeds.sitemap(site, now))
    if path == feeds.FEED and site.feed:
        return Reply(200, [("Content-Type", "application/rss+xml")], feeds.rss(site, now))
    return None


def _file(file: File, headers: Headers) -> Reply:
    return Reply(200, [*headers, ("Content-Type", file.content_type), *file.headers], file.read())


def _robots(host: Host) -> Reply:
    if host.robots.status != 200:
        return Reply(host.robots.status, [("Content-Type", "text/plain")], b"no robots here\n")
    if host.robots.moved:
        return Reply(301, [("Location", host.url(host.robots.moved))])
    return _text(host.robots.text(host.url(feeds.SITEMAP)))


def _text(text: str) -> Reply:
    return Reply(200, [("Content-Type", "text/plain; charset=utf-8")], text.encode())


def _encoded(host: Host, request: Request, headers: Headers, body: bytes) -> Reply:
    accepted = request.headers.get("accept-encoding", "")
    if host.encoding == "gzip" and "gzip" in accepted:
        packer = isal_zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
        body = packer.compress(body) + packer.flush()
        headers.append(("Content-Encoding", "gzip"))
    elif host.encoding == "br" and "br" in accepted:
        body = brotli.compress(body, quality=1)
        headers.append(("Content-Encoding", "br"))
    return Reply(200, headers, body)
