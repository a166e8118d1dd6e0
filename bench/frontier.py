"""What a frontier of many known URLs costs: `python -m bench.frontier [--json] [--urls 100000,1000000,10000000]`.

The real frontier over the real store, driven as a cell drives it (claim → plan → synced batch → absorb), with a
clock that is moved by hand and no network. Per size: µs of CPU (all threads, so RocksDB's compaction counts) to add,
claim and acknowledge a URL, cold (a fresh process) and warm; of discovered links, those seen and those new; bytes on
disk per URL; CPU and wall seconds of a start; peak memory. Each line of issue 5 is printed with what was measured.

Memory is capped by going past the page cache: the store is opened with O_DIRECT for reads, flushes and compactions, so
what its block cache (a setting) does not hold comes from the disk. No rights are needed for that, and nothing of the
machine's free memory can hide the disk. URLs are put in by the store's own encodings, not one by one through the
planner: 10^7 of those would take an hour. A quarter of them have been fetched, so each URL has a record and a place in
a queue; 3,000 hosts are active and share the URLs evenly.
"""

import argparse
import gc
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawl_platform.clock import DAY, ManualClock
from crawl_platform.fleet.__main__ import GARBAGE
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Found, Lease, PageResult
from crawl_platform.frontier.plan import PAGES_AT_ONCE, Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    FETCHED,
    REFRESH,
    HostRecord,
    UrlRecord,
    encode,
    host_key,
    queue_key,
    url_key,
    waiting,
)
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of

SIZES = (100_000, 1_000_000, 10_000_000)
HOSTS = 3_000
SHARDS = 64
PAGES = 3_000
"""Pages per epoch: one of each host, on average."""
LINKED, LINKS = 500, 60
"""Pages with links in one epoch of links, and links on each."""
WARM_UP, WARM_LINKS, EPOCHS = 8, 60, 5
"""Epochs of pages and of links before the warm ones (1.8 million links: some minutes of a cell), and the warm ones."""
NOW = ManualClock().now()
FETCHED_SHARE = 4
"""One URL in so many has been fetched."""
LINES = {
    "growth_warm": 1.5,
    "claim_ack_us": 40.0,
    "scheduling_us": 20.0,
    "link_seen_us": 4.0,
    "link_new_us": 12.0,
    "bytes_per_url": 150.0,
    "start_seconds": 20.0,
}
OVERDUE = 15 * DAY
"""Time that passes before decisions are timed: half of the pages that were fetched are due."""
SECTIONS = ("news", "world", "science", "culture", "products", "reviews", "people", "archive")


def host_name(n: int) -> str:
    return f"www.site-{n:04d}.example"


def url_of(host: int, n: int) -> str:
    """URL number `n` of a host: about 70 characters, 8 sections."""
    return f"https://{host_name(host)}/{SECTIONS[n % 8]}/what-happened-on-day-{n // 7}-of-the-story-{n}"


# filling


def fill(kv: RocksKV, urls: int) -> None:
    per_host = urls // HOSTS
    groups = {host: [group_id(host_name(host), f"/{name}/*") for name in SECTIONS] for host in range(HOSTS)}
    rng = random.Random(urls)
    for host in range(HOSTS):
        batch, name = Batch(), host_name(host)
        shard = shard_of(name, SHARDS)
        for n in range(per_host):
            url, record = url_of(host, n), known(rng, n, groups[host][n % 8])
            batch.put(url_key(shard, name, url), encode(record))
            batch.put(queue_key(shard, name, record.lane, record.rank, url), encode(waiting(record)))
        done = len(range(0, per_host, FETCHED_SHARE))
        entry = HostRecord(
            trusted=True, admitted=True, known=per_host, queued=per_host, fetched=done, since=NOW
        )
        batch.put(host_key(shard, name), encode(entry))
        kv.write(batch)


