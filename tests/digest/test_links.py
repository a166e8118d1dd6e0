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


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; '/b'trash", "http://s.example/b"),
        ("5; url=\n'http://x.example/'", "http://x.example/"),
        ("0;ur=/b", "http://s.example/dir/ur=/b"),
        ("1.5.9,,/b", "http://s.example/dir/,/b"),
        ("٥;url=/b", None),
        ("0x;url=/b", None),
    ],
)
def test_meta_refresh_to_the_letter(content: str, target: str | None) -> None:
    assert of(f'<meta http-equiv=refresh content="{content}">').meta_refresh == target


def test_a_refresh_without_a_reference_means_the_document_whatever_the_base() -> None:
    assert of("<base href=http://o.example/><meta http-equiv=refresh content=5>").meta_refresh == URL


def test_headers_are_facts_of_any_body() -> None:
    headers = {"link": '</c>; rel="canonical", </n>; rel=next', "x-robots-tag": "otherbot: nofollow\nnoindex"}

    for body, content_type in ((b"<a href=x>1</a>", "text/html"), (b"%PDF-1.7", "application/pdf")):
        page = digest(body, URL, content_type, headers, "ourbot")
        assert page.canonical == "http://s.example/c"
        assert (page.noindex, page.nofollow) == (True, False)


def test_the_head_has_precedence_over_headers() -> None:
    headers = {"link": "</c>; rel=canonical, </n>; rel=next", "refresh": "0; url=/elsewhere"}
    page = digest(
        b"<base href='http://o.example/'><link rel=canonical href=d><link rel=next href=m>",
        URL,
        "text/html",
        headers,
    )

    assert page.canonical == "http://o.example/d"
    assert page.next == ("http://o.example/m", "http://s.example/n")
    assert page.meta_refresh == "http://o.example/elsewhere"


def test_meta_elements_may_speak_to_us_alone() -> None:
    html = b"<meta name=ourbot content='noindex, noarchive'><meta name=otherbot content=nofollow>"

    assert digest(html, URL, "text/html", agent="OurBot").robots == ("noarchive", "noindex")
    assert digest(html, URL, "text/html", agent="third").robots == ()


def test_the_head_of_series_feeds_and_reservations() -> None:
    page = of(
        "<link rel=prev href=1><link rel='next nofollow' href=3><link rel=alternate type=application/rss+xml href=f>"
        "<link rel='alternate stylesheet' hreflang=en href=s><link rel=alternate hreflang=x-default href=d>"
        "<meta name=robots content='noai, noimageai max-snippet: -1'>"
        "<meta name=tdm-reservation content=1><meta name=tdm-policy content=/p.json>"
    )

    assert (page.prev, page.next) == (("http://s.example/dir/1",), ("http://s.example/dir/3",))
    assert page.feeds == ("http://s.example/dir/f",)
    assert page.hreflang == (("x-default", "http://s.example/dir/d"),)
    assert {"noai"} <= set(page.robots)
    assert (page.tdm_reservation, page.tdm_policy) == ("1", "http://s.example/p.json")


def test_what_noscript_says_is_not_the_page_but_its_links_are() -> None:
    page = of(
        "<head><noscript><meta http-equiv=refresh content='0;url=/nojs'><base href='http://evil.example/'></noscript>"
        "<link rel=canonical href=/c></head><p>Some text</p><nav><a href=1>1</a><noscript>Enable scripts"
        " <a href=2>two</a></noscript></nav><a href=3>3</a>"
    )

    assert page.meta_refresh is None
    assert page.canonical == "http://s.example/c"
    assert [(link.url[-1], link.position) for link in page.links] == [
        ("1", "nav"),
        ("2", "nav"),
        ("3", "other"),
    ]
    assert "Enable" not in page.text


def test_declared_shadow_roots_are_part_of_the_page_and_templates_are_not() -> None:
    page = of(
        "<nav><template shadowrootmode=open><a href=1>1</a><b><template shadowrootmode=closed><a href=2>2</a>"
        "</template></b></template></nav><template><a href=3>3</a></template>"
    )

    assert [(link.url[-1], link.position) for link in page.links] == [("1", "nav"), ("2", "nav")]


