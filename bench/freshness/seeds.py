"""One seed in a process of its own: `python -m bench.freshness.seeds`, told on stdin what to do, answers on stdout.

A plain child process: a forked one inherits the locks of whatever threads its parent has, and may wait for ever.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from crawl_platform.scheduling.comparison.crawl import Figures, compared
from crawl_platform.scheduling.comparison.world import Params, generate

ROOT = Path(__file__).parents[2]


class Task(msgspec.Struct):
    params: Params
    policies: tuple[str, ...]
    seed: int


def of_seed(task: Task) -> dict[str, Figures]:
    """The figures of each policy in the world of one seed; `true` is always among them."""
    return compared(generate(task.params, task.seed), task.policies)


def of_seeds(params: Params, policies: tuple[str, ...], seeds: list[int]) -> list[dict[str, Figures]]:
    """`of_seed` of each, as many at once as there are cores. Raises `CalledProcessError` if one fails."""
    tasks = [Task(params, policies, seed) for seed in seeds]
    if len(tasks) == 1:
        return [of_seed(tasks[0])]
    with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1)) as threads:
        return list(threads.map(_by_child, tasks))


def _by_child(task: Task) -> dict[str, Figures]:
    command = [sys.executable, "-m", "bench.freshness.seeds"]
    done = subprocess.run(
        command, cwd=ROOT, input=msgspec.json.encode(task), stdout=subprocess.PIPE, check=True
    )
    return msgspec.json.decode(done.stdout, type=dict[str, Figures])


def main() -> None:
    found = of_seed(msgspec.json.decode(sys.stdin.buffer.read(), type=Task))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
