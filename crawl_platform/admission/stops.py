"""Stop switches: the whole crawl, or every host of a registrable domain, is held until somebody lets it go on.

A word comes through the exchange, and through a file in the crawl's home when that is away (`fleet/stops.py`). Of
two words about the same the later one holds, so it does not matter by which way it came.
"""

from collections.abc import Iterable

import msgspec

from crawl_platform.web.host import registrable_domain

EVERYTHING = ""
"""In a `Word`: the whole crawl."""


class Word(msgspec.Struct, frozen=True):
    """`domain` is paused or not, since `at` (UTC seconds)."""

    domain: str
    paused: bool
    at: float


class Stops:
    def __init__(self) -> None:
        self._words: dict[str, Word] = {}
        self._domains: frozenset[str] = frozenset()

    def hear(self, words: Iterable[Word]) -> bool:
        """Obey `words`; returns whether anything is held or let go that was not before."""
        before = self.paused, self._domains
        for word in words:
            known = self._words.get(word.domain)
            if known is None or word.at >= known.at:
                self._words[word.domain] = word
        self._domains = frozenset(w.domain for w in self._words.values() if w.paused) - {EVERYTHING}
        return (self.paused, self._domains) != before

    @property
    def paused(self) -> bool:
        """Whether the whole crawl is."""
        word = self._words.get(EVERYTHING)
        return word is not None and word.paused

    @property
    def domains(self) -> list[str]:
        """Registrable domains that are paused."""
        return sorted(self._domains)

    def holds(self, host: str) -> bool:
        """Whether nothing may be asked of `host` now."""
        return self.paused or (bool(self._domains) and registrable_domain(host) in self._domains)
