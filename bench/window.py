"""What planning a window costs by how many URLs are known: `python -m bench.window --json`.

Makes the rows of `group_work` that so many URLs would give on `--hosts` hosts with `--groups` URL groups each, rates of
those groups, and the log of a day's `--fetches` (what a fleet can do, whatever it knows). Then the functions of
`crawl_schedule` plan the window, for each count of URLs in a process of its own. Seconds of CPU: `read` for
the queries (`work_of`), `plan` for `plan_window`, the rows of `crawl_schedule`, and what the cells are told.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from assets.schedule import directive, priors_of, window_at
from assets.schedule_plan import plan_window, rows_of
from assets.schedule_work import work_of
from bench.simulation.tables import MemoryTables
from crawl_platform.clock import DAY
from crawl_platform.settings import Settings

NOW = 20_834 * DAY
COUNTS = "100000,1000000,10000000,100000000"
RATES, AGES, VALUES = 5, 4, 2
"""The cells that the pages of a group may be in, as `group_work` tells them apart; those at the ends are rare."""
KNOWN = 0.9
"""Share of URLs that have been visited."""
TURN = 0.5
"""Seconds of a fetch, at each of the fleet's slots."""


class Shape(NamedTuple):
    urls: int
    hosts: int
    groups: int
    fetches: int


