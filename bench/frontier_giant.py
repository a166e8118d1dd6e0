"""One host of millions of queued URLs among millions of others: `python -m bench.frontier_giant [--json]`.

Each step in a process of its own, over a store as `bench.frontier` makes it (past the page cache): the store is filled,
the seen set's checkpoint written, a start timed, epochs of pages and links worked off, claims of the host itself taken,
and its queue trimmed as a cell does it (`frontier.trim`). Peak memory of each step is printed, and what the settings
that bound it allow.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from bench.frontier import HOSTS, NOW, SECTIONS, SHARDS, Bench, disk, fill, host_name, known, opened
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    HostRecord,
    encode,
    host_key,
    lane_prefix,
    queue_key,
    url_key,
    waiting,
)
from crawl_platform.frontier.trim import TrimOrder, order, orders, portion, preview
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import Frontier as Settings
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of

GIANT = "www.giant.example"
SHARD = shard_of(GIANT, SHARDS)
ROUNDS = 3


def page(n: int) -> str:
    return f"https://{GIANT}/{SECTIONS[n % 8]}/what-happened-on-day-{n // 7}-of-the-story-{n}"


def fill_giant(kv: Any, urls: int) -> None:
    """All of them queued."""
    rng, batch = random.Random(urls), Batch()
    groups = [group_id(GIANT, f"/{name}/*") for name in SECTIONS]
    for n in range(urls):
        record = known(rng, 4 * n + 1 + n % 3, groups[n % 8])
        batch.put(url_key(SHARD, GIANT, page(n)), encode(record))
        batch.put(queue_key(SHARD, GIANT, DISCOVERY, record.rank, page(n)), encode(waiting(record)))
        if len(batch) >= 10_000:
            kv.write(batch)
            batch = Batch()
    entry = HostRecord(trusted=True, admitted=True, known=urls, queued=urls, since=NOW)
    batch.put(host_key(SHARD, GIANT), encode(entry))
    kv.write(batch)


def rig_of(folder: Path) -> FrontierRig:
    settings = Settings(page_budget=10**8)
    seeds = (*map(host_name, range(HOSTS)), GIANT)
    return FrontierRig(*seeds, kv=opened(folder), n_shards=SHARDS, settings=settings)


def filled(folder: Path, urls: int, giant: int) -> dict[str, Any]:
    kv = opened(folder)
    fill(kv, urls - giant)
    fill_giant(kv, giant)
    kv.settle()
    kv.close()
    return {"bytes_per_url": disk(folder) / urls}


def first_start(folder: Path, urls: int, giant: int) -> dict[str, Any]:
    rig = rig_of(folder)
    for batch in rig.frontier.log.checkpoint(rig.frontier.seen):
        rig.kv.write(batch, sync=True)
    rig.kv.close()
    return {}


def start(folder: Path, urls: int, giant: int) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    rig = rig_of(folder)
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    known_urls, slots = rig.frontier.known, rig.frontier.seen.met.slots
    rig.kv.close()
    return took | {"known": known_urls, "met_mb": slots * 8 >> 20}


def work(folder: Path, urls: int, giant: int) -> dict[str, Any]:
    """Epochs of all hosts, the giant among them."""
    rig = rig_of(folder)
    bench = Bench(rig, urls - giant, 1)
    rounds = [bench.round() for _ in range(ROUNDS)]
    rig.kv.close()
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def trim(folder: Path, urls: int, giant: int) -> dict[str, Any]:
    """Keep a fifth of its queue: what one step takes, and all of them."""
    rig = rig_of(folder)
    wanted = TrimOrder(keep=giant // 5)
    begun = time.process_time()
    told = preview(rig.kv, SHARD, GIANT, wanted)
    previewed = time.process_time() - begun
    planner = Planner(rig.frontier, rig.clock.now())
    order(planner, SHARD, GIANT, wanted)
    rig.write(planner.finish())
    steps, done = list[float](), False
    while not done:
        begun = time.process_time()
        plan, wanted, done = portion(rig.frontier, SHARD, GIANT, wanted, rig.clock.now())
        rig.kv.write(plan.batch, sync=True)
        absorb(rig.frontier, plan, *rig.times())
        steps.append(time.process_time() - begun)
    prefix = lane_prefix(SHARD, GIANT, DISCOVERY)
    left = sum(1 for _ in rig.kv.scan(prefix, prefix + b"\xff"))
    assert (wanted.kept, wanted.dropped) == (told.kept, told.dropped), (wanted, told)
    assert left == wanted.kept, left
    assert not list(orders(rig.kv))
    rig.kv.close()
    steps.sort()
    return {
        "preview_cpu_s": previewed, "kept": wanted.kept, "dropped": wanted.dropped, "cpu_s": sum(steps),
        "step_ms": {"median": steps[len(steps) // 2] * 1e3, "most": steps[-1] * 1e3},
    }  # fmt: skip


STEPS: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "fill": filled,
    "first_start": first_start,
    "start": start,
    "work": work,
    "trim": trim,
}


def inside(step: str, folder: Path, urls: int, giant: int) -> dict[str, Any]:
    """A step in this process, with the peak of its memory."""
    found = STEPS[step](folder, urls, giant)
    return found | {"peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def outside(step: str, folder: Path, urls: int, giant: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "bench.frontier_giant",
        "--inside",
        "--step",
        step,
        "--folder",
        str(folder),
    ]
    done = subprocess.run(
        [*command, "--urls", str(urls), "--giant", str(giant)], check=True, stdout=subprocess.PIPE
    )
    return cast(dict[str, Any], json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--urls", type=int, default=20_000_000, help="known URLs in all")
    parser.add_argument("--giant", type=int, default=5_000_000, help="of these, in the queue of one host")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the store is made and kept (a disk); for the time of the run by default",
    )
    parser.add_argument("--step", choices=STEPS, action="append", help="only these")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        print(json.dumps(inside(chosen.step[0], chosen.folder, chosen.urls, chosen.giant)))
        return
    found: dict[str, Any] = {"urls": chosen.urls, "giant": chosen.giant}
    with tempfile.TemporaryDirectory(prefix="bench-giant-") as made:
        for step in chosen.step or STEPS:
            found[step] = outside(step, chosen.folder or Path(made), chosen.urls, chosen.giant)
            if not chosen.json:
                print(step, found[step], flush=True)
    if chosen.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
