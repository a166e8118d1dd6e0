"""What a body is: by its first bytes, then by its Content-Type.

After the WHATWG MIME Sniffing standard, for a reader instead of a browser: a declared type is kept unless the
bytes can't be that, and what has no type or a meaningless one is told by its bytes. Differences, all on the side
of caution or of use: a PDF, an image or an archive is never HTML, whatever it is declared as; a signature that
text may begin with ("BM", "ID3") needs a control character beside it; XML with an `html` root is HTML. As in a
browser, HTML that is served as text/plain is text: its author shows the source.
"""

import re

# §6: images, audio and video, fonts, archives; and what else no text begins with. ASCII alone may be text.
_SIGNATURES = (
    b"GIF87a", b"GIF89a", b"BM", b"\0\0\1\0", b"\0\0\2\0", b"II*\0", b"MM\0*", b"\0\0\0\x0cjP", b"OggS\0", b"ID3",
    b"MThd\0\0\0\6", b"fLaC", b"FLV\1", b"PK\3\4", b"PK\5\6", b"Rar!\x1a\7", b"BZh", b"wOFF", b"wOF2", b"\0\1\0\0",
    b"OTTO", b"ttcf", b"\x7fELF", b"MZ", b"\0asm", b"SQLite format 3\0",
)  # fmt: skip
_UNMISTAKABLE = (
    b"%PDF-", b"%!PS-Adobe-", b"\x89PNG", b"\xff\xd8\xff", b"\x1aE\xdf\xa3", b"\x1f\x8b", b"7z\xbc\xaf",
    b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\xca\xfe\xba\xbe", b"\xd0\xcf\x11\xe0",
)  # fmt: skip
_inner_signature = re.compile(
    rb"RIFF.{4}(?:WEBP|AVI |WAVE)|FORM.{4}AIF|.{4}ftyp|.{257}ustar", re.DOTALL
).match
# §7.1, and what else an HTML document is likely to begin with.
_markup = re.compile(
    rb"[\t\n\f\r ]*+<(?:!doctype\s+html|!--|(?:html|head|script|iframe|h[1-6]|div|font|table|a|style|title|b"
    rb"|body|br|p|meta|link|base|frameset|span|ul|ol|dl|img|nav|main|article|section|header|footer|center|form|noscript)(?=[\s/>]))",
    re.IGNORECASE,
).match
# §7.3 skips these on the way to the root of a feed.
_prolog = re.compile(rb"(?:[\t\n\f\r ]++|<!--.*?-->|<\?.*?\?>|<![^>]*+>)*+", re.DOTALL).match
_root = re.compile(rb"<(?:[\w.-]++:)?([\w.-]++)(?=[\s/>])").match
_FEEDS = frozenset({b"rss", b"feed", b"rdf"})
_SITEMAPS = frozenset({b"urlset", b"sitemapindex"})
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_UNSURE = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "unknown/unknown", "application/unknown", "*/*"}
)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_control, _controls = _CONTROL.search, _CONTROL.findall
_ESSENCE = re.compile(r"[\t\n\r ]*+([^;,]*)")
HEAD = 1_445
"""Octets that are looked at (§5.2)."""


def kind_of(body: bytes, content_type: str | None) -> str:
    """'html', 'text' (plain), 'feed' (RSS, Atom, RDF), 'sitemap' or 'other'."""
    head = body[:HEAD].removeprefix(b"\xef\xbb\xbf")
    essence = _essence(content_type)
    if _is_signed(head):
        return "other"
    if essence in _HTML_TYPES:
        return _declared_html(head, content_type)
    if essence == "text/plain":
        return "other" if _is_binary(head, content_type) else "text"
    if essence in _UNSURE:
        return _unknown(head)
    if essence.endswith(("/xml", "+xml")):
        return _of_root(head) or "other"
    return "other"


def _essence(content_type: str | None) -> str:
    match = _ESSENCE.match(content_type or "")
    essence = match[1].strip().lower() if match else ""
    return essence if "/" in essence else ""


def _declared_html(head: bytes, content_type: str | None) -> str:
    """§7.3: HTML, unless it is a feed; neither, if it is full of control characters and no markup comes first."""
    found = _of_root(head)
    if found:
        return found
    if not _is_binary(head, content_type) or _markup(head):
        return "html"
    # Stray control characters are common, more than one in twenty are not.
    return "other" if 20 * len(_controls(head)) > len(head) else "html"


def _unknown(head: bytes) -> str:
    found = _of_root(head)
    if found or _markup(head):
        return found or "html"
    return "other" if _is_binary(head, None) or head.lstrip()[:5] == b"<?xml" else "text"


def _of_root(head: bytes) -> str | None:
    """What the root element says, if it says something."""
    prolog = _prolog(head)
    root = _root(head, prolog.end() if prolog else 0)
    name = root[1].lower() if root else b""
    if name in _FEEDS:
        return "feed"
    if name in _SITEMAPS:
        return "sitemap"
    return "html" if name == b"html" else None


def _is_signed(head: bytes) -> bool:
    if head.startswith(_UNMISTAKABLE):
        return True
    return bool((head.startswith(_SIGNATURES) or _inner_signature(head)) and _control(head))


def _is_binary(head: bytes, content_type: str | None) -> bool:
    """§3 "binary data byte", unless UTF-16 explains it: by its mark or by the header."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or "utf-16" in (content_type or "").lower():
        return False
    return bool(_control(head))
