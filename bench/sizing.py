"""Does `crawl size` tell the truth? Crawls three webs on this machine, feeds what was seen into it, and compares.

Of each crawl rate, latency, pages (size, compressibility, text, links) and hosts are measured, and what they took:
open connections, memory and CPU of the cell, bytes over the wire, bytes in the lake. `crawl size` gets the first and
has to say the second. Exit status 1 if one of them is off by more than 25 %.

    python -m bench.sizing [--seconds 40] [--only demo|manuals|indexes] [--json]
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from crawl_platform import settings as settings_module
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.sizing import Load, need
from crawl_platform.fleet.supervisor import read_status
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Api, Commit, Fetch, Identity, Politeness, Refresh, Settings
from crawl_platform.simulation.running import Ready, launch
from resources.local_fleet import start_supervisor, stop_supervisor, wait_until_running

WARM_UP = 12.0
"""Seconds before the measurement: robots.txt of all hosts, first connections, full epochs."""
SAMPLE = 0.5
WITHIN = 0.25
HOSTS, PAGES = 40, 90
"""Of the manuals: at a page a second of each host the measurement ends before they do."""
PARAGRAPHS, WORDS = 50, 180
"""Of a manual's page: some 65 KB, beside 20 links."""
PROGRAMS = ("demo", "manuals", "indexes")
"""The last one, short texts under many links, had no part in the fit of CPU and memory."""


@contextmanager
def web(name: str, folder: Path) -> Iterator[Ready]:
    """The demo's synthetic web; manuals: long pages of plain words on many hosts; indexes: short ones of links."""
    folder.mkdir()
    arguments = ["synthetic", "--seed", "1", "--pace", "1.5"]
    if name != "demo":
        paragraphs, abroad = (PARAGRAPHS, 0) if name == "manuals" else (4, 100)
        sites = (f"m{n}.test={_manual(folder, n, paragraphs, abroad)}" for n in range(HOSTS))
        arguments = ["files", *sites]
    with launch(arguments, folder / "web.jsonl", ca_file=folder / "ca.pem") as running:
        yield running.ready


def _manual(folder: Path, number: int, length: int, abroad: int) -> Path:
    """Pages of one host are put together from its paragraphs."""
    rng, site = random.Random(number), folder / f"m{number}"
    site.mkdir(parents=True)
    words = [
        f"{rng.choice('bcdfglmnprst')}{rng.choice('aeiou')}{rng.choice('lmnrst')}{w:x}" for w in range(2_000)
    ]
    paragraphs = [" ".join(rng.choices(words, k=WORDS)) for _ in range(8 * PARAGRAPHS)]
    for page in range(PAGES):
        targets = {2 * page + 1, 2 * page + 2, *rng.sample(range(PAGES), 18)}
        hrefs = [f"/p{n}.html" for n in targets if n < PAGES]
        hrefs += [f"http://x{rng.randrange(5_000)}.test/{rng.choice(words)}.html" for _ in range(abroad)]
        text = "</p><p>".join(rng.sample(paragraphs, length))
        anchors = " ".join(f'<a href="{href}">chapter {n} of the manual</a>' for n, href in enumerate(hrefs))
        name = "index.html" if page == 0 else f"p{page}.html"
        (site / name).write_text(
            f"<title>{number}/{page}</title><nav>{anchors}</nav><main><p>{text}</p></main>"
        )
    return site


def settings_of(home: Path, ready: Ready, delay: float) -> Settings:
    return Settings(
        home=str(home),
        identity=Identity(contact="bench@example.org"),
        politeness=Politeness(host_delay=delay, address_delay=delay, robots_retry=30.0, backoff_first=2.0),
        fetch=Fetch(
            nameservers=(ready.nameserver,), allow_networks=("127.0.0.0/8",), ca_file=ready.ca_file, slots=64
        ),
        refresh=Refresh(interval_min=2.0, interval_max=3600.0, prior_rate=1440.0),
        commit=Commit(epoch_seconds=2.0, stats_seconds=2.0),
        api=Api(enabled=False),
    )


