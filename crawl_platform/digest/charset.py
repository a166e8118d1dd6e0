"""Which encoding a body is in, and how its URLs' queries are written (WHATWG Encoding and HTML standards).

Order (HTML §13.2.3.2): byte order mark, Content-Type, meta prescan of the first 1024 bytes; then, if there is more
than ASCII to read, a meta element further down (a browser starts again when it meets one), then statistics
(`charset_guess`), then windows-1252.
"""

import codecs
import re
from functools import lru_cache

from crawl_platform.digest.charset_guess import guess

DEFAULT = "windows-1252"

# WHATWG labels (Encoding §4.2) by encoding, for those whose labels differ from the name. Lower case.
_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i"
    " iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7"
    " iso_8859-7:1987 sun_eu_greek",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8"
    " iso_8859-8:1988 visual",
    "iso-8859-8-i": "csiso88598i logical",
    "iso-8859-10": "csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso8859-13 iso885913",
    "iso-8859-14": "iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "",
    "koi8-r": "cskoi8r koi koi8 koi8_r",
    "koi8-u": "koi8-ru",
    "macintosh": "csmacintosh mac x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "windows-1250": "cp1250 x-cp1250",
    "windows-1251": "cp1251 x-cp1251",
    "windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591"
    " iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252",
    "windows-1253": "cp1253 x-cp1253",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5"
    " latin5 x-cp1254",
    "windows-1255": "cp1255 x-cp1255",
    "windows-1256": "cp1256 x-cp1256",
    "windows-1257": "cp1257 x-cp1257",
    "windows-1258": "cp1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "gb18030": "",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese x-euc-jp",
    "iso-2022-jp": "csiso2022jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "euc-kr": "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr",
    "utf-16be": "unicodefffe",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "x-user-defined": "",
}
_ENCODING = {label: name for name, labels in _LABELS.items() for label in (name, *labels.split())}