def known(rng: random.Random, n: int, group: int) -> UrlRecord:
    """A URL as it is known: every fourth has been fetched, the others wait."""
    depth = 1 + n % 5
    record = UrlRecord(depth=depth, group=group, value=1.0 / (1 + depth))
    record.discovered_at = NOW - rng.random() * 30 * DAY
    if n % FETCHED_SHARE:
        record.lane, record.rank = DISCOVERY, int((record.discovered_at - 3600 * record.value) * 1000)
        return record
    record.state, record.lane = FETCHED, REFRESH
    record.last_success_at = NOW - rng.random() * 10 * DAY
    record.rank = int((record.last_success_at + (1 + rng.random() * 30) * DAY) * 1000)
    record.rate_b = rng.random()
    record.body_hash, record.links_hash = rng.getrandbits(63), rng.getrandbits(63)
    record.fingerprint, record.link_set = f"{rng.getrandbits(128):032x}", f"{rng.getrandbits(96):024x}"
    record.etag = f'"{rng.getrandbits(64):x}"'
    record.series, record.manifest = "bulk", rng.randrange(10_000)
    record.links_in = record.page_in = f"bulk/{record.manifest}"
    return record


# work


class Stopwatch:
    """Seconds of CPU spent in some functions, less what it takes to look at the clock."""

    def __init__(self) -> None:
        self.spent = self._looking = 0.0
        empty = self.around(lambda: None)
        for _ in range(100_000):
            empty()
        self._looking, self.spent = self.spent / 100_000, 0.0

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        clock = time.thread_time

        def timed(*arguments: Any) -> Any:
            begun = clock()
            result = work(*arguments)
            self.spent += clock() - begun - self._looking
            return result

        return timed


class Bench:
    """Epochs of one kind of work, and what they cost."""

    def __init__(self, rig: FrontierRig, urls: int, seed: int) -> None:
        self.rig = rig
        self.per_host = urls // HOSTS
        self.fresh = [self.per_host + seed * 1_000_000] * HOSTS
        """Next URL number of each host that nobody has seen."""
        self.rng = random.Random(seed)

    def new(self, host: int) -> Found:
        self.fresh[host] += 1
        return Found(url_of(host, self.fresh[host]), 2, 1 / 3)

    def seen(self, host: int) -> Found:
        """Half of what a page links to again is the menu of its site; the rest is any page of it, the known ones
        more often: the n-th of them in proportion to 1/n."""
        n = self.rng.randrange(30) if self.rng.random() < 0.5 else int(self.per_host ** self.rng.random()) - 1
        return Found(url_of(host, n), 2, 1 / 3)

    def anywhere(self, host: int) -> Found:
        return Found(url_of(host, self.rng.randrange(self.per_host)), 2, 1 / 3)

    def mixed(self, host: int) -> Found:
        return self.new(host) if self.rng.random() < 0.1 else self.seen(host)

    def links(self, kind: Callable[[int], Found]) -> float:
        """µs of CPU per link of one epoch that brings nothing but links: plan, write, absorb."""
        pages = [self.rng.randrange(HOSTS) for _ in range(LINKED)]
        found = [[kind(host) for _ in range(LINKS)] for host in pages]
        begun = time.process_time()
        planner = Planner(self.rig.frontier, self.rig.clock.now())
        for start in range(0, LINKED, PAGES_AT_ONCE):
            some = found[start : start + PAGES_AT_ONCE]
            planner.discover_all([link for links in some for link in links])
        self._commit(planner)
        return (time.process_time() - begun) * 1e6 / (LINKED * LINKS)

    def pages(self, *, crowded: bool = False) -> tuple[float, float]:
        """µs of CPU per page to claim it, and to acknowledge it (no links on it). `crowded`: as where more hosts are
        due than a cell has slots, so that the best has to be found."""
        rig = self.rig
        rig.clock.advance(2.0)
        leases: list[Lease] = []
        claimed = 0.0
        while len(leases) < PAGES:
            begun = time.process_time()
            taken: list[Lease] = []
            while len(leases) + len(taken) < PAGES and isinstance(
                lease := rig.frontier.claim(*rig.times(), crowded=crowded), Lease
            ):
                taken.append(lease)
            claimed += time.process_time() - begun
            for lease in taken:
                rig.gates.end(lease.host, None, rig.clock.boottime(), 1.0)
            begun = time.process_time()
            for lease in taken:
                rig.frontier.landed(lease.host, *rig.times())
            claimed += time.process_time() - begun
            leases += taken
            rig.clock.advance(1.0)
        results = [self._result(lease) for lease in leases]
        begun = time.process_time()
        planner = Planner(rig.frontier, rig.clock.now(), "bulk", 1)
        for result in results:
            planner.page(result)
        self._commit(planner)
        return claimed * 1e6 / PAGES, (time.process_time() - begun) * 1e6 / PAGES

    def scheduling(self) -> float:
        """µs of CPU per page of what decides about it, where discoveries and visits are due and hosts wait for
        slots: the worth of hosts in line, lane and page, what the turn teaches, and when the page comes again."""
        lanes, revisits, watch = self.rig.frontier.lanes, self.rig.frontier.revisits, Stopwatch()
        parts = [(lanes, "choose"), (lanes, "worth"), (lanes, "charge"), (revisits, "interval")]
        for part, name in parts:
            setattr(part, name, watch.around(getattr(part, name)))
        self.pages(crowded=True)
        for part, name in parts:
            delattr(part, name)
        return watch.spent * 1e6 / PAGES

    def _result(self, lease: Lease) -> PageResult:
        bits = self.rng.getrandbits
        return PageResult(
            lease, self.rig.clock.now(), "success", changed=True, body_hash=bits(63), links_hash=bits(63),
            fingerprint=f"{bits(128):032x}", link_set=f"{bits(96):024x}", group=lease.record.group,
            posterior=(lease.record.rate_a, lease.record.rate_b + 0.1),
        )  # fmt: skip

    def _commit(self, planner: Planner) -> None:
        plan = planner.finish()
        self.rig.kv.write(plan.batch, sync=True)
        absorb(self.rig.frontier, plan, *self.rig.times())

    def round(self) -> dict[str, float]:
        claim, ack = self.pages()
        crowded, _ = self.pages(crowded=True)
        return {
            "claim_us": claim,
            "ack_us": ack,
            "claim_ack_us": claim + ack,
            "claim_crowded_us": crowded,
            "link_new_us": self.links(self.new),
            "link_seen_us": self.links(self.seen),
            "link_seen_anywhere_us": self.links(self.anywhere),
            "link_mix_us": self.links(self.mixed),
        }


