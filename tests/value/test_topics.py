"""What a page is about, by the topics of a crawl: where mentions count, and how much."""

import pytest

from crawl_platform.value.topics import MEANT, Topic, Topics, together
from crawl_platform.value.words import fold, url_words, words

WIND = Topic("wind", 1.0, ("wind turbine*", "Übersee"), ("example.test/wind/*",), ("Dataset",))
CASINO = Topic("casino", -1.0, ("casino",))
TOPICS = Topics((WIND, CASINO))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A wind turbine stands.", {"wind"}),
        ("WIND   Turbines, again", {"wind"}),
        ("wind-turbines", {"wind"}),
        ("wind and turbine", set()),
        ("whirlwind turbine", set()),
        ("wind turb", set()),
        ("die Ubersee, übersee", {"wind"}),
        ("a casino with a wind turbine", {"wind", "casino"}),
        ("casinos", set()),
        ("", set()),
    ],
)
def test_a_phrase_is_found_by_its_words_whatever_case_accents_and_punctuation(text, found):
    assert set(TOPICS.of_page("", text)) == found


def test_a_phrase_is_found_where_no_spaces_are_written():
    assert set(Topics((Topic("風", phrases=("風力発電",)),)).of_page("", "日本の風力発電は増える")) == {"風"}


@pytest.mark.parametrize(
    ("url", "anchors", "strength"),
    [
        ("https://other.test/wind-turbines.html", (), MEANT["url"]),
        ("https://other.test/a?q=wind%20turbine", (), MEANT["url"]),
        ("https://example.test/wind/a", (), MEANT["pattern"]),
        ("https://other.test/example.test/wind/a", (), None),
        ("https://other.test/a", ("read more", "wind turbines"), MEANT["anchor"]),
        ("https://other.test/a", ("wind turbine", "wind turbine"), MEANT["anchor"]),
        ("https://other.test/wind-turbine", ("wind turbine",), 0.75),
        ("https://other.test/a", (), None),
        ("https://other.test/a?wind-turbine=1", (), None),
    ],
)
def test_an_unread_page_is_judged_by_its_url_and_the_texts_of_links(url, anchors, strength):
    assert TOPICS.of_link(url, anchors).get("wind") == (strength and pytest.approx(strength))


def test_more_mentions_are_stronger_and_a_title_says_more_than_a_word_in_passing():
    once, often = (TOPICS.of_page("", "wind turbine. " * n)["wind"] for n in (1, 40))
    titled = TOPICS.of_page("Wind turbines", "")["wind"]

    assert once < titled < often < 1.0


def test_a_declared_type_speaks_for_its_topic():
    assert TOPICS.of_page("", "", ("Thing", "Dataset")) == {"wind": MEANT["type"]}


def test_business_is_the_weighted_sum_and_stays_in_its_bounds():
    assert TOPICS.business({"wind": 0.5}) == 0.5
    assert TOPICS.business({"wind": 0.5, "casino": 0.9}) == pytest.approx(-0.4)
    assert Topics((WIND, Topic("b"))).business({"wind": 0.9, "b": 0.9}) == 1.0
    assert TOPICS.business({"no topic any more": 0.9}) == 0.0


def test_evidence_adds_up_as_independent_doubts():
    assert together({"a": 0.5}, {"a": 0.5, "b": 0.2}) == pytest.approx({"a": 0.75, "b": 0.2})


def test_words_are_folded():
    assert fold("Crème BRÛLÉE ﬁne Straße") == "creme brulee fine strasse"
    assert words("한국어 text") == ["한국어", "text"]
    assert url_words("https://a.test/caf%C3%A9/x_y?z=Q") == ["a", "test", "cafe", "x", "y", "q"]
