"""The language of a text, told by its script and its function words: enough to see which languages are thin.

No more than that: pages in languages that are not listed here, and texts of few words, have none.
"""

from collections import Counter
from collections.abc import Sequence

LEAST_WORDS = 20
"""Words below which nothing is told."""
MOST_WORDS = 500
LEAST_SHARE = 0.04
"""Share of function words from which on a language is believed: in prose they are a fifth to a third."""
AHEAD = 1.3
"""How many times as many as those of the second language: related languages share some."""

FUNCTION_WORDS = {
    "cs": "se je na že v to s z do o jako ale jsou pro by který také není jeho byl",
    "da": "og det at er en til af på som med for den ikke de har der et var jeg blev",
    "de": "der die und das ist nicht ein eine mit von zu den auf für im sich auch dem werden wird",
    "en": "the of and to in is that for it was with as on are be this by at from have",
    "es": "el la de que y en los del las por con una para es su al lo como más pero",
    "fi": "ja on ei että se oli hän mutta kun niin myös ovat joka sekä tai jos voi ole kuin mukaan",
    "fr": "le la les des et est une que dans pour qui sur pas au avec ce sont par il plus",
    "it": "il di che la e un per non una sono con del della si da gli come più anche nel",
    "nl": "de het een van en is dat op te niet voor met zijn die aan er ook als door worden",
    "pl": "się i w na nie z że do jest to jak o po co ale przez od są oraz jego",
    "pt": "o de que e do da em um para com não uma os no se na por mais as dos",
    "ru": "и в не на что он с как это по но из у за от его она они было был",
    "sv": "och att det som en på är av för med till den inte om ett har de jag var så",
    "tr": "ve bir bu için ile çok daha olarak ne gibi ama kadar sonra her olan değil var da de en",
    "uk": "і в не на що з як це до та у за від його вона вони але було є про",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _listed in FUNCTION_WORDS.items():
    for _word in set(_listed.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_language)

SCRIPTS = (
    ("ja", 0x3040, 0x30FF),
    ("zh", 0x4E00, 0x9FFF),
    ("ko", 0xAC00, 0xD7AF),
    ("th", 0x0E00, 0x0E7F),
    ("ar", 0x0600, 0x06FF),
    ("he", 0x0590, 0x05FF),
    ("el", 0x0370, 0x03FF),
    ("hi", 0x0900, 0x097F),
)
"""Scripts that stand for a language. Japanese comes before Chinese: its Kana stand among Han."""


def language_of(text: str) -> str | None:
    """Two letters (ISO 639-1), None where it can't be told."""
    found = text[: MOST_WORDS * 12].lower().split()[:MOST_WORDS]
    return _by_script("".join(found)) or _by_words([word.strip(".,;:!?()\"'«»„“”") for word in found])


def _by_script(letters: str) -> str | None:
    if letters.isascii():
        return None
    sample = letters[:600]
    for language, first, last in SCRIPTS:
        share = sum(first <= ord(letter) <= last for letter in sample) / len(sample)
        if share > (0.1 if language == "ja" else 0.4):
            return language
    return None


def _by_words(found: Sequence[str]) -> str | None:
    if len(found) < LEAST_WORDS:
        return None
    seen = Counter(language for word in found for language in _LANGUAGES_OF.get(word, ()))
    first, second = [*seen.most_common(2), ("", 0), ("", 0)][:2]
    believed = first[1] >= LEAST_SHARE * len(found) and first[1] >= AHEAD * second[1]
    return first[0] if believed else None
