"""Hosts whose robots.txt is the weapon. Some also have pages, which are honest."""

from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page

_row = partial(Misbehaviour, "robots")
_ROBOTS = "/robots.txt"


def _file(body: bytes, status: int = 200) -> Act:
    async def act(visit: Visit) -> None:
        await visit.answer(body, status, kind="text/plain")

    return act


async def _endless(visit: Visit) -> None:
    await visit.head(headers=[("Content-Type", "text/plain")])
    await visit.send(b"User-agent: *\nDisallow: /secret\n")
    await visit.pour(b"Disallow: /and/more\n" * 1_000)


async def _circle(visit: Visit) -> None:
    await visit.redirect("/robots.txt")


async def _elsewhere(visit: Visit) -> None:
    """A chain over other hosts' files: none of their caches may take this for their own."""
    await visit.redirect(visit.url("/not-robots.txt", "robots-page"))


async def _silent(visit: Visit) -> None:
    await visit.gone()


_PATTERNS = b"User-agent: *\n" + b"Disallow: /" + b"*a" * 5_000 + b"$\n" + b"Disallow: /*?*x*y*z\n" * 2_000
_LARGE = b"User-agent: *\nDisallow: /secret\n" + b"# nothing to see here, and nothing there\n" * 250_000
_GROUPS = b"".join(b"User-agent: bot%d\nDisallow: /%d\n" % (n, n) for n in range(15_000))

ROWS = (
    _row(
        "robots-endless", "robots.txt without end", ("ok",), robots=_endless, watched=_ROBOTS, truncated=True
    ),
    _row("robots-circle", "robots.txt redirects to itself", ("redirect",), robots=_circle, watched=_ROBOTS),
    _row(
        "robots-elsewhere",
        "robots.txt redirects to another host",
        ("redirect",),
        robots=_elsewhere,
        watched=_ROBOTS,
    ),
    _row(
        "robots-500", "500 for robots.txt, always", ("server_error",), robots=_file(b"", 500), watched=_ROBOTS
    ),
    _row(
        "robots-silent",
        "robots.txt is never answered",
        ("first_byte_timeout",),
        robots=_silent,
        watched=_ROBOTS,
    ),
    _row(
        "robots-10-mb", "robots.txt of 10 MB", ("ok",), robots=_file(_LARGE), watched=_ROBOTS, truncated=True
    ),
    _row("robots-binary", "robots.txt of noise", ("ok",), robots=_file(bytes(range(256)) * 400)),
    _row("robots-page", "HTML as robots.txt", ("ok",), robots=_file(page("no robots here"))),
    _row("robots-groups", "15,000 groups", ("ok",), robots=_file(_GROUPS)),
    _row(
        "robots-patterns",
        "patterns that explode in a backtracking matcher",
        ("ok",),
        robots=_file(_PATTERNS),
        watched=_ROBOTS,
    ),
    _row(
        "robots-delay",
        "a crawl-delay of ten thousand years",
        ("ok",),
        watched=_ROBOTS,
        robots=_file(b"User-agent: *\nCrawl-delay: 315360000000\n"),
    ),
    _row(
        "robots-forbids",
        "forbids everything",
        ("ok",),
        robots=_file(b"User-agent: *\nDisallow: /\n"),
        watched=_ROBOTS,
        most=1,
    ),
)
