"""The analysts' guide says what the code measures, in the same words."""

from pathlib import Path

from crawl_platform.quality.catalog import MEASURES

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "quality.md"


def test_every_measure_stands_in_the_guide_with_its_definition():
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]

    assert rows == [
        f"| `{m.name}` | {m.unit} | {'now' if m.state else 'a day'} | {m.definition} |"
        for dimension in ("usefulness", "completeness", "freshness", "timeliness", "cost", "politeness")
        for m in MEASURES.values()
        if m.dimension == dimension
    ]
