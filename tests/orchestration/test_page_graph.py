"""The graph of pages, brought up to date by what has come: always what one query over everything says."""

import numpy as np
import pytest

from crawl_platform.graph.page_links import STRENGTHS
from resources import graph_state
from resources.page_graph import PageGraph, folder_of, keep, load, refresh
from tests.orchestration.made_up_crawl import small_web
from tests.orchestration.test_link_graph import grow, rewrite, versions

STRENGTH = " ".join(f"WHEN '{place}' THEN {strength}" for place, strength in STRENGTHS.items())
ARCS = f"""
SELECT src_url, dst_url, max(CASE coalesce(position, 'other') {STRENGTH} ELSE 0 END) AS strength FROM links_now
WHERE NOT coalesce(nofollow, false) GROUP BY ALL HAVING strength > 0 ORDER BY ALL
"""


def brought_up_to_date(lake):
    refreshed = refresh(lake, versions(lake))
    keep(lake, refreshed)
    return refreshed


def named(graph: PageGraph):
    urls = np.array(graph.pages.texts.to_pylist())
    arcs = graph.arcs()
    return sorted(
        zip(urls[arcs.sources()].tolist(), urls[arcs.target].tolist(), arcs.strength.tolist(), strict=True)
    )


def asked(lake):
    return [tuple(row.values()) for row in lake.query(ARCS).to_pylist()]


@pytest.mark.parametrize("folded", [0, pytest.param(10**9, marks=pytest.mark.long)])
def test_each_update_is_what_one_query_over_everything_says_and_reads_only_what_has_come(
    lake, crawl, clock, monkeypatch, folded
):
    """`folded`: what has changed stays a layer of its own, or never does."""
    monkeypatch.setattr(graph_state, "FOLDED", folded)
    for day in range(3):
        grow(crawl, clock, day)

        refreshed = brought_up_to_date(lake)

        assert named(refreshed.graph) == asked(lake)
        assert (bool(refreshed.news.reason), refreshed.links) == (day == 0, 8)
        assert named(refresh(lake, versions(lake), anew="wanted").graph) == asked(lake)
        assert named(load(lake)[0]) == asked(lake)


def test_pages_know_their_host_and_front_pages_are_known(lake, crawl):
    small_web(crawl)
    graph = brought_up_to_date(lake).graph

    hosts = np.array(graph.hosts.texts.to_pylist())[graph.page_host].tolist()
    urls = graph.pages.texts.to_pylist()
    assert all(url.startswith(f"https://{host}/") for url, host in zip(urls, hosts, strict=True))
    read = graph.arcs().page
    fronts = [urls[page].count("/") == 3 and urls[page].endswith("/") for page in read]
    assert graph.are_front(read).tolist() == fronts


def test_the_strongest_of_several_links_counts_and_comments_do_not(lake, crawl):
    crawl.visit("https://a.test/", position="main")
    fetch = crawl._rows["fetches"][-1]["fetch_id"]
    for position, nofollow in (("nav", False), ("main", False), ("footer", False)):
        crawl.link(fetch, "https://a.test/", "https://a.test/2", position=position, nofollow=nofollow)
    crawl.link(fetch, "https://a.test/", "https://b.test/", position="comments")
    crawl.link(fetch, "https://a.test/", "https://c.test/", nofollow=True)
    crawl.link(fetch, "https://a.test/", "https://d.test/", position=None)
    crawl.commit()

    found = named(brought_up_to_date(lake).graph)

    assert found == [
        ("https://a.test/", "https://a.test/2", STRENGTHS["main"]),
        ("https://a.test/", "https://d.test/", STRENGTHS["other"]),
    ]


def test_pages_that_rows_no_longer_name_leave_and_other_ids_stay(lake, crawl):
    small_web(crawl)
    before = brought_up_to_date(lake).graph.pages.texts.to_pylist()
    rewrite(lake, "links", without="honest-0.test", data_change=True)

    refreshed = refresh(lake, {**versions(lake), "links": lake.version("links")})
    keep(lake, refreshed)

    after = load(lake)[0].pages.texts.to_pylist()
    gone = [url for url in before if url.startswith("https://honest-0.test/")]
    assert gone
    assert after == ["" if url in gone else url for url in before]


@pytest.mark.long
def test_a_damaged_state_is_built_anew(lake, crawl):
    small_web(crawl)
    brought_up_to_date(lake)
    path = next(folder_of(lake).glob("*/sets.base.target.npy"))
    path.write_bytes(path.read_bytes()[:-1])

    assert brought_up_to_date(lake).news.reason == "there is no earlier state"


def ranks(lake):
    return {row["url"]: row for row in lake.query("SELECT * FROM page_ranks").to_pylist()}


def test_pages_of_the_seed_are_ranked_read_or_not(harness, crawl, lake):
    crawl.host("a.test")
    crawl.visit("https://a.test/", "https://a.test/often", "https://a.test/once", "https://horizon.test/")
    crawl.visit("https://a.test/once", "https://a.test/often")
    crawl.commit()

    result = harness.execute("page_ranks")

    found = ranks(lake)
    assert set(found) == {"https://a.test/", "https://a.test/once", "https://a.test/often"}
    assert [found[f"https://a.test/{name}"]["in_links"] for name in ("", "once", "often")] == [0, 1, 2]
    assert found["https://a.test/often"]["importance"] > found["https://a.test/once"]["importance"]
    assert not found["https://a.test/often"]["read"]
    assert all(check.passed for check in result.get_asset_check_evaluations())


@pytest.mark.long
def test_a_host_that_is_not_seed_any_more_passes_nothing_on(harness, crawl, lake, clock):
    for host in ("a.test", "b.test"):
        crawl.host(host)
        crawl.visit(f"https://{host}/", f"https://a.test/from-{host}")
    clock.advance(1)
    crawl.host("b.test", "horizon", event="demoted")
    crawl.commit()

    harness.execute("page_ranks")

    found = ranks(lake)
    assert "https://b.test/" not in found
    assert found["https://a.test/from-b.test"]["rank"] == 0 < found["https://a.test/from-a.test"]["rank"]


@pytest.mark.long
def test_arcs_that_are_not_whole_fail_the_check_and_are_not_kept(harness, crawl, lake, monkeypatch):
    small_web(crawl)
    monkeypatch.setattr("assets.page_ranks.ARCS", "SELECT 0")

    harness.execute("page_ranks", fails=True)

    assert load(lake) is None
    assert ranks(lake) == {}


@pytest.mark.long
def test_important_pages_that_nobody_has_read_are_worth_more_and_the_fleet_hears_of_it(
    harness, crawl, lake, fleet
):
    crawl.host("a.test")
    names = [f"https://a.test/{n}" for n in range(30)]
    crawl.page("https://a.test/", "A front page of some words.")
    front = crawl._rows["fetches"][-1]["fetch_id"]
    for name in ["https://a.test/hub", *names]:
        crawl.link(front, "https://a.test/", name, position="main")
    for name in names:
        crawl.page(name, f"A page of its own, which is {name}.")
        crawl.link(crawl._rows["fetches"][-1]["fetch_id"], name, "https://a.test/hub", position="main")
    crawl.commit()

    harness.execute("page_ranks", "page_values")

    (row,) = lake.query("SELECT * FROM page_values WHERE url = 'https://a.test/hub'").to_pylist()
    assert row["importance"] > 0.9
    assert row["value"] > 1.4 * row["base"]
    assert "much is linked to it" in row["reason"]
    assert "https://a.test/hub" in [worth.url for worth in fleet.appraised]
