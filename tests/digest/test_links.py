import base64

import pytest

from crawl_platform.digest import Digest, digest
from crawl_platform.digest.page import MAX_ANCHOR, MAX_BASE, MAX_HREF
from tests.web.cases import own_cases, shared_cases

URL = "http://s.example/dir/page?q=1"
# HTML's parsing of `a` inside `select` changed in 2024; both readings are right.
EITHER = {"select-a": [["http://ex.com/out"], ["http://ex.com/insel", "http://ex.com/out"]]}


def of(html: str, content_type: str = "text/html; charset=utf-8", url: str = URL) -> Digest:
    return digest(html.encode(), url, content_type)


@pytest.mark.parametrize("case", own_cases("links.jsonl"), ids=lambda case: case["why"])
def test_links(case: dict[str, object]) -> None:
    links = of(str(case["html"])).links

    assert [[link.url, link.rel, link.position, link.anchor, link.nofollow] for link in links] == case[
        "links"
    ]


def test_anchors_are_cut() -> None:
    assert of(f"<a href=x>{'word ' * 100}</a>").links[0].anchor == ("word " * 100)[:MAX_ANCHOR]


def test_links_against_a_huge_base_are_none() -> None:
    links = "<a href=x></a><a href=http://ex.com/></a>"

    at_most = of(f"<base href='{'/' + 'b' * (MAX_BASE - 20)}/'>{links}").links
    beyond = of(f"<base href='{'/' + 'b' * MAX_BASE}/'>{links}").links

    assert len(at_most) == 2
    assert [link.url for link in beyond] == ["http://ex.com/"], "a page's URLs would outgrow the page"


def test_a_huge_href_is_no_link() -> None:
    assert of(f"<a href='/{'x' * MAX_HREF}'></a><a href=y></a>").links[0].url == "http://s.example/dir/y"


def test_frames_are_told_apart() -> None:
    assert of(
        "<iframe src='/f'></iframe><iframe src='about:blank'></iframe><iframe srcdoc=x></iframe>"
    ).frames == ("http://s.example/f",)


def test_the_head() -> None:
    page = of(
        "<title> A  <b>title</b></title><title>no</title><link rel='Canonical' href='../c#f'>"
        "<link rel=canonical href=/second><link rel=alternate hreflang=de href=/de>"
        "<meta name=robots content='NoIndex'><svg><title>drawing</title></svg>"
    )

    assert page.title == "A <b>title</b>"
    assert page.canonical == "http://s.example/c#f"
    assert page.hreflang == (("de", "http://s.example/de"),)
    assert page.noindex
    assert not page.nofollow


def test_robots_none_means_both() -> None:
    page = of("<meta name=robots content=none><a href=x>1</a>")

    assert page.noindex
    assert page.nofollow
    assert page.links[0].nofollow


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/b", "http://s.example/b"),
        ("5;URL='/b'trash", "http://s.example/b"),
        ("0,/b", "http://s.example/b"),
        (".5 url = /b", "http://s.example/b"),
        ("30", URL),
        ("url=/b", None),
        ("-1;url=/b", None),
        ("0;url=javascript:x()", None),
    ],
)
def test_meta_refresh(content: str, target: str | None) -> None:
    assert of(f'<meta http-equiv=Refresh content="{content}">').meta_refresh == target


def test_the_hash_of_links_sees_target_rel_position_and_order() -> None:
    pages = [
        "<a href=x>1</a><a href=y>2</a>",
        "<a href=y>1</a><a href=x>2</a>",
        "<a href=x>1</a><a rel=nofollow href=y>2</a>",
        "<nav><a href=x>1</a><a href=y>2</a></nav>",
        "<a href=x>1</a>",
    ]

    assert len({of(page).links_hash for page in pages}) == len(pages)
    assert of("<p><a href=x>other words</a></p><a class=z href=y></a>").links_hash == of(pages[0]).links_hash


def test_queries_are_written_in_the_documents_encoding() -> None:
    body = "<meta charset=windows-1251><a href='/п?п#п'>1</a>".encode("cp1251")

    assert digest(body, URL, "text/html").links[0].url == "http://s.example/%D0%BF?%EF#%D0%BF"


def test_a_character_that_the_encoding_lacks_becomes_a_reference() -> None:
    body = b"<meta charset=iso-8859-1><a href='?&#26085;&amp;b'>1</a>"

    assert digest(body, "http://s.example/", "text/html").links[0].url == "http://s.example/?%26%2326085%3B&b"


def test_public_snippets() -> None:
    wrong = []
    for row in shared_cases("links/snippets.shared.jsonl"):
        body = base64.b64decode(row["html_b64"])
        # A snippet that says nothing itself came with its charset in the header.
        header = row.get("content_type") or (
            "text/html" if b"charset" in body else f"text/html; charset={row['charset']}"
        )
        page = digest(body, row["url"], header)
        urls = [link.url for link in page.links]
        if urls not in EITHER.get(row["id"], [row["anchors"]]) or _head(page, row) != _expected(row):
            wrong.append(row["id"])

    assert wrong == []


def _head(page: Digest, row: dict[str, object]) -> dict[str, object]:
    found = {
        "charset": page.charset,
        "canonical": page.canonical,
        "meta_refresh": page.meta_refresh,
        "frames": list(page.frames),
        "alternates": [url for _, url in page.hreflang],
        "nofollow": [link.url for link in page.links if "nofollow" in link.rel.split()],
    }
    return {key: value for key, value in found.items() if key in _expected(row)}


def _expected(row: dict[str, object]) -> dict[str, object]:
    keys = ("charset", "canonical", "meta_refresh", "frames", "alternates", "nofollow")
    # What a Link header says is not in the body.
    return {key: row[key] for key in keys if key in row and not (key == "canonical" and "headers" in row)}


def test_public_percent_encodings() -> None:
    rows = [
        row
        for row in shared_cases("urls/urls.shared.jsonl")
        if row["kind"] == "percent-encode-query-in-charset"
    ]
    wrong = []
    for row in rows:
        href = "".join(f"&#{ord(char)};" for char in row["input"])
        page = digest(
            f"<a href='/?{href}'>x</a>".encode(), "http://s.example/", f"text/html; charset={row['charset']}"
        )
        if page.links[0].url != f"http://s.example/?{row['expected']}":
            wrong.append(row["id"])

    assert rows
    assert wrong == []
