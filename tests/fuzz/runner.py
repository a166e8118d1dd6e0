"""A fuzzing campaign: `python -m tests.fuzz.runner [--inputs 1000000] [--seed 0] [--target url]`.

Half of the inputs come from the target's grammar, half are mutated cases, and a few are a piece of one over and over.
An input that raises, or that takes longer than 50 ms of CPU per 100 KB, is made smaller and written to
`tests/fuzz/found/`, where `make test` replays it. Prints inputs per second, the slowest input, and the share of the
target's lines that a sample of inputs ran.
"""

import argparse
import ast
import hashlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

import crawl_platform
from tests.fuzz.mutate import mutate, pump
from tests.fuzz.targets import BY_NAME, FOUND, TARGETS, Target, corpus_of

LIMIT = 0.05
"""Seconds of CPU for an input of up to 100 KB, and for each 100 KB of a longer one."""
UNIT = 100_000
SAMPLE = 1_500
"""Inputs that are run again under a tracer, which costs some forty times as much."""
PUMPED_ONE_IN = 100
"""Pairs of inputs after which there is a very long one."""
SMALLER_STEPS = 400
ROOM = Path(crawl_platform.__file__).parent

Run = Callable[[bytes], object]


@dataclass
class Report:
    target: str
    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    """Share of the limit that the slowest input took (its best of three, if it was over)."""
    slowest_size: int = 0
    crashes: list[tuple[bytes, str]] = field(default_factory=list)
    slow: list[tuple[bytes, float]] = field(default_factory=list)
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Module → (lines run, lines)."""

    @property
    def clean(self) -> bool:
        return not self.crashes and not self.slow

    @property
    def coverage(self) -> float:
        run, all_ = (sum(pair[n] for pair in self.lines.values()) for n in (0, 1))
        return run / all_ if all_ else 0.0

    def words(self) -> str:
        return (
            f"{self.target}: {self.inputs:,} inputs, {self.inputs / max(self.seconds, 1e-9):,.0f}/s, "
            f"slowest {self.slowest * LIMIT * 1000:.1f} ms per 100 KB ({self.slowest_size} bytes), "
            f"{len(self.crashes)} crashes, {len(self.slow)} over the limit, lines run {self.coverage:.0%} "
            f"({', '.join(f'{name} {run}/{all_}' for name, (run, all_) in self.lines.items())})"
        )


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """Without end; the same for the same seed."""
    rnd = Random(f"{target.name} {seed}")
    corpus = corpus_of(target)
    while True:
        yield target.make(rnd)
        yield mutate(rnd, rnd.choice(corpus), corpus)
        if rnd.randrange(PUMPED_ONE_IN) == 0:
            yield pump(rnd, rnd.choice((target.make(rnd), rnd.choice(corpus))))


def allowed(size: int) -> float:
    """Seconds for an input of `size` bytes."""
    return LIMIT * max(size / UNIT, 1.0)


def cost(run: Run, data: bytes) -> float:
    begun = time.thread_time()
    run(data)
    return time.thread_time() - begun


def campaign(target: Target, count: int, seed: int, *, trace: bool = True) -> Report:
    """Run `count` inputs; with `trace` the lines that a sample of them runs are counted afterwards."""
    report = Report(target.name)
    begun = time.perf_counter()
    source = inputs(target, seed)
    for _ in range(count):
        data = next(source)
        report.inputs += 1
        try:
            _time(report, target, data)
        except Exception as error:
            report.crashes.append((data, f"{type(error).__name__}: {error}"[:300] + _where(error)))
    report.seconds = time.perf_counter() - begun
    report.lines = covered(target, seed) if trace else {}
    return report


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {frame.filename.rpartition('/')[2]}:{frame.lineno}"


def _time(report: Report, target: Target, data: bytes) -> None:
    run, size = target.run, target.size(data)
    limit = allowed(size)
    taken = cost(run, data)
    if taken > limit:  # the machine may have been busy, or the collector may have run
        taken = min(taken, *(cost(run, data) for _ in range(3)))
        if taken > limit:
            report.slow.append((data, taken))
    if taken / limit > report.slowest:
        report.slowest, report.slowest_size = taken / limit, size


# lines


def covered(target: Target, seed: int, sample: int = SAMPLE) -> dict[str, tuple[int, int]]:
    """Lines of the target's modules that a sample of its inputs runs."""
    files = {str(path): _lines_of(path) for pattern in target.modules for path in sorted(ROOM.glob(pattern))}
    met: dict[str, set[int]] = {name: set() for name in files}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        lines = met.get(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)
        return trace

    source = inputs(target, seed)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in range(sample):
            try:
                target.run(next(source))
            except Exception:
                continue  # the campaign has counted it
    finally:
        sys.settrace(before)
    return {name.rpartition("/")[2]: (len(met[name] & lines), len(lines)) for name, lines in files.items()}


def _lines_of(path: Path) -> set[int]:
    """Lines inside functions: those that import runs say nothing about inputs. Machine code isn't traced."""
    source = path.read_text("utf-8")
    module = compile(source, str(path), "exec")
    untraced = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "compiled" for mark in node.decorator_list)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    found: set[int] = set()
    waiting = [const for const in module.co_consts if isinstance(const, CodeType)]
    while waiting:
        code = waiting.pop()
        if code.co_flags & 0x1:  # CO_OPTIMIZED: a function, not the body of a class
            found |= {
                line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno
            }
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
    return found - untraced


# what was found


def smaller(data: bytes, still_bad: Callable[[bytes], bool]) -> bytes:
    """`data` with as much taken away as leaves it bad."""
    size, steps = max(len(data) // 2, 1), 0
    while size and steps < SMALLER_STEPS:
        at = 0
        while at < len(data) and steps < SMALLER_STEPS:
            steps += 1
            shorter = data[:at] + data[at + size :]
            if still_bad(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def keep(report: Report) -> list[str]:
    """Write what was found, made smaller, to `found/`; returns the files' names."""
    run = BY_NAME[report.target].run
    names = []
    for data, why in report.crashes[:5]:
        kind = why.partition(":")[0]
        names.append(_write(report.target, smaller(data, lambda one, kind=kind: _raises(run, one) == kind)))
    for data, _ in report.slow[:5]:
        names.append(_write(report.target, data))
    return names


def _raises(run: Run, data: bytes) -> str:
    try:
        run(data)
    except Exception as error:
        return type(error).__name__
    return ""


def _write(target: str, data: bytes) -> str:
    path = FOUND / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path.name


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, split over the targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=list(BY_NAME), help="this one alone")
    arguments = parser.parse_args()
    chosen = [BY_NAME[arguments.target]] if arguments.target else TARGETS
    clean = True
    for target in chosen:
        share = 1.0 if arguments.target else target.share
        report = campaign(target, round(arguments.inputs * share), arguments.seed)
        say(report.words())
        for data, why in report.crashes[:5]:
            say(f"  {why}: {data[:200]!r}")
        for data, seconds in report.slow[:5]:
            say(f"  {seconds * 1000:.0f} ms for {len(data)} bytes: {data[:100]!r}")
        for name in keep(report):
            say(f"  kept as found/{name}")
        clean &= report.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