def opened(folder: Path) -> RocksKV:
    return RocksKV(folder / "state", direct=True)


def rig_of(kv: RocksKV) -> FrontierRig:
    """The frontier of a start, with robots.txt of every host at hand."""
    settings = FrontierSettings(page_budget=10**8)
    return FrontierRig(*map(host_name, range(HOSTS)), kv=kv, n_shards=SHARDS, settings=settings)


# each step in a process of its own: nothing is in its memory but what the step needs


def filled(folder: Path, urls: int) -> dict[str, Any]:
    kv = opened(folder)
    fill(kv, urls)
    kv.settle()
    kv.close()
    return {"bytes_per_url": disk(folder) / (urls // HOSTS * HOSTS)}


def disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def first_start(folder: Path, urls: int) -> dict[str, Any]:
    """Without a checkpoint every URL is read; then one is written, and some more URLs after it."""
    started = timed_start(folder, urls)
    rig: FrontierRig = started.pop("rig")
    begun = time.process_time()
    for batch in rig.frontier.log.checkpoint(rig.frontier.seen):
        rig.kv.write(batch, sync=True)
    started["checkpoint_cpu_s"] = time.process_time() - begun
    bench = Bench(rig, urls, 2)
    bench.links(bench.new)
    rig.kv.close()
    return {"first_start": started}


def start(folder: Path, urls: int) -> dict[str, Any]:
    """From the checkpoint, and the log since then."""
    started = timed_start(folder, urls)
    rig: FrontierRig = started.pop("rig")
    started |= {"replayed": rig.frontier.log.waiting, "rss_mb": peak_mb()}
    rig.kv.close()
    return {"start": started}


def timed_start(folder: Path, urls: int) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    rig = rig_of(opened(folder))
    if rig.frontier.known < urls // HOSTS * HOSTS:
        raise RuntimeError(f"{rig.frontier.known} URLs were found of {urls}")
    return {"rig": rig, "wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def work(folder: Path, urls: int) -> dict[str, Any]:
    kv = opened(folder)
    rig = rig_of(kv)
    bench = Bench(rig, urls, 1)
    cold = bench.round()
    for _ in range(WARM_UP):
        bench.pages()
    for _ in range(WARM_LINKS):
        bench.links(bench.seen)
    rounds = [bench.round() for _ in range(EPOCHS)]
    seen = rig.frontier.seen
    rig.clock.advance(OVERDUE)
    bench.pages(crowded=True)
    scheduling = statistics.median(bench.scheduling() for _ in range(EPOCHS))
    kv.close()
    return {
        "cold": cold,
        "warm": {name: statistics.median(one[name] for one in rounds) for name in cold},
        "warm_least": {name: min(one[name] for one in rounds) for name in cold},
        "scheduling_us": scheduling,
        "confirms": seen.confirms,
        "false_positive_rate": seen.false_positive_rate,
        "peak_rss_mb": peak_mb(),
    }


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


STEPS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "fill": filled,
    "first_start": first_start,
    "start": start,
    "work": work,
}


def measure(urls: int, parent: Path | None) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-frontier-", dir=parent))
    found: dict[str, Any] = {"urls": urls}
    try:
        for step in STEPS:
            command = [sys.executable, "-m", "bench.frontier", "--step", step, "--folder", str(folder)]
            done = subprocess.run([*command, "--urls", str(urls)], check=True, stdout=subprocess.PIPE)
            found |= json.loads(done.stdout)
    finally:
        shutil.rmtree(folder)
    return found


def lines(sizes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each line of the issue: what was measured at the largest size, and whether it holds."""
    small, large = sizes[0], sizes[-1]
    growth = {name: large["warm"][name] / small["warm"][name] for name in ("claim_ack_us", "link_mix_us")}
    growth["scheduling_us"] = large["scheduling_us"] / small["scheduling_us"]
    measured = {
        "growth_warm": max(growth.values()),
        "claim_ack_us": large["warm"]["claim_ack_us"],
        "scheduling_us": large["scheduling_us"],
        "link_seen_us": large["warm"]["link_seen_us"],
        "link_new_us": large["warm"]["link_new_us"],
        "bytes_per_url": max(one["bytes_per_url"] for one in sizes),
        "start_seconds": large["start"]["wall_s"],
    }
    return {
        name: {"most": most, "measured": round(measured[name], 2), "holds": measured[name] <= most}
        for name, most in LINES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--urls", default=",".join(map(str, SIZES)), help="known URLs, ascending, with commas"
    )
    parser.add_argument("--folder", type=Path, help="where the stores are made (a disk, not a tmpfs)")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        gc.set_threshold(*GARBAGE)  # as a cell does
        print(json.dumps(STEPS[chosen.step](chosen.folder, int(chosen.urls))))
        return
    load = os.getloadavg()[0]
    sizes = [measure(int(urls), chosen.folder) for urls in chosen.urls.split(",")]
    context = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "memory_cap": "O_DIRECT: no page cache; a block cache of 64 MB, write buffers and indexes are all there is",
        "hosts": HOSTS,
        "fetched_share": 1 / FETCHED_SHARE,
    }
    told = lines(sizes)
    if chosen.json:
        print(json.dumps({"context": context, "lines": told, "sizes": sizes}))
        return
    print(json.dumps(context))
    for size in sizes:
        print(json.dumps(size, indent=1))
    for name, line in told.items():
        verdict = "holds" if line["holds"] else "is missed"
        print(f"{name}: {line['measured']} (at most {line['most']}) {verdict}")


if __name__ == "__main__":
    main()
