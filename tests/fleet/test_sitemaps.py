"""Sites that say themselves what they have: real processes, a real server, every request counted."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.cli.explain import in_words
from crawl_platform.fleet.explain import Sources, explain_url
from crawl_platform.frontier.records import FEED, SITEMAP
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.simulation.running import launch
from crawl_platform.web.host import shard_of
from tests.fleet.checks import (
    asked,
    assert_one_row_per_request,
    assert_polite,
    assert_whole_at_every_commit,
)
from tests.fleet.harness import Fleet
from tests.fleet.sites import free_port

pytestmark = pytest.mark.long  # its pages come one after another; test_sitemap_fetched is the short one
SITE, OTHER, STRANGER, ASKED = "maps.test", "others.test", "stranger.test", "asked.test"
PAGES = 40
PAGE = "<!doctype html><title>{0}</title><main><p>{0} says one thing and no more.</p></main>"


def urlset(*urls: str) -> bytes:
    items = "".join(f"<url><loc>{url}</loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return f"<urlset>{items}</urlset>".encode()


def write_sites(root: Path, port: int) -> list[str]:
    """A site whose pages nobody links to: its robots.txt names an index, that gzipped sitemaps and more indexes, of
    which there is no end. Returns the `files` options."""
    at = f"http://{SITE}:{port}"
    elsewhere, strange = f"http://{OTHER}:{port}", f"http://{STRANGER}:{port}"
    sites = {name: root / name for name in (SITE, OTHER, STRANGER, ASKED)}
    for folder in sites.values():
        (folder / "maps").mkdir(parents=True)
    site, other = sites[SITE], sites[OTHER]
    for number in range(PAGES):
        (site / f"p{number}.html").write_text(PAGE.format(f"page {number}"))
    (site / "index.html").write_text(
        PAGE.format("root").replace(
            "<main>", '<link rel="alternate" type="application/rss+xml" href="/news.xml"><main>'
        )
    )
    (site / "news.xml").write_text(
        f"<rss><channel><item><link>{at}/p0.html</link></item><item><link>{at}/news.html</link></item></channel></rss>"
    )
    (site / "about.html").write_text(
        PAGE.format("about").replace("<p>", '<p><a href="/linked.html">more</a> ')
    )
    (site / "linked.html").write_text(PAGE.format("linked"))
    (site / "news.html").write_text(PAGE.format("news"))
    (site / "robots.txt").write_text(
        f"User-agent: *\nDisallow: /secret\nSitemap: {at}/maps/index.xml\n"
        f"Sitemap: {elsewhere}/for-maps.xml\nSitemap: {at}/about.html\n"
    )
    children = ("maps/a.xml.gz", "maps/b.xml", "maps/chain1.xml")
    (site / "maps" / "index.xml").write_bytes(
        index(*(f"{at}/{child}" for child in children), f"{strange}/maps/no.xml")
    )
    first = [f"{at}/p{n}.html" for n in range(PAGES // 2)]
    (site / "maps" / "a.xml.gz").write_bytes(
        gzip.compress(urlset(*first, f"{at}/secret.html", f"{strange}/x.html"))
    )
    (site / "maps" / "b.xml").write_bytes(urlset(*(f"{at}/p{n}.html" for n in range(PAGES // 2, PAGES - 1))))
    for n in range(1, 10):
        (site / "maps" / f"chain{n}.xml").write_bytes(index(f"{at}/maps/chain{n + 1}.xml"))
    (other / "for-maps.xml").write_bytes(
        urlset(f"{at}/p{PAGES - 1}.html", f"{elsewhere}/own.html", f"{strange}/y.html")
    )
    (other / "index.html").write_text(PAGE.format("other"))
    (sites[ASKED] / "maps" / "all.txt").write_text(f"http://{ASKED}:{port}/only.html\n{at}/p0.html\n")
    (sites[ASKED] / "only.html").write_text(PAGE.format("only"))
    return [f"{name}={folder}" for name, folder in sites.items()]


def index(*urls: str) -> bytes:
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>".encode()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A crawl from the roots of two of the sites, each at home in a cell of its own, until nothing is left to do."""
    assert shard_of(SITE, 64) % 2 != shard_of(OTHER, 64) % 2
    root, port = tmp_path_factory.mktemp("maps"), free_port()
    options = write_sites(root, port)
    with (
        launch(["files", *options], root / "requests.jsonl", http_port=port) as web,
        Fleet(root / "home", web.ready, fleet=FleetSettings(cells=2)) as fleet,
    ):
        fleet.start()
        roots = [f"http://{SITE}:{port}/", f"http://{OTHER}:{port}/"]
        fleet.client.seed(roots, sitemaps=[f"http://{ASKED}:{port}/maps/all.txt"])
        fleet.wait_quiet()
        yield fleet


