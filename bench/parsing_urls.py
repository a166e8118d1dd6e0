"""How many URLs one core makes canonical per second. `python -m bench.parsing_urls [--json]`.

Inputs are the links of five real manuals (`cases/docs_sites`), as a page of a made-up host has them: plain, with
fragments, with parameters, with tracking parameters, with escapes to mend, and a mix of these. CPU time, best of
several turns. The same list goes to w3lib and courlan where they are installed; both are other
policies (sorted queries, no WHATWG), so this compares cost and not results.
"""

import argparse
import gzip
import importlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from crawl_platform.settings import Urls
from crawl_platform.web.parameters import host_form
from crawl_platform.web.url import Base, canonicalize, host_of, resolve

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "docs_sites"
SITES = ("apache2-doc", "debian-handbook", "postgresql-doc-15", "python-django-doc", "python3.11-doc")
SAMPLE = 20_000
TURNS = 5
MIX = {"plain": 60, "fragment": 20, "parameters": 14, "tracking": 3, "escapes": 3}
"""Per cent; chosen, not measured: most links of a page are plain, and few need mending."""


def edges() -> list[str]:
    """Link targets of the manuals, in random order. Raises `FileNotFoundError` where the cases are not there."""
    found: list[str] = []
    for site in SITES:
        with gzip.open(CASES / f"{site}.shared.edges.tsv.gz", "rt") as lines:
            found += (f"https://docs.example.org/{site}/{line.split(chr(9))[1].strip()}" for line in lines)
    random.Random(1).shuffle(found)
    return found[:SAMPLE]


def variants(targets: list[str]) -> dict[str, list[str]]:
    stems = [target.partition("#")[0] for target in targets]
    lists = {
        "plain": stems,
        "fragment": [f"{stem}#sec-{n % 40}" for n, stem in enumerate(stems)],
        "parameters": [f"{stem}?id={n}&page=2" for n, stem in enumerate(stems)],
        "tracking": [f"{stem}?utm_source=mail&id={n}&utm_campaign=c" for n, stem in enumerate(stems)],
        "escapes": [f"{stem[:-1]}%c3%a9{stem[-1:]}" for stem in stems],
    }
    chance = random.Random(2)
    kinds = chance.choices(list(MIX), weights=list(MIX.values()), k=len(stems))
    return {**lists, "mix": [lists[kind][n] for n, kind in enumerate(kinds)]}


def per_second(work: Callable[[str], object], urls: Iterable[str]) -> float:
    listed = list(urls)
    best = float("inf")
    for _ in range(TURNS):
        begun = time.process_time()
        for url in listed:
            work(url)
        best = min(best, time.process_time() - begun)
    return len(listed) / best


def peers() -> dict[str, Callable[[str], object]]:
    """The same job elsewhere, as far as it is installed."""
    found: dict[str, Callable[[str], object]] = {}
    for module, name in (("w3lib.url", "canonicalize_url"), ("courlan", "normalize_url")):
        try:
            found[module.partition(".")[0]] = getattr(importlib.import_module(module), name)
        except ImportError:
            continue
    return found


def measure() -> dict[str, object]:
    """URLs per second by kind, and what the steps around it take; ratios to peers on the mix."""
    lists = variants(edges())
    rates = {kind: round(per_second(canonicalize, urls)) for kind, urls in lists.items()}
    base = Base("https://docs.example.org/manual/index.html")
    relative = [url.removeprefix("https://docs.example.org/") for url in lists["plain"]]
    settings = Urls(drop_parameters=("page",))
    others = {name: round(per_second(work, lists["mix"][:4_000])) for name, work in peers().items()}
    return {
        "canonicalize_per_second": rates,
        "mix_percent": MIX,
        "urls": SAMPLE,
        "resolve_in_a_page_per_second": round(per_second(base.resolve, relative)),
        "resolve_per_second": round(per_second(lambda url: resolve(url, base.url), relative)),
        "host_of_per_second": round(per_second(host_of, lists["mix"])),
        "host_form_of_parameters_per_second": round(
            per_second(lambda url: host_form(url, settings, sort=True), lists["parameters"][:4_000])
        ),
        "peers_per_second": others,
        "ratio_to_peers": {name: round(rates["mix"] / rate, 1) for name, rate in others.items()},
        "peers_missing": sorted({"w3lib", "courlan"} - set(others)),
        "python": sys.version.split()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    as_json = parser.parse_args().json
    result = measure()
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
