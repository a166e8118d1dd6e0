"""Is a body HTML, plain text or something else: by its first bytes, then by its Content-Type.

A small part of the WHATWG MIME Sniffing standard: what a crawler must not feed to an HTML parser.
"""

import re

_BINARY = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"\x00\x00\x01\x00", b"BM",
    b"OggS", b"ID3", b"\x7fELF", b"Rar!", b"7z\xbc\xaf", b"wOFF", b"wOF2", b"\xd0\xcf\x11\xe0", b"II*\x00", b"MM\x00*",
)  # fmt: skip
_markup = re.compile(
    rb"[\t\n\f\r ]*<(?:!doctype\s+html|!--|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta|"
    rb"link|base|frameset|span|ul|img|nav|main|article|section|header|center|form)(?=[\s>/-])",
    re.IGNORECASE,
).match
_feed = re.compile(
    rb"[\t\n\f\r ]*<(?:\?xml|rss|feed|urlset|sitemapindex|svg|rdf:rdf)(?=[\s>?])", re.IGNORECASE
).match
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_UNSURE = frozenset({"", "application/octet-stream", "unknown/unknown", "application/unknown", "*/*"})


def kind_of(body: bytes, content_type: str | None) -> str:
    """'html', 'text' (plain) or 'other'."""
    head = body[:1024].removeprefix(b"\xef\xbb\xbf")
    essence = (content_type or "").partition(";")[0].strip().lower()
    if head.startswith(_BINARY) and not _markup(head):
        return "other"
    if essence in _HTML_TYPES:
        return "html" if essence != "text/html" or not _is_binary(head) else "other"
    if essence == "text/plain":
        return "other" if _is_binary(head) else "text"
    if essence in _UNSURE:
        if _markup(head):
            return "html"
        return "other" if _is_binary(head) or _feed(head) else "text"
    if essence.endswith(("/xml", "+xml")) and b"<html" in head.lower():
        return "html"
    return "other"


def _is_binary(head: bytes) -> bool:
    """MIME Sniffing §3 "binary data byte", unless UTF-16 explains it."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    return bool(re.search(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]{2}", head))
