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
        (b"<!--><meta charset=koi8-r>-->", None, "koi8-r"),
        (b"<!---><meta charset=koi8-r>-->", None, "koi8-r"),
        (b"<meta content='text/html; charset=gbk' http-equiv=content-type>", None, "gbk"),
        (b"<meta http-equiv=content-type content='charset = &quot;gbk; charset=gbk'>", None, "windows-1252"),
        (b"<meta http-equiv=content-type content='x charset; charset=\"gbk\"'>", None, "gbk"),
        (b"<meta http-equiv=refresh content='text/html; charset=gbk'>", None, "windows-1252"),
        (
            b"<meta charset=nonsense http-equiv=content-type content='text/html; charset=gbk'>",
            None,
            "windows-1252",
        ),
        (b"<metadata charset=gbk><meta/charset=gbk>", None, "gbk"),
        (b"<meta charset=x-user-defined>", None, "windows-1252"),
        (b"<meta charset=iso-2022-kr>", None, "replacement"),
        (b"<meta charset=gbk", None, "gbk"),
        (b"<meta charset='gbk", None, "windows-1252"),
        (b"x" * 2_000 + b"<meta charset=gbk>\xb5\xc4", None, "gbk"),
        (b"<p>\xe9", "text/html; charset=utf-16", "utf-16le"),
        (b"<p>\xe9", "text/html; charset=koi8-r; charset=gbk", "koi8-r"),
        (b"<p>\xe9", "text/html; xcharset=koi8-r", "windows-1252"),
        (b"<p>plain", None, "windows-1252"),
        (b"<p>caf\xe9", None, "windows-1252"),
        ("<p>café".encode(), None, "utf-8"),
        ("<p>これは日本語の文章です。".encode("cp932"), None, "shift_jis"),
        ("<p>これは日本語の文章です。".encode("euc_jp"), None, "euc-jp"),
    ],
)
def test_order_of_evidence(body: bytes, header: str | None, expected: str) -> None:
    assert sniff(body, header)[0] == expected


CHINESE = "我们的图书馆在城市的中心，每天有很多人来这里看书和学习。"
KOREAN = "우리 도서관은 도시 중심에 있으며 매일 많은 사람들이 책을 읽으러 옵니다."
RUSSIAN = "Наша библиотека находится в центре города, и каждый день сюда приходит много людей."


@pytest.mark.parametrize(
    ("text", "codec", "expected"),
    [
        (CHINESE, "gb18030", "gbk"),
        ("圖書館在城市的中心，每天有很多人來這裡看書和學習。", "big5", "big5"),
        (KOREAN, "cp949", "euc-kr"),
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        ("Ein schöner Tag für die Bücherei in der Straße über dem Fluß.", "cp1252", "windows-1252"),
        ("C’est l’été à la bibliothèque où l’on préfère être.", "cp1252", "windows-1252"),
    ],
)
def test_undeclared_encodings_are_guessed_by_their_letters(text: str, codec: str, expected: str) -> None:
    body = f"<title>{text}</title><p>{text}".encode(codec)

    page = digest(body, "http://s.example/", "text/html")

    assert page.charset == expected
    assert page.title == text


def test_statistics_have_no_say_where_something_is_declared() -> None:
    assert sniff(f"<meta charset=koi8-r><p>{RUSSIAN}".encode("cp1251"), None)[0] == "koi8-r"


def test_broken_octets_cost_no_more_than_themselves() -> None:
    broken = b"<meta charset=gbk><title>" + CHINESE.encode("gbk")[:20] + b"\xff\x80 " + CHINESE.encode("gbk")

    assert digest(broken, "http://s.example/", None).title.endswith(CHINESE)


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
