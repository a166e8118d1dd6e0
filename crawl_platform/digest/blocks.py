"""Main text by shallow features of text blocks (Kohlschütter, Fankhauser, Nejdl, WSDM 2010).

A block is the text between two block-level boundaries. Its number of words and the share of them inside links,
with the same of its neighbours, decide whether it is content: the paper's published decision tree
(`NumWordsRules`). Regions that say what they are (nav, footer …) never count; a marked main region counts by
its say-so.
"""

from crawl_platform.digest.regions import MAIN, OTHER, Region


class Block:
    """`text` has its white space collapsed; `words` of which `linked` are inside links."""

    __slots__ = ("heading", "linked", "region", "text", "words")

    def __init__(self, region: Region, heading: bool, words: list[str], linked: int) -> None:
        self.region = region
        self.heading = heading
        self.text = " ".join(words)
        self.words = _count(self.text, len(words))
        self.linked = linked

    @property
    def density(self) -> float:
        return self.linked / self.words if self.words else 0.0


def _count(text: str, words: int) -> int:
    """`words`, unless the script writes no spaces: then two characters count as one."""
    return words if len(text) <= 16 * words or text.isascii() else len(text) // 2


_EDGE = Block(OTHER, False, [], 0)


# With fewer words than that in the regions that may be content, the page's regions are not to be believed.
_LEAST_WORDS = 50


def main_text(blocks: list[Block]) -> str:
    """Main text of a page, one line per block; '' if it has none."""
    candidates = [block for block in blocks if block.region.content]
    if sum(block.words for block in candidates) < _LEAST_WORDS:
        candidates = blocks
    marked = [block for block in candidates if block.region is MAIN]
    if 2 * sum(b.words for b in marked) > sum(b.words for b in candidates if b.density < 0.5):
        candidates = marked
    chosen = _fill(candidates, _classify(candidates))
    return "\n".join([block.text for block in chosen])


def _classify(blocks: list[Block]) -> list[bool]:
    padded = [_EDGE, *blocks, _EDGE]
    return [_is_content(*padded[i : i + 3]) for i in range(len(blocks))]


def _is_content(before: Block, block: Block, after: Block) -> bool:
    """The decision tree of the paper, figure 3 (number of words and link density)."""
    if block.density > 1 / 3:
        return False
    if before.density <= 5 / 9:
        return block.words > 16 or after.words > 15 or before.words > 4
    return block.words > 40 or after.words > 17


def _fill(blocks: list[Block], content: list[bool]) -> list[Block]:
    """Content blocks, and what lies directly between two of them (a heading, a short list item)."""
    return [
        block
        for i, block in enumerate(blocks)
        if content[i]
        or (block.density <= 0.5 and any(content[max(0, i - 2) : i]) and any(content[i + 1 : i + 3]))
        or (block.heading and block.density <= 0.5 and any(content[i + 1 : i + 2]))
    ]
