"""The main text of a page at a version: one paragraph is rewritten per change, the others stay."""

from crawl_platform.simulation import chance
from crawl_platform.simulation.page import Sketch
from crawl_platform.simulation.words import Vocabulary


def revision(paragraph: int, of: int, version: int) -> int:
    """How often paragraph number `paragraph` of `of` was rewritten in `version` changes, taken in turn."""
    return version // of if paragraph == 0 else (version - paragraph) // of + 1


def paragraphs(seed: int, sketch: Sketch, version: int, words: Vocabulary) -> list[str]:
    """Paragraphs of the main text, the lead first if there is one."""
    n = max(1, sketch.paragraphs)
    drawn = (chance.rng(seed, "text", sketch.text_key, i, revision(i, n, version)) for i in range(n))
    texts = [words.paragraph(r, 4 + int(5 * r.random())) for r in drawn]
    return [sketch.lead, *texts] if sketch.lead else texts


def facts(seed: int, sketch: Sketch, version: int) -> list[tuple[str, str]]:
    """Label and value of each fact; the version shows in every value."""
    base = chance.key(seed, "fact", sketch.text_key)
    return [
        (label, f"{(base >> (5 * i)) % 900 + 100 + version}.{(base >> (3 * i)) % 100:02d}")
        for i, label in enumerate(sketch.facts)
    ]


def main_text(seed: int, sketch: Sketch, version: int, words: Vocabulary) -> str:
    """Everything in the main part that is not a link, one paragraph or fact per line."""
    lines = paragraphs(seed, sketch, version, words)
    lines += [f"{label} {value}" for label, value in facts(seed, sketch, version)]
    return "\n".join(lines)
