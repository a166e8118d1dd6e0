import gzip
import json
import time
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.web import robots, sitemap, tagstream
from crawl_platform.web.sitemap import MAX_ENTRIES, Entry, covers, may_list, parse
from tests.web.cases import shared_cases, shared_path

URL = "https://s.example/dir/sitemap.xml"
PIECES = st.sampled_from(
    [
        *(
            "<urlset>",
            "<url>",
            "</url>",
            "<loc>",
            "</loc>",
            "http://s.example/",
            "&amp;",
            "&#0;",
            "&#xD800;",
            "<!--",
        ),
        *(
            "<sitemapindex>",
            "<sitemap>",
            "<rss>",
            "<item>",
            "<link>",
            "<link href='/x'/>",
            "<lastmod>",
            "9999-99-99",
        ),
        *("<![CDATA[", "]]>", "<!DOCTYPE x [", "<!ENTITY e 'x'>", "]>", "&e;", "<", ">", "é"),
    ]
)
# Where the sources disagree with each other. Of an Atom entry one takes every link, the other the first: we take
# all. Of a file that ends in an unfinished item one keeps a complete location, the other drops it: we keep it.
OTHER_POLICY = {"usp-32-feed.xml", "usp-39-urlset.xml"}


def of(*items: str) -> list[str]:
    return [entry.loc for entry in parse(f"<urlset>{''.join(items)}</urlset>".encode(), URL).entries]


def test_locations_are_pages_of_a_urlset_and_children_of_an_index() -> None:
    found = parse(b"<sitemapindex><sitemap><loc>a.xml</loc></sitemap></sitemapindex>", URL)

    assert of("<url><loc>https://s.example/a</loc></url>", "<url><loc>/b?c&amp;d</loc></url>") == [
        "https://s.example/a",
        "https://s.example/b?c&d",
    ]
    assert found.children == ["https://s.example/dir/a.xml"]
    assert found.entries == []


@pytest.mark.parametrize(
    "opening",
    [
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
        '<urlset xmlns="https://www.sitemaps.org/schemas/sitemap/0.9">',
        '<urlset xmlns="http://www.google.com/schemas/sitemap/0.84">',
        "<urlset>",
        "<URLSET>",
        '\n\n<?xml version="1.0"?><!-- made <today> --><urlset>',
        '<?xml version="1.0"?><?xml-stylesheet href="x>y"?><urlset>',
        "<br /><b>Warning</b>: a line of PHP<br /><urlset>",
        "Notice: another one\n<urlset>",
    ],
)
def test_whatever_a_urlset_begins_with(opening: str) -> None:
    body = f"{opening}<url><loc>https://s.example/a</loc></url></urlset>"

    assert [entry.loc for entry in parse(body.encode(), URL).entries] == ["https://s.example/a"]
    assert parse(body.encode(), URL).kind == "urlset"


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso-8859-1", "windows-1252"],
)
def test_whatever_it_is_encoded_in(encoding: str) -> None:
    declared = "" if encoding.startswith("utf") else f'encoding="{encoding}"'
    body = f'<?xml version="1.0" {declared}?><urlset><url><loc>/caf\u00e9</loc></url></urlset>'.encode(
        encoding
    )

    assert [entry.loc for entry in parse(body, URL).entries] == ["https://s.example/caf%C3%A9"]


@pytest.mark.parametrize("encoding", ["utf-16", "hex", "punycode", "rot13", "nonsense", "utf-7"])
def test_an_encoding_that_it_is_not_in_is_not_believed(encoding: str) -> None:
    body = f'<?xml version="1.0" encoding="{encoding}"?><urlset><url><loc>/a</loc></url></urlset>'

    assert len(parse(body.encode(), URL).entries) == 1


