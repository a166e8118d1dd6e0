"""The graph of hosts, brought up to date by what has come: always what one query over everything says."""

import dataclasses

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from assets.link_graph import _trends
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.rewrite import live_files, replace_files, write_files
from resources import graph_state, host_graph, link_news
from resources.host_graph import folder_of, keep, load, refresh, table_of
from tests.orchestration.made_up_crawl import small_web

EDGES = """
SELECT
    l.src_host, l.dst_host,
    count(*) AS links,
    count(DISTINCT l.src_url) AS pages,
    count(*) FILTER (l.nofollow) AS nofollow,
    count(*) FILTER (l.position = 'main') AS main,
    count(*) FILTER (NOT coalesce(l.nofollow, false) AND coalesce(l.position, '') <> 'comments') AS editorial,
    min(h.first_seen) AS first_seen,
    max(p.last_success) AS last_seen
FROM links_now l
JOIN (SELECT url, max(started_at) AS last_success FROM fetches
      WHERE kind = 'page' AND outcome IN ('ok', 'not_modified') GROUP BY url) p ON l.src_url = p.url
JOIN (SELECT src_host, dst_host, min(seen_at) AS first_seen FROM links GROUP BY ALL) h
    ON l.src_host = h.src_host AND l.dst_host = h.dst_host
WHERE l.src_host <> l.dst_host
GROUP BY l.src_host, l.dst_host ORDER BY l.src_host, l.dst_host
"""


def versions(lake):
    return lake.vector(tables=("links", "fetches"))[0]


def brought_up_to_date(lake):
    """What the asset does; returns what was read, and the edges."""
    refreshed = refresh(lake, versions(lake))
    keep(lake, refreshed)
    return refreshed, table_of(refreshed.graph)


def rows_of(edges):
    return edges.to_pylist()


def asked(lake):
    return lake.query(EDGES).to_pylist()


def grow(crawl, clock, day):
    """A day: pages that change, pages that don't, comments, a page that is gone, a sitemap, an old link set again."""
    clock.advance(86_400.0)
    crawl.visit("https://a.test/", "https://b.test/", "https://a.test/2", f"https://new-{day}.test/")
    crawl.visit(f"https://a.test/{day}", "https://b.test/x", "https://c.test/", position="comments")
    crawl.visit("https://b.test/", "https://a.test/", "https://a.test/", nofollow=day % 2 == 0)
    if day:
        clock.advance(60)
        crawl.fetch(f"https://a.test/{day - 1}", outcome="not_modified", link_set=crawl.first_set)
        crawl.gone("https://b.test/")
    else:
        crawl.first_set = crawl._rows["fetches"][1]["fetch_id"]
    listed = crawl.fetch("https://a.test/sitemap.xml", kind="sitemap", lane="robots")
    crawl.link(listed, "https://a.test/sitemap.xml", "https://d.test/", position="sitemap")
    crawl.commit()


@pytest.mark.parametrize("folded", [0, pytest.param(10**9, marks=pytest.mark.long)])
def test_each_update_is_what_one_query_over_everything_says_and_reads_only_what_has_come(
    lake, crawl, clock, monkeypatch, folded
):
    """`folded`: what has changed stays a layer of its own, or never does."""
    monkeypatch.setattr(graph_state, "FOLDED", folded)
    for day in range(3):
        grow(crawl, clock, day)

        refreshed, edges = brought_up_to_date(lake)

        assert rows_of(edges) == asked(lake)
        assert bool(refreshed.news.reason) == (day == 0)
        assert refreshed.links == 8
        assert rows_of(table_of(refresh(lake, versions(lake), anew="wanted").graph)) == rows_of(edges)


def test_a_set_that_is_shown_again_is_looked_up(lake, crawl, clock):
    crawl.visit("https://a.test/", "https://b.test/")
    first = crawl._rows["fetches"][0]["fetch_id"]
    for again in (None, first):
        clock.advance(60)
        if again:
            crawl.fetch("https://a.test/", outcome="not_modified", link_set=again)
        else:
            crawl.commit()
            brought_up_to_date(lake)
            crawl.visit("https://a.test/", "https://c.test/")
        crawl.commit()
        _, edges = brought_up_to_date(lake)

        assert rows_of(edges) == asked(lake)


@pytest.mark.long
def test_the_base_is_not_written_again_until_an_eighth_has_changed(lake, crawl, clock):
    small_web(crawl)
    brought_up_to_date(lake)

    def inode():
        return next(folder_of(lake).glob("*/sets.base.target.npy")).stat().st_ino

    before = inode()
    clock.advance(60)
    crawl.visit("https://seed-0.test/", "https://another.test/")
    crawl.commit()
    brought_up_to_date(lake)
    assert inode() == before

    clock.advance(60)
    for seed in range(6):
        crawl.visit(f"https://seed-{seed}.test/", *(f"https://new-{n}.test/" for n in range(40)))
    crawl.commit()
    _, edges = brought_up_to_date(lake)
    assert inode() != before
    assert rows_of(edges) == asked(lake)


def test_nothing_new_is_nothing_read(lake, crawl):
    small_web(crawl)
    _, before = brought_up_to_date(lake)

    refreshed, after = brought_up_to_date(lake)

    assert (refreshed.links, refreshed.news.reason) == (0, "")
    assert after.equals(before)


