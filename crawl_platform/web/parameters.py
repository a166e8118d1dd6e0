"""The form in which one host's URLs are known: on top of `canonicalize`, what holds for that host alone.

A canonical URL goes in and a canonical URL comes out. Parameters that the operator says select nothing are
dropped, and where their order means nothing they are sorted by name. Values of one name keep their order: it may
be a list.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote_plus

from crawl_platform.settings import Urls
from crawl_platform.web.url import ROUNDS, canonicalize

_Matches = Callable[[str], bool]


def host_form(url: str, settings: Urls, *, sort: bool, fired: list[str] | None = None) -> str:
    """The canonical `url` as its host's settings want it. Idempotent, and still a fixed point of `canonicalize`.

    `sort`: the order of parameters is known to mean nothing. `fired` is given the names of the rules that changed
    the URL: keep-parameters, drop-parameters, parameter-order.
    """
    if "?" not in url or not (sort or settings.keep_parameters or settings.drop_parameters):
        return url
    names: list[str] = []
    form = url
    for _ in range(ROUNDS):
        changed = canonicalize(_once(form, settings, sort, names))
        if changed is None:
            return url
        if changed == form:
            if fired is not None:
                fired += names
            return form
        form = changed
    return url


def _once(url: str, settings: Urls, sort: bool, fired: list[str]) -> str:
    path, _, query = url.partition("?")
    parts = query.split("&")
    keeps, drops = _compiled(settings.keep_parameters), _compiled(settings.drop_parameters)
    if keeps is not None:
        parts = _noted("keep-parameters", parts, [part for part in parts if keeps(name_of(part))], fired)
    if drops is not None:
        parts = _noted("drop-parameters", parts, [part for part in parts if not drops(name_of(part))], fired)
    if sort:
        parts = _noted("parameter-order", parts, _in_order(parts), fired)
    return f"{path}?{'&'.join(parts)}" if parts else path


def _noted(rule: str, before: list[str], after: list[str], fired: list[str]) -> list[str]:
    if before != after and rule not in fired:
        fired.append(rule)
    return after


def name_of(part: str) -> str:
    """Name of a `name=value` of a query, decoded: `tags%5B%5D=a` is called `tags[]`."""
    name = part.partition("=")[0]
    return unquote_plus(name) if "%" in name or "+" in name else name


def sorted_by_name(url: str) -> str:
    """`url` with its parameters in the order of their names."""
    path, mark, query = url.partition("?")
    return path + mark + "&".join(_in_order(query.split("&")))


def _in_order(parts: list[str]) -> list[str]:
    return sorted(parts, key=lambda part: part.partition("=")[0])


@lru_cache(maxsize=1_024)
def _compiled(patterns: tuple[str, ...]) -> _Matches | None:
    """Whether a name matches one of `patterns`; None if there are none. Only `*` is special in them."""
    if not patterns:
        return None
    pattern = re.compile("|".join(".*".join(map(re.escape, text.split("*"))) for text in patterns), re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None
