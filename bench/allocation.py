"""What the shipped capacity rule brings of what one who knows every group would get: `python -m bench.allocation`.

40 groups, mean rewards ~ Beta(.8, 4), costs log-uniform from 1 to 20, each awake with probability ½ in each of 200
windows of budget 150, at most U{1..12} fetches of a group in a window. With drift the groups change places after
100 windows. The rule itself is `scheduling.bandit` within `scheduling.allocation`; beside it the same rule with a
bonus that is not divided by the cost, and without a bonus.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawl_platform.scheduling.allocation import allocate
from crawl_platform.scheduling.bandit import FADE, width, worth

Floats = NDArray[np.float64]
Rule = Callable[[Floats, Floats, float, Floats], Floats]

GROUPS, WINDOWS, BUDGET = 40, 200, 150.0
FLAT = 1e9
"""Width of a utility that does not fade within a window."""
LINES = {"stationary": 0.95, "drift": 0.90}


def shipped(reward: Floats, fetches: Floats, so_far: float, cost: Floats) -> Floats:
    return worth(reward, fetches, so_far)


def undivided(reward: Floats, fetches: Floats, so_far: float, cost: Floats) -> Floats:
    """`allocate` divides by the cost, so the bonus is multiplied by it first."""
    mean = worth(reward, fetches, 0.0)
    return np.asarray(mean + cost * (worth(reward, fetches, so_far) - mean))


def greedy(reward: Floats, fetches: Floats, so_far: float, cost: Floats) -> Floats:
    """No bonus: what has brought most so far."""
    return worth(reward, fetches, 0.0)


RULES: dict[str, Rule] = {"shipped": shipped, "undivided": undivided, "greedy": greedy}


def play(seed: int, rule: Rule = shipped, *, drift: bool = False, cautious: bool = True) -> float:
    """Expected rewards of `rule` over those of one who knows every mean. `cautious`: fetches in flight count."""
    random = np.random.default_rng(seed)
    mean, cost = random.beta(0.8, 4.0, GROUPS), np.exp(random.uniform(0, np.log(20), GROUPS))
    reward, fetches = np.zeros(GROUPS), np.zeros(GROUPS)
    so_far, won, best = 0.0, 0.0, 0.0
    for window in range(WINDOWS):
        if drift and window == WINDOWS // 2:
            mean = random.permutation(mean)
        most = np.where(random.random(GROUPS) < 0.5, random.integers(1, 13, GROUPS), 0)
        known = width(fetches) if cautious else FLAT
        pulls = allocate(most, most, cost, rule(reward, fetches, so_far, cost), BUDGET, 0 * most, width=known)
        won += float(pulls @ mean)
        best += float(allocate(most, most, cost, mean, BUDGET, 0 * most, width=FLAT) @ mean)
        reward = FADE * reward + random.binomial(pulls, mean)
        fetches = FADE * fetches + pulls
        so_far += float(pulls.sum())
    return won / best


def measure(seeds: list[int]) -> dict[str, Any]:
    """Shares of the oracle by rule, without and with drift, and whether the shipped rule reaches its lines."""
    found: dict[str, Any] = {}
    for name, rule in RULES.items():
        for kind, drift in (("stationary", False), ("drift", True)):
            shares = [play(seed, rule, drift=drift) for seed in seeds]
            found.setdefault(name, {})[kind] = {
                "mean": float(np.mean(shares)), "min": min(shares), "by_seed": shares,
            }  # fmt: skip
    verdicts = {kind: found["shipped"][kind]["mean"] >= line for kind, line in LINES.items()}
    return {
        "seeds": seeds,
        "of_oracle": found,
        "lines": LINES,
        "verdicts": verdicts,
        "holds": all(verdicts.values()),
    }


def in_words(report: dict[str, Any]) -> str:
    """A line per rule, and one per line that the shipped one has to reach."""
    told = []
    for name, kinds in report["of_oracle"].items():
        shares = (f"{kind} {share['mean']:.3f} (min {share['min']:.3f})" for kind, share in kinds.items())
        told.append(f"{name:<10} {' '.join(shares)}")
    for kind, line in report["lines"].items():
        reached = report["of_oracle"]["shipped"][kind]["mean"]
        verdict = "reached" if report["verdicts"][kind] else "NOT reached"
        told.append(f"line {kind}: {line:.2f} of the oracle {verdict} ({reached:.3f})")
    return "\n".join(told)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.allocation", description=__doc__)
    parser.add_argument("--seeds", default="0,1,2,3,4,5,6,7,8,9")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    try:
        report = measure([int(seed) for seed in args.seeds.split(",")])
    except ValueError as error:
        parser.error(f"--seeds takes whole numbers by comma ({error})")
    print(json.dumps(report) if args.json else in_words(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
