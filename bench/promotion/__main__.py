"""`python -m bench.promotion [--seeds 1,2,3] [--variant all_crawled|seed_only] [--json]`."""

import argparse
import json
import platform
import sys
import time
from typing import Any

import numpy as np
import scipy

from bench.promotion.score import ORDERINGS, TOP, scores, see
from bench.promotion.seed_only import LINES as SEED_ONLY_LINES
from bench.promotion.seed_only import play
from bench.promotion.web import SCENARIOS, Plan, make_web

LINES = {"mean": 0.83, "min": 0.80, "farms_in_top": 0}
"""What `shipped` has to reach in each scenario: AUC on average and at least, and most farms among the first 300."""
AIM = 0.90
"""Mean AUC that is aimed at."""


def over_seeds(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean, least, greatest and all values of each figure."""
    summary = {}
    for figure in found[0]:
        values = [of_one[figure] for of_one in found]
        summary[figure] = {
            "mean": float(np.mean(values)), "min": min(values), "max": max(values), "by_seed": values,
        }  # fmt: skip
    return summary


def all_crawled(seeds: list[int]) -> dict[str, Any]:
    """Each scenario: the shipped ordering, the others beside it, and what holds."""
    scenarios = {}
    for name, farms in SCENARIOS.items():
        found = [scores(see(make_web(Plan(farms=farms), seed)), ORDERINGS) for seed in seeds]
        by_ordering = {order: over_seeds([one[order] for one in found]) for order in ORDERINGS}
        own = by_ordering.pop("shipped")
        verdicts = {
            "mean": own["auc"]["mean"] >= LINES["mean"],
            "min": own["auc"]["min"] >= LINES["min"],
            "farms_in_top": own["farms_in_top"]["max"] <= LINES["farms_in_top"],
        }
        aim = own["auc"]["mean"] >= AIM
        scenarios[name] = {"shipped": own, "verdicts": verdicts, "aim": aim, "others": by_ordering}
    holds = all(all(of["verdicts"].values()) for of in scenarios.values())
    return {"scenarios": scenarios, "lines": LINES, "aim": AIM, "top": TOP, "holds": holds}


def seed_only(seeds: list[int]) -> dict[str, Any]:
    """Each scenario: 300 promotions where only trusted hosts are crawled, as shipped and with safeguards taken out."""
    scenarios = {}
    for name, farms in SCENARIOS.items():
        found = [play(Plan(farms=farms), seed) for seed in seeds]
        by_way = {way: over_seeds([one[way] for one in found]) for way in found[0]}
        own = by_way.pop("shipped")
        verdicts = {figure: own[figure]["max"] <= line for figure, line in SEED_ONLY_LINES.items()}
        scenarios[name] = {"shipped": own, "verdicts": verdicts, "others": by_way}
    holds = all(all(of["verdicts"].values()) for of in scenarios.values())
    return {"scenarios": scenarios, "lines": SEED_ONLY_LINES, "holds": holds}


VARIANTS = {"all_crawled": all_crawled, "seed_only": seed_only}


def context(started: float, webs: int) -> dict[str, Any]:
    used = time.process_time() - started
    return {
        "python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__,
        "machine": platform.machine(), "cpu_seconds": round(used, 1), "cpu_seconds_per_web": round(used / webs, 2),
    }  # fmt: skip


def seed_only_table(report: dict[str, Any]) -> str:
    lines = []
    for name, of in report["scenarios"].items():
        lines.append(f"{name:<24} farm hosts promoted mean (most)  kept (most)  honest demoted")
        for way, row in {"shipped": of["shipped"], **of["others"]}.items():
            farms, kept = row["farm_hosts_promoted"], row["farm_hosts_kept"]
            lines.append(
                f"  {way:<22} {farms['mean']:.1f} ({farms['max']})  {kept['mean']:.1f} ({kept['max']})"
                f"  {row['honest_demoted']['mean']:.3f}"
            )
        lines.append(f"  {of['verdicts']}")
    return "\n".join([*lines, f"holds: {report['holds']}", str(report["context"])])


def table(report: dict[str, Any]) -> str:
    lines = []
    for name, of in report["scenarios"].items():
        lines.append(f"{name:<24} AUC mean   min  farms in the top {report['top']} (most)")
        for order, row in {"shipped": of["shipped"], **of["others"]}.items():
            auc, top = row["auc"], row["farms_in_top"]
            lines.append(f"  {order:<22} {auc['mean']:.3f}    {auc['min']:.3f}  {top['max']}")
        own = of["shipped"]
        held, reached = own["honest_held"]["mean"], own["reachable"]["mean"]
        lines.append(
            f"  honest hosts held {held:.4f}, reachable from the seed {reached:.3f}; {of['verdicts']}"
        )
    return "\n".join([*lines, f"holds: {report['holds']}", str(report["context"])])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.promotion", description=__doc__)
    parser.add_argument("--seeds", default="101,102,103,104,105,106,107,108,109,110", help="webs, by comma")
    parser.add_argument("--variant", default="all_crawled", choices=list(VARIANTS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    try:
        seeds = [int(seed) for seed in args.seeds.split(",")]
    except ValueError as error:
        parser.error(f"--seeds takes whole numbers by comma ({error})")
    started = time.process_time()
    report = {"variant": args.variant, "seeds": seeds, **VARIANTS[args.variant](seeds)}
    report["context"] = context(started, len(seeds) * len(SCENARIOS))
    shown = {"all_crawled": table, "seed_only": seed_only_table}[args.variant]
    print(json.dumps(report) if args.json else shown(report))
    return 0 if report["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
