"""From pages to clusters of duplicates."""

import random

import pytest

from assets import content_comparison
from crawl_platform.digest import digest
from crawl_platform.duplicates import duplicate_clusters, near_duplicates
from crawl_platform.duplicates.near_duplicates import SIMILAR
from crawl_platform.simulation.web import SyntheticWeb

PLAIN, COPY, OTHER = "https://plain.test/story", "https://mirror.test/story", "https://plain.test/other"


def story(seed: int, sentences: int = 30) -> str:
    draw = random.Random(seed)
    return " ".join(
        f"The {draw.randrange(9_999)} towns met on day {draw.randrange(9_999)}." for _ in range(sentences)
    )


def retold(text: str) -> str:
    """With one word in sixty changed."""
    words = text.split()
    return " ".join("again" if i % 60 == 30 else word for i, word in enumerate(words))


def retouched(text: str) -> str:
    """With one word in twenty-eight changed: similar, but not similar enough."""
    words = text.split()
    return " ".join("again" if i % 28 == 14 else word for i, word in enumerate(words))


def clusters(lake) -> set[tuple[str, ...]]:
    rows = lake.query(
        "SELECT list(url ORDER BY url) AS urls FROM near_duplicates GROUP BY cluster_id"
    ).to_pylist()
    return {tuple(row["urls"]) for row in rows}


@pytest.fixture
def mirrored(crawl, clock):
    """A page, its mirror (read later), and a page that says something else."""
    crawl.page(PLAIN, story(1), value=0.5)
    crawl.page(OTHER, story(2))
    clock.advance(60)
    crawl.page(COPY, story(1), value=0.25)
    crawl.commit()
    return crawl


def test_a_mirrored_page_is_a_cluster_and_other_pages_are_none(harness, mirrored, lake):
    harness.execute("near_duplicates")

    rows = lake.query("SELECT * FROM near_duplicates ORDER BY url").to_pylist()
    assert clusters(lake) == {(COPY, PLAIN)}
    assert {row["representative"] for row in rows} == {PLAIN}
    assert [row["is_representative"] for row in rows] == [False, True]
    assert {row["kind"] for row in rows} == {"exact"}


def test_a_page_that_says_nearly_the_same_is_found_by_its_words(harness, crawl, lake):
    crawl.page(PLAIN, story(1))
    crawl.page(COPY, retold(story(1)))
    crawl.page(OTHER, story(2))
    crawl.commit()

    harness.execute("near_duplicates")

    rows = lake.query("SELECT kind, similarity FROM near_duplicates WHERE NOT is_representative").to_pylist()
    assert clusters(lake) == {(COPY, PLAIN)}
    assert rows[0]["kind"] == "near"
    assert SIMILAR <= rows[0]["similarity"] < 1.0


@pytest.mark.long
def test_a_candidate_that_is_not_similar_enough_is_in_no_cluster(harness, crawl, lake, monkeypatch):
    """Ablation: at the similarity from which on candidates are found it would be."""
    crawl.page(PLAIN, story(1))
    crawl.page(COPY, retouched(story(1)))
    crawl.commit()

    harness.execute("near_duplicates")
    found = clusters(lake)
    for module in (near_duplicates, duplicate_clusters):
        monkeypatch.setattr(module, "SIMILAR", 0.7)
    harness.execute("near_duplicates")

    assert found == set()
    assert clusters(lake) == {(COPY, PLAIN)}


def test_members_that_are_not_alike_fail_the_check_and_nothing_is_written(harness, crawl, lake, monkeypatch):
    """As if candidates were believed."""
    crawl.page(PLAIN, story(1))
    crawl.page(COPY, retouched(story(1)))
    crawl.commit()
    monkeypatch.setattr(content_comparison, "verified", lambda pairs, texts, repeated: pairs)

    result = harness.execute("near_duplicates", fails=True)

    passed = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert passed == {
        "one_cluster_per_page": True,
        "members_are_alike": False,
        "few_hosts_without_equal_text": True,
    }
    assert clusters(lake) == set()


@pytest.mark.long
def test_pages_made_from_one_template_are_no_duplicates(harness, crawl, lake, monkeypatch):
    """Ablation: without looking for a site's phrases all its pages are one cluster."""
    terms = story(7, 60)
    for i in range(15):
        crawl.page(f"https://shop.test/{i}", f"{terms} {story(100 + i, 2)}")
    crawl.commit()

    harness.execute("near_duplicates")
    found = clusters(lake)
    monkeypatch.setattr(near_duplicates, "LEAST_SAMPLE", 1_000)
    harness.execute("near_duplicates")

    assert found == set()
    assert [len(urls) for urls in clusters(lake)] == [15]


