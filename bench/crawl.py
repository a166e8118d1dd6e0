"""Pages per CPU-second of a cell, beside a bare client and Scrapy: `python -m bench.crawl [--json]`.

The whole product (supervisor, NATS, committer, one cell; robots, DNS, TLS, frontier, admission, full digest, epochs
to Delta) crawls a web of `bench.throughput.server`: thousands of TLS hosts at one request per second each, pages of
about 140 KB under gzip with 60 links, no body ever repeated, more than a tenth of the links new. In the same run the
same pages are fetched by `bare` (aiohttp, links by Lexbor, no crawler), `bare_digest` (the whole digest instead) and
Scrapy, each from a server that was started for it.

Each is measured over a window that begins once all hosts have been asked twice (robots.txt and first connections are
the start phase and are told apart). CPU is that of the process, all threads and the kernel's work for it included;
pages are those that the server has answered. Ratios are medians over `--runs`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.throughput import contenders
from bench.throughput.contenders import Running, Server, Workload
from bench.throughput.pages import FEW, LINKS
from bench.throughput.server import Seen

START_PATIENCE = 300.0
LINES = {"to_bare_links_only": 0.6, "to_bare": 0.4, "to_scrapy": 5.0}
"""What the ratios have to be at least."""
Contender = Callable[[Workload, Server, Path], AbstractContextManager[Running]]


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def peak_rss(process: psutil.Process) -> int:
    """Bytes of memory at the highest (proc(5), VmHWM)."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def page_faults(process: psutil.Process) -> int:
    """Pages of memory that the kernel had to map so far, without reading them from a disk (proc(5), minflt)."""
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[7])


def measure(contender: Contender, workload: Workload, seconds: float, enough: int) -> dict[str, Any]:
    """One contender against a server of its own. `enough`: pages served before the window begins."""
    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as name:
        folder = Path(name)
        server = Server(workload, folder)
        try:
            with contender(workload, server, folder) as running:
                begun, spent = time.monotonic(), cpu_of(running.measured)
                start = _wait(server, enough, workload)
                started = {
                    "seconds": round(time.monotonic() - begun, 1),
                    "cpu": round(cpu_of(running.measured) - spent, 2),
                    "pages": start.pages,
                    "robots": start.robots,
                }
                result = _window(running, server, seconds)
                left = running.finish()
                end = server.seen()
        finally:
            server.stop()
    return {"start": started, **result, **_politeness(end), **left, "pages_served": end.pages}


def _wait(server: Server, enough: int, workload: Workload) -> Seen:
    until = time.monotonic() + START_PATIENCE
    while (
        (seen := server.seen()).pages < enough or 0 < seen.robots < workload.hosts
    ) and time.monotonic() < until:
        time.sleep(0.2)
    return seen


def _window(running: Running, server: Server, seconds: float) -> dict[str, Any]:
    others = running.others
    stages = running.stages()
    before, cpu, faults = server.seen(), cpu_of(running.measured), page_faults(running.measured)
    of_others = {name: cpu_of(process) for name, process in others.items()}
    time.sleep(seconds)
    after, spent = server.seen(), cpu_of(running.measured) - cpu
    pages, faults = after.pages - before.pages, page_faults(running.measured) - faults
    by_stage = {name: value - stages[name] for name, value in running.stages().items()}
    return {
        "seconds": round(after.at - before.at, 2),
        "pages": pages,
        "pages_per_second": round(pages / (after.at - before.at), 1),
        "cpu": round(spent, 2),
        "pages_per_cpu_second": round(pages / spent, 1),
        "cpu_per_1000_pages": round(1_000 * spent / max(pages, 1), 3),
        "cpu_per_1000_pages_of": {
            name: round(1_000 * (cpu_of(process) - of_others[name]) / max(pages, 1), 3)
            for name, process in others.items()
        },
        "cpu_share_by_stage": {
            name: round(value / sum(by_stage.values()), 3) for name, value in by_stage.items()
        },
        "page_faults_per_page": round(faults / max(pages, 1), 1),
        "new_connections": after.connections - before.connections,
        "peak_rss": peak_rss(running.measured),
        "server_busy": round((after.cpu - before.cpu) / (after.at - before.at), 3),
        "wire_bytes_per_page": (after.sent_bytes - before.sent_bytes) // max(pages, 1),
    }


