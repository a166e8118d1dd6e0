"""One seed in a process of its own: `python -m bench.freshness.seeds`, told on stdin what to do, answers on stdout.

A plain child process: a forked one inherits the locks of whatever threads its parent has, and may wait for ever.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench.freshness.crawl import Score, crawl
from bench.freshness.world import Params, generate, optimum

ROOT = Path(__file__).parents[2]


class Task(msgspec.Struct):
    params: Params
    policies: tuple[str, ...]
    seed: int


def of_seed(task: Task) -> dict[str, dict[str, float]]:
    """The figures of each policy in the world of one seed; `true` is always among them."""
    world = generate(task.params, task.seed)
    best, truth = optimum(world), crawl(world, "true")
    names = (*task.policies, "true")
    scores = {name: truth if name == "true" else crawl(world, name) for name in names}
    return {name: _figures(score, truth, best) for name, score in scores.items()}


def _figures(score: Score, truth: Score, best: float) -> dict[str, float]:
    return {
        "paired_ratio": score.late / truth.late,
        "early_ratio": score.early / truth.early,
        "ratio_to_optimum": score.late / best,
        "freshness": score.late,
        "catch": score.catches / max(score.fetches, 1),
        "fetches": score.fetches,
    }


def of_seeds(
    params: Params, policies: tuple[str, ...], seeds: list[int]
) -> list[dict[str, dict[str, float]]]:
    """`of_seed` of each, as many at once as there are cores. Raises `CalledProcessError` if one fails."""
    tasks = [Task(params, policies, seed) for seed in seeds]
    if len(tasks) == 1:
        return [of_seed(tasks[0])]
    with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1)) as threads:
        return list(threads.map(_by_child, tasks))


def _by_child(task: Task) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "bench.freshness.seeds"]
    done = subprocess.run(
        command, cwd=ROOT, input=msgspec.json.encode(task), stdout=subprocess.PIPE, check=True
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def main() -> None:
    found = of_seed(msgspec.json.decode(sys.stdin.buffer.read(), type=Task))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
