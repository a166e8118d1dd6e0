"""Main text by shallow features of text blocks (Kohlschütter, Fankhauser, Nejdl, WSDM 2010).

A block is the text between two block-level boundaries. Its number of words and the share of them inside links,
with the same of its neighbours, decide whether it is content: the paper's published decision tree
(`NumWordsRules`). Regions that say what they are (nav, footer …) never count; a marked main region counts by
its say-so.
"""

from dataclasses import dataclass, field

from crawl_platform.digest.regions import MAIN, OTHER, Region

# Beyond that many words of a page nobody reads on; bounds the work on giant pages.
MAX_CHARACTERS = 500_000


@dataclass(slots=True)
class Block:
    region: Region = OTHER
    heading: bool = False
    chunks: list[str] = field(default_factory=list)
    words: int = 0
    linked: int = 0
    """Words inside links."""

    @property
    def density(self) -> float:
        return self.linked / self.words if self.words else 0.0

    @property
    def text(self) -> str:
        return " ".join("".join(self.chunks).split())


_EDGE = Block()


def main_text(blocks: list[Block]) -> str:
    """Main text of a page, one line per block; '' if it has none."""
    candidates = [block for block in blocks if block.words and block.region.content]
    marked = [block for block in candidates if block.region is MAIN]
    if 2 * sum(b.words for b in marked) > sum(b.words for b in candidates if b.density < 0.5):
        candidates = marked
    chosen = _fill(candidates, _classify(candidates))
    return "\n".join(text for text in chosen if text)[:MAX_CHARACTERS]


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


def _fill(blocks: list[Block], content: list[bool]) -> list[str]:
    """Content blocks, and what lies directly between two of them (a heading, a short list item)."""
    count = len(blocks)
    return [
        block.text
        for i, block in enumerate(blocks)
        if content[i]
        or (block.density <= 0.5 and any(content[max(0, i - 2) : i]) and any(content[i + 1 : i + 3]))
        or (block.heading and i + 1 < count and content[i + 1] and block.density <= 0.5)
    ]
