"""Conditional requests: what a page sends to be recognised by, and whether the client has it already."""

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from crawl_platform.simulation import chance
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.message import Request
from crawl_platform.simulation.page import Place

Headers = list[tuple[str, str]]


def http_date(t: float) -> str:
    return format_datetime(datetime.fromtimestamp(int(t), UTC), usegmt=True)


def validators(seed: int, host: Host, path: str, place: Place, request: Request, now: float) -> Headers:
    """ETag and Last-Modified as the host gives them.

    Last-Modified has whole seconds, so it is withheld in the second of the change: a second change within it
    would be hidden (RFC 9110 §8.8.2.2).
    """
    headers = []
    if host.validators in ("etag", "both"):
        headers.append(("ETag", f'"{chance.key(seed, host.name, path, place.version(now)):016x}"'))
    if host.validators == "noisy":
        headers.append(("ETag", f'"{request.number:x}-{now:.3f}"'))
    modified = place.modified(now)
    if host.validators in ("last-modified", "both") and int(modified) < int(now):
        headers.append(("Last-Modified", http_date(modified)))
    return headers


def is_fresh(request: Request, headers: dict[str, str]) -> bool:
    """Whether 304 is right. RFC 9110 §13.2.2: If-None-Match goes before If-Modified-Since."""
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
