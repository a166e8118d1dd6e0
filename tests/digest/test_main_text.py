import gzip
import json
import re
from collections import Counter

from crawl_platform.digest import digest
from tests.web.cases import shared_path

SENTENCE = "The council of the town met on Monday evening and decided that the old bridge will be rebuilt. "


def test_main_text_leaves_out_what_surrounds_it() -> None:
    page = (
        "<header>Frobton Daily</header><ul class=menu><li><a href=a>Sport</a><li><a href=b>Weather</a></ul>"
        f"<h1>Bridge</h1>{f'<p>{SENTENCE}' * 4}<footer>All rights reserved</footer>"
    )

    text = digest(page.encode(), "http://s.example/", "text/html").text

    assert text == "\n".join(["Bridge", *[SENTENCE.strip()] * 4])


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return Counter(tuple(words[i : i + 4]) for i in range(max(1, len(words) - 3)))


def test_public_articles() -> None:
    """Mean F1 over 4-word shingles; 0.900 was reached when this was written (the pages are news of 2019)."""
    folder = shared_path("pages/article_benchmark")
    truth = json.loads((folder / "ground-truth.shared.json").read_text())
    scores = []
    for name, row in truth.items():
        body = gzip.decompress((folder / "shared" / f"{name}.html.gz").read_bytes())
        found, right = _shingles(digest(body, row["url"], "text/html").text), _shingles(row["articleBody"])
        scores.append(2 * (found & right).total() / (found.total() + right.total()))

    assert sum(scores) / len(scores) >= 0.89
