"""What response headers and meta elements say to crawlers: robots directives, links, refreshes. Pure parsers.

All take what a site sent and never raise; every regular expression is linear in its input.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crawl_platform.web.url import resolve

# Directives that have a value of their own; any other name before a colon is an agent.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_agent = re.compile(r"[a-z*][^\s]*").fullmatch
_EVERYBODY = frozenset({"", "*", "robots"})


def robots_directives(content: str) -> Iterator[str]:
    """Directives of a meta robots element in lower case, like `noindex` or `max-snippet:-1`.

    They are a list with commas; white space alone separates too, as many pages believe.
    """
    for part in content.lower().split(","):
        name, colon, value = part.partition(":")
        if colon and name.strip():
            yield f"{name.strip()}:{value.strip()}"
        else:
            yield from name.split()


def x_robots_tag(values: str | Iterable[str], agent: str) -> frozenset[str]:
    """Directives of X-Robots-Tag headers that concern `agent` (our product token) or everybody.

    `values` are the header's field values, as a list or one on each line. An agent's name ("otherbot: noindex")
    speaks for what follows it in the same value.
    """
    found: set[str] = set()
    for value in values.splitlines() if isinstance(values, str) else values:
        scope = ""
        for part in filter(None, value.lower().split(",")):
            name, colon, rest = part.partition(":")
            name = name.strip()
            if colon and name not in _VALUED and _agent(name):
                scope, part = name, rest
            if scope in _EVERYBODY or scope == agent.lower():
                found.update(robots_directives(part))
    return frozenset(found)


def bars_index(directives: Iterable[str]) -> bool:
    return not {"noindex", "none"}.isdisjoint(directives)


def bars_follow(directives: Iterable[str]) -> bool:
    return not {"nofollow", "none"}.isdisjoint(directives)


class HeaderLink(NamedTuple):
    """One link of a Link header: absolute http(s) `url`, lower-case `rel` tokens, parameters ('' if absent)."""

    url: str
    rel: tuple[str, ...]
    hreflang: str = ""
    type: str = ""


_link = re.compile(
    r"<([^<>]*+)>((?:[\t ]*+;[\t ]*+(?:[^\s=;,\"]++(?:[\t ]*+=[\t ]*+(?:\"(?:[^\"\\]|\\.)*+\"?|[^\s\",;]*+))?)?)*+)",
    re.DOTALL,
).finditer
_parameter = re.compile(
    r";[\t ]*+([^\s=;,\"]++)[\t ]*+=[\t ]*+(?:\"((?:[^\"\\]|\\.)*+)\"?|([^\s\",;]*+))"
).findall
MAX_HEADER_LINKS = 100


def link_header(value: str, document: str) -> list[HeaderLink]:
    """The links of a Link header (RFC 8288) that are about the document itself, resolved against its URL.

    A `base` element has no say in them (RFC 8288 §3.2). Links with an `anchor` are about something else.
    """
    links: list[HeaderLink] = []
    for target, tail in (match.groups() for match in _link(value)):
        parameters: dict[str, str] = {}
        for name, quoted, plain in _parameter(tail):
            parameters.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
        url = resolve(target, document) if "anchor" not in parameters else None
        if url is not None:
            rel = tuple(parameters.get("rel", "").lower().split())
            links.append(
                HeaderLink(url, rel, parameters.get("hreflang", ""), parameters.get("type", "").lower())
            )
        if len(links) >= MAX_HEADER_LINKS:
            break
    return links


class Refresh(NamedTuple):
    """A declarative refresh. `target` is a reference as written, None if the document itself is meant."""

    seconds: int
    target: str | None


_S = r"[\t\n\f\r ]"
_refresh = re.compile(
    rf"{_S}*+(?:([0-9]++)[0-9.]*+|\.[0-9.]*+)(?:\Z|{_S}*+[;,]{_S}*+|{_S}++)(.*)", re.DOTALL
).match
_named = re.compile(rf"url{_S}*+={_S}*+", re.IGNORECASE).match
_LONGEST_NUMBER = 9


def refresh(content: str) -> Refresh | None:
    """HTML, "shared declarative refresh steps", for meta refresh and the Refresh header; None if it is neither."""
    match = _refresh(content)
    if match is None:
        return None
    seconds = int((match[1] or "0")[:_LONGEST_NUMBER])
    rest = match[2]
    if not rest:
        return Refresh(seconds, None)
    named = _named(rest)
    if named is not None:
        rest = rest[named.end() :]
    # A reference that begins with a u, but isn't "url=", is taken as it is; so quotes can only be stripped here.
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return Refresh(seconds, rest)


_candidate = re.compile(rf"(?:{_S}|,)*+([^\t\n\f\r ]++)").match
_descriptors = re.compile(r"((?:[^(),]++|\([^)]*+\)?)*+),?").match
_descriptor = re.compile(r"[0-9]++[wh]|[-+]?[0-9.]++(?:e[-+]?[0-9]++)?x", re.IGNORECASE).fullmatch


def srcset(value: str) -> Iterator[str]:
    """References of a srcset attribute (HTML, "parse a srcset attribute"), as written, in order."""
    at = 0
    while (candidate := _candidate(value, at)) is not None:
        reference = candidate[1].rstrip(",")
        at = candidate.end()
        described = True
        if reference == candidate[1]:
            rest = _descriptors(value, at)
            assert rest is not None
            at = rest.end()
            described = all(map(_descriptor, rest[1].split()))
        if reference and described:
            yield reference