def buckets(shape: Shape, random: np.random.Generator) -> dict[str, Any]:
    """Columns of `group_work`. The n-th group of a host has a size by Zipf's law; rates of its pages differ by a
    factor of two (standard deviation)."""
    n = shape.hosts * shape.groups
    step, age, value = (axis.ravel() for axis in np.indices((RATES, AGES, VALUES)))
    chance = np.exp(-((2 * (step - RATES // 2)) ** 2) / 2.0)
    share = 1.0 / np.arange(1, shape.groups + 1)
    size = np.tile(shape.urls / shape.hosts * share / share.sum(), shape.hosts)
    known = random.poisson(KNOWN * size[:, None] * (chance / chance.sum()))
    waiting = random.poisson((1 - KNOWN) * size)
    of, cell = np.nonzero(known)
    new = np.flatnonzero(waiting)
    rate = 2.0 ** random.uniform(-7, 3, n)[of] * 4.0 ** (step[cell] - RATES // 2)
    wait = np.clip(0.05 / rate, 1.0, 180.0)
    first = NOW - DAY * wait * 2.0 ** (age[cell] - 1.5)
    since = np.concatenate((first, np.full(len(new), NOW - 3 * DAY)))
    group = np.concatenate((of, new))
    return {
        "snapshot_at": moments(np.full(len(group), NOW - DAY)),
        "shard": np.zeros(len(group), np.int32),
        "host": host_names(group // shape.groups),
        "group_id": (group % shape.groups + 1).astype(np.int32),
        "state": np.repeat(["known", "waiting"], [len(of), len(new)]),
        "pages": np.concatenate((known[of, cell], waiting[new])),
        "value": np.concatenate((16.0 ** -value[cell], np.full(len(new), 0.5))),
        "rate_a": np.concatenate((np.full(len(of), 2.0), np.zeros(len(new)))),
        "rate_b": np.concatenate((2.0 / rate, np.zeros(len(new)))),
        "since_first": moments(since),
        "since_last": moments(since + np.concatenate((0.2 * wait * DAY, np.full(len(new), 0.5 * DAY)))),
    }


def moments(seconds: Any) -> pa.Array:
    return pa.array(np.asarray(seconds * 1e6, np.int64), pa.timestamp("us", tz="UTC"))


def host_names(number: Any) -> list[str]:
    return [f"h{n}.test" for n in np.asarray(number).tolist()]


def fill(tables: MemoryTables, shape: Shape, random: np.random.Generator) -> int:
    """The tables that a window reads; returns the number of buckets."""
    every = np.arange(shape.hosts * shape.groups)
    group = random.choice(every, shape.fetches)
    at = moments(NOW - DAY * random.random(shape.fetches))
    summed = pa.table(buckets(shape, random))
    tables.insert("group_work", summed)
    tables.insert(
        "change_rates",
        pa.table({"host": host_names(every // shape.groups), "group_id": every % shape.groups + 1,
                  "template": ["/p/#"] * len(every), "pages": np.full(len(every), 10),
                  "prior_a": np.ones(len(every)), "prior_b": np.full(len(every), 7.0)}),
    )  # fmt: skip
    tables.insert(
        "hosts",
        pa.table({"host": host_names(np.arange(shape.hosts)), "happened_at": moments(np.full(shape.hosts, NOW - DAY)),
                  "event": ["seeded"] * shape.hosts, "state": ["seed"] * shape.hosts, "delay": np.ones(shape.hosts),
                  "known_urls": np.full(shape.hosts, shape.urls // shape.hosts)}),
    )  # fmt: skip
    number = np.arange(shape.fetches)
    tables.insert(
        "fetches",
        pa.table({"fetch_id": [f"f{i}" for i in number], "host": host_names(group // shape.groups),
                  "url": [f"https://{i}/" for i in number], "shard": np.zeros(shape.fetches, np.int32),
                  "kind": ["page"] * shape.fetches, "lane": ["refresh"] * shape.fetches, "started_at": at,
                  "outcome": ["ok"] * shape.fetches, "changed": random.random(shape.fetches) < 0.3,
                  "previous_success_at": moments(NOW - DAY * (1 + 5 * random.random(shape.fetches))),
                  "group_id": group % shape.groups + 1, "duration_ms": np.full(shape.fetches, 1e3 * TURN),
                  "wire_bytes": np.full(shape.fetches, 20_000), "value": np.full(shape.fetches, 0.5),
                  "rate_a": np.ones(shape.fetches), "rate_b": np.full(shape.fetches, 5.0)}),
    )  # fmt: skip
    tables.insert(
        "fleet_stats",
        pa.table({"cell": ["cell-0"], "reported_at": moments(np.array([NOW - 60])), "slots": [64],
                  "fetches": [shape.fetches], "latency_p50_ms": [1e3 * TURN], "cpu_seconds": [0.001 * shape.fetches]}),
    )  # fmt: skip
    return int(summed.num_rows)


def measure(shape: Shape) -> dict[str, Any]:
    """The window of one count, in this process."""
    tables, settings = MemoryTables(), Settings(home="")
    rows = fill(tables, shape, np.random.default_rng(1))
    window = window_at(NOW, settings.orchestration.window_seconds)
    begun = time.process_time()
    work = work_of(tables.reading, settings, window)
    read = time.process_time()
    planned = rows_of(plan_window(work, window.window_id), window, {})
    directive(planned)
    priors_of(tables.reading, settings.refresh)
    done = time.process_time()
    tables.close()
    return {
        **shape._asdict(),
        "buckets": rows,
        "rows": planned.num_rows,
        "due_pages": int(work.pages.sum()),
        "read_seconds": round(read - begun, 2),
        "plan_seconds": round(done - read, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def elsewhere(shape: Shape) -> dict[str, Any]:
    """`measure` in a process of its own, so that its peak of memory is its own."""
    command = [sys.executable, "-m", "bench.window", "--one", json.dumps(shape)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["      URLs  buckets    rows  read s  plan s  peak MB"]
    lines += [
        f"{row['urls']:>10} {row['buckets']:>8} {row['rows']:>7} {row['read_seconds']:>7} {row['plan_seconds']:>7} "
        f"{row['peak_mb']:>8}"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.window", description=__doc__)
    parser.add_argument("--urls", default=COUNTS, help="counts, by comma")
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=24, help="of each host")
    parser.add_argument("--fetches", type=int, default=100_000, help="of the last day")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.one:
        print(json.dumps(measure(Shape(*json.loads(args.one)))))
        return 0
    shapes = [Shape(int(urls), args.hosts, args.groups, args.fetches) for urls in args.urls.split(",")]
    rows = [elsewhere(shape) for shape in shapes]
    print(json.dumps({"windows": rows}) if args.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
