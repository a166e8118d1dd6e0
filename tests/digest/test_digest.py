import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.digest import digest
from crawl_platform.digest.kind import kind_of
from crawl_platform.digest.simhash import distance, simhash

URL = "http://s.example/"
TAGS = st.sampled_from(
    ["<a href=x>", "</a>", "<nav>", "</nav>", "<svg>", "<template>", "<table>", "<td>", "<title>", "<base href='//['>",
     "<p>",
     "<meta http-equiv=refresh content=0>", "<iframe src=x>", "<a xlink:href>",
     "<select>", "<!--", "-->", "<![CDATA[",
     "<frameset>",
     "<script>", "</script>", "<math><mi>", "</html>", "<html>", "<body>", "1.2.3 ",
     "Nov 3, 2026", "\x00", "é", " ", "<div hidden>"]
)  # fmt: skip
HTML = st.lists(TAGS, max_size=30).map(lambda tags: "".join(tags).encode())
CONTENT_TYPES = st.sampled_from(
    [None, "text/html", "text/html; charset=utf-16", "text/plain", "x", "text/html; charset="]
)


@given(st.binary() | HTML, CONTENT_TYPES | st.text())
@settings(max_examples=300, deadline=None)
def test_digest_never_raises(body: bytes, content_type: str | None) -> None:
    page = digest(body, URL, content_type)

    assert len(page.fingerprint) == 32
    assert -(2**63) <= page.simhash < 2**63
    assert 0 <= page.links_hash < 2**64


@given(HTML, st.sampled_from(["", "about:blank", "x", "http://", "\ud800"]))
@settings(deadline=None)
def test_digest_never_raises_for_any_document_url(body: bytes, url: str) -> None:
    assert len(digest(body, url, "text/html").fingerprint) == 32


@given(HTML)
@settings(deadline=None)
def test_a_digest_is_a_function_of_its_input(body: bytes) -> None:
    assert digest(body, URL, "text/html") == digest(body, URL, "text/html")


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"<p>x", "text/html", "html"),
        (b"just words", "text/html; charset=utf-8", "html"),
        (b"<html>" + bytes(900), "text/html", "html"),
        (b"<p>x", "application/xhtml+xml; charset=utf-8", "html"),
        (b"<!doctype html>", None, "html"),
        (b"  <html>", "application/octet-stream", "html"),
        (b"<!-- hello --><p>", "nonsense", "html"),
        (b"<p>x", "text/plain", "text"),
        (b"<!doctype html><p>x", "text/plain; charset=utf-8", "text"),
        (b"words", None, "text"),
        (b"BM and ID3 are words", None, "text"),
        (b"\xff\xfex\0y\0", "text/plain", "text"),
        ("<p>x".encode("utf-16-le"), "text/html; charset=utf-16", "html"),
        (b"words", "image/png", "other"),
        (b"%PDF-1.7", "text/html", "other"),
        (b"%PDF-1.7", "text/plain", "other"),
        (b"\x89PNG\r\n", None, "other"),
        (b"\xff\xd8\xff\xe0", "text/html", "other"),
        (b"GIF89a\1\0\1\0", "text/html", "other"),
        (b"PK\3\4\x14\0", "text/plain", "other"),
        (b"\0\0\0\x18ftypmp42", "text/html", "other"),
        (b"RIFF\0\0\0\0WEBP", "text/html", "other"),
        (b"\x00\x01\x02\x03", "text/html", "other"),
        (b"a\0b", "text/plain", "other"),
        (b"<?xml version='1.0'?><urlset>", None, "sitemap"),
        (b"<?xml version='1.0'?><urlset>", "text/html", "sitemap"),
        (b"<?xml version='1.0'?>\n<!-- x --><rss version='2.0'>", "text/html", "feed"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "application/xml", "feed"),
        (b"<rdf:RDF xmlns:rdf='x'>", "text/xml", "feed"),
        (b"<?xml version='1.0'?><note>", None, "other"),
        (b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>", "application/xml", "html"),
        (b"<?xml version='1.0'?><html>", None, "html"),
        (b"{}", "application/json", "other"),
        (b"", None, "text"),
    ],
)
def test_kind_of_body(body: bytes, content_type: str | None, kind: str) -> None:
    assert kind_of(body, content_type) == kind


def test_other_bodies_have_a_fingerprint_and_nothing_else() -> None:
    page = digest(b"%PDF-1.7 <a href=x>", URL, "application/pdf")

    assert not page.is_html
    assert page.links == ()
    assert page.text == ""
    assert page.fingerprint != digest(b"%PDF-1.7 <a href=y>", URL, "application/pdf").fingerprint


def test_plain_text_has_text_and_no_links() -> None:
    page = digest("see <a href=x> café".encode(), URL, "text/plain")

    assert page.text == "see <a href=x> café"
    assert page.links == ()
    assert page.simhash


def test_near_duplicates_have_near_simhashes() -> None:
    words = [f"word{i * 7919 % 1000}" for i in range(400)]
    edited = [*words[:200], "another", *words[201:]]
    other = [f"term{i * 7907 % 1000}" for i in range(400)]

    assert distance(simhash(" ".join(words)), simhash(" ".join(edited))) <= 6
    assert distance(simhash(" ".join(words)), simhash(" ".join(other))) >= 16
    assert simhash("") == 0


def test_scripts_without_spaces_have_simhashes_too() -> None:
    text = "".join(chr(0x4E00 + i * 31 % 2_000) for i in range(600))

    assert distance(simhash(text), simhash(text[:300] + "新" + text[301:])) <= 8
    assert distance(simhash(text), simhash("".join(chr(0x5E00 + i * 37 % 2_000) for i in range(600)))) >= 16


def test_equal_main_texts_have_equal_hashes_whatever_is_around_them() -> None:
    paragraph = "The council of the town met on Monday and decided that the old bridge will be rebuilt. " * 8
    plain = digest(f"<p>{paragraph}".encode(), URL, "text/html")
    framed = digest(
        f"<nav><a href=x>Home</a></nav><div><p>{paragraph.replace(' ', '  ', 9)}</div>".encode(),
        URL,
        "text/html",
    )
    shouted = digest(f"<p>{paragraph.upper()}".encode(), URL, "text/html")

    assert plain.text_hash == framed.text_hash
    assert plain.text_hash == digest(paragraph.encode(), URL, "text/plain").text_hash
    assert plain.text_hash != shouted.text_hash
    assert len(plain.text_hash) == 16


def test_no_text_has_no_hash() -> None:
    assert digest(b"<img src=x>", URL, "text/html").text_hash == ""
    assert digest(b"%PDF-1.4", URL, "application/pdf").text_hash == ""
