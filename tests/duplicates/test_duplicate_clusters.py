import random

from crawl_platform.duplicates.duplicate_clusters import Page, Texts, clusters, unlike
from crawl_platform.duplicates.near_duplicates import LEAST_WORDS, SHORT_WORDS, shingles

LONG = dict.fromkeys("abcdef", SHORT_WORDS * 4)


def page(url: str, text: str, since: float = 0.0, *, variant: bool = False) -> Page:
    return Page(url, url.split("/")[2], f"fetch of {url}", text, since, variant)


def texts(words: dict[str, int], alike: tuple[tuple[str, str], ...] = ()) -> Texts:
    """Texts that are alike share nine tenths of their words with the first of them."""
    common = [str(random.Random(1).randrange(10**6)) + str(i) for i in range(400)]
    known = {name: shingles([*common, name, name]) for pair in alike for name in pair}
    return Texts(words, known, alike)


def by_url(pages: list[Page], known: Texts) -> dict[str, str]:
    return {member.page.url: member.representative for member in clusters(pages, known)}


def test_equal_texts_on_different_hosts_are_one_exact_cluster():
    found = clusters(
        [page("http://x/1", "a", 2.0), page("http://y/1", "a", 1.0), page("http://z/", "b")], texts(LONG)
    )

    assert [(m.page.url, m.kind, m.similarity, m.size) for m in found] == [
        ("http://x/1", "exact", 1.0, 2),
        ("http://y/1", "exact", 1.0, 2),
    ]


def test_the_page_known_longest_stands_for_its_cluster():
    found = by_url([page("http://x/", "a", 2.0), page("http://y/", "a", 1.0)], texts(LONG))

    assert set(found.values()) == {"http://y/"}


def test_a_page_that_names_another_as_canonical_stands_for_nobody():
    found = by_url(
        [page("http://x/?sort=1", "a", 1.0, variant=True), page("http://x/", "a", 2.0)], texts(LONG)
    )

    assert set(found.values()) == {"http://x/"}


def test_similar_texts_and_their_copies_are_one_cluster():
    pages = [
        page("http://x/1", "a"),
        page("http://x/2", "b", 1.0),
        page("http://y/3", "b", 1.0),
        page("http://y/4", "c"),
    ]

    found = clusters(pages, texts(LONG, (("a", "b"),)))

    assert [(m.page.url, m.kind) for m in found] == [
        ("http://x/1", "near"),
        ("http://x/2", "near"),
        ("http://y/3", "near"),
    ]
    assert all(m.representative == "http://x/1" for m in found)
    assert all(0.9 < m.similarity <= 1.0 for m in found)


def test_no_page_is_in_two_clusters():
    pages = [page(f"http://x/{name}", name) for name in "abcdef"]

    found = clusters(pages, texts(LONG, (("a", "b"), ("b", "c"), ("d", "e"))))

    assert sorted(m.page.text for m in found) == ["a", "b", "c", "d", "e"]
    assert {m.page.text: m.size for m in found} == {"a": 3, "b": 3, "c": 3, "d": 2, "e": 2}
    assert len({m.cluster_id for m in found}) == 2


def test_a_few_words_are_nobodys_duplicate():
    pages = [page("http://x/", "a"), page("http://y/", "a")]

    assert clusters(pages, texts({"a": LEAST_WORDS - 1})) == []
    assert len(clusters(pages, texts({"a": LEAST_WORDS}))) == 2


def test_a_short_text_that_a_site_shows_at_several_addresses_is_boilerplate():
    """Ablation: the same pages with a longer text are duplicates."""
    pages = [page(f"http://x/{i}", "a") for i in range(5)]

    assert clusters(pages, texts({"a": SHORT_WORDS - 1})) == []
    assert len(clusters(pages, texts({"a": SHORT_WORDS}))) == 5


def test_texts_that_are_alone_in_their_cluster_are_named():
    known = texts(LONG, (("a", "b"),))
    members = clusters([page("http://x/1", "a"), page("http://x/2", "b")], known)

    assert unlike(members, known) == []
    assert unlike(
        members, Texts(LONG, {**known.shingles, "b": shingles(["another", "text", "altogether"])}, ())
    ) == [
        "a",
        "b",
    ]
