"""Which texts say (nearly) the same: MinHash finds candidates, their shingles decide, components are clusters.

Theory of operation. A text is the set of its shingles: hashes of three words in a row. MinHash signatures that agree
in all rows of some band make two texts candidates (Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4;
16 bands of 8 rows have their knee at a similarity of .71), and no pair counts before the Jaccard similarity of
the two sets has been computed. Two texts of one site are compared once more without the site's own phrases:
what many of its pages share says nothing about two of them. Clusters are connected components of the pairs that
are left.

The same texts in the same order give the same pairs, in every process.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from datasketch import MinHash

Shingles = NDArray[np.uint64]
"""Hashes of a text's shingles: sorted, each once. A billion of them collide anywhere with a probability of 3 %."""
Signature = NDArray[np.uint32]
Pair = tuple[str, str]
"""Names of two texts."""
NOTHING: Shingles = np.zeros(0, np.uint64)

SIMILAR = 0.85
"""Least Jaccard similarity of near-duplicates (docs/decisions/0010-duplicate-thresholds.md)."""
SIZE = 3
"""Words per shingle."""
MAX_WORDS = 5_000
"""Words of a text that are looked at: the end of a long page rarely makes it another page."""
LEAST_WORDS = 10
"""Texts with fewer words say nothing: they are nobody's duplicates."""
SHORT_WORDS = 50
"""Texts with fewer words are duplicates only of equal ones: one word changed may change everything."""

BANDS, ROWS = 16, 8
PERMUTATIONS = BANDS * ROWS
SEED = 20_071
BANDS_AT_ONCE = 2
"""Bands indexed at a time: an eighth of the memory of all 16, and the same candidates."""
MOST_CANDIDATES = 64
"""Candidates per text that are kept, those that agree best: pages made from one template may all be candidates of
one another, and a component needs one pair to hold together."""

LEAST_SAMPLE = 10
"""Texts of a site below which nothing can be said about its phrases."""
MOST_SAMPLE = 100
TEMPLATE_SHARE = 0.1
"""Share of a site's sampled texts, at least 3 of them, that makes a shingle one of its phrases."""

_LONGEST_AVERAGE = 16
"""Words of more characters than that on average are no words: the script writes no spaces."""
_K = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_find_words = re.compile(r"\w+").findall


def words(text: str, most: int = MAX_WORDS) -> list[str]:
    """The first `most` words in lower case, without punctuation; characters where a script writes no spaces."""
    # English has 6 characters per word: cutting first bounds the search.
    found: list[str] = _find_words(text[: most * 12].lower())
    joined = "".join(found)
    if len(joined) > _LONGEST_AVERAGE * len(found):
        return list(joined[:most])
    return found[:most]


def shingles(text: Sequence[str], size: int = SIZE) -> Shingles:
    """Shingles of `size` words; the whole text is one if it is shorter, and none if it is empty."""
    if not text:
        return NOTHING
    table = {word: xxh3_64_intdigest(word.encode("utf-8", "replace")) for word in set(text)}
    hashes = np.fromiter(map(table.__getitem__, text), np.uint64, len(text))
    size = min(size, len(hashes))
    windows = len(hashes) - size + 1
    mixed = np.zeros(windows, np.uint64)
    for i in range(size):
        # Order counts: what came before is multiplied once more for each word.
        mixed = (mixed ^ hashes[i : i + windows]) * _K[0]
        mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed)


def jaccard(a: Shingles, b: Shingles) -> float:
    """|a ∩ b| / |a ∪ b|, in [0, 1]; 0 for two empty sets."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    total = len(a) + len(b) - common
    return common / total if total else 0.0


def signature(text: Shingles) -> Signature:
    """MinHash signature, shape (128,)."""
    sketch = _empty_sketch().copy()
    sketch.update_batch((text >> np.uint64(32)).tolist())
    values: Signature = sketch.hashvalues
    return values


@cache
def _empty_sketch() -> "MinHash":
    """Drawing the permutations takes longer than using them, and they depend on the seed alone."""
    # Imported here: it takes a second, and the process that only serves definitions never compares.
    from datasketch import MinHash

    return MinHash(PERMUTATIONS, seed=SEED, scheme="affine32", hashfunc=int)


def candidates(signatures: NDArray[np.uint32]) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of rows of `signatures` (n, 128) that agree in some band, in order."""
    best: list[dict[int, float]] = [{} for _ in signatures]
    for first in range(0, BANDS, BANDS_AT_ONCE):
        columns = signatures[:, first * ROWS : (first + BANDS_AT_ONCE) * ROWS]
        for later, found in _alike(columns):
            fresh = np.array([i for i in found if i not in best[later]], np.int64)
            agreement = (signatures[fresh] == signatures[later]).mean(axis=1)
            best[later].update(zip(fresh.tolist(), agreement.tolist(), strict=True))
            if len(best[later]) > MOST_CANDIDATES:
                kept = sorted(best[later].items(), key=lambda item: (-item[1], item[0]))[:MOST_CANDIDATES]
                best[later] = dict(kept)
    return [(earlier, later) for later, found in enumerate(best) for earlier in sorted(found)]


def _alike(columns: NDArray[np.uint32]) -> Iterator[tuple[int, list[int]]]:
    """For each row the earlier ones with an equal band, if any."""
    from datasketch import LeanMinHash, MinHashLSH

    index = MinHashLSH(num_perm=columns.shape[1], params=(BANDS_AT_ONCE, ROWS))
    for number, values in enumerate(columns):
        sketch = LeanMinHash(seed=SEED, hashvalues=values, scheme="affine32")
        found = index.query(sketch)
        if found:
            yield number, sorted(found)
        index.insert(number, sketch, check_duplication=False)


def template(sample: Sequence[Shingles]) -> Shingles:
    """The shingles that a site repeats from page to page, from a sample of its texts; none if the sample is small."""
    if len(sample) < LEAST_SAMPLE:
        return NOTHING
    values, counts = np.unique(np.concatenate(sample), return_counts=True)
    repeated: Shingles = values[counts >= max(3, TEMPLATE_SHARE * len(sample))]
    return repeated


def similarity(a: Shingles, b: Shingles, repeated: Shingles) -> float:
    """Jaccard similarity of two texts, or of what is left of them without `repeated` if that is less alike.

    0 if what is left is a short text.
    """
    whole = jaccard(a, b)
    if not len(repeated) or whole < SIMILAR:
        return whole
    own = [np.setdiff1d(text, repeated, assume_unique=True) for text in (a, b)]
    if min(map(len, own)) < SHORT_WORDS - SIZE + 1:
        return 0.0
    return min(whole, jaccard(*own))


def verified(
    pairs: Iterable[Pair], texts: Mapping[str, Shingles], repeated: Mapping[Pair, Shingles]
) -> list[Pair]:
    """The pairs whose similarity is `SIMILAR` or more; `repeated` has their site's phrases for pairs of one site."""
    return [
        pair
        for pair in pairs
        if similarity(texts[pair[0]], texts[pair[1]], repeated.get(pair, NOTHING)) >= SIMILAR
    ]


def components(pairs: Iterable[Pair]) -> list[list[str]]:
    """Connected components of texts, each in order, by their first text."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(pairs)
    return sorted(sorted(component) for component in nx.connected_components(graph))
