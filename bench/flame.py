"""Where the CPU of a cell's thread goes, as a flame graph: `python -m bench.flame [docs/flame.svg] [--json]`.

The product crawls the web of `bench.crawl` while the cell's stacks are sampled by CPU time
(`bench.throughput.sampled`). A bar is as wide as a function's share, with whom it calls above it; the title of a bar
tells its share. Bars of less than `LEAST` are left out, and so is everything below the loop.
"""

import argparse
import html
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.crawl import START_PATIENCE
from bench.throughput import contenders
from bench.throughput.contenders import Server, Workload
from bench.throughput.sampled import sitecustomize
from bench.throughput.sampled.sitecustomize import START, STOP, TARGET
from crawl_platform.errors import PlatformError

WIDTH, ROW, LETTER = 1_200, 15, 6.2
LEAST = 0.004
LOOP = "asyncio/runners.py:Runner.run"
"""What every stack of a cell has below it."""
COLOURS = {
    "digest": "#e8a33d", "fetch": "#7fb0d8", "frontier": "#9cc48a", "admission": "#b9d3a5", "commit": "#c9a0c9",
    "lake": "#c9a0c9", "fleet": "#e6cf7a", "web": "#d8b48a", "scheduling": "#b9d3a5",
}  # fmt: skip
OTHERS = "#d9d2cc"


@dataclass(slots=True)
class Bar:
    """A function with all that it calls."""

    samples: int = 0
    above: dict[str, "Bar"] = field(default_factory=dict)


def tree(lines: list[str]) -> Bar:
    """`lines`: stacks, outermost frame first, each with its number of samples."""
    root = Bar()
    for line in lines:
        stack, _, times = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        bar = root
        bar.samples += int(times)
        for frame in frames[frames.index(LOOP) + 1 :] if LOOP in frames else frames:
            bar = bar.above.setdefault(frame, Bar())
            bar.samples += int(times)
    return root


def _short(frame: str) -> str:
    for mark in ("site-packages/", "/python3.11/", "/python3.12/"):
        frame = frame.rpartition(mark)[2]
    place = frame.find("crawl_platform/")
    return frame[place + len("crawl_platform/") :] if place >= 0 else frame


def shares(root: Bar) -> dict[str, float]:
    """Function → its share with whom it calls, the largest first; a function that calls itself counts once."""
    found: Counter[str] = Counter()

    def walk(bar: Bar, within: frozenset[str]) -> None:
        for name, above in bar.above.items():
            if name not in within:
                found[name] += above.samples
            walk(above, within | {name})

    walk(root, frozenset())
    return {name: round(n / root.samples, 4) for name, n in found.most_common() if n >= LEAST * root.samples}


def svg(root: Bar, title: str) -> str:
    bars = list(_bars(root, root.samples, 0.0, 0))
    height = (max((level for _, _, _, level in bars), default=0) + 2) * ROW + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
        'font-size="10">',
        f'<text x="4" y="11">{html.escape(title)}</text>',
    ]
    for name, share, left, level in bars:
        x, y, width = left * WIDTH, height - (level + 1) * ROW, share * WIDTH
        colour = COLOURS.get(name.partition("/")[0], OTHERS)
        shown = name.rpartition(":")[2][: int(width / LETTER)]
        parts.append(
            f'<g><title>{html.escape(name)} {share:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width - 0.4:.1f}" '
            f'height="{ROW - 1}" fill="{colour}"/>'
            + (f'<text x="{x + 2:.1f}" y="{y + 11}">{html.escape(shown)}</text>' if len(shown) > 2 else "")
            + "</g>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _bars(bar: Bar, total: int, left: float, level: int) -> Iterator[tuple[str, float, float, int]]:
    """(name, share, where it begins, how high) of all that are wide enough."""
    for name, above in sorted(bar.above.items(), key=lambda item: item[0]):
        share = above.samples / total
        if share >= LEAST:
            yield name, share, left, level
            yield from _bars(above, total, left, level + 1)
            left += share


def sample(workload: Workload, seconds: float) -> list[str]:
    """Stacks of a cell that has been crawling for a while."""
    with tempfile.TemporaryDirectory(prefix="bench-flame-") as name:
        folder = Path(name)
        target = folder / "stacks"
        os.environ[TARGET] = str(target)
        os.environ["PYTHONPATH"] = str(Path(sitecustomize.__file__).parent)
        server = Server(workload, folder)
        try:
            with contenders.product(workload, server, folder) as running:
                _until(lambda: server.seen().pages >= 2 * workload.hosts, "pages are served")
                os.kill(running.measured.pid, START)
                time.sleep(seconds)
                os.kill(running.measured.pid, STOP)
                _until(target.exists, "the cell has written its samples")
                return target.read_text().splitlines()
        finally:
            server.stop()


def _until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + START_PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise PlatformError(f"not within {START_PATIENCE:g} s: {what}")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, nargs="?", help="the SVG to write")
    parser.add_argument(
        "--json", action="store_true", help="print the share of each function as one JSON object"
    )
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--hosts", type=int, default=200)
    asked = parser.parse_args()
    if asked.target is None and not asked.json:
        parser.error("name the SVG to write, or ask for --json")
    workload = Workload(asked.hosts, 140_000, 1.0, True)
    root = tree(sample(workload, asked.seconds))
    if asked.target is not None:
        asked.target.write_text(svg(root, f"CPU of a cell's loop, {root.samples} samples of 4 ms"))
        print(f"{asked.target}: {root.samples} samples", file=sys.stderr)
    if asked.json:
        print(json.dumps({"samples": root.samples, "shares": shares(root)}))


if __name__ == "__main__":
    main()
