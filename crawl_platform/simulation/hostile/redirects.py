"""Hosts that send a crawler on: in circles, without end, or where it must not go."""

from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import DECOYS, Visit

_row = partial(Misbehaviour, "redirects")


def _to(location: str, status: int = 302) -> Act:
    """Always there; {http} is the port."""

    async def act(visit: Visit) -> None:
        await visit.redirect(location.format(http=visit.http), status)

    return act


async def _maze(visit: Visit) -> None:
    await visit.redirect(f"/room/{visit.count('rooms')}/{visit.path.count('/')}")


async def _ring(visit: Visit) -> None:
    await visit.redirect({"/": "/a", "/a": "/b"}.get(visit.path, "/"))


async def _itself(visit: Visit) -> None:
    await visit.redirect("/", headers=[("Set-Cookie", "seen=1; Path=/")])


async def _chain(visit: Visit) -> None:
    number = int(visit.path.rpartition("/")[2] or 0)
    await visit.redirect(f"/hop/{number + 1}")


async def _nowhere(visit: Visit) -> None:
    await visit.answer(b"", 302)


async def _bytes(visit: Visit) -> None:
    await visit.head(302, [("Location", "/\xff\xfe\x80 a b"), ("Content-Length", "0")])


_INWARD = f"http://{DECOYS[0]}:{{http}}/admin"
ROWS = (
    _row("maze", "each redirect leads to another new URL", ("redirect",), _maze),
    _row("ring", "three redirects in a circle", ("redirect",), _ring),
    _row("itself", "redirects to itself with a cookie", ("redirect",), _itself),
    _row("chain", "a chain of a hundred redirects and more", ("redirect",), _chain),
    _row("to-private", "redirects to a private address", ("unsafe_redirect",), _to(_INWARD)),
    _row(
        "to-private-name",
        "redirects to a seed host whose name resolves to a private address",
        ("redirect",),
        _to("http://dns-inward.hostile.test:{http}/admin"),
    ),
    _row(
        "to-metadata",
        "redirects to the metadata service",
        ("unsafe_redirect",),
        _to("http://169.254.169.254/latest/"),
    ),
    _row("to-file", "redirects to a file", ("unsafe_redirect",), _to("file:///etc/passwd")),
    _row("to-script", "redirects to a script", ("unsafe_redirect",), _to("javascript:alert(1)")),
    _row(
        "to-mail-port",
        "redirects to port 25 of itself",
        ("redirect",),
        _to("http://to-mail-port.hostile.test:25/"),
    ),
    _row("to-nowhere", "redirects without Location", ("bad_redirect",), _nowhere),
    _row("to-bytes", "a Location that is no text", ("redirect",), _bytes, odd="raw_location"),
)
