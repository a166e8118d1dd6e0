"""`python -m bench.simulation [--days 30] [--seeds 1,2,3] [--pages N] [--fetches N] [--json]`."""

import argparse
import json
import sys
import time
from typing import Any

import msgspec
import numpy as np

from bench.simulation import oracle
from bench.simulation.product import Product
from bench.simulation.web import Params, generate
from crawl_platform.settings import Refresh

AFTER = 10.0
"""Days after `--days` that are crawled too: what was learnt by then shows in them."""
LINE = 0.95
"""Part of the oracle's freshness that the product has to reach in those."""


def measure(params: Params, seed: int, learnt: float) -> dict[str, Any]:
    """The figures of one seed: freshness in the ten days before day `learnt`, and from there to the end."""
    windows = ((max(learnt - AFTER, 0.0), learnt), (learnt, params.days))
    web, refresh = generate(params, seed), Refresh()
    best = oracle.crawl(web, refresh, windows).freshness(params.days)
    product = Product(web, windows, refresh)
    found = product.run()
    ours = product.copies.freshness(params.days)
    believed = [(chance, changed) for day, chance, changed in found.predicted if day >= windows[0][0]]
    return {
        "seed": seed,
        "ratio_before": float(ours[0] / best[0]),
        "ratio": float(ours[1] / best[1]),
        "freshness": float(ours[1]),
        "freshness_of_oracle": float(best[1]),
        "split_error": found.split_error,
        "idle": found.idle / (86_400.0 * params.days),
        "fetches": product.copies.visits,
        "lanes": found.lanes,
        "promised": found.promised,
        "late": len(found.late),
        "latest_days": max(found.late, default=0.0),
        "backlog_by_day": found.backlog,
        "changes_predicted": float(sum(chance for chance, _ in believed)),
        "changes_found": int(sum(changed for _, changed in believed)),
        "calibration": calibration(believed),
    }


def calibration(believed: list[tuple[float, bool]]) -> list[dict[str, float]]:
    """By tenths of the chance of a change as believed: its mean, how many had changed, and of how many."""
    chance, changed = (np.array([pair[n] for pair in believed], np.float64) for n in (0, 1))
    tenth = np.minimum((chance * 10).astype(np.int64), 9)
    return [
        {"predicted": float(chance[of].mean()), "found": float(changed[of].mean()), "checks": int(of.sum())}
        for of in (tenth == n for n in range(10))
        if of.any()
    ]


def table(report: dict[str, Any]) -> str:
    lines = ["seed  ratio  before  split error  idle   changes predicted/found  late/promised"]
    lines += [
        f"{row['seed']:>4}  {row['ratio']:.3f}  {row['ratio_before']:.3f}   {row['split_error']:.3f}        "
        f"{row['idle']:.3f}  {row['changes_predicted']:.0f}/{row['changes_found']}                "
        f"{row['late']}/{row['promised']}"
        for row in report["by_seed"]
    ]
    return "\n".join([*lines, f"mean ratio {report['mean']:.3f}, least {report['min']:.3f}"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--days", type=float, default=30.0, help="days to learn in; ten more are measured")
    parser.add_argument("--seeds", default="1,2,3", help="webs, by comma")
    parser.add_argument("--pages", type=int, default=Params().pages)
    parser.add_argument("--fetches", type=float, default=Params().fetches_per_day, help="a day")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    params = msgspec.structs.replace(
        Params(), pages=args.pages, fetches_per_day=args.fetches, days=args.days + AFTER
    )
    begun = time.process_time()
    rows = [measure(params, int(seed), args.days) for seed in args.seeds.split(",")]
    ratios = [row["ratio"] for row in rows]
    report = {
        "line": LINE, "mean": sum(ratios) / len(ratios), "min": min(ratios), "by_seed": rows,
        "cpu_seconds": round(time.process_time() - begun, 1),
    }  # fmt: skip
    print(json.dumps(report) if args.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