@given(
    st.lists(st.sampled_from(["/a", "/b?c&amp;d", "/e&#38;f", "https://s.example/g"]), max_size=5),
    st.sampled_from(["", " ", "<changefreq>daily</changefreq>", "<priority>0.1</priority>", "<x/>"]),
    st.sampled_from(["", "<lastmod>2026-03-04</lastmod>", "<lastmod/>", "<lastmod>soon</lastmod>"]),
)
def test_the_usual_item_in_one_stroke_is_what_it_is_tag_by_tag(locs: list[str], more: str, date: str) -> None:
    items = [f"<url><loc>{loc}</loc>{date}{more}</url>" for loc in locs]
    slow = [item.replace("<url>", "<url >") for item in items]

    assert parse(f"<urlset>{''.join(items)}".encode(), URL) == parse(f"<urlset>{''.join(slow)}".encode(), URL)


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_where_the_pieces_are_cut_makes_no_difference(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = "<!-- " + "x" * 500 + "<url><loc>/no</loc></url> -->"
    body = (
        f"<urlset>{filler}<url><loc>/caf\u00e9?a=1&amp;b=2</loc><lastmod>2026-03-04</lastmod></url>"
        "<url ><loc><![CDATA[/x<y>]]></loc></url></urlset>"
    ).encode()
    whole = parse(body, URL)
    monkeypatch.setattr(tagstream, "PIECE", size)
    monkeypatch.setattr(sitemap, "HEAD", 1)

    assert len(whole.entries) == 2
    assert parse(body, URL) == whole
    assert parse(gzip.compress(body), URL) == whole


def test_alternates_in_other_languages_belong_to_their_page() -> None:
    body = (
        b'<urlset xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>/en</loc>'
        b'<xhtml:link rel="alternate" hreflang="de" href="/de?a&amp;b"/><xhtml:link rel="other" href="/no"/></url>'
    )

    assert parse(body, URL).entries == [
        Entry("https://s.example/en", None, (("de", "https://s.example/de?a&b"),))
    ]


def test_what_extensions_say_is_no_page() -> None:
    assert of(
        "<url><image:loc>/i</image:loc><loc>/a</loc><news:news><news:loc>/n</news:loc></news:news>"
        "<video:video><video:content_loc>/v</video:content_loc></video:video></url>"
    ) == ["https://s.example/a"]


def test_an_index_tells_when_its_sitemaps_changed() -> None:
    body = b"<sitemapindex><sitemap><loc>/a.xml</loc><lastmod>2026-03-04</lastmod></sitemap></sitemapindex>"

    assert parse(body, URL).index == [Entry("https://s.example/a.xml", datetime(2026, 3, 4, tzinfo=UTC))]


@pytest.mark.parametrize("cut", range(0, 90, 7))
def test_of_a_file_that_is_cut_off_what_came_before_stands(cut: int) -> None:
    body = (
        b"<urlset>"
        + b"<url><loc>https://s.example/0</loc></url>"
        + b"<url><loc>https://s.example/1</loc></url>" * 2
    )

    found = parse(body[: len(body) - cut], URL)

    assert found.entries[0].loc == "https://s.example/0"
    assert len(found.entries) >= 3 - cut // 41 - 1


def test_a_field_that_is_not_closed_ends_with_the_next() -> None:
    assert of("<url><loc>/a<lastmod>2026-03-04</lastmod></url>", "<url><loc>/b<url><loc>/c</loc></url>") == [
        "https://s.example/a",
        "https://s.example/b",
        "https://s.example/c",
    ]


def test_a_line_that_is_no_url_is_passed_over() -> None:
    body = (
        "\ufeffhttps://s.example/1\r\n\r\n# no\r\nftp://s.example/\r/2\nhttps://s.example/3\t2026 \n"
        + "x" * 100_000
    )

    assert [entry.loc for entry in parse(body.encode(), URL).entries] == [
        "https://s.example/1",
        "https://s.example/3",
    ]


UNITS = [
    *(
        "<",
        "&",
        "-<",
        "<a b='",
        "<url>",
        "<loc>x</loc>",
        "<a:",
        "<!",
        "<![CDATA[",
        "<!--",
        "<!ENTITY a 'b'>",
        "\n",
    ),
    *(
        "<" + "a" * 20_000,
        "<link href=" + "a" * 20_000 + "/>",
        "<url><loc>/a</loc><lastmod>Mon, ((((</lastmod></url>",
    ),
]


def test_no_file_is_slow() -> None:
    """Against what as many bytes of an honest sitemap take tag by tag, in the same process."""
    honest = least_time("<url ><loc>https://s.example/item</loc></url >")

    assert [unit for unit in UNITS if least_time(unit) > 5 * honest] == []


def least_time(unit: str) -> float:
    """Seconds of CPU for 60 KB of `unit`, the least of three."""
    body = ("<urlset>" + unit * (60_000 // len(unit))).encode()

    def once() -> float:
        begun = time.process_time()
        parse(body, URL)
        return time.process_time() - begun

    return min(once() for _ in range(3))


def test_a_bomb_takes_no_more_memory_than_its_pieces() -> None:
    inner = gzip.compress(b"<urlset>" + b" " * 20_000_000)
    body = gzip.compress(inner)

    tracemalloc.start()
    found = parse(body, URL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found.entries == []
    assert peak < 3_000_000


def test_only_http_counts_and_images_do_not() -> None:
    assert of(
        "<url><loc>ftp://s.example/</loc></url><url><loc>/a</loc><image:image><image:loc>/i</image:loc></image:image></url>"
    ) == ["https://s.example/a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-03", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-04", datetime(2026, 3, 4, tzinfo=UTC)),
        ("2026-03-04T05:06Z", datetime(2026, 3, 4, 5, 6, tzinfo=UTC)),
        (
            "2026-03-04T05:06:07.5-02:30",
            datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone(-timedelta(hours=2, minutes=30))),
        ),
        ("Wed, 04 Mar 2026 05:06:07 GMT", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("2026-03-04T05:06:07.123456789Z", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("2026-03-04T05:06+05", datetime(2026, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5)))),
        ("2026-03-04t05:06:07z", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        (" 2026-03-04 05:06:07 ", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("2026-03-04T05:06:07 UTC", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("2026-03-04T05:06:60Z", datetime(2026, 3, 4, 5, 6, 59, tzinfo=UTC)),
        ("2026/03/04", datetime(2026, 3, 4, tzinfo=UTC)),
        ("2026-3-4", datetime(2026, 3, 4, tzinfo=UTC)),
        ("20260304", datetime(2026, 3, 4, tzinfo=UTC)),
        ("<![CDATA[2026-03-04]]>", datetime(2026, 3, 4, tzinfo=UTC)),
        ("1772600767", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("04 Mar 2026 05:06:07 +0000", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("2026-02-30", None),
        ("0000-00-00", None),
        ("9" * 60, None),
        ("2026-03-04T05:06:07+99:99", None),
        ("soon", None),
    ],
)
def test_lastmod(text: str, expected: datetime | None) -> None:
    body = f"<urlset><url><lastmod>{text}</lastmod><loc>/a</loc></url><url><loc>/b</loc></url></urlset>"

    assert [entry.lastmod for entry in parse(body.encode(), URL).entries] == [expected, None]


def test_gzip_is_undone_twice_and_no_more() -> None:
    body = b"https://s.example/a"

    assert len(parse(gzip.compress(gzip.compress(body)), URL).entries) == 1
    assert parse(gzip.compress(gzip.compress(gzip.compress(body))), URL).entries == []


def test_inflating_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    body = gzip.compress(b"https://s.example/a\n" * 1_000)
    monkeypatch.setattr(sitemap, "MAX_BYTES", 200)

    assert len(parse(body, URL).entries) == 10


def test_entries_are_capped() -> None:
    body = b"<urlset>" + b"<url><loc>/a</loc></url>" * (MAX_ENTRIES + 10)

    assert len(parse(body, URL).entries) == MAX_ENTRIES


def test_entities_that_a_file_defines_are_neither_expanded_nor_believed() -> None:
    doctype = b'<!DOCTYPE x [<!ENTITY e "http://evil.example/">]>'

    found = parse(doctype + b"<urlset><url><loc>&e;</loc></url><url><loc>/a&amp;b</loc></url></urlset>", URL)

    assert [entry.loc for entry in found.entries] == ["https://s.example/a&b"]


@given(
    st.lists(PIECES, max_size=30).map("".join).map(str.encode) | st.binary(), st.sampled_from([URL, "", "x"])
)
def test_parse_never_raises(body: bytes, url: str) -> None:
    parse(body, url)
    parse(b"\x1f\x8b" + body, url)


def test_public_sitemaps() -> None:
    wrong = []
    for row in shared_cases("sitemaps/cases.shared.jsonl"):
        body = shared_path(f"sitemaps/{row['file']}").read_bytes()
        found = parse(body, row["url"])
        locs = (
            robots.parse(body).sitemaps
            if row["kind"] == "robots"
            else [*found.children, *(e.loc for e in found.entries)]
        )
        if row["expected"] is not None and row["id"] not in OTHER_POLICY and locs != row["expected"]:
            wrong.append(row["id"])
        for entry, stamp in zip(found.entries, row.get("lastmod", []), strict=False):
            if stamp is not None and str(entry.lastmod) != stamp:
                wrong.append(f"{row['id']} lastmod")

    assert wrong == []


def test_public_sitemaps_without_a_fixed_list() -> None:
    def count(name: str) -> int:
        return len(parse(shared_path(f"sitemaps/files.shared/{name}").read_bytes(), URL).entries)

    assert count("hand-huge-50001.xml.gz") == MAX_ENTRIES
    assert count("hand-truncated.gz") > 100
    assert count("hand-bomb.xml") <= 1
    assert count("testSitemapParserBrokenXml.xml") == 1


def test_public_rule_of_location() -> None:
    for row in json.loads(shared_path("sitemaps/location_rule.json").read_text()):
        assert covers(row["sitemap"], row["url"]) == row["valid"], row


def test_a_sitemap_speaks_for_what_lies_below_it_and_for_hosts_whose_robots_txt_names_it() -> None:
    at = "https://b.example/maps/a.xml"

    assert may_list(at, "https://b.example/maps/x", ())
    assert not may_list(at, "https://b.example/x", ())
    assert not may_list(at, "https://a.example/x", ())
    assert may_list(at, "http://a.example/x", ("a.example",))
    assert may_list(at, "https://b.example/x", ("b.example",))
    assert not may_list(at, "https://a.example.evil.example/x", ("a.example",))
