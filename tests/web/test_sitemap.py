import gzip
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.web import robots, sitemap
from crawl_platform.web.sitemap import MAX_ENTRIES, covers, parse
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
        ("2026-02-30", None),
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
