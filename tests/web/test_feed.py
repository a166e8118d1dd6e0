from datetime import UTC, datetime

import pytest

from crawl_platform.web.sitemap import Entry, parse

URL = "https://s.example/feed"
RSS = '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>{}</channel></rss>'
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom">{}</feed>'
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">{}</rdf:RDF>'


def locs(form: str, content: str) -> list[str]:
    return [entry.loc for entry in parse(form.format(content).encode(), URL).entries]


@pytest.mark.parametrize(
    ("form", "item", "kind"),
    [
        (RSS, "<item><link>/a</link></item>", "rss"),
        (RSS, "<item><link><![CDATA[ /a ]]></link></item>", "rss"),
        (RSS, "<item><link/><guid>https://s.example/a</guid></item>", "rss"),
        (RSS, '<item><guid isPermaLink="true">https://s.example/a</guid></item>', "rss"),
        (RSS, "<item><guid>no url</guid><link>/a</link></item>", "rss"),
        (RDF, '<item rdf:about="https://s.example/a"/>', "rdf"),
        (RDF, '<item rdf:about="https://s.example/b"><link>https://s.example/a</link></item>', "rdf"),
        (ATOM, '<entry><link href="/a"/></entry>', "feed"),
        (ATOM, "<entry><link rel='alternate' href='/a'></link></entry>", "feed"),
    ],
)
def test_where_an_item_is(form: str, item: str, kind: str) -> None:
    found = parse(form.format(item).encode(), URL)

    assert [entry.loc for entry in found.entries] == ["https://s.example/a"]
    assert found.kind == kind


@pytest.mark.parametrize(
    "item",
    [
        '<item><guid isPermaLink="false">https://s.example/a</guid></item>',
        "<item><guid>tag:s.example,2026:1</guid></item>",
        "<item><title>without</title></item>",
        "<link>https://s.example/</link>",
    ],
)
def test_an_item_that_does_not_say_where_it_is_is_none(item: str) -> None:
    assert locs(RSS, item) == []


def test_every_link_of_an_atom_entry_counts_and_those_of_the_feed_do_not() -> None:
    entry = '<entry><link href="/a"/><link rel="edit" href="/b"/><link href="/a"/></entry>'

    assert locs(ATOM, f'<link href="/"/><link rel="self" href="/feed"/>{entry}') == [
        "https://s.example/a",
        "https://s.example/b",
    ]


@pytest.mark.parametrize(
    "dates",
    [
        "<published>2026-01-01</published><updated>2026-03-04</updated>",
        "<updated>2026-03-04</updated>",
        "<updated>soon</updated><pubDate>Wed, 04 Mar 2026 00:00:00 GMT</pubDate>",
        "<dc:date>2026-03-04T00:00:00Z</dc:date>",
        "<published>2026-03-04</published>",
    ],
)
def test_the_date_of_a_change_comes_before_that_of_the_first_publication(dates: str) -> None:
    [entry] = parse(ATOM.format(f'<entry>{dates}<link href="/a"/></entry>').encode(), URL).entries

    assert entry.lastmod == datetime(2026, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "form",
    [
        RSS.replace("{}", "{}<item><link>/a</link></item>"),
        ATOM,
        ATOM.replace("{}", '<entry><link href="/a"/></entry>{}'),
    ],
)
def test_a_feed_may_name_a_hub_and_the_next_page_of_its_archive(form: str) -> None:
    links = '<atom:link rel="hub" href="https://hub.example/"/><atom:link rel="next" href="?page=2&amp;x"/>'

    found = parse(form.format(links).encode(), URL)

    assert found.hubs == ("https://hub.example/",)
    assert found.following == ("https://s.example/feed?page=2&x",)


def test_media_in_an_item_are_no_pages() -> None:
    item = '<item><link>/a</link><enclosure url="/m.mp3"/><media:content url="/m"/><itunes:link href="/i"/></item>'

    assert locs(RSS, item) == ["https://s.example/a"]


JSON = """{"version": "https://jsonfeed.org/version/1.1", "title": "t", "hubs": [{"type": "WebSub", "url": "/hub"}],
"next_url": "?page=2", "items": [{"id": "1", "url": "/a", "date_modified": "2026-03-04T00:00:00Z",
"date_published": "2026-01-01"}, {"id": "2", "external_url": "https://o.example/b"}, {"id": "3"}]}"""


def test_a_json_feed() -> None:
    found = parse(JSON.encode(), URL)

    assert found.kind == "json"
    assert found.entries == [
        Entry("https://s.example/a", datetime(2026, 3, 4, tzinfo=UTC)),
        Entry("https://o.example/b"),
    ]
    assert (found.hubs, found.following) == (("https://s.example/hub",), ("https://s.example/feed?page=2",))


@pytest.mark.parametrize(
    "body", ["{", "{}", '{"version": "2"}', '{"a":' * 50_000, JSON.replace("[", "{", 1), JSON[:-1]]
)
def test_json_that_is_no_feed_lists_nothing(body: str) -> None:
    assert parse(body.encode(), URL).entries == []
