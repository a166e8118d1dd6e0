"""What is kept of a text: its language, and whether it is an error in disguise."""

import pytest

from crawl_platform.value.language import language_of
from crawl_platform.value.texts import text_facts
from crawl_platform.value.topics import Topic, Topics

TEXTS = {
    "en": "The ship was built in the north of the country and it is said that it has been at sea for years.",
    "de": "Das Schiff wurde im Norden des Landes gebaut und man sagt, dass es seit Jahren auf See ist, mit zehn Mann.",
    "fr": "Le navire est construit dans le nord du pays et on dit que ce bateau est en mer depuis des années.",
    "es": "El barco se construyó en el norte del país y se dice que está en el mar desde hace años.",
    "ru": "Корабль был построен на севере страны и говорят, что он в море уже много лет, и его не так любят.",
    "ja": "船は国の北部で建造され、何年も海に出ていると言われています。",
    "zh": "这艘船建于该国北部，据说已经在海上航行多年，船员十人。",
    "ko": "그 배는 나라의 북쪽에서 만들어졌고 여러 해 동안 바다에 있었다고 한다.",
}  # fmt: skip


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_told_by_script_and_function_words(language):
    assert language_of(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "Menu Home About", "xyzzy plugh " * 40, "1 2 3 " * 50])
def test_where_nothing_tells_a_language_none_is_guessed(text):
    assert language_of(text) is None


@pytest.mark.parametrize(
    ("title", "text", "soft"),
    [
        ("Not found", "There is nothing at this address.", True),
        ("Shop", "Error 404", True),
        ("Shop", "Sorry, this product is no longer available.", True),
        ("Laden", "Die Seite wurde leider nicht gefunden.", True),
        ("Site", "Page introuvable", True),
        ("Wind", "A turbine stands on the hill.", False),
        ("Area code 404", "The area code 404 is that of Atlanta.", False),
        ("Lost ships that were not found", "They were searched for. " * 60, False),
    ],
)
def test_an_error_that_came_as_a_page_is_seen(title, text, soft):
    assert text_facts(title, text, (), Topics(())).soft_error is soft


def test_facts_of_a_page():
    facts = text_facts("Boats", TEXTS["en"], (), Topics((Topic("ships", phrases=("ship",)),)))

    assert (facts.words, facts.language) == (22, "en")
    assert facts.topics == pytest.approx({"ships": 0.15})
