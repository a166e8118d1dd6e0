"""Main text by shallow features of text blocks (Kohlschütter, Fankhauser, Nejdl, WSDM 2010).

A block is the text between two block-level boundaries. Its number of words and the share of them inside links,
with the same of its neighbours, decide whether it is content: the paper's published decision tree
(`NumWordsRules`). Regions that say what they are (nav, footer …) never count; a marked main region counts by
its say-so.
"""

from itertools import compress

import numpy as np
from numpy.typing import NDArray

from crawl_platform.digest.regions import MAIN, Region


class Blocks:
    """The blocks of a page that have text, in columns.

    `texts` have their white space collapsed; of a text's `words` `linked` are in links; `regions` and `headings`
    say where it stands and whether it is a heading.
    """

    __slots__ = ("headings", "linked", "regions", "texts", "words")

    def __init__(
        self,
        marks: list[tuple[Region, bool]],
        texts: list[str],
        words: NDArray[np.intp],
        linked: list[int],
    ) -> None:
        """All arguments by number of block, those without text included.

        `marks`: region and whether it is a heading. `words`: of texts whose script writes spaces. `linked`: the
        most words in links; more than a block has belong to those after it, because a link that holds blocks
        begins in the one before them.
        """
        size = min(len(marks), len(texts))
        words = words[:size]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))[:size]
        for i in np.flatnonzero(lengths > _LONGEST_AVERAGE * words).tolist():
            words[i] = words_of(texts[i])
        # What is carried on is a queue: it grows by what is linked, shrinks by what a block takes, never below 0.
        more = np.array(linked[:size], np.int64)
        sums = np.cumsum(more - words)
        carried = sums - np.minimum(np.minimum.accumulate(sums), 0)
        taken = more - carried
        taken[1:] += carried[:-1]
        has_text = words > 0
        kept = has_text.tolist()
        self.texts = list(compress(texts, kept))
        self.words = words[has_text]
        self.linked = taken[has_text]
        self.regions = [region for region, _ in compress(marks, kept)]
        self.headings = [heading for _, heading in compress(marks, kept)]

    def __len__(self) -> int:
        return len(self.texts)


# Words of more characters than that on average are no words: the script writes no spaces.
_LONGEST_AVERAGE = 16


def words_of(text: str) -> int:
    """Words of `text`. Where a script writes no spaces, two characters count as one."""
    words = text.count(" ") + 1
    return words if len(text) <= _LONGEST_AVERAGE * words or text.isascii() else len(text) // 2


# With fewer words than that in the regions that may be content, the page's regions are not to be believed.
_LEAST_WORDS = 50


def main_text(blocks: Blocks) -> str:
    """Main text of a page, one line per block; '' if it has none."""
    words, densities = blocks.words.tolist(), (blocks.linked / blocks.words).tolist()
    chosen = [region.content for region in blocks.regions]
    if sum(compress(words, chosen)) < _LEAST_WORDS:
        chosen = [True] * len(words)
    marked = [region is MAIN for region in blocks.regions]
    unlinked = [
        count for count, density in compress(zip(words, densities, strict=True), chosen) if density < 0.5
    ]
    if 2 * sum(compress(words, marked)) > sum(unlinked):
        chosen = marked
    texts, headings = list(compress(blocks.texts, chosen)), list(compress(blocks.headings, chosen))
    words, densities = list(compress(words, chosen)), list(compress(densities, chosen))
    return "\n".join([texts[i] for i in _fill(_classify(words, densities), densities, headings)])


def _classify(words: list[int], densities: list[float]) -> list[bool]:
    """The decision tree of the paper, figure 3, on words and link density. At either end there are no words."""
    return [
        density <= 1 / 3
        and (
            (count > 16 or after > 15 or before > 4)
            if density_before <= 5 / 9
            else (count > 40 or after > 17)
        )
        for before, density_before, count, density, after in zip(
            [0, *words], [0.0, *densities], words, densities, [*words[1:], 0], strict=False
        )
    ]


def _fill(content: list[bool], densities: list[float], headings: list[bool]) -> list[int]:
    """Numbers of content blocks, and of what lies directly between two of them (a heading, a short list item)."""
    chosen = []
    for i, is_content in enumerate(content):
        if is_content:
            chosen.append(i)
        elif densities[i] <= 0.5 and any(content[i + 1 : i + 3]):
            between = content[i - 1] or content[i - 2] if i > 1 else i == 1 and content[0]
            if between or (headings[i] and content[i + 1]):
                chosen.append(i)
    return chosen
