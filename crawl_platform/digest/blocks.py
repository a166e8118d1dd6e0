"""Main text by shallow features of text blocks (Kohlschütter, Fankhauser, Nejdl, WSDM 2010).

A block is the text between two block-level boundaries. Its number of words and the share of them inside links,
with the same of its neighbours, decide whether it is content: the paper's published decision tree
(`NumWordsRules`). Regions that say what they are (nav, footer …) never count; a marked main region counts by
its say-so.
"""

from crawl_platform.digest.regions import MAIN, Region


class Block:
    """`text`, which is not empty and has its white space collapsed, has `words` of which `linked` are in links.

    `linked` is given as the most that there may be; `density` is the linked share.
    """

    __slots__ = ("density", "heading", "linked", "region", "text", "words")

    def __init__(self, region: Region, heading: bool, text: str, linked: int) -> None:
        self.region = region
        self.heading = heading
        self.text = text
        words = text.count(" ") + 1
        if len(text) > _LONGEST_AVERAGE * words:
            words = words_of(text)
        self.words = words
        self.linked = linked if linked < words else words
        self.density = self.linked / words


# Words of more characters than that on average are no words: the script writes no spaces.
_LONGEST_AVERAGE = 16


def words_of(text: str) -> int:
    """Words of `text`. Where a script writes no spaces, two characters count as one."""
    words = text.count(" ") + 1
    return words if len(text) <= _LONGEST_AVERAGE * words or text.isascii() else len(text) // 2


# What stands for the neighbours of the first and the last block.
_EDGE = (0, 0.0)


# With fewer words than that in the regions that may be content, the page's regions are not to be believed.
_LEAST_WORDS = 50


def main_text(blocks: list[Block]) -> str:
    """Main text of a page, one line per block; '' if it has none."""
    candidates = [block for block in blocks if block.region.content]
    if sum([block.words for block in candidates]) < _LEAST_WORDS:
        candidates = blocks
    marked = [block for block in candidates if block.region is MAIN]
    if 2 * sum([b.words for b in marked]) > sum([b.words for b in candidates if b.density < 0.5]):
        candidates = marked
    chosen = _fill(candidates, _classify(candidates))
    return "\n".join([block.text for block in chosen])


def _classify(blocks: list[Block]) -> list[bool]:
    """The decision tree of the paper, figure 3 (number of words and link density)."""
    shapes = [(block.words, block.density) for block in blocks]
    padded = [_EDGE, *shapes, _EDGE]
    return [
        density <= 1 / 3
        and (
            (words > 16 or words_after > 15 or words_before > 4)
            if density_before <= 5 / 9
            else (words > 40 or words_after > 17)
        )
        for (words_before, density_before), (words, density), (words_after, _) in zip(
            padded, shapes, padded[2:], strict=False
        )
    ]


def _fill(blocks: list[Block], content: list[bool]) -> list[Block]:
    """Content blocks, and what lies directly between two of them (a heading, a short list item)."""
    chosen = []
    for i, block in enumerate(blocks):
        if content[i]:
            chosen.append(block)
        elif block.density <= 0.5 and any(content[i + 1 : i + 3]):
            between = content[i - 1] or content[i - 2] if i > 1 else i == 1 and content[0]
            if between or (block.heading and content[i + 1]):
                chosen.append(block)
    return chosen
