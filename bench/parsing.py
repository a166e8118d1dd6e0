"""What reading pages, URLs and robots files costs, beside other libraries: `python -m bench.parsing [--json]`.

`digest`: milliseconds of CPU that the full digest of a page of about 130 KB takes beyond the bare parse and hrefs
of the same page in the same run (Lexbor; the budget is 1.8, the aim 1.2). Both take turns, so that they meet the
same machine; the least of many turns counts, and the median is told beside it. Where parsel is installed, its
parse and hrefs are measured as well. `per_link_us` are the microseconds beyond bare of one more link. `urls` and
`robots` are `bench.parsing_urls` and `bench.parsing_robots`.
"""

import argparse
import gzip
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from bench import parsing_robots, parsing_urls
from crawl_platform.digest import digest

ARTICLES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "pages" / "article_benchmark" / "shared"
MANUALS = Path("/usr/share/doc/python3.11/html/library")
SIZE = 130_000
TURNS = 200
BUDGET_MS, AIM_MS = 1.8, 1.2
PEERS = ("protego", "w3lib", "parsel", "courlan")
URL = "https://docs.example.org/manual/page.html"


def generated() -> bytes:
    """Sixty links in a menu, then prose: what a site of few links and much text looks like."""
    menu = "".join(f"<li><a href='/section/{n}'>Section {n}</a>" for n in range(40))
    sentence = (
        "The council of the town met on Monday evening and decided that the old bridge will be rebuilt. "
    )
    parts = [f"<title>Report</title><nav><ul>{menu}</ul></nav><main>"]
    while sum(map(len, parts)) < SIZE:
        number = len(parts)
        parts.append(f"<h2>Part {number}</h2>")
        parts += [f"<p class=text>{sentence * 4}<b>More</b> of it: {sentence}</p>"] * 4
        if number % 4 == 1:
            parts.append(f"<p>See <a href='/page/{number}'>the part before</a>.</p>")
    return "".join([*parts, "</main><footer>All rights reserved</footer>"]).encode()


def pages() -> dict[str, bytes]:
    """A link-dense manual and a news article, where they are there, and a made-up page; all near `SIZE`."""
    found = {"generated": generated()}
    manuals = [file.read_bytes() for file in MANUALS.glob("*.html")] if MANUALS.is_dir() else []
    articles = (
        [gzip.decompress(file.read_bytes()) for file in ARTICLES.glob("*.gz")] if ARTICLES.is_dir() else []
    )
    for name, bodies in (("manual", manuals), ("article", articles)):
        if bodies:
            found[name] = min(bodies, key=lambda body: (abs(len(body) - SIZE), body))
    return found


def bare(body: bytes) -> list[str | None]:
    return [node.attributes.get("href") for node in LexborHTMLParser(body).css("a[href]")]


def with_parsel(body: bytes) -> list[str]:
    selector = importlib.import_module("parsel").Selector(body=body)
    return list(selector.xpath("//a/@href").getall())


def milliseconds(turns: int, *works: Callable[[], object]) -> list[list[float]]:
    """CPU milliseconds of each turn, for each of `works`, which take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, times in zip(works, taken, strict=True):
            begun = time.process_time()
            work()
            times.append((time.process_time() - begun) * 1e3)
    return taken


def of_page(body: bytes) -> dict[str, Any]:
    works: list[Callable[[], object]] = [
        lambda: bare(body),
        lambda: _digested(body),
    ]
    if "parsel" in installed():
        works.append(lambda: with_parsel(body))
    for work in works:
        work()
    taken = milliseconds(TURNS, *works)
    least, middle = [min(times) for times in taken], [statistics.median(times) for times in taken]
    return {
        "bytes": len(body),
        "tags": body.count(b"<"),
        "links": len(bare(body)),
        "bare_ms": round(least[0], 3),
        "digest_ms": round(least[1], 3),
        "beyond_ms": round(least[1] - least[0], 3),
        "beyond_ms_median": round(middle[1] - middle[0], 3),
        "digest_to_bare": round(least[1] / least[0], 2),
        "parsel_to_bare": round(least[2] / least[0], 2) if len(least) > 2 else None,
        "parsel_to_digest": round(least[2] / least[1], 2) if len(least) > 2 else None,
    }


def _digested(body: bytes) -> object:
    return digest(body, URL, "text/html; charset=utf-8")


LINKS = (200, 1_000)


def per_link() -> float:
    """CPU microseconds beyond bare that one more link of a list takes; no two links are alike."""
    few, many = (
        b"".join([b"<li><a href='/section/page-%d'>The page %d</a>" % (n, n) for n in range(count)])
        for count in LINKS
    )
    works: list[Callable[[], object]] = [
        partial(work, body) for body in (few, many) for work in (bare, _digested)
    ]
    least = [min(times) for times in milliseconds(TURNS, *works)]
    return round(1e3 * ((least[3] - least[2]) - (least[1] - least[0])) / (LINKS[1] - LINKS[0]), 2)


def installed() -> dict[str, str]:
    """Versions of the peers that are there; without one its ratios are null."""
    names = {dist.metadata["Name"].lower(): dist.version for dist in importlib.metadata.distributions()}
    return {peer: names[peer] for peer in PEERS if peer in names}


def measure() -> dict[str, Any]:
    return {
        "context": {
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "peers": installed(),
        },
        "digest": {
            "budget_ms": BUDGET_MS,
            "aim_ms": AIM_MS,
            "pages": {name: of_page(body) for name, body in pages().items()},
            "per_link_us": per_link(),
        },
        "urls": parsing_urls.measure(),
        "robots": parsing_robots.measure(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    measured = measure()
    if as_json:
        json.dump(measured, sys.stdout)
        print()
        return
    for name, row in measured["digest"]["pages"].items():
        print(f"digest {name}: {row['beyond_ms']} ms beyond {row['bare_ms']} ms ({row['bytes']:,} bytes)")
    print(f"digest: {measured['digest']['per_link_us']} µs per link")
    for section in ("urls", "robots"):
        print(section, json.dumps(measured[section], indent=2))


if __name__ == "__main__":
    main()
