import codecs

import pytest

from crawl_platform.digest import charset, digest
from crawl_platform.digest.charset import decode, encoding_of, sniff


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        (b"\xef\xbb\xbf<meta charset=koi8-r>", "text/html; charset=gbk", "utf-8"),
        (codecs.BOM_UTF16_LE + "x".encode("utf-16-le"), "text/html; charset=gbk", "utf-16le"),
        (b"<meta charset=koi8-r>", "text/html; charset=GB2312", "gbk"),
        (b"<meta charset=koi8-r>", 'text/html; charset="latin1"', "windows-1252"),
        (b"<meta charset=koi8-r>", "text/html; charset=nonsense", "koi8-r"),
        (b"<meta charset=koi8-r>", None, "koi8-r"),
        (b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", None, "shift_jis"),
        (b"<meta content='text/html; charset=Shift_JIS'>", None, "windows-1252"),
        (b"<meta charset=utf-16>", None, "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=gbk>", None, "gbk"),
        (b"<a title='<meta charset=koi8-r>'><meta charset=gbk>", None, "gbk"),
        (b"<meta charset=nonsense><meta charset=gbk>", None, "gbk"),
        (b"<meta name=x" + b" " * 1100 + b"><meta charset=gbk>", None, "windows-1252"),
        (b"<p>plain", None, "windows-1252"),
        (b"<p>caf\xe9", None, "windows-1252"),
        ("<p>café".encode(), None, "utf-8"),
        ("<p>これは日本語の文章です。".encode("cp932"), None, "shift_jis"),
        ("<p>これは日本語の文章です。".encode("euc_jp"), None, "euc-jp"),
    ],
)
def test_order_of_evidence(body: bytes, header: str | None, expected: str) -> None:
    assert sniff(body, header)[0] == expected


@pytest.mark.parametrize("step", ["bom", "declared", "_prescan", "guess"])
def test_every_step_is_needed(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = codecs.BOM_UTF8 + "<meta charset=koi8-r>é".encode()
    evidence = {
        "bom": (body, None),
        "declared": (body[3:], "text/html; charset=gbk"),
        "_prescan": (body[3:], None),
        "guess": ("é".encode(), None),
    }
    before = sniff(*evidence[step])
    monkeypatch.setattr(charset, step, lambda *_: None)

    assert sniff(*evidence[step]) != before


def test_every_encoding_decodes_any_bytes() -> None:
    body = bytes(range(256)) * 3

    for name in set(charset._ENCODING.values()) - {"utf-8"}:
        assert decode(body, name).decode("utf-8")


def test_every_encoding_writes_any_query() -> None:
    for name in set(charset._ENCODING.values()):
        assert charset.query_in("/?é日\udcff𝄞", name).startswith("/?")


def test_windows_1252_has_a_character_for_every_byte() -> None:
    assert decode(b"\x80\x81\x9d\xe9", "windows-1252").decode() == "€\x81\x9dé"


def test_labels_are_those_of_the_web() -> None:
    assert encoding_of(" ISO-8859-1\n") == "windows-1252"
    assert encoding_of("hz-gb-2312") == "replacement"
    assert encoding_of("utf-7") is None


def test_titles_are_decoded() -> None:
    page = digest("<meta charset=euc-kr><title>한국어</title>".encode("euc-kr"), "http://s.example/", None)

    assert page.title == "한국어"
