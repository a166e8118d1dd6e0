"""Which pages belong together, told from their URLs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.scheduling import templates
from crawl_platform.scheduling.templates import (
    DEEPEST,
    MOST_POSITIONS,
    MOST_WORDS,
    Folders,
    Shapes,
    group_id,
    learn,
    template_of,
)

SEGMENTS = st.one_of(
    st.sampled_from(
        ["news", "sport", "about", "index.html", "p12.html", "2024", "a-b-c", "x", "", "deadbeef01"]
    ),
    st.from_regex(r"[a-z]{1,6}", fullmatch=True),
    st.from_regex(r"[!$-.0-9:-@A-Za-z~]{0,12}", fullmatch=True),
)
QUERIES = st.one_of(
    st.just(""), st.from_regex(r"\?[a-z]{1,4}(=\w{0,3})?(&[a-z]{1,4}=\w{0,3}){0,2}", fullmatch=True)
)
URLS = st.builds(
    lambda segments, query: "https://a.test/" + "/".join(segments) + query,
    st.lists(SEGMENTS, max_size=9),
    QUERIES,
)


def url(path: str) -> str:
    return f"https://a.test{path}"


def taught(*paths: str) -> Shapes:
    shapes: Shapes = {}
    for path in paths:
        shapes, _ = learn(url(path), shapes)
    return shapes


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/", "/"),
        ("/about", "/about"),
        ("/news/", "/news/"),
        ("/story/12-some-long-words", "/story/*"),
        ("/story/how-it-all-began", "/story/*"),
        ("/product/417", "/product/#"),
        ("/2026/02/28/what-really-happened", "/#/#/#/*"),
        ("/archive/2026-02-28", "/archive/#"),
        ("/item-12", "/item-#"),
        ("/p/7.html", "/p/#.html"),
        ("/p/7.HTML", "/p/#.HTML"),
        ("/docs/v2/guide.pdf", "/docs/v#/guide.pdf"),
        ("/blob/9f86d081884c7d65", "/blob/*"),
        ("/id/123e4567-e89b-12d3-a456-426614174000", "/id/*"),
        ("/wiki/Caf%C3%A9", "/wiki/*"),
        ("/wiki/Donaudampfschifffahrtsgesellschaft", "/wiki/*"),
        ("/x" * 9, "/x" * DEEPEST + "/**"),
        ("/list?page=2", "/list?page"),
        ("/list?sort=up&page=2&page=3", "/list?page&sort"),
        ("/" + "a" * 2_000, "/*"),
    ],
)
def test_what_shows_by_itself_that_it_varies_is_taken_out(path: str, template: str) -> None:
    assert template_of(url(path), {}) == template


def test_more_words_at_a_position_than_sections_of_a_site_are_names_of_things() -> None:
    few = taught(*(f"/wiki/{chr(97 + n)}x" for n in range(MOST_WORDS)))
    many = taught(*(f"/wiki/{chr(97 + n)}x" for n in range(MOST_WORDS + 1)))

    assert template_of(url("/wiki/ax"), few) == "/wiki/ax"
    assert template_of(url("/wiki/never-seen"), few) == "/wiki/*"
    assert {template_of(url(path), many) for path in ("/wiki/ax", "/wiki/zx", "/wiki/new")} == {"/wiki/*"}


def test_a_url_that_was_never_seen_has_the_group_that_it_will_have_when_it_enters() -> None:
    shapes = taught("/news/a", "/news/b", "/user/ada/posts")

    for path in ("/news/c", "/user/bob/posts", "/new", "/news/a?print=1"):
        assert template_of(url(path), shapes) == learn(url(path), shapes)[1]


def test_folders_and_last_segments_are_told_apart_so_that_many_pages_leave_the_sections() -> None:
    shapes = taught("/news/1", "/sport/1", *(f"/{chr(97 + n)}page" for n in range(20)))

    assert template_of(url("/apage"), shapes) == "/*"
    assert template_of(url("/news/2"), shapes) == "/news/#"


def test_an_extension_outlives_the_word_before_it() -> None:
    shapes = taught(*(f"/manual/{chr(97 + n)}x.html" for n in range(20)))

    assert template_of(url("/manual/zx.html"), shapes) == "/manual/*.html"


def test_when_a_folder_turns_out_to_be_a_name_its_pages_come_together() -> None:
    shapes = taught(*(f"/{chr(97 + n)}user/{page}" for n in range(12) for page in ("posts", "likes")))

    assert {template_of(url(f"/{u}/{p}"), shapes) for u in ("auser", "new") for p in ("posts", "likes")} == {
        "/*/posts",
        "/*/likes",
    }
    assert len(shapes) == 2, "what hung on the single names is forgotten"


def test_invented_parameters_make_few_groups() -> None:
    shapes = taught(*(f"/list?{chr(97 + n)}={n}" for n in range(20)))

    assert template_of(url("/list?q=1"), shapes) == "/list?*"


@given(st.lists(URLS, max_size=60))
@settings(deadline=None)
def test_what_was_learnt_is_bounded_and_a_second_time_teaches_nothing(urls: list[str]) -> None:
    shapes: Shapes = {}
    for one in urls:
        shapes, template = learn(one, shapes)
        assert learn(one, shapes) == (shapes, template)
        assert template_of(one, shapes) == template

    assert len(shapes) <= MOST_POSITIONS
    assert all(len(met) <= 1 + MOST_WORDS for met in shapes.values())


@given(st.lists(URLS, max_size=60))
@settings(deadline=None)
def test_folders_at_hand_teach_the_same_as_without_them(urls: list[str]) -> None:
    shapes: Shapes = {}
    folders = Folders()
    for one in urls:
        alone = learn(one, shapes)
        assert learn(one, shapes, folders) == alone
        shapes = alone[0]


def test_ablation_folders_read_under_other_shapes_would_keep_what_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Folders, "under", lambda self, shapes: self)
    shapes: Shapes = {}
    folders = Folders()
    for n in range(20):
        shapes, _ = learn(url(f"/word{chr(97 + n)}/1"), shapes)
        learn(url("/worda/2"), shapes, folders)

    assert learn(url("/worda/3"), shapes, folders)[1] != template_of(url("/worda/3"), shapes)


@given(st.lists(URLS, max_size=30), URLS)
@settings(deadline=None)
def test_learning_changes_nothing_in_place(urls: list[str], one: str) -> None:
    shapes: Shapes = {}
    for other in urls:
        shapes, _ = learn(other, shapes)
    before = dict(shapes)

    learn(one, shapes)

    assert shapes == before


def invented(count: int) -> list[str]:
    """What a host publishes that invents words, folders and parameters without end."""
    letters = [chr(97 + n // 26 % 26) + chr(97 + n % 26) + "q" for n in range(count)]
    return [
        path
        for n, word in enumerate(letters)
        for path in (f"/{word}", f"/{letters[n // 2]}/{word}", f"/s/{word}/{letters[n // 3]}.html?{word}=1")
    ]


def groups_of(paths: list[str]) -> int:
    shapes = taught(*paths)
    return len({template_of(url(path), shapes) for path in paths})


def test_a_host_that_invents_names_has_few_groups() -> None:
    assert groups_of(invented(300)) <= 10


def test_ablation_without_the_bound_every_invented_name_is_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_WORDS", 10**6)
    monkeypatch.setattr(templates, "MOST_POSITIONS", 10**6)

    assert groups_of(invented(300)) >= 900


@given(st.from_regex(r"[a-z]{1,8}\.test", fullmatch=True), URLS)
def test_a_group_has_a_number_of_its_host_and_template_that_fits_the_tables(host: str, one: str) -> None:
    template = template_of(one, {})

    assert 0 < group_id(host, template) < 2**31
    assert group_id(host, template) == group_id(host, template)
    assert group_id(host, template) != group_id("other." + host, template)


def test_numbers_of_groups_are_the_same_for_ever() -> None:
    assert (group_id("a.test", "/"), group_id("a.test", "/story/*")) == (1_027_471_770, 1_255_540_849)
