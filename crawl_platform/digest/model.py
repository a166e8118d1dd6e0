"""What a digest says about one body."""

import msgspec
from xxhash import xxh3_64_intdigest


class Link(msgspec.Struct, frozen=True, gc=False):
    """One `a` or `area` with an http(s) target, in document order.

    `url` is absolute, WHATWG form, fragment kept. `rel` holds lower-case tokens separated by one space.
    `position` is nav, header, main, aside, footer, comments or other. `anchor` is cut at 200 characters.
    `nofollow` is true for rel nofollow, ugc and sponsored, and when meta robots or X-Robots-Tag says so for the page.
    """

    url: str
    rel: str = ""
    position: str = "other"
    anchor: str = ""
    nofollow: bool = False


class Digest(msgspec.Struct, frozen=True):
    """The facts of one body, and of the headers that it came with.

    For what is no HTML all but `fingerprint`, `charset`, what headers say and (plain text) `text`, `simhash` and
    `text_hash` are empty.
    """

    charset: str
    """WHATWG name of the encoding that was used; '' for binary bodies."""
    fingerprint: str
    """Hash (128 bits, hex) of what counts as a change."""
    simhash: int = 0
    """64-bit simhash of the main text, as a signed integer; 0 if there is no text."""
    text_hash: str = ""
    """xxh3_64 (hex) of the main text, white space folded and case kept; '' if there is no text."""
    links: tuple[Link, ...] = ()
    title: str = ""
    text: str = ""
    """Main text, one line per block."""
    canonical: str | None = None
    """Target of the first `link rel=canonical`, else of a Link header's."""
    noindex: bool = False
    """Meta robots or X-Robots-Tag says noindex or none; likewise `nofollow`."""
    nofollow: bool = False
    meta_refresh: str | None = None
    """Target of a declarative refresh (meta element, else Refresh header), resolved; the page itself if it only
    reloads; None if there is none or it leads to nothing http."""
    frames: tuple[str, ...] = ()
    """http(s) sources of `frame` and `iframe`, in document order; they are no links."""
    hreflang: tuple[tuple[str, str], ...] = ()
    """(language, url) of `link rel=alternate hreflang`, those of Link headers last."""
    kind: str = "other"
    """html, text, feed, sitemap or other (see `kind.kind_of`)."""
    robots: tuple[str, ...] = ()
    """Directives of the meta robots elements that concern us, sorted, lower case: noindex, noarchive, noai,
    max-snippet:-1 …"""
    tdm_reservation: str | None = None
    """Content of the TDMRep meta element `tdm-reservation` ("1": rights are reserved)."""
    tdm_policy: str | None = None
    """URL of the TDMRep policy that a meta element names."""
    next: tuple[str, ...] = ()
    """Targets of `link rel=next`, those of Link headers last."""
    prev: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    """URLs of RSS, Atom, RDF and JSON feeds that the head names."""
    resources: tuple[str, ...] = ()
    """http(s) sources of images (`src` and `srcset`, also of `picture`), in document order, at most 1,000."""

    entity_types: tuple[str, ...] = ()
    """Types of what the page says it is about, in JSON-LD (Article, Product …), in their order there, at most 10."""

    @property
    def is_html(self) -> bool:
        return self.kind == "html"

    @property
    def links_hash(self) -> int:
        """xxh3_64 (unsigned) over url, rel and position of all links, in document order; 0 for what is no HTML."""
        lines = [f"{link.url}\t{link.rel}\t{link.position}" for link in self.links]
        return xxh3_64_intdigest("\n".join(lines).encode("utf-8", "replace")) if self.is_html else 0
