"""How many robots verdicts one core gives per second, and what reading a file costs.

`python -m bench.parsing_robots [--json]`.

Inputs are the files and probes of real sites (`cases/robots/realworld`), the verdict rows of other crawlers' suites,
and made-up files of 500 KiB: 10,000 plain rules, 4,000 wildcards below as many paths, 1,900 wildcards that every
URL has to be held against, and one agent among 20,000. Files are parsed before verdicts are timed. CPU time, best of
several turns. Protego is measured in the same run where it is installed; its recorded verdicts are compared in any
case.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawl_platform.admission.robots import RobotsCache
from crawl_platform.settings import Politeness
from crawl_platform.web.robots import MAX_BYTES, parse
from crawl_platform.web.url import origin_of

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "robots"
TURNS = 7
AGENT = "crawl-platform"
ASKED = 2_000
"""Verdicts per turn on a made-up file."""
VERDICTS_PER_SECOND = 300_000
LARGE_MS = 50.0
"""What is asked of typical files, and of reading a file of 500 KiB."""


def rows(name: str) -> list[dict[str, Any]]:
    """Raises `FileNotFoundError` where the cases are not there."""
    return [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines()]


def large_files() -> dict[str, tuple[bytes, list[str]]]:
    """Name → (file, paths to ask about)."""

    def cut(lines: Callable[[int], str], number: int) -> bytes:
        return ("user-agent: *\n" + "".join(map(lines, range(number)))).encode()[:MAX_BYTES]

    paths = [f"/part-{n:05d}/of/the/site/{n}.html" for n in range(ASKED)]
    return {
        "10,000 prefixes": (
            cut(lambda n: f"disallow: /part-{n:05d}/of/the/site/with-name-{n}\n", 10_000),
            paths,
        ),
        "4,000 wildcards apart": (cut(lambda n: f"disallow: /part-{n:05d}/*.pdf$\n", 4_000), paths),
        "1,900 wildcards for every URL": (cut(lambda n: f"disallow: /*part-{n}x*y\n", 1_900), paths[:50]),
        "20,000 agents": (cut(lambda n: f"user-agent: bot{n}\ndisallow: /\n", 20_000), paths),
    }


def best(work: Callable[[], object], turns: int = TURNS) -> float:
    """Least CPU seconds of several turns."""
    found = float("inf")
    for _ in range(turns):
        begun = time.process_time()
        work()
        found = min(found, time.process_time() - begun)
    return found


def verdicts_per_second(allows: Callable[[str, str, str], bool], probes: list[tuple[str, str, str]]) -> int:
    """`allows` is asked (file, url, agent)."""
    for probe in probes:
        allows(*probe)

    def ask() -> None:
        for name, url, agent in probes:
            allows(name, url, agent)

    return round(len(probes) / best(ask))


def measure() -> dict[str, Any]:
    """One object: rates per CPU second, milliseconds, agreement, and the ratios to Protego (null without it)."""
    real = rows("realworld.shared.jsonl")
    bodies = {row["robots_file"]: (CASES / row["robots_file"]).read_bytes() for row in real}
    probes = [(row["robots_file"], row["url"], row["agent"]) for row in real]
    parsed = {name: parse(body) for name, body in bodies.items()}
    size = sum(map(len, bodies.values()))
    took = best(lambda: [parse(body) for body in bodies.values()])
    ours = {
        "verdicts_per_s": verdicts_per_second(
            lambda name, url, agent: parsed[name].allows(url, agent), probes
        ),
        "cached_verdicts_per_s": _cached(bodies, real),
        "parse_mb_per_s": round(size / took / 1e6, 1),
        "parse_us_per_file": round(took / len(bodies) * 1e6),
        "large": {name: _large(body, paths) for name, (body, paths) in large_files().items()},
    }
    return {
        "python": sys.version.split()[0],
        "files": len(bodies),
        "mean_bytes": size // len(bodies),
        "probes": len(probes),
        "ours": ours,
        "targets": {"verdicts_per_s": VERDICTS_PER_SECOND, "large_parse_ms": LARGE_MS},
        "agreement": _agreement(),
        "protego": _protego(bodies, probes, ours),
    }


def _cached(bodies: dict[str, bytes], real: list[dict[str, Any]]) -> int:
    """Through the cell's cache: by origin, for our own agent."""
    cache = RobotsCache(AGENT, Politeness())
    probes = [(origin_of(row["url"]), row["url"], "") for row in real]
    for (origin, _, _), row in zip(probes, real, strict=True):
        cache.store(origin, "rules", bodies[row["robots_file"]], float("inf"))
    return verdicts_per_second(lambda origin, url, _: bool(cache.verdict(origin, url, 0.0)), probes)