def rewrite(lake, name, *, without="", data_change):
    table, root = TABLES[name], lake.path(name)
    old = live_files(lake.delta(name), root)
    parts = [pq.read_table(root / file.path) for file in old]
    kept = [part.filter(pc.not_equal(part["dst_host"], without)) for part in parts]
    new = write_files(table, root, old[0].day, kept, 1_000_000)
    replace_files(lake, name, old, new, now=0.0, data_change=data_change)


def test_rows_that_leave_leave_the_graph_their_names_too_and_other_ids_stay(lake, crawl):
    small_web(crawl)
    refreshed, _ = brought_up_to_date(lake)
    before = refreshed.graph.hosts.texts.to_pylist()
    rewrite(lake, "links", without="honest-0.test", data_change=True)

    refreshed = refresh(lake, {**versions(lake), "links": lake.version("links")})
    keep(lake, refreshed)

    after = load(lake)[0].hosts.texts.to_pylist()
    assert "rows have left links" in refreshed.news.reason
    assert "honest-0.test" not in table_of(refreshed.graph)["dst_host"].to_pylist()
    assert after == ["" if host == "honest-0.test" else host for host in before]


def test_what_upkeep_writes_anew_is_not_read_again(lake, crawl):
    small_web(crawl)
    _, before = brought_up_to_date(lake)
    rewrite(lake, "links", data_change=False)

    refreshed = refresh(lake, {**versions(lake), "links": lake.version("links")})

    assert (refreshed.links, refreshed.news.reason) == (0, "")
    assert table_of(refreshed.graph).equals(before)


def test_a_state_that_is_damaged_or_of_another_release_is_built_anew(lake, crawl, monkeypatch):
    small_web(crawl)
    _, before = brought_up_to_date(lake)
    path = next(folder_of(lake).glob("*/edges.base.counts.npy"))
    path.write_bytes(path.read_bytes()[:-1])

    refreshed, after = brought_up_to_date(lake)

    assert (refreshed.news.reason, after) == ("there is no earlier state", before)

    monkeypatch.setattr(host_graph, "FORMAT", 2)
    assert refresh(lake, versions(lake)).news.anew


def test_small_portions_change_nothing(lake, crawl, clock, monkeypatch):
    monkeypatch.setattr(link_news, "PORTION", 1)
    for day in range(2):
        grow(crawl, clock, day)

    _, edges = brought_up_to_date(lake)

    assert rows_of(edges) == asked(lake)


@pytest.mark.long
def test_links_without_their_fetch_are_not_forgotten_by_the_next_run(harness, crawl, lake):
    """Only a graph whose checks passed is gone on from."""
    small_web(crawl)
    crawl.link("f-that-is-not-there", "https://seed-0.test/", "https://honest-0.test/")
    crawl.commit()

    for _ in range(2):
        harness.execute("link_graph", fails=True)

    assert load(lake) is None


@pytest.mark.long
def test_the_asset_goes_on_from_what_it_kept(harness, crawl, lake, clock):
    for day in range(2):
        grow(crawl, clock, day)
        (event,) = harness.execute("link_graph").asset_materializations_for_node("link_graph")

    assert event.metadata["built"].value == "from what has come"
    assert event.metadata["links_read"].value == 8
    kept = load(lake)[0]
    assert [point["links"] for point in kept.growth] == [6, 8]
    assert kept.growth[1]["edges"] == event.metadata["edges"].value
    assert lake.query("SELECT * FROM host_graph ORDER BY ALL").to_pylist() == asked(lake)


@pytest.mark.long
def test_growth_is_remembered_when_something_has_come_and_thinned_out(lake, crawl, clock, monkeypatch):
    monkeypatch.setattr(host_graph, "MOST_POINTS", 4)
    small_web(crawl)
    graph = brought_up_to_date(lake)[0].graph.grown(links=0)

    assert graph.grown(links=1) is graph
    for links in range(1, 5):
        clock.advance(60)
        crawl.visit("https://seed-0.test/", "https://another.test/")
        crawl.commit()
        graph = dataclasses.replace(refresh(lake, versions(lake)).graph, growth=graph.growth).grown(
            links=links
        )

    assert [point["links"] for point in graph.growth] == [0, 2, 4]


def test_growth_is_drawn_once_two_points_make_a_line(pictures):
    point = {"moment": 0, "seed_hosts": 1, "horizon_hosts": 2, "edges": 3, "frontier_urls": 4}

    drawn = _trends([point, point | {"moment": 3_600_000_000, "edges": 5}])

    assert set(drawn) == {"growth", "growth_of_edges", "growth_of_the_frontier"}
    assert all("data:image/png" in str(picture.value) for picture in drawn.values())


@pytest.mark.long
def test_the_pictures_of_the_graph(pictures, harness, crawl):
    small_web(crawl)

    (event,) = harness.execute("link_graph").asset_materializations_for_node("link_graph")

    drawn = {name for name, value in event.metadata.items() if "data:image/png" in str(value.value)}
    assert drawn == {"in_links", "out_links", "component_sizes"}
    assert event.metadata["seed_hosts"].value == 52
    assert event.metadata["horizon_hosts"].value > 0


@pytest.mark.long
def test_before_the_first_commit_nothing_is_kept(harness, crawl, lake):
    harness.execute("link_graph")

    assert load(lake) is None
