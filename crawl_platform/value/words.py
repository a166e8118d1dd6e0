"""Words of texts, URLs and phrases, folded so that case, accents and punctuation don't tell them apart."""

import re
import unicodedata
from urllib.parse import unquote, urlsplit

MOST_CHARACTERS = 30_000
"""Characters of a text that are looked at, some 5,000 words: what a page is about it says early."""
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
    """Folded words of host, path and query of `url`; the scheme says nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    return words(f"{parts.netloc} {unquote(parts.path)} {unquote(parts.query)}")
