"""Main text by shallow features of text blocks (Kohlschütter, Fankhauser, Nejdl, WSDM 2010).

A block is the text between two block-level boundaries. Its number of words and the share of them inside links,
with the same of its neighbours, decide whether it is content: the paper's published decision tree
(`NumWordsRules`). Regions that say what they are (nav, footer …) never count; a marked main region counts by
its say-so.
"""

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.octets import LOWER, Octets, fold
from crawl_platform.digest.regions import MAIN, REGIONS, number_of
from crawl_platform.digest.tree import Numbers
from crawl_platform.digest.walk import CHARACTERS, END, IS_HEADING, REGION, START, WORD_COUNT
from crawl_platform.machine_code import compiled

Flags = NDArray[np.bool_]
_LONGEST_AVERAGE = 16
"""Words of more characters than that on average are no words: the script writes no spaces, and two characters count
as one."""
# With fewer words than that in the regions that may be content, the page's regions are not to be believed.
_LEAST_WORDS = 50
_MAIN = number_of(MAIN)
_CONTENT = np.array([region.content for region in REGIONS])
_COUNTS = np.array([region.counts for region in REGIONS])


@compiled
def _settle(blocks: Numbers, linked: Numbers, densities: NDArray[np.float64]) -> None:
    """Count the words of scripts without spaces; share out those in links. More than a block has belong to those after
    it, because a link that holds blocks begins in the one before them.
    """
    carried = 0
    for i in range(len(blocks)):
        length, words = blocks[i, CHARACTERS], blocks[i, WORD_COUNT]
        if length > _LONGEST_AVERAGE * words and length != blocks[i, END] - blocks[i, START]:
            words = length // 2
            blocks[i, WORD_COUNT] = words
        carried += linked[i]
        taken = min(carried, words)
        carried -= taken
        densities[i] = taken / words


@compiled
def _choose(blocks: Numbers, densities: NDArray[np.float64], content: Flags) -> Numbers:
    """Numbers of the blocks whose region lets them be main text."""
    allowed, marked, unlinked = 0, 0, 0
    for i in range(len(blocks)):
        if content[blocks[i, REGION]]:
            allowed += blocks[i, WORD_COUNT]
    everything = allowed < _LEAST_WORDS
    for i in range(len(blocks)):
        words, region = blocks[i, WORD_COUNT], blocks[i, REGION]
        if region == _MAIN:
            marked += words
        if (everything or content[region]) and densities[i] < 0.5:
            unlinked += words
    only_marked = 2 * marked > unlinked
    chosen = np.empty(len(blocks), np.int64)
    count = 0
    for i in range(len(blocks)):
        region = blocks[i, REGION]
        if region == _MAIN if only_marked else everything or content[region]:
            chosen[count] = i
            count += 1
    return chosen[:count]


@compiled
def _is_content(before: int, density_before: float, words: int, density: float, after: int) -> bool:
    """The decision tree of the paper, figure 3, on words and link density."""
    if density > 1 / 3:
        return False
    if density_before <= 5 / 9:
        return words > 16 or after > 15 or before > 4
    return words > 40 or after > 17


@compiled
def _main_text(
    blocks: Numbers, densities: NDArray[np.float64], chosen: Numbers, text: Octets, out: Octets
) -> int:
    """Write content blocks, and what lies directly between two of them (a heading, a short list item), a line each."""
    size = len(chosen)
    good = np.zeros(size + 2, np.bool_)
    for i in range(size):
        at = chosen[i]
        good[i] = _is_content(
            blocks[chosen[i - 1], WORD_COUNT] if i else 0,
            densities[chosen[i - 1]] if i else 0.0,
            blocks[at, WORD_COUNT],
            densities[at],
            blocks[chosen[i + 1], WORD_COUNT] if i + 1 < size else 0,
        )
    n = 0
    for i in range(size):
        at = chosen[i]
        kept = good[i]
        if not kept and densities[at] <= 0.5 and (good[i + 1] or good[i + 2]):
            between = (i > 0 and good[i - 1]) or (i > 1 and good[i - 2])
            kept = between or (blocks[at, IS_HEADING] != 0 and good[i + 1])
        if kept:
            if n:
                out[n] = 10
                n += 1
            start, end = blocks[at, START], blocks[at, END]
            out[n : n + end - start] = text[start:end]
            n += end - start
    return n


_LEAST = 40
"""Below that many characters the regions that count are no page by themselves."""


@compiled
def _visible(blocks: Numbers, counts: Flags, text: Octets, out: Octets, lower: NDArray[np.uint16]) -> int:
    """Write the text that counts as a change, blocks joined by blanks, in lower case."""
    characters = 0
    for i in range(len(blocks)):
        if counts[blocks[i, REGION]]:
            characters += blocks[i, CHARACTERS] + 1
    n = 0
    for i in range(len(blocks)):
        if characters <= _LEAST or counts[blocks[i, REGION]]:
            if n:
                out[n] = 32
                n += 1
            n = fold(text, blocks[i, START], blocks[i, END], out, n, lower)
    return n


class Blocks:
    """The blocks of a page that have text: rows with the columns of `walk`, over octets of text."""

    def __init__(self, rows: Numbers, text: Octets, linked: Numbers) -> None:
        """`linked`: the most words in links, by number of block."""
        self.rows, self._text = rows, text
        self._densities = np.empty(len(rows))
        _settle(rows, linked, self._densities)

    def __len__(self) -> int:
        return len(self.rows)

    def texts(self, numbers: slice) -> list[str]:
        return [
            self._text[start:end].tobytes().decode("utf-8", "replace")
            for start, end in self.rows[numbers, : END + 1].tolist()
        ]

    def main_text(self) -> bytes:
        """Main text of a page, one line per block; b'' if it has none. UTF-8, unless the page wasn't."""
        out = np.empty(len(self._text), np.uint8)
        chosen = _choose(self.rows, self._densities, _CONTENT)
        return out[: _main_text(self.rows, self._densities, chosen, self._text, out)].tobytes()

    def visible(self) -> bytes:
        """The text that counts as a change, in lower case, blocks joined by blanks."""
        out = np.empty(len(self._text), np.uint8)
        return out[: _visible(self.rows, _COUNTS, self._text, out, LOWER)].tobytes()