def measure(name: str, seconds: float, delay: float) -> dict[str, float]:
    """One crawl; what is measured is said in `Seen`'s keys: per second, bytes, seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with web(name, folder / "web") as ready:
            settings = settings_of(folder / "home", ready, delay)
            settings_module.save(settings)
            fleet = start_supervisor(settings, ())
            try:
                wait_until_running(settings, fleet)
                FleetClient(settings.root / "run" / "nats.json", settings.fleet.shards).seed(ready.seeds)
                time.sleep(WARM_UP)
                return _watch(settings, seconds)
            finally:
                stop_supervisor(fleet)


def _watch(settings: Settings, seconds: float) -> dict[str, float]:
    status = read_status(settings.root)
    assert status is not None
    processes = {child.name: psutil.Process(child.pid) for child in status.children}
    cell = processes["cell-0"]
    begun, cpu, disk = (
        time.time(),
        {name: _cpu(p) for name, p in processes.items()},
        _bytes(settings.lake_root),
    )
    rss, connections = [], []
    while time.time() < begun + seconds:
        time.sleep(SAMPLE)
        rss.append(cell.memory_info().rss)
        connections.append(sum(c.status == psutil.CONN_ESTABLISHED for c in cell.net_connections("tcp")) - 1)
    ended = time.time()
    used = {name: _cpu(p) - cpu[name] for name, p in processes.items()}
    time.sleep(4.0)  # the last epoch is committed
    row = _fetched(Lake(settings.lake_root), begun, ended)
    took = ended - begun
    return {
        **row,
        "rate": row["fetches"] / took,
        "cells": used["cell-0"] / took,
        "committer_cores": (used["committer"] + used["nats"]) / took,
        "memory_bytes_per_cell": max(rss),
        "connections": sum(connections) / len(connections),
        "bandwidth_bits_per_second": row["wire"] * row["fetches"] / took * 8,
        "disk_bytes_per_day": (_bytes(settings.lake_root) - disk) / (took + 4.0) * 86_400,
    }


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)


def _fetched(lake: Lake, begun: float, ended: float) -> dict[str, float]:
    """Of the fetches in that time."""
    sql = """
        WITH f AS (SELECT * FROM fetches WHERE epoch(started_at) BETWEEN $1 AND $2),
        l AS (SELECT count(*) AS n FROM links WHERE epoch(seen_at) BETWEEN $1 AND $2),
        p AS (SELECT coalesce(avg(octet_length(body)), 0) AS kept, coalesce(avg(strlen(text)), 0) AS text,
            avg(f.body_bytes) AS page FROM pages JOIN f USING (fetch_id))
        SELECT (SELECT kept / page FROM p) AS compressed, (SELECT text / page FROM p) AS text,
            count(*) AS fetches, avg(duration_ms) / 1000 AS latency, coalesce(avg(body_bytes), 0) AS page,
            coalesce(avg(wire_bytes), 0) AS wire, (SELECT n FROM l) / count(*) AS links,
            count(DISTINCT host) AS hosts, avg((changed IS NULL OR changed)::INT * (outcome = 'ok')::INT) AS new
        FROM f
    """
    (row,) = lake.query(sql, [begun, ended]).to_pylist()
    return {name: float(value or 0) for name, value in row.items()}


def compare(seen: dict[str, float], delay: float) -> dict[str, dict[str, float]]:
    """What `crawl size` says of such a crawl, beside what it took; `off`: said / seen - 1."""
    load = Load(
        rate=seen["rate"], latency=seen["latency"], page=int(seen["page"]), delay=delay,
        wire=seen["wire"] / seen["page"],
        links=seen["links"], new=seen["new"], hosts=int(seen["hosts"]),
        compressed=seen["compressed"], text=seen["text"],
    )  # fmt: skip
    said = msgspec.to_builtins(need(load))
    said["cells"] = said["cores"]
    names = (
        "connections",
        "cells",
        "committer_cores",
        "memory_bytes_per_cell",
        "bandwidth_bits_per_second",
        "disk_bytes_per_day",
    )
    return {
        n: {"said": said[n], "seen": seen[n], "off": said[n] / seen[n] - 1 if seen[n] else 0.0} for n in names
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}, "crawls": {}}
    for name, delay in (("demo", 0.7), ("manuals", 1.0), ("indexes", 1.0)):
        if options.only in (None, name):
            seen = measure(name, options.seconds, delay)
            result["crawls"][name] = {"seen": seen, "compared": compare(seen, delay)}
    off = [c["off"] for crawl in result["crawls"].values() for c in crawl["compared"].values()]
    result["worst"] = max(map(abs, off))
    if options.json:
        print(json.dumps(result))
    else:
        _print(result)
    return 0 if result["worst"] <= WITHIN else 1


def _print(result: dict[str, Any]) -> None:
    for name, crawl in result["crawls"].items():
        seen = crawl["seen"]
        print(
            f"{name}: {seen['rate']:.1f} fetches/s of {seen['page'] / 1e3:.1f} KB ({seen['wire'] / 1e3:.1f} over the "
            f"wire), {seen['links']:.0f} links, {seen['latency'] * 1e3:.0f} ms, {seen['hosts']:.0f} hosts, "
            f"{seen['new']:.0%} new"
        )
        for what, c in crawl["compared"].items():
            print(f"  {what:28} said {c['said']:>16,.2f}  seen {c['seen']:>16,.2f}  off {c['off']:+.0%}")


if __name__ == "__main__":
    sys.exit(main())
