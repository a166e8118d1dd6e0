"""How much a page is about what the crawl is for: topics and entities found in its URL, links, title and text.

A topic's strength is the chance that at least one of its mentions means it (noisy or), each mention taken for
meant with the chance in `MEANT`. The business signal is the sum of weight × strength, within −1 and 1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from crawl_platform.value.words import url_words, words

MEANT = {"pattern": 0.9, "url": 0.5, "anchor": 0.5, "title": 0.6, "type": 0.5, "text": 0.15}
"""Chance that a mention means the topic, by place; a pattern is a URL that the file names outright."""
MOST_MENTIONS = 20
"""Mentions in a text that count: 1 − 0.85^20 is 0.96."""
MOST_ANCHORS = 5
Strengths = dict[str, float]
"""Topic → strength, above 0."""


@dataclass(frozen=True)
class Topic:
    """A topic or entity. `weight` lies between −1 (not wanted) and 1. `phrases` are words in their order, a word
    that ends in `*` stands for all that begin so; `urls` are patterns of URLs without their scheme; `types` are types
    of linked data (JSON-LD)."""

    name: str
    weight: float = 1.0
    phrases: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Phrase:
    """A phrase's words; `stub` says which of them stand for all words that begin so."""

    topic: str
    words: tuple[str, ...]
    stub: tuple[bool, ...]

    def at(self, found: Sequence[str], start: int) -> bool:
        """Whether it stands in `found` at `start`."""
        there = found[start : start + len(self.words)]
        return len(there) == len(self.words) and all(
            word.startswith(wanted) if stub else word == wanted
            for word, wanted, stub in zip(there, self.words, self.stub, strict=True)
        )


def phrase_of(topic: str, text: str) -> Phrase | None:
    """The phrase that `text` says; None if it has no word."""
    parts = [(piece.rstrip("*"), piece.endswith("*")) for piece in text.split()]
    told = [(word, stub and i == len(found) - 1) for part, stub in parts for found in (words(part),)
            for i, word in enumerate(found)]  # fmt: skip
    return Phrase(topic, tuple(w for w, _ in told), tuple(s for _, s in told)) if told else None


@dataclass(frozen=True)
class Topics:
    """All topics of a crawl; `digest` names them as they were written."""

    entries: tuple[Topic, ...]
    digest: str = ""

    @cached_property
    def weights(self) -> dict[str, float]:
        return {topic.name: topic.weight for topic in self.entries}

    @cached_property
    def _phrases(self) -> tuple[dict[str, list[Phrase]], dict[str, list[Phrase]], tuple[int, ...]]:
        """Phrases by their first word, those by the beginning of their first word, and the lengths of these."""
        whole: dict[str, list[Phrase]] = {}
        begun: dict[str, list[Phrase]] = {}
        for topic in self.entries:
            for text in topic.phrases:
                phrase = phrase_of(topic.name, text)
                if phrase is not None:
                    (begun if phrase.stub[0] else whole).setdefault(phrase.words[0], []).append(phrase)
        return whole, begun, tuple(sorted({len(word) for word in begun}))

    @cached_property
    def _patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple(
            (topic.name, re.compile(".*".join(map(re.escape, pattern.split("*"))) + r"\Z"))
            for topic in self.entries
            for pattern in topic.urls
        )

    @cached_property
    def _types(self) -> dict[str, list[str]]:
        by_type: dict[str, list[str]] = {}
        for topic in self.entries:
            for name in topic.types:
                by_type.setdefault(name, []).append(topic.name)
        return by_type

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        """What URLs that match a pattern begin with."""
        return tuple({pattern.partition("*")[0] for topic in self.entries for pattern in topic.urls})

    def may_say(self, url: str, anchor: str) -> bool:
        """Whether `of_link` could find anything: a look at the words alone, at a fifth of its cost. Mostly it can't."""
        if "%" in url or not anchor.isascii() or url.partition("://")[2].startswith(self._beginnings):
            return True
        whole, begun, lengths = self._phrases
        found = words(f"{url} {anchor}")
        return not whole.keys().isdisjoint(found) or any(
            word[:length] in begun for length in lengths for word in found
        )

    def of_link(self, url: str, anchors: Iterable[str] = ()) -> Strengths:
        """What the URL of a page and the texts of links to it say. Of its anchors the one that says most counts."""
        host_and_path = url.partition("://")[2]
        named = dict.fromkeys(
            (name for name, pattern in self._patterns if pattern.match(host_and_path)), MEANT["pattern"]
        )
        anchored: Strengths = {}
        for anchor in list(anchors)[:MOST_ANCHORS]:
            for name in self._mentions(words(anchor)):
                anchored[name] = MEANT["anchor"]
        written = dict.fromkeys(self._mentions(url_words(url)), MEANT["url"])
        return together(named, written, anchored)

    def of_page(self, title: str, text: str, types: Iterable[str] = ()) -> Strengths:
        """What title, text and declared types of a page say."""
        titled = dict.fromkeys(self._mentions(words(title)), MEANT["title"])
        typed = {topic: MEANT["type"] for name in types for topic in self._types.get(name, ())}
        told = {
            name: 1.0 - (1.0 - MEANT["text"]) ** min(count, MOST_MENTIONS)
            for name, count in self._mentions(words(text)).items()
        }
        return together(titled, typed, told)

    def business(self, strengths: Mapping[str, float]) -> float:
        """Business signal of a page with these strengths, −1 to 1. Topics that the file no longer names are nothing."""
        said = sum(self.weights.get(name, 0.0) * strength for name, strength in strengths.items())
        return max(-1.0, min(1.0, said))

    def _mentions(self, found: Sequence[str]) -> dict[str, int]:
        whole, begun, lengths = self._phrases
        counts: dict[str, int] = {}
        for start, word in enumerate(found):
            candidates = list(whole.get(word, ()))
            for length in lengths:
                candidates += begun.get(word[:length], ()) if length <= len(word) else ()
            for name in {phrase.topic for phrase in candidates if phrase.at(found, start)}:
                counts[name] = counts.get(name, 0) + 1
        return counts


def together(*several: Mapping[str, float]) -> Strengths:
    """Strengths of evidence from several places: at least one of them means it."""
    doubts: dict[str, float] = {}
    for strengths in several:
        for name, strength in strengths.items():
            doubts[name] = doubts.get(name, 1.0) * (1.0 - strength)
    return {name: 1.0 - doubt for name, doubt in doubts.items()}