def test_a_base_of_another_scheme_leaves_only_absolute_links() -> None:
    page = of("<base href='ftp://f.example/'><a href=x>1</a><a href=http://o.example/>2</a>")

    assert [link.url for link in page.links] == ["http://o.example/"]


def test_links_that_hold_blocks_keep_their_words_apart_and_are_no_content() -> None:
    card = (
        "<a href=x><h3>A title</h3><p>"
        + "and more words than a short item has in its summary " * 3
        + "</p></a>"
    )

    page = of(card * 6)

    assert page.links[0].anchor.startswith("A title and more words")
    assert page.text == ""


def test_anchors_in_drawings_and_buttons() -> None:
    page = of(
        "<svg><a href=1><text>one</text></a></svg><button><a href=2>two</a></button><a href=3><noscript>x"
    )

    assert [link.anchor for link in page.links] == ["one", "two", ""]


def test_a_region_ends_where_its_element_does() -> None:
    page = of("<span><nav><a href=1>1</a></nav></span> <i>text <a href=2>2</a></i><nav></nav><a href=3>3</a>")

    assert [link.position for link in page.links] == ["nav", "other", "other"]


def test_public_snippets() -> None:
    wrong = []
    for row in shared_cases("links/snippets.shared.jsonl"):
        body = base64.b64decode(row["html_b64"])
        # A snippet that says nothing itself came with its charset in the header.
        header = row.get("content_type") or (
            "text/html" if b"charset" in body else f"text/html; charset={row['charset']}"
        )
        headers = {name.lower(): value for name, value in row.get("headers", {}).items()}
        page = digest(body, row["url"], header, headers)
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
        "feeds": list(page.feeds),
        "next": list(page.next),
        "resources": list(page.resources),
        "nofollow": [link.url for link in page.links if "nofollow" in link.rel.split()],
    }
    return {key: value for key, value in found.items() if key in row}


def _expected(row: dict[str, object]) -> dict[str, object]:
    keys = (
        "charset",
        "canonical",
        "meta_refresh",
        "frames",
        "alternates",
        "feeds",
        "next",
        "resources",
        "nofollow",
    )
    return {key: row[key] for key in keys if key in row}


# Scrapy also follows ftp.
SCRAPYS_OWN = "ftp://www.external.com/"
# To w3lib a number without a reference is no refresh; here it is one to the page itself.
W3LIB_DIFFERS = {"w3h30"}


def test_public_bases_and_refreshes() -> None:
    wrong = []
    for row in shared_cases("links/base_and_refresh.shared.jsonl"):
        charset = row["options"].get("encoding") or (row["extra"] or ["utf-8"])[0]
        body = row["html"].encode("latin-1" if row["html_is_latin1_bytes"] else charset, "replace")
        url = row["url"] or "http://none.example/"
        if row["fn"] == "get_meta_refresh":
            found, expected = (
                digest(body, url, f"text/html; charset={charset}").meta_refresh,
                row["expected"][1],
            )
        else:
            links = digest(b"<a href=''>x</a>" + body, url, f"text/html; charset={charset}").links
            found, expected = (links[0].url if links else None), row["expected"] or url
        if (
            found not in (expected, None if expected is None else f"{expected}/")
            and row["id"] not in W3LIB_DIFFERS
        ):
            wrong.append((row["id"], found, expected))

    assert wrong == []


def test_links_that_scrapy_finds_by_default_are_found() -> None:
    rows = [row for row in shared_cases("links/scrapy_linkextractor.shared.jsonl") if row["default_options"]]
    missed = []
    for row in rows:
        page = digest(base64.b64decode(row["html_b64"]), row["url"], f"text/html; charset={row['charset']}")
        found = {link.url for link in page.links}
        missed += [
            (row["id"], link["url"]) for link in row["links"] if link["url"] not in found | {SCRAPYS_OWN}
        ]

    assert rows
    assert missed == []


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
