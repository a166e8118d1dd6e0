"""Whether the log of one policy tells what another would have brought: `python -m bench.offline [--json]`.

Windows of made-up groups, in which the shipped lottery (`scheduling.bandit.by_chance`) gives the random share.
Each candidate of `assets.policy_evaluation` is valued from such logs, and then run in the same world on windows of its
own: its true value. Told are, for each method, how often its 95 % interval holds the truth, and how far estimates
spread; and the same where the logged propensities are wrong, which no estimator survives.
"""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assets.policy_evaluation import CANDIDATES, Rows, estimates
from crawl_platform.scheduling.bandit import RANDOM_SHARE, by_chance
from crawl_platform.scheduling.offline import METHODS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GROUPS, WINDOWS, USABLE = 40, 200, 195.0
TRUTH_WINDOWS = 16_000
COVERED = 0.85
"""Least share of logs whose interval holds the truth: 0.95 are promised, and forty logs may show 0.88 by chance."""
MISLED = 0.5
"""Wrong propensities have to show: the most that intervals may hold of the truth then."""


class World(NamedTuple):
    """By group: mean news of a fetch, and its cost."""

    mean: Floats
    cost: Floats


class Windows(NamedTuple):
    """Logged rows; by row its group, the mean news of a fetch, the fetches that are made anyway and those by lot."""

    rows: Rows
    group: Ints
    mean: Floats
    kept: Floats
    unit: Floats

    def worth(self, candidate: Floats) -> float:
        """What one who is lucky with these probabilities brings in these very windows, on average."""
        return float(((self.kept + candidate * self.unit) * self.mean).mean())


def world_of(seed: int) -> World:
    random = np.random.default_rng(seed)
    return World(random.beta(0.8, 4.0, GROUPS), np.exp(random.uniform(0, np.log(20), GROUPS)))


