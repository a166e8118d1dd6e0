"""Bytes to facts: encoding, links, main text, change fingerprint, simhash. No I/O, no clock; never raises."""

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from crawl_platform.digest import charset
from crawl_platform.digest.blocks import main_text
from crawl_platform.digest.depth import bounded
from crawl_platform.digest.fingerprint import fingerprint, of_bytes
from crawl_platform.digest.kind import kind_of
from crawl_platform.digest.model import Digest, Link
from crawl_platform.digest.page import Page
from crawl_platform.digest.simhash import simhash

__all__ = ["Digest", "Link", "digest"]

MAX_TITLE = 1_000
MAX_TEXT = 500_000


def digest(body: bytes, url: str, content_type: str | None) -> Digest:
    """Facts of `body`, fetched from `url` (absolute) with that Content-Type header (None if it had none)."""
    kind = kind_of(body, content_type)
    if kind == "html":
        return _html(body, url, content_type)
    if kind == "text":
        return _text(body, content_type)
    return Digest(is_html=False, charset="", fingerprint=of_bytes(body))


def _html(body: bytes, url: str, content_type: str | None) -> Digest:
    encoding, query_encoding = charset.sniff(body, content_type)
    page = Page(bounded(charset.decode(body, encoding)), url, query_encoding)
    links = page.links
    title = page.title or ""
    text = main_text(page.blocks)[:MAX_TEXT]
    return Digest(
        is_html=True,
        charset=encoding,
        fingerprint=fingerprint(title, page.blocks),
        simhash=simhash(text),
        text_hash=_text_hash(text),
        links=links,
        links_hash=_links_hash(links),
        title=title[:MAX_TITLE],
        text=text,
        canonical=page.canonical,
        noindex=page.noindex,
        nofollow=page.nofollow,
        meta_refresh=page.meta_refresh,
        frames=tuple(page.frames),
        hreflang=tuple(page.hreflang),
    )


def _text(body: bytes, content_type: str | None) -> Digest:
    encoding = charset.bom(body) or charset.declared(content_type) or charset.sniff(body, None)[0]
    text = charset.decode(body, encoding).decode("utf-8", "replace")[:MAX_TEXT]
    return Digest(
        is_html=False,
        charset=encoding,
        fingerprint=of_bytes(body),
        simhash=simhash(text),
        text_hash=_text_hash(text),
        text=text,
    )


def _text_hash(text: str) -> str:
    folded = " ".join(text.split())
    return xxh3_64_hexdigest(folded.encode("utf-8", "replace")) if folded else ""


def _links_hash(links: tuple[Link, ...]) -> int:
    lines = [f"{link.url}\t{link.rel}\t{link.position}" for link in links]
    return xxh3_64_intdigest("\n".join(lines).encode("utf-8", "replace"))
