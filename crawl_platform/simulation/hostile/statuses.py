"""Hosts that answer correctly and say no, for ever."""

from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import Headers, Visit, page

_row = partial(Misbehaviour, "statuses")


def _always(status: int, headers: Headers = ()) -> Act:
    async def act(visit: Visit) -> None:
        await visit.answer(page(str(status)), status, headers)

    return act


ROWS = (
    _row(
        "status-401", "401, always", ("unauthorized",), _always(401, [("WWW-Authenticate", "Basic")]), most=2
    ),
    _row(
        "status-402",
        "402 with a price",
        ("payment_required",),
        _always(402, [("crawler-price", "USD 1e9")]),
        most=2,
    ),
    _row("status-403", "403, always", ("unauthorized",), _always(403), most=2),
    _row("status-404", "404, always", ("not_found",), _always(404), most=2),
    _row("status-410", "410, always", ("gone",), _always(410), most=2),
    _row("status-418", "418, always", ("client_error",), _always(418), most=2),
    _row("status-429", "429, always", ("rate_limited",), _always(429), most=3),
    _row(
        "status-429-late",
        "429, come back in a million years",
        ("rate_limited",),
        _always(429, [("Retry-After", "9" * 30)]),
        most=2,
    ),
    _row(
        "status-429-noise",
        "429 with a Retry-After that is none",
        ("rate_limited",),
        _always(429, [("Retry-After", "\xff-1e999")]),
        most=3,
    ),
    _row("status-500", "500, always", ("server_error",), _always(500), most=3),
    _row("status-503", "503, always", ("unavailable",), _always(503), most=3),
    _row("status-507", "507, always", ("server_error",), _always(507), most=3),
)