# Python's name where it is not WHATWG's; the wider relatives that browsers decode with.
_CODEC = {
    "gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949", "big5": "big5hkscs", "ibm866": "cp866",
    "iso-8859-8-i": "iso-8859-8", "macintosh": "mac_roman", "windows-874": "cp874", "x-mac-cyrillic": "mac_cyrillic",
    "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "iso-2022-jp": "iso2022_jp_ext", "koi8-u": "koi8-u",
}  # fmt: skip
_MULTIBYTE = frozenset(
    {"gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "utf-16le", "utf-16be"}
)
_NOT_ASCII = frozenset({"iso-2022-jp", "utf-16le", "utf-16be", "replacement"})

# Encoding is narrower than decoding (Encoding §§10–13).
_ENCODER = {"gbk": "gbk", "big5": "cp950", "iso-2022-jp": "iso2022_jp"}
_JIS = (("\u2212", "\uff0d"),)
_ENCODER_SUBSTITUTES = {
    "shift_jis": (*_JIS, ("\xa5", "\\"), ("\u203e", "~")),
    "euc-jp": (*_JIS, ("\xa5", "\\"), ("\u203e", "~")),
    "iso-2022-jp": (*_JIS, ("\x0e", "&#65533;"), ("\x0f", "&#65533;"), ("\x1b", "&#65533;")),
    "gb18030": (("\ue5e5", "&#58853;"),),
    "gbk": (("\ue5e5", "&#58853;"),),
}
_UTF8_QUERIES = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement", "x-user-defined"})
_REFERENCE = re.compile(rb"&#([0-9]+);")

_parameter = re.compile(
    r"""(?:^|[;,\s])charset\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"?|'([^']*+)'?|([^\s;,"']*+))""", re.IGNORECASE
).search
# HTML, "extracting a character encoding from a meta element": a quote that is not closed is no value.
_in_content = re.compile(
    r"""charset[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"([^"]*+)"|'([^']*+)'|(?!["'])([^\t\n\f\r ;]*+))""",
    re.IGNORECASE,
).search
# A comment may end with the dashes that it begins with.
_markup = re.compile(
    rb"<!(?=--).*?(?:-->|\Z)|<meta(?=[\t\n\f\r /])|<(/?+[a-z])|<[!/?][^>]*+", re.IGNORECASE | re.DOTALL
).search
_attribute = re.compile(
    rb"""[\t\n\f\r /]*+(?:(?!>)(=?+[^\t\n\f\r />=]*+)[\t\n\f\r ]*+"""
    rb"""(?:=[\t\n\f\r ]*+(?:"([^"]*+)("?+)|'([^']*+)('?+)|([^\t\n\f\r >]*+)))?+)?+""",
    re.DOTALL,
).match
_name = re.compile(rb"</?+[^\t\n\f\r />]*+").match


def encoding_of(label: str) -> str | None:
    """The WHATWG encoding that `label` names, or None."""
    return _ENCODING.get(label.strip(" \t\n\r\f").lower())


def sniff(body: bytes, content_type: str | None) -> tuple[str, str]:
    """The encoding of an HTML `body`, and the one that its URLs' queries are written in (WHATWG names).

    They are one, except where nothing decides: in an undeclared ASCII document a query's other characters stem
    from character references, and servers read those as UTF-8.
    """
    encoding = bom(body) or declared(content_type) or _prescan(body[:PRESCANNED])
    if encoding is None and not body.isascii():
        encoding = _prescan(body[PRESCANNED:_SAMPLE]) or guess(body) or DEFAULT
    return (encoding, encoding) if encoding else (DEFAULT, "utf-8")


def bom(body: bytes) -> str | None:
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    return {codecs.BOM_UTF16_LE: "utf-16le", codecs.BOM_UTF16_BE: "utf-16be"}.get(body[:2])


def declared(content_type: str | None) -> str | None:
    """The encoding that a Content-Type header names; the first that names one."""
    match = _parameter(content_type) if content_type else None
    return encoding_of(match[1] or match[2] or match[3] or "") if match else None


PRESCANNED = 1_024
_SAMPLE = 65_536


def _prescan(head: bytes) -> str | None:
    """HTML §13.2.3.3 "prescan a byte stream to determine its encoding"."""
    if b"charset" not in head.lower():
        return None
    at = 0
    while (tag := _markup(head, at)) is not None:
        at = tag.end()
        is_meta = tag[0][:5].lower() == b"<meta"
        if not is_meta and tag[1] is None:
            continue
        if not is_meta:
            name = _name(head, tag.start())
            at = name.end() if name else at
        attributes, at = _attributes(head, at)
        encoding = _of_meta(attributes) if is_meta else None
        if encoding:
            return encoding
    return None


def _attributes(head: bytes, at: int) -> tuple[dict[str, str], int]:
    """The attributes of a tag from `at` on, the first of each name, in order; and where they end.

    One whose quote is not closed within `head` is none, as in a browser.
    """
    found: dict[str, str] = {}
    while (match := _attribute(head, at)) is not None and match.end() > at and match[1]:
        at = match.end()
        if (match[2] is not None and not match[3]) or (match[4] is not None and not match[5]):
            break
        value = match[2] or match[4] or match[6] or b""
        found.setdefault(match[1].decode("latin-1").lower(), value.decode("latin-1"))
    return found, at


def _of_meta(attributes: dict[str, str]) -> str | None:
    """What a meta element declares. UTF-16 can't be, since the declaration was read as ASCII: it means UTF-8."""
    label, is_pragma = attributes.get("charset"), False
    if label is None:
        match = _in_content(attributes.get("content", ""))
        is_pragma = attributes.get("http-equiv", "").lower() == "content-type"
        label = (match[1] or match[2] or match[3]) if match and is_pragma else None
    encoding = encoding_of(label) if label else None
    return {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": DEFAULT}.get(encoding or "", encoding)


def decode(body: bytes, encoding: str) -> bytes:
    """`body` as UTF-8 without byte order mark; what can't be decoded becomes U+FFFD."""
    if encoding == "utf-8":
        return body.removeprefix(codecs.BOM_UTF8)
    if encoding == "replacement":
        return "\ufffd".encode() if body else b""
    if encoding not in _NOT_ASCII and body.isascii():
        return body
    if encoding in _MULTIBYTE:
        text = body.decode(_CODEC.get(encoding, encoding), "replace").removeprefix("\ufeff")
    else:
        text = "".join([_table(encoding)[byte] for byte in body])
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=64)
def _table(encoding: str) -> str:
    """Decoding table of a single-byte encoding; bytes that have no character below A0 are C1 controls."""
    if encoding == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    codec = _CODEC.get(encoding, encoding.replace("windows-", "cp"))
    chars = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    windows = encoding.startswith("windows-")
    return "".join(chr(b) if c == "\ufffd" and windows and b < 0xA0 else c for b, c in enumerate(chars))


_QUERY_SAFE = frozenset(
    map(ord, "!$%&()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~")
)


def query_in(href: str, encoding: str) -> str:
    """`href` with its query percent-encoded in the document's encoding (URL §4.1, "query state").

    Characters that the encoding lacks become `&#…;`, percent-encoded. Only needed if `href` is not ASCII;
    UTF-16 documents write queries in UTF-8.
    """
    if encoding in _UTF8_QUERIES:
        return href
    before, mark, rest = href.partition("?")
    if not mark or "#" in before:
        return href
    query, hash_, fragment = rest.partition("#")
    encoded = "".join([chr(b) if b in _QUERY_SAFE else f"%{b:02X}" for b in _encode(query, encoding)])
    return f"{before}?{encoded}{hash_}{fragment}"


def _encode(query: str, encoding: str) -> bytes:
    for char, substitute in _ENCODER_SUBSTITUTES.get(encoding, ()):
        query = query.replace(char, substitute)
    codec = _ENCODER.get(encoding) or _CODEC.get(encoding, encoding.replace("windows-", "cp"))
    octets = query.encode(codec, "xmlcharrefreplace")
    # A query holds no "#" of its own, so these are the replacements.
    return _REFERENCE.sub(rb"%26%23\1%3B", octets)
