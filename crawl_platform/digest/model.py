"""What a digest says about one body."""

import msgspec


class Link(msgspec.Struct, frozen=True):
    """One `a` or `area` with an http(s) target, in document order.

    `url` is absolute, WHATWG form, fragment kept. `rel` holds lower-case tokens separated by one space.
    `position` is nav, header, main, aside, footer, comments or other. `anchor` is cut at 200 characters.
    `nofollow` is true for rel nofollow, ugc and sponsored, and when the page's meta robots says nofollow.
    """

    url: str
    rel: str = ""
    position: str = "other"
    anchor: str = ""
    nofollow: bool = False


class Digest(msgspec.Struct, frozen=True):
    """The facts of one body. For what is no HTML all but `fingerprint`, `charset` and (plain text) `text`,
    `simhash` and `text_hash` are empty."""

    is_html: bool
    charset: str
    """WHATWG name of the encoding that was used; '' for binary bodies."""
    fingerprint: str
    """MD5 (hex) of what counts as a change."""
    simhash: int = 0
    """64-bit simhash of the main text, as a signed integer; 0 if there is no text."""
    text_hash: str = ""
    """xxh3_64 (hex) of the main text, white space folded and case kept; '' if there is no text."""
    links: tuple[Link, ...] = ()
    links_hash: int = 0
    """xxh3_64 (unsigned) over url, rel and position of all links, in document order."""
    title: str = ""
    text: str = ""
    """Main text, one line per block."""
    canonical: str | None = None
    noindex: bool = False
    nofollow: bool = False
    meta_refresh: str | None = None
    """Target of a declarative refresh, resolved; None if there is none or it only reloads nothing http."""
    frames: tuple[str, ...] = ()
    """http(s) sources of `frame` and `iframe`, in document order; they are no links."""
    hreflang: tuple[tuple[str, str], ...] = ()
    """(language, url) of `link rel=alternate hreflang`."""