def _politeness(seen: Seen) -> dict[str, Any]:
    return {
        "politeness": {
            "overlaps": seen.overlaps,
            "short_gaps": seen.short,
            "least_gap": None if seen.least_gap is None else round(seen.least_gap, 4),
        },
        "repeated_pages": seen.repeated,
    }


def ratios(found: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Of pages per CPU-second, medians over the runs."""
    score = {
        name: statistics.median(run["pages_per_cpu_second"] for run in runs) for name, runs in found.items()
    }
    if "cell" not in score:
        return {}
    told = {f"to_{name}": round(score["cell"] / score[name], 3) for name in score if name != "cell"}
    if {"bare", "bare_digest"} <= score.keys():
        digest = 1 / score["bare_digest"] - 1 / score["bare"]
        told["to_bare_links_only"] = round(1 / (1 / score["cell"] - digest) / score["bare"], 3)
    return told


def compare(
    workload: Workload, seconds: float, runs: int, chosen: list[str], scrapy_hosts: int, slots: int
) -> dict[str, Any]:
    fewer = Workload(min(scrapy_hosts, workload.hosts), workload.size, workload.delay, workload.pin)
    known: dict[str, tuple[Contender, Workload]] = {
        "bare": (contenders.bare, workload),
        "bare_tuned": (lambda *a: contenders.bare(*a, "--tuned"), workload),
        "bare_digest": (lambda *a: contenders.bare(*a, "--digest"), workload),
        "scrapy": (contenders.scrapy, fewer),
        "cell": (partial(contenders.product, slots=slots), workload),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for number in range(runs):
        for name in chosen:
            contender, load = known[name]
            print(f"run {number + 1} of {runs}: {name}", file=sys.stderr)
            found[name].append(
                measure(contender, load, seconds, 2 * load.hosts if name == "cell" else load.hosts)
            )
    return {
        "context": _context(workload, seconds, runs, fewer.hosts),
        "contenders": found,
        "ratios": ratios(found),
        "lines": LINES,
    }


def _context(workload: Workload, seconds: float, runs: int, scrapy_hosts: int) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": [round(part, 1) for part in os.getloadavg()],
        "hosts": workload.hosts,
        "scrapy_hosts": scrapy_hosts,
        "host_delay": workload.delay,
        "page_bytes": workload.size,
        "links": LINKS,
        "new_links": FEW,
        "window_seconds": seconds,
        "runs": runs,
        "pinned": workload.pin,
    }


CONTENDERS = ("bare", "bare_tuned", "bare_digest", "scrapy", "cell")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of a window")
    parser.add_argument("--hosts", type=int, default=3_000)
    parser.add_argument("--pages-kb", type=float, default=140.0)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds between two requests to a host")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--slots", type=int, default=128, help="fetch.slots of the cell")
    parser.add_argument("--scrapy-hosts", type=int, default=300, help="more only slow it down")
    parser.add_argument("--skip-scrapy", action="store_true")
    parser.add_argument("--no-pin", action="store_true", help="leave it to the kernel who runs on which core")
    parser.add_argument("--only", action="append", choices=CONTENDERS, help="may be repeated")
    asked = parser.parse_args()
    if asked.delay <= 0:
        parser.error("--delay must be above 0: nothing switches politeness off")
    chosen = [name for name in asked.only or CONTENDERS if not (asked.skip_scrapy and name == "scrapy")]
    workload = Workload(asked.hosts, int(asked.pages_kb * 1_000), asked.delay, not asked.no_pin)
    told = compare(workload, asked.seconds, asked.runs, chosen, asked.scrapy_hosts, asked.slots)
    if asked.json:
        json.dump(told, sys.stdout)
        print()
        return
    for name, runs in told["contenders"].items():
        for run in runs:
            print(
                f"{name}: {run['pages_per_cpu_second']} pages per CPU-second, {run['pages_per_second']} pages/s"
            )
    print(json.dumps(told["ratios"]))


if __name__ == "__main__":
    main()