def test_what_a_site_says_when_it_has_nothing_to_say_is_no_duplicate(harness, crawl, lake):
    nothing = "We are sorry: the page that you are looking for is not here any more, or never was."
    for i in range(4):
        crawl.page(f"https://plain.test/lost/{i}", nothing)
        crawl.page(f"https://plain.test/empty/{i}", "Nothing here.")
        crawl.page(f"https://empty-{i}.test/", "Nothing here.")
        crawl.page(f"https://plain.test/members/{i}", story(5), noindex=True)
    crawl.commit()

    harness.execute("near_duplicates")

    assert clusters(lake) == set()


@pytest.mark.long
def test_pages_that_are_gone_and_hosts_that_are_excluded_stand_for_nobody(harness, mirrored, lake, clock):
    harness.execute("near_duplicates")
    clock.advance(60)
    mirrored.gone(PLAIN)
    mirrored.commit()

    harness.execute("near_duplicates")

    assert clusters(lake) == set()

    mirrored.page("https://third.test/story", story(1))
    mirrored.host("third.test", "excluded", event="excluded")
    mirrored.commit()
    harness.execute("near_duplicates")

    assert clusters(lake) == set()


@pytest.mark.long
def test_a_repeated_run_writes_the_same_rows(harness, mirrored, lake):
    harness.execute("near_duplicates")
    rows = lake.query("SELECT * FROM near_duplicates")

    harness.execute("near_duplicates")

    assert lake.query("SELECT * FROM near_duplicates").equals(rows)


@pytest.mark.long
def test_when_the_representative_goes_another_page_takes_its_place(harness, mirrored, lake, clock):
    mirrored.page("https://third.test/story", story(1), value=0.4)
    mirrored.commit()
    harness.execute("near_duplicates")
    clock.advance(60)
    mirrored.gone(PLAIN)
    mirrored.commit()

    harness.execute("near_duplicates")

    assert clusters(lake) == {(COPY, "https://third.test/story")}
    assert lake.query("SELECT url FROM near_duplicates WHERE is_representative")["url"].to_pylist() == [COPY]


@pytest.mark.long
def test_only_the_newest_texts_are_compared_and_the_rest_is_counted(
    harness, mirrored, lake, clock, monkeypatch
):
    monkeypatch.setattr(content_comparison, "MOST_TEXTS", 1)
    result = harness.execute("near_duplicates")

    (event,) = result.asset_materializations_for_node("near_duplicates")
    assert clusters(lake) == {(COPY, PLAIN)}
    assert event.metadata["texts_not_compared"].value == 1


def test_nothing_read_yet_is_no_error(harness, lake):
    result = harness.execute("near_duplicates")

    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert clusters(lake) == set()


def test_clusters_are_shown_with_sizes_and_the_largest_named(harness, mirrored):
    result = harness.execute("near_duplicates")

    (event,) = result.asset_materializations_for_node("near_duplicates")
    metadata = event.metadata
    assert metadata["clusters"].value == 1
    assert f"| {PLAIN} | 2 | 2 | 1.00 | {COPY} |" in metadata["largest_clusters"].md_str


KINDS = ("manual", "mirror", "blog", "shop", "walled", "farm")


@pytest.mark.long
def test_on_the_synthetic_web_no_cluster_is_false_and_most_true_ones_are_found(harness, crawl, lake, clock):
    """Mirrors and printed pages read at different times; sign-in forms, farms and listings as they are."""
    web = SyntheticWeb(7, clock.now(), scale=0.5)
    urls = [u for name, site in web.sites.items() if site.host.kind in KINDS for u in web.urls(name)]
    forms = web.sites["walled-1.test"]
    urls += [forms.host.url(f"/{topic}/{n}.html") for topic in forms.topics for n in range(1, 11)]
    for number, url in enumerate(urls):
        clock.advance(0.5)
        page = digest(web.body(url, clock.now(), number), url, "text/html")
        crawl.page(url, page.text, canonical=page.canonical, noindex=page.noindex)
    crawl.commit()

    harness.execute("near_duplicates")

    true = {url: cluster for cluster in web.duplicates() for url in cluster}
    found = clusters(lake)
    assert all(len({true.get(url) for url in cluster}) == 1 and true.get(cluster[0]) for cluster in found)
    sought = {cluster & set(urls) for cluster in web.duplicates()}
    assert len(found) >= 0.85 * sum(len(cluster) > 1 for cluster in sought)
    assert len(found) > 40