def test_pages_that_only_a_sitemap_names_are_all_fetched_and_each_once(crawled: Fleet) -> None:
    requests = asked(crawled.requests_to(SITE))

    pages = {path: count for (_, path), count in requests.items() if path.endswith(".html")}
    assert pages == {
        **{f"/p{n}.html": 1 for n in range(PAGES)},
        "/news.html": 1,
        "/about.html": 1,
        "/linked.html": 1,
    }
    assert requests[SITE, "/maps/a.xml.gz"] == 1


def test_it_is_polite_and_every_request_is_one_row(crawled: Fleet) -> None:
    assert_polite(crawled.requests())
    assert_one_row_per_request(crawled.requests(), crawled.fetches())
    assert assert_whole_at_every_commit(crawled.lake) > 1


def test_hosts_that_nobody_has_chosen_are_not_asked_whatever_lists_them(crawled: Fleet) -> None:
    assert {entry.host for entry in crawled.requests()} == {SITE, OTHER, ASKED}


def test_a_sitemap_elsewhere_speaks_for_the_host_whose_robots_txt_names_it_and_for_its_own_folder(
    crawled: Fleet,
) -> None:
    listed = crawled.rows("SELECT dst_url FROM links WHERE src_host = $1 AND position = 'sitemap'", OTHER)

    paths = sorted(row["dst_url"].rpartition("/")[2] for row in listed)
    assert paths == ["own.html", f"p{PAGES - 1}.html"]


def test_a_sitemap_is_read_by_request_and_speaks_for_its_own_host(crawled: Fleet) -> None:
    paths = asked(crawled.requests_to(ASKED))

    assert paths == {(ASKED, "/robots.txt"): 1, (ASKED, "/maps/all.txt"): 1, (ASKED, "/only.html"): 1}


def test_explain_tells_which_sitemap_lists_a_page_and_what_its_lastmod_said(crawled: Fleet) -> None:
    [row] = crawled.rows("SELECT url FROM fetches WHERE url LIKE '%/p1.html'")
    sources = Sources(crawled.settings, crawled.lake, crawled.client, crawled.clock.now())

    facts = explain_url(sources, row["url"])

    assert facts["listed"]["sitemap"].endswith("/maps/a.xml.gz")
    assert f"{facts['listed']['sitemap']}: lastmod 2026-01-01" in "\n".join(in_words(facts))
    of_sitemap = explain_url(sources, facts["listed"]["sitemap"])
    assert of_sitemap["state"]["kind"] == "sitemap"
    assert "  kind:   sitemap" in in_words(of_sitemap)


def test_an_index_without_end_is_followed_so_far_and_no_further(crawled: Fleet) -> None:
    chain = [path for _, path in asked(crawled.requests_to(SITE)) if "chain" in path]

    assert sorted(chain) == ["/maps/chain1.xml", "/maps/chain2.xml", "/maps/chain3.xml"]


def test_rows_say_what_was_a_sitemap_what_a_feed_and_what_each_lists(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT kind, url, entries FROM fetches WHERE kind IN ('sitemap', 'feed')")

    found = {row["url"].rpartition("/")[2]: (row["kind"], row["entries"]) for row in rows}
    assert found["a.xml.gz"] == ("sitemap", PAGES // 2 + 1)
    assert found["news.xml"] == ("feed", 2)
    assert crawled.rows("SELECT count(*) AS n FROM pages WHERE url LIKE '%.xml%'") == [{"n": 0}]


def test_a_page_knows_which_sitemap_it_came_from_and_what_that_said(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT second_group_id, lastmod FROM fetches WHERE url LIKE '%/p1.html'")

    assert rows[0]["second_group_id"] is not None
    assert rows[0]["lastmod"].year == 2026


def test_a_stopped_crawl_knows_them_by_kind_and_has_nothing_left_to_do(crawled: Fleet) -> None:
    crawled.stop()
    states = [crawled.copy_of_state(f"cell-{number}") for number in range(2)]

    kinds = {url.rpartition("/")[2]: record.kind for state in states for url, record in state.urls.items()}
    assert kinds["index.xml"] == kinds["b.xml"] == kinds["for-maps.xml"] == SITEMAP
    assert kinds["news.xml"] == FEED
    assert [url for state in states for url in state.waiting() if "secret" not in url] == []
    assert [state.unqueued for state in states] == [[], []]
