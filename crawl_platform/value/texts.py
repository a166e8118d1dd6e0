"""What is kept of a page's text for its value: words, language, topics, and whether it is an error in disguise."""

import re
from typing import NamedTuple

from crawl_platform.value.language import language_of
from crawl_platform.value.topics import Strengths, Topics
from crawl_platform.value.words import fold, words

FEW_WORDS = 150
"""An error page says little else; a long text that speaks of pages not found is an article."""
_ERROR = re.compile(
    r"\b(404|410)\b.{0,30}\b(error|not found|gone)|\berror (404|410)\b"
    r"|\b(page|site|file|article|product|item)\b.{0,40}\b((not|no longer) found|can ?not be found)"
    r"|\b(does not|doesn.t|no longer) exist"
    r"|\bnot found\b|\bno longer (available|exists)\b"
    r"|\b(seite|artikel|produkt)\b.{0,40}\bnicht (gefunden|mehr)"
    r"|\bpage (introuvable|non trouvee)\b|\bpagina (no encontrada|non trovata|niet gevonden|nao encontrada)\b"
)


class TextFacts(NamedTuple):
    """`words` counts those of the beginning (some 5,000); `language`: None where it can't be told."""

    words: int
    language: str | None
    soft_error: bool
    topics: Strengths


def text_facts(title: str, text: str, types: tuple[str, ...], topics: Topics) -> TextFacts:
    """Facts of one page's version."""
    count = len(words(text))
    return TextFacts(
        count, language_of(text), is_soft_error(title, text, count), topics.of_page(title, text, types)
    )


def is_soft_error(title: str, text: str, count: int) -> bool:
    """Whether a page that came with status 200 says, in its title or in few words, that there is no such page."""
    if count > FEW_WORDS:
        return False
    return bool(_ERROR.search(fold(title)) or _ERROR.search(fold(text)[:600]))
