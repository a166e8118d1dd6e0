"""Bytes to facts: encoding, links, main text, change fingerprint, simhash. No I/O, no clock; never raises."""

from collections.abc import Mapping

from xxhash import xxh3_64_hexdigest

from crawl_platform.digest import charset, simhash
from crawl_platform.digest.bounds import bounded
from crawl_platform.digest.fingerprint import fingerprint, of_bytes
from crawl_platform.digest.kind import kind_of
from crawl_platform.digest.model import Digest, Link
from crawl_platform.digest.page import Page
from crawl_platform.web.signals import (
    HeaderLink,
    bars_follow,
    bars_index,
    link_header,
    x_robots_tag,
)

__all__ = ["Digest", "Link", "digest", "warm"]

MAX_TITLE = 1_000
MAX_TEXT = 500_000
_NO_HEADERS: Mapping[str, str] = {}


def digest(
    body: bytes,
    url: str,
    content_type: str | None,
    headers: Mapping[str, str] = _NO_HEADERS,
    agent: str = "",
) -> Digest:
    """Facts of `body`, fetched from `url` (absolute) with that Content-Type header (None if it had none).

    `headers`: the response's other headers by lower-case name; Link, X-Robots-Tag and Refresh are looked at.
    `agent`: the product token that we go by, for directives that name it.
    """
    kind = kind_of(body, content_type)
    said = _Headers(headers, url, agent)
    if kind == "html":
        return _html(body, url, content_type, said, agent)
    facts = _text(body, content_type) if kind == "text" else {"charset": ""}
    return Digest(
        kind=kind,
        fingerprint=of_bytes(body),
        canonical=said.first("canonical"),
        noindex=bars_index(said.robots),
        nofollow=bars_follow(said.robots),
        **facts,  # type: ignore[arg-type]
    )


class _Headers:
    """What the headers say about the document."""

    def __init__(self, headers: Mapping[str, str], url: str, agent: str) -> None:
        link = headers.get("link", "") if headers else ""
        tag = headers.get("x-robots-tag", "") if headers else ""
        self.links: list[HeaderLink] = link_header(link, url) if link else []
        self.robots: frozenset[str] = x_robots_tag(tag, agent) if tag else frozenset()
        self.refresh = headers.get("refresh", "") if headers else ""

    def of(self, rel: str) -> list[str]:
        return [link.url for link in self.links if rel in link.rel]

    def first(self, rel: str) -> str | None:
        return next(iter(self.of(rel)), None)


def _html(body: bytes, url: str, content_type: str | None, said: _Headers, agent: str) -> Digest:
    encoding, query_encoding = charset.sniff(body, content_type)
    page = Page(bounded(charset.decode(body, encoding)), url, query_encoding, agent, bars_follow(said.robots))
    title = page.title or ""
    octets, text = _cut(page.blocks.main_text())
    return Digest(
        charset=encoding,
        fingerprint=fingerprint(title, page.blocks),
        simhash=simhash.of_octets(octets),
        text_hash=_text_hash(octets),
        links=page.links,
        title=title[:MAX_TITLE],
        text=text,
        canonical=page.canonical or said.first("canonical"),
        noindex=bars_index(page.robots) or bars_index(said.robots),
        nofollow=page.nofollow,
        meta_refresh=page.meta_refresh or (page.refresh_target(said.refresh) if said.refresh else None),
        frames=page.frames,
        hreflang=(
            *page.hreflang,
            *[(x.hreflang, x.url) for x in said.links if x.hreflang and "alternate" in x.rel],
        ),
        kind="html",
        robots=tuple(sorted(page.robots)),
        tdm_reservation=page.tdm_reservation,
        tdm_policy=page.tdm_policy,
        next=(*page.next, *said.of("next")),
        prev=(*page.prev, *said.of("prev")),
        feeds=tuple(page.feeds),
        resources=page.resources,
        entity_types=page.entity_types,
    )


def _text(body: bytes, content_type: str | None) -> dict[str, object]:
    encoding = charset.bom(body) or charset.declared(content_type) or charset.sniff(body, None)[0]
    octets, text = _cut(charset.decode(body, encoding))
    folded = " ".join(text.split()).encode("utf-8", "replace")
    return {
        "charset": encoding,
        "simhash": simhash.of_octets(octets),
        "text_hash": _text_hash(folded),
        "text": text,
    }


def _cut(octets: bytes) -> tuple[bytes, str]:
    """The first characters of a text, as octets without faults and as characters."""
    text = octets.decode("utf-8", "replace")
    if len(text) > MAX_TEXT or "\ufffd" in text:
        text = text[:MAX_TEXT]
        octets = text.encode()
    return octets, text


def _text_hash(text: bytes) -> str:
    """Of a text whose white space is collapsed; lines count as spaces."""
    return xxh3_64_hexdigest(text.rstrip().replace(b"\n", b" ")) if text else ""


def warm() -> None:
    """Have all machine code in memory before the first page: from where it is kept, or compiled now, in ten seconds."""
    nested = b"<div class=menu><h2>1.2 \xc3\x89</h2><b><p>x<a href=/><img alt=y></a>" * 200
    for body in (nested, "<title>字</title><svg><a href=x>y</a></svg><noscript>z</noscript>字".encode() * 40):
        digest(body, "http://localhost/", "text/html")
