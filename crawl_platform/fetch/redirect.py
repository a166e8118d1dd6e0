"""Where a redirect leads: Location as servers really write it, and targets that are refused at once."""

from urllib.parse import quote

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.web.url import canonicalize, host_of, resolve

LOCATION_CAP = 8_192
"""Bytes. Browsers take 2 MB; a URL of more than this is a flood and no address."""
_ASCII = bytes(range(0x21, 0x7F)).decode()


def location(value: str) -> str:
    """A Location header's text, as aiohttp gives it, with its bytes beyond ASCII percent-encoded as bytes.

    The bytes need not be UTF-8; they are what the server will see again in the request. Spaces around are
    dropped, those within encoded.
    """
    value = value.strip()
    if value.isascii() and " " not in value:
        return value
    return quote(value.encode("utf-8", "surrogateescape"), safe=_ASCII)


def redirect_to(header: str, url: str, guard: AddressGuard) -> str:
    """The canonical target of a redirect from `url`.

    Raises `SiteError`: bad_redirect without a usable one, unsafe_redirect where it leads off the web (another
    scheme) or to a literal address that may not be contacted. Names are checked when they are resolved.
    """
    if not header:
        raise SiteError(Outcome.BAD_REDIRECT, "no Location")
    if len(header) > LOCATION_CAP:
        raise SiteError(Outcome.BAD_REDIRECT, f"Location of {len(header)} characters")
    target = resolve(header, url)
    if target is None:
        unsafe = ":" in header.split("/", 1)[0] and not header.lower().startswith(("http:", "https:"))
        outcome = Outcome.UNSAFE_REDIRECT if unsafe else Outcome.BAD_REDIRECT
        raise SiteError(outcome, f"Location: {header[:200]!r}")
    canonical = canonicalize(target)
    if canonical is None:
        raise SiteError(Outcome.BAD_REDIRECT, f"Location: {header[:200]!r}")
    if not guard.permits_host(host_of(canonical)):
        raise SiteError(Outcome.UNSAFE_REDIRECT, f"Location: {header[:200]!r}")
    return canonical
