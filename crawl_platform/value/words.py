"""Words of texts, URLs and phrases, folded so that case, accents and punctuation don't tell them apart."""

import re
import unicodedata
from urllib.parse import parse_qsl, unquote, urlsplit

MOST_CHARACTERS = 30_000
"""Characters of a text that are looked at, some 5,000 words: what a page is about it says early."""
MOST_PARAMETERS = 100
_ALONE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Kana and Han: written without spaces, so that each character is a word."""
_find = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+").findall


def fold(text: str) -> str:
    """`text` in lower case and without accents: "Übersee" is "ubersee"."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    if plain.isascii():
        return plain
    kept = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return unicodedata.normalize("NFKC", kept)


def words(text: str) -> list[str]:
    """Folded words of the beginning of `text`."""
    found: list[str] = _find(fold(text[:MOST_CHARACTERS]))
    return found


def url_words(url: str) -> list[str]:
    """Folded words of `url`: of its host, its path, and the values of its parameters. The names of these say how a page
    is made, not what it is about: a shop's `?price=` is on all of its lists."""
    try:
        parts = urlsplit(url)
        values = " ".join(value for _, value in parse_qsl(parts.query, max_num_fields=MOST_PARAMETERS))
    except ValueError:
        return []
    return words(f"{parts.netloc} {unquote(parts.path)} {values}")