def windows_of(world: World, windows: int, random: np.random.Generator, *, fair: bool = True) -> Windows:
    """Windows in which half of the groups are awake, with work of their own, of which half is done anyway.

    Not `fair`: large groups are drawn more often than the propensities say.
    """
    eligible = np.where(random.random((windows, GROUPS)) < 0.5, random.integers(1, 13, (windows, GROUPS)), 0)
    draws = [by_chance(room, USABLE, random) for room in eligible]
    window, group = np.nonzero(eligible)
    given = np.array([draw.given for draw in draws])[window, group]
    propensity = np.array([draw.propensity for draw in draws])[window, group]
    work = eligible[window, group].astype(np.float64)
    blank = np.zeros(len(window))
    chance = np.where(given > 0, propensity, 1.0 - propensity)
    rows = Rows(window, given > 0, chance, work, world.cost[group], blank, blank, blank, blank)
    if not fair:
        rows = replace(rows, lucky=random.random(len(window)) < rows.share(work**2))
    unit = np.ceil(RANDOM_SHARE * USABLE / np.bincount(window, minlength=windows))[window]
    return played(Windows(rows, group, world.mean[group], work // 2, np.minimum(unit, work)), random)


def played(windows: Windows, random: np.random.Generator) -> Windows:
    """With the fetches and news that come of who was lucky."""
    lucky = windows.rows.lucky
    anyway, by_lot = fetched(windows, random)
    news = anyway + lucky * by_lot
    fetches = windows.kept + lucky * windows.unit
    usual = before(news, windows.group)
    return windows._replace(rows=replace(windows.rows, fetches=fetches, news=news, usual=usual))


def fetched(windows: Windows, random: np.random.Generator) -> tuple[Floats, Floats]:
    """News of the fetches that are made anyway, and of those by lot, if they are made."""
    anyway, by_lot = (
        random.binomial(fetches.astype(np.int64), windows.mean).astype(np.float64)
        for fetches in (windows.kept, windows.unit)
    )
    return anyway, by_lot


def before(values: Floats, group: Ints) -> Floats:
    """Mean of the earlier values of the same group, 0 before any; rows are in order of time."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], group[order])
    total = np.concatenate(([0.0], np.cumsum(values[order])))
    place = np.arange(len(values))
    found = np.empty(len(values))
    found[order] = (total[place] - total[starts]) / np.maximum(place - starts, 1)
    return found


class Truth(NamedTuple):
    """News per group and window of a candidate that is run, the standard error of that, and how much more it is than
    the shipped policy brought in the same windows."""

    value: float
    error: float
    gain: float


def truth(world: World, name: str, random: np.random.Generator) -> Truth:
    """The candidate and the shipped policy, run in the same windows: other draws, the same news to be had."""
    windows = windows_of(world, TRUTH_WINDOWS, random)
    lucky = random.random(len(windows.mean)) < CANDIDATES[name](windows.rows)
    anyway, by_lot = fetched(windows, random)
    news, shipped = anyway + lucky * by_lot, anyway + windows.rows.lucky * by_lot
    error = float(news.std() / np.sqrt(len(news)))
    return Truth(float(news.mean()), error, float((news - shipped).mean()))


def measure(seed: int, logs: int) -> dict[str, Any]:
    """Each candidate's truth, and the estimates from so many logs with right and with wrong propensities."""
    world, random = world_of(seed), np.random.default_rng((seed, 1))
    right = [windows_of(world, WINDOWS, random) for _ in range(logs)]
    wrong = [windows_of(world, WINDOWS, random, fair=False) for _ in range(logs)]
    report: dict[str, Any] = {"seed": seed, "logs": logs, "windows": WINDOWS, "candidates": {}}
    for name in (name for name in CANDIDATES if name != "shipped"):
        true = truth(world, name, random)
        report["candidates"][name] = {
            "truth": true.value,
            "truth_error": true.error,
            "true_gain": true.gain,
            "shipped": float(np.mean([log.rows.news.mean() for log in right])),
            "methods": judged(name, true, right),
            "wrong_propensities": judged(name, true, wrong),
        }
    report["holds"] = holds(report)
    return report


def judged(name: str, true: Truth, logs: list[Windows]) -> dict[str, dict[str, Any]]:
    """By method: mean and error of the estimates of `logs`, share of intervals with the truth, one in words.

    `noise` is the spread of estimates around what the candidate would have brought in the very windows of each log.
    """
    rule = CANDIDATES[name]
    found = [[row for row in estimates(log.rows, rule) if row["outcome"] == "news"] for log in logs]
    worth = np.array([log.worth(rule(log.rows)) for log in logs])
    by_method = {}
    for place, method in enumerate(METHODS):
        rows = [of_log[place] for of_log in found]
        values = np.array([row["value"] for row in rows])
        by_method[method] = {
            "mean": float(values.mean()),
            "bias": float(values.mean()) - true.value,
            "gain": float(np.mean([row["gain"] for row in rows])),
            "noise": float((values - worth).std(ddof=1)),
            "covered": float(np.mean([row["low"] <= true.value <= row["high"] for row in rows])),
            "gain_covered": float(
                np.mean([row["gain_low"] <= true.gain <= row["gain_high"] for row in rows])
            ),
            "effective": float(np.mean([row["effective"] for row in rows])),
            "first": rows[0]["verdict"],
        }
    return by_method


def holds(report: dict[str, Any]) -> bool:
    """Intervals hold the truth, a model takes noise out on average, and wrong propensities mislead."""
    right = [found["methods"] for found in report["candidates"].values()]
    covered = all(
        min(method["covered"], method["gain_covered"]) >= COVERED
        for methods in right
        for method in methods.values()
    )
    model, plain = (
        np.mean([methods[name]["noise"] for methods in right])
        for name in ("doubly robust", "inverse propensity")
    )
    wrong = report["candidates"]["no random share"]["wrong_propensities"]
    return bool(covered and model < plain and wrong["inverse propensity"]["covered"] <= MISLED)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.offline", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    if args.logs < 2:
        parser.error("--logs takes 2 or more: one estimate has no spread")
    report = measure(args.seed, args.logs)
    if args.json:
        print(json.dumps(report))
        return 0
    for name, found in report["candidates"].items():
        run = f"{found['truth']:.4f} ± {found['truth_error']:.4f}"
        print(f"{name}: {run} when run, {found['true_gain']:+.4f} on what is shipped")
        for kind, remark in (("methods", ""), ("wrong_propensities", ", propensities wrong")):
            for method, told in found[kind].items():
                print(
                    f"  {method:<19} {told['mean']:.4f} noise {told['noise']:.4f}, gain {told['gain']:+.4f}; intervals"
                    f" hold them in {told['covered']:.0%} and {told['gain_covered']:.0%}{remark}"
                )
    print("holds" if report["holds"] else "does not hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
