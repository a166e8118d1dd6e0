"""Where the weights of the spam evidence come from: `python -m bench.promotion.weights [--webs 60] [--held-out 40]`.

Webs of random plans, wider than those of the bench: sizes, densities, footers, and farms of every make. A logistic
regression weighs the two kinds of evidence, each web's farms together as much as its honest hosts; the shipped line is
then tried on the webs it was made from, and on others.
"""

import argparse
import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from bench.promotion.score import see
from bench.promotion.web import HONEST, TARGET, Farms, Plan, make_web
from crawl_platform.graph.spam import LEAST_VOUCHED, MOST_DOUBT, UNVOUCHED_WEIGHT

Floats = NDArray[np.float64]

FIRST, FIRST_HELD_OUT = 1_000, 6_000
HIJACKED = ((8, 2), (40, 10), (0, 5), (80, 5), (10, 0))
EVERYWHERE = (0.0, 0.02, 0.1, 0.3)


def any_plan(random: np.random.Generator) -> Plan:
    """A web of 2,000 honest hosts; farms of 500 to 20,000 pages, a quarter of them on trusted hosts."""

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    pages = int(between(500, 20_000))
    untrusted, trusted = HIJACKED[int(random.integers(len(HIJACKED)))]
    boosters = int(between(5, min(pages / 2, 400)))
    farms = Farms(
        count=20, pages=pages // boosters * boosters, boosters=boosters, untrusted=untrusted, trusted=trusted,
        links_back=bool(random.random() < 0.4), scattered=bool(random.random() < 0.3),
    )  # fmt: skip
    if random.random() < 0.25:
        hosts = int(random.integers(3, 9))
        farms = Farms(
            count=10, pages=pages // hosts * hosts, untrusted=0, trusted=0, living_on=hosts,
            together=bool(random.random() < 0.5),
        )  # fmt: skip
    return Plan(
        farms, trusted=int(random.integers(60, 400)), untrusted=int(random.integers(200, 2_500)), honest=2_000,
        trusted_links=between(2, 15), untrusted_links=between(1, 15), everywhere=float(random.choice(EVERYWHERE)),
    )  # fmt: skip


def evidence(seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """(bulk, ln(1/vouched)) of each honest host and farm with trust, shape (hosts, 2), and which are farms."""
    seen = see(make_web(any_plan(np.random.default_rng(seed)), seed))
    ranks, kind = seen.ranks, seen.web.kind
    hosts = np.flatnonzero(np.isin(kind, (HONEST, TARGET)) & (ranks.trust > 0))
    unvouched = -np.log(np.maximum(ranks.vouched[hosts], LEAST_VOUCHED))
    bulk = ranks.doubt[hosts] - UNVOUCHED_WEIGHT * unvouched
    return np.stack([bulk, unvouched], axis=1), kind[hosts] == TARGET


def fitted(webs: list[tuple[Floats, NDArray[np.bool_]]]) -> dict[str, float]:
    """The line of the regression, in units of bulk."""
    weight = [np.where(farm, len(farm) / max(1, farm.sum()), 1.0) for _, farm in webs]
    rows, farms = np.concatenate([rows for rows, _ in webs]), np.concatenate([farm for _, farm in webs])
    model = LogisticRegression(max_iter=1_000).fit(rows, farms, sample_weight=np.concatenate(weight))
    bulk, unvouched = model.coef_[0]
    return {
        "unvouched_weight": float(unvouched / bulk),
        "most_doubt": float(-model.intercept_[0] / bulk),
        "steepness": float(bulk),
    }


def tried(webs: list[tuple[Floats, NDArray[np.bool_]]]) -> dict[str, Any]:
    """What the shipped line makes of these webs."""
    held = [rows[:, 0] + UNVOUCHED_WEIGHT * rows[:, 1] >= MOST_DOUBT for rows, _ in webs]
    passed = [int((~of[farm]).sum()) for of, (_, farm) in zip(held, webs, strict=True)]
    honest = [float(of[~farm].mean()) for of, (_, farm) in zip(held, webs, strict=True)]
    return {
        "webs": len(webs),
        "farms": int(sum(farm.sum() for _, farm in webs)),
        "farms_passed": sum(passed),
        "webs_with_a_farm_passed": sum(of > 0 for of in passed),
        "honest_held": {"mean": float(np.mean(honest)), "max": max(honest)},
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.promotion.weights", description=__doc__)
    parser.add_argument("--webs", type=int, default=60)
    parser.add_argument("--held-out", type=int, default=60)
    args = parser.parse_args(arguments)
    made = [evidence(seed) for seed in range(FIRST, FIRST + args.webs)]
    others = [evidence(seed) for seed in range(FIRST_HELD_OUT, FIRST_HELD_OUT + args.held_out)]
    shipped = {"unvouched_weight": UNVOUCHED_WEIGHT, "most_doubt": MOST_DOUBT}
    report = {"fitted": fitted(made), "shipped": shipped, "made_from": tried(made), "held_out": tried(others)}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
