"""`python -m bench.freshness [--params FILE] [--seeds 1,2,3] [--policy NAME|all] [--json] [--figure FILE.svg]`."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.freshness.figure import draw
from bench.freshness.seeds import of_seeds
from crawl_platform.scheduling.comparison.crawl import Figures
from crawl_platform.scheduling.comparison.policies import POLICIES
from crawl_platform.scheduling.comparison.world import Params

FIGURES = ("paired_ratio", "early_ratio", "ratio_to_optimum", "freshness", "catch", "fetches")
LINES = {"mean": 0.985, "min": 0.977, "early": 0.978}
"""What `bayes` has to reach: paired ratio on average and at least, and on average over the early days."""


def read_params(file: Path) -> Params:
    """Raises `ValueError` that names the file for what is no parameter file."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Params])["world"]
    except (OSError, KeyError, msgspec.DecodeError) as error:
        raise ValueError(f"{file}: not a parameter file of this benchmark ({error})") from error


def over_seeds(found: list[dict[str, Figures]], policy: str) -> dict[str, Any]:
    """Mean, least and all values of each figure of one policy; of the course the mean at each step."""
    summary: dict[str, Any] = {}
    for figure in FIGURES:
        values = [getattr(of_one[policy], figure) for of_one in found]
        summary[figure] = {"mean": sum(values) / len(values), "min": min(values), "by_seed": values}
    return summary | {"course": np.mean([of_one[policy].course for of_one in found], axis=0).tolist()}


def measure(params: Params, seeds: list[int], policies: tuple[str, ...]) -> dict[str, Any]:
    """The first of `policies` is told at the top, the others beside it."""
    begun = time.perf_counter()
    found = of_seeds(params, policies, seeds)
    first = over_seeds(found, policies[0])
    report: dict[str, Any] = {"policy": policies[0], "seeds": seeds, **first}
    report["true_to_optimum"] = over_seeds(found, "true")["ratio_to_optimum"]
    report["others"] = {name: over_seeds(found, name) for name in policies[1:]}
    if policies[0] == "bayes":
        report["lines"] = LINES
        paired, early = first["paired_ratio"], first["early_ratio"]
        report["holds"] = (
            paired["mean"] >= LINES["mean"]
            and paired["min"] >= LINES["min"]
            and early["mean"] >= LINES["early"]
        )
    return report | {"seconds": round(time.perf_counter() - begun, 1)}


def table(report: dict[str, Any]) -> str:
    rows = {report["policy"]: report, **report["others"]}
    lines = [f"{'policy':<15} paired ratio (min)   days 30-60   to optimum   catch"]
    for name, row in rows.items():
        lines.append(
            f"{name:<15} {row['paired_ratio']['mean']:.4f} ({row['paired_ratio']['min']:.4f})"
            f"      {row['early_ratio']['mean']:.4f}       {row['ratio_to_optimum']['mean']:.4f}"
            f"       {row['catch']['mean']:.3f}"
        )
    lines.append(f"seeds {report['seeds']}, true index to optimum {report['true_to_optimum']['mean']:.4f}")
    if "lines" in report:
        asked = f"mean {LINES['mean']}, least {LINES['min']}, days 30-60 {LINES['early']}"
        lines.append(
            f"lines of {report['policy']} ({asked}): {'reached' if report['holds'] else 'NOT reached'}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.freshness", description=__doc__)
    parser.add_argument("--params", type=Path, help="parameter file of the world; without one: 5,000 pages")
    parser.add_argument("--seeds", default="1,2,3,4,5,6", help="worlds, by comma")
    parser.add_argument("--policy", default="bayes", choices=[*POLICIES, "all"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figure", type=Path, help="draw the policies compared into this SVG file")
    args = parser.parse_args(arguments)
    try:
        params = read_params(args.params) if args.params else Params()
        seeds = [int(seed) for seed in args.seeds.split(",")]
    except ValueError as error:
        parser.error(str(error))
    policies = tuple(POLICIES) if args.policy == "all" else (args.policy,)
    report = measure(params, seeds, policies)
    if args.figure:
        draw(report, args.figure)
    print(json.dumps(report) if args.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
