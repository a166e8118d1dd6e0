"""From texts that say (nearly) the same to clusters of pages, each with the page that stands for it.

Which texts belong together is found in `near_duplicates.py`; here they meet the pages that show them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from crawl_platform.duplicates.near_duplicates import (
    LEAST_WORDS,
    SHORT_WORDS,
    SIMILAR,
    Pair,
    Shingles,
    components,
    jaccard,
)


class Page(NamedTuple):
    """A page as last read. `since` is when it was first fetched (UTC seconds); a `variant` names another page as
    its canonical."""

    url: str
    host: str
    fetch_id: str
    text: str
    """Hash of its main text."""
    since: float
    variant: bool


class Member(NamedTuple):
    """A page in its cluster; `similarity` (Jaccard) is with the representative's text, `size` counts pages."""

    cluster_id: str
    page: Page
    representative: str
    kind: str
    similarity: float
    words: int
    size: int

    @property
    def is_representative(self) -> bool:
        return self.page.url == self.representative


@dataclass(frozen=True)
class Texts:
    """What is known of texts, by hash: words of each, shingles of those that are alike, and which are."""

    words: Mapping[str, int]
    shingles: Mapping[str, Shingles]
    alike: Sequence[Pair]
    """Verified pairs."""


def clusters(pages: Iterable[Page], texts: Texts) -> list[Member]:
    """Members of all clusters of two pages or more, by cluster and URL. A page is in one cluster at most."""
    home = {text: component[0] for component in components(texts.alike) for text in component}
    found: dict[str, list[Page]] = {}
    for page in speaking(list(pages), texts.words):
        found.setdefault(home.get(page.text, page.text), []).append(page)
    return [member for key in sorted(found) if len(found[key]) > 1 for member in _cluster(found[key], texts)]


def speaking(pages: Sequence[Page], words: Mapping[str, int]) -> list[Page]:
    """The pages whose text says something.

    Not those of a few words. And not short ones that their site shows at several addresses: "not found" served with
    status 200, a form to sign in. Long texts are believed.
    """
    shown = Counter((page.host, page.text) for page in pages)
    return [
        page
        for page in pages
        if words[page.text] >= SHORT_WORDS
        or (words[page.text] >= LEAST_WORDS and shown[page.host, page.text] <= 1)
    ]


def _cluster(pages: list[Page], texts: Texts) -> list[Member]:
    first = min(pages, key=lambda page: (page.variant, page.since, page.url))
    equal = sum(page.text == first.text for page in pages) > 1
    others = {page.text for page in pages} - {first.text}
    similar = {text: jaccard(texts.shingles[text], texts.shingles[first.text]) for text in others}
    name = xxh3_64_hexdigest(first.url.encode())
    return [
        Member(
            cluster_id=name,
            page=page,
            representative=first.url,
            kind="exact" if equal and page.text == first.text else "near",
            similarity=similar.get(page.text, 1.0),
            words=texts.words[page.text],
            size=len(pages),
        )
        for page in sorted(pages)
    ]


def unlike(members: Iterable[Member], texts: Texts) -> list[str]:
    """Texts, by hash, that only one page of their cluster shows and that are similar enough to no other of it."""
    shown: dict[str, Counter[str]] = {}
    for member in members:
        shown.setdefault(member.cluster_id, Counter())[member.page.text] += 1
    return [
        text
        for counts in shown.values()
        for text, pages in counts.items()
        if pages == 1 and not any(_alike(text, other, texts) for other in counts if other != text)
    ]


def _alike(a: str, b: str, texts: Texts) -> bool:
    known = a in texts.shingles and b in texts.shingles
    return known and jaccard(texts.shingles[a], texts.shingles[b]) >= SIMILAR