def _large(body: bytes, paths: list[str]) -> dict[str, Any]:
    rules = parse(body)
    return {
        "kib": round(len(body) / 1024),
        "parse_ms": round(best(lambda: parse(body).allows(paths[0], AGENT)) * 1e3, 1),
        "verdicts_per_s": verdicts_per_second(
            lambda _, url, agent: rules.allows(url, agent), [("", path, AGENT) for path in paths]
        ),
    }


def _agreement() -> dict[str, str]:
    """With the cases' verdicts, and with Google's and Protego's as recorded there, over all rows."""
    cases = rows("verdicts.shared.jsonl")
    said = []
    for row in cases:
        latin = row.get("robots_encoding") == "latin-1-bytes"
        body = row["robots"].encode("latin-1") if latin else row["robots"].encode("utf-8", "surrogateescape")
        said.append((row, parse(body).allows(row["url"], row["agent"])))
    settled = [(row, ours) for row, ours in said if row["rfc9309"] in ("agree", "agree-lenient", "extension")]
    conflicts = [(row, ours) for row, ours in said if row["rfc9309"] == "conflict"]

    def share(pairs: list[tuple[dict[str, Any], bool]], column: str) -> str:
        judged = [(row, ours) for row, ours in pairs if row.get(column) is not None]
        return f"{sum(row[column] == ours for row, ours in judged)}/{len(judged)}"

    return {
        "settled": share(settled, "allowed"),
        "conflicts_as_rfc": share(conflicts, "rfc_strict"),
        "google_on_settled": share([(row, row["allowed"]) for row, _ in settled], "google_impl"),
        "protego_on_settled": share([(row, row["allowed"]) for row, _ in settled], "protego_impl"),
        "protego_conflicts_as_rfc": share([(row, row["rfc_strict"]) for row, _ in conflicts], "protego_impl"),
    }


def _protego(
    bodies: dict[str, bytes], probes: list[tuple[str, str, str]], ours: dict[str, Any]
) -> dict[str, Any] | None:
    try:
        protego = importlib.import_module("protego").Protego
    except ImportError:
        return None
    texts = {name: body.decode("utf-8", "replace") for name, body in bodies.items()}
    parsed = {name: protego.parse(text) for name, text in texts.items()}
    rate = verdicts_per_second(lambda name, url, agent: parsed[name].can_fetch(url, agent), probes)
    took = best(lambda: [protego.parse(text) for text in texts.values()], 3)
    body, paths = large_files()["10,000 prefixes"]
    text = body.decode()
    large_ms = best(lambda: protego.parse(text).can_fetch(paths[0], AGENT), 1) * 1e3
    return {
        "verdicts_per_s": rate,
        "parse_us_per_file": round(took / len(bodies) * 1e6),
        "large_parse_ms": round(large_ms, 1),
        "our_verdicts_to_its": round(ours["verdicts_per_s"] / rate, 2),
        "its_parse_to_ours": round(took / len(bodies) * 1e6 / ours["parse_us_per_file"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = measure()
    print(json.dumps(found, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
