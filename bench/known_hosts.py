"""What known hosts take of memory: `python -m bench.known_hosts [--json] [--known 100000] [--served 3000]`.

Of the known hosts most rest: their pages are due in a month. A start and some epochs of those that are served, each in
a process of its own: with room for three times as many hosts as are served (`frontier.active_hosts`), and with room for
all. Told: resident memory before a start, after it and after the epochs, and µs of CPU to claim and acknowledge a page.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.frontier import NOW, PAGES, SECTIONS, SHARDS, Bench, host_name, known, opened, url_of
from crawl_platform.clock import DAY
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.records import (
    HostRecord,
    UrlRecord,
    encode,
    host_key,
    queue_key,
    url_key,
    waiting,
)
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.scheduling.templates import group_id, learn
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of

RESTING, SERVED = 8, 64
"""URLs of a host that rests, and of one that is served."""
EPOCHS = 20


def fill(kv: RocksKV, hosts: int, served: int) -> None:
    rng = random.Random(hosts)
    for host in range(hosts):
        batch, name = Batch(), host_name(host)
        shard = shard_of(name, SHARDS)
        shapes: dict[int, tuple[int, ...]] = {}
        count = 0
        for url, record in _urls(rng, host, host < served):
            shapes, _ = learn(url, shapes)
            batch.put(url_key(shard, name, url), encode(record))
            batch.put(queue_key(shard, name, record.lane, record.rank, url), encode(waiting(record)))
            count += 1
        entry = HostRecord(
            trusted=True, admitted=True, known=count, queued=count, fetched=count // 4, since=NOW
        )
        entry.shapes = shapes
        batch.put(host_key(shard, name), encode(entry))
        kv.write(batch)


def _urls(rng: random.Random, host: int, is_served: bool) -> Iterator[tuple[str, UrlRecord]]:
    for n in range(SERVED if is_served else RESTING):
        record = known(rng, n if is_served else 0, group_id(host_name(host), f"/{SECTIONS[n % 8]}/*"))
        if not is_served:  # looked at just now, so not even a spare turn goes to it
            record.last_success_at = NOW
            record.rank = int((NOW + 30 * DAY) * 1000)
        yield url_of(host, n), record


def work(folder: Path, hosts: int, room: int) -> dict[str, Any]:
    process = psutil.Process()
    settings = FrontierSettings(page_budget=10**8, active_hosts=room)
    before = process.memory_info().rss
    rig = FrontierRig(*map(host_name, range(hosts)), kv=opened(folder), n_shards=SHARDS, settings=settings)
    started = process.memory_info().rss
    bench = Bench(rig, hosts, 1)
    costs = [sum(bench.pages()) for _ in range(EPOCHS)]
    after = process.memory_info().rss
    return {
        "active_hosts": room,
        "known": len(rig.frontier.hosts),
        "in_memory": len(rig.frontier.hosts.awake),
        "before_mb": before / 2**20,
        "started_mb": started / 2**20,
        "after_mb": after / 2**20,
        "claim_ack_us": sorted(costs)[len(costs) // 2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--known", type=int, default=100_000)
    parser.add_argument("--served", type=int, default=PAGES)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--room", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.folder:
        print(json.dumps(work(chosen.folder, chosen.known, chosen.room)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-known-hosts-") as folder:
        kv = opened(Path(folder))
        fill(kv, chosen.known, chosen.served)
        kv.settle()
        kv.close()
        told = [_apart(folder, chosen.known, room) for room in (3 * chosen.served, chosen.known)]
    print(json.dumps({"rooms": told}) if chosen.json else "\n".join(map(json.dumps, told)))


def _apart(folder: str, hosts: int, room: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.known_hosts", "--folder", folder, "--known", str(hosts)]
    done = subprocess.run([*command, "--room", str(room)], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
