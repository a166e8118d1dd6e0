"""How soon a cell that is given thousands of new hosts is at its rate: `python -m bench.cold_start [--json]`.

The whole product (supervisor, NATS, committer, one cell) gets `--hosts` TLS hosts of `bench.throughput.server` in one
go. Nothing is known of them: each needs its name resolved, a handshake, robots.txt, and a pause before its first page.
The server's counts are read every half second. The steady rate is that of the last third of the run; told is when the
rate over three seconds first reached `LINE` of it, for all requests and for pages alone: in seconds of the wall clock
since the first request, and in seconds of a core that the cell has had since (on a machine that others use as well,
only these mean anything).
"""

import argparse
import json
import os
import platform
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.throughput.contenders import Server, Workload, product

LINE = 0.8
WITHIN = 15.0
"""Seconds that issue 5 gives to reach the line."""
EVERY = 0.5
OVER = 3.0
"""Seconds over which a rate is taken."""


class Sample(NamedTuple):
    """Counts of the server, and CPU seconds of the cell, at a moment (s)."""

    at: float
    robots: int
    pages: int
    cpu: float

    @property
    def requests(self) -> int:
        return self.robots + self.pages


def watch(workload: Workload, seconds: float, slots: int) -> tuple[list[Sample], dict[str, int]]:
    """Samples from the seeding on, for `seconds` after the first request."""
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="bench-cold-") as name:
        server = Server(workload, Path(name))
        try:
            with partial(product, slots=slots)(workload, server, Path(name)) as running:
                first: float | None = None
                while first is None or time.monotonic() < first + seconds:
                    seen, times = server.seen(), running.measured.cpu_times()
                    samples.append(Sample(seen.at, seen.robots, seen.pages, times.user + times.system))
                    first = time.monotonic() if first is None and seen.robots else first
                    time.sleep(EVERY)
                running.finish()
            seen = server.seen()
        finally:
            server.stop()
    return samples, {"overlaps": seen.overlaps, "short_gaps": seen.short}


def judged(samples: list[Sample]) -> dict[str, Any]:
    begun = next(n for n, sample in enumerate(samples) if sample.requests)
    samples = samples[max(begun - 1, 0) :]
    found: dict[str, Any] = {
        what: {f"by_{clock}": _line(samples, what, clock) for clock in ("wall", "core")}
        for what in ("requests", "pages")
    }
    robots = samples[-1].robots
    found["robots_done"] = next(round(s.at - samples[0].at, 1) for s in samples if s.robots >= robots)
    found["robots"] = robots
    found["by_5_seconds"] = _by(samples, 5.0)
    return found


def _line(samples: list[Sample], what: str, clock: str) -> dict[str, float | None]:
    """The steady rate of `what` per second of a clock, and when it was at `LINE` of that: seconds since the start."""
    points = [(sample.cpu if clock == "core" else sample.at, getattr(sample, what)) for sample in samples]
    origin, end = points[0][0], points[-1][0]
    last = [point for point in points if point[0] >= origin + (end - origin) * 2 / 3]
    steady = (last[-1][1] - last[0][1]) / max(last[-1][0] - last[0][0], 1e-9)
    return {"steady_per_second": round(steady, 1), "seconds_to_line": _reached(points, LINE * steady)}


def _reached(points: list[tuple[float, int]], least: float) -> float | None:
    """The first time from which the count rose by `least` per second, over the `OVER` seconds before it."""
    for n, (at, count) in enumerate(points):
        before = next((point for point in reversed(points[:n]) if point[0] <= at - OVER), None)
        if before is not None and (count - before[1]) / (at - before[0]) >= least:
            return round(at - points[0][0], 1)
    return None


def _by(samples: list[Sample], step: float) -> list[dict[str, float]]:
    rows, mark = [], samples[0]
    for sample in samples[1:]:
        if sample.at - mark.at >= step:
            took = sample.at - mark.at
            rows.append(
                {
                    "until": round(sample.at - samples[0].at, 1),
                    "robots_per_second": round((sample.robots - mark.robots) / took, 1),
                    "pages_per_second": round((sample.pages - mark.pages) / took, 1),
                    "core": round((sample.cpu - mark.cpu) / took, 2),
                }
            )
            mark = sample
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=3_000)
    parser.add_argument("--bytes", type=int, default=145_000)
    parser.add_argument("--delay", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--slots", type=int, default=512)
    parser.add_argument("--no-pin", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    workload = Workload(asked.hosts, asked.bytes, asked.delay, not asked.no_pin)
    load = os.getloadavg()
    samples, politeness = watch(workload, asked.seconds, asked.slots)
    result = {
        "context": {
            "python": platform.python_version(), "cpus": os.cpu_count(), "load": [round(part, 1) for part in load],
            "hosts": asked.hosts, "page_bytes": asked.bytes, "host_delay": asked.delay, "slots": asked.slots,
        },
        **judged(samples),
        "politeness": politeness,
        "line": {"share": LINE, "within": WITHIN},
    }  # fmt: skip
    if asked.json:
        print(json.dumps(result))
        return
    for row in result["by_5_seconds"]:
        print("  ".join(f"{name} {value:>7}" for name, value in row.items()))
    for what in ("requests", "pages"):
        for clock, told in result[what].items():
            print(
                f"{what} {clock}: {told['steady_per_second']}/s steady, {LINE:.0%} of it after "
                f"{told['seconds_to_line']} s (line {WITHIN:g} s)"
            )
    print(f"{result['robots']} robots.txt after {result['robots_done']} s; {politeness}")


if __name__ == "__main__":
    main()
