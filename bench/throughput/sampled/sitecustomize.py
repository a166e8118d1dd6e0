"""Samples of a cell, for `bench.flame`, which puts this folder on the path of the fleet that it starts.

The kernel's clock of CPU time (setitimer(2), ITIMER_PROF) interrupts the cell's main thread, which notes its stack: so
a sample is a slice of CPU, not of time, and other work on the machine does not show. C code counts for the line that
called it; what other threads of the process spend counts for whatever the loop is doing.
"""

import collections
import os
import signal
import sys
from pathlib import Path
from types import FrameType

EVERY = 0.004
"""CPU seconds between two samples; the kernel's tick allows no less."""
START, STOP = signal.SIGRTMIN + 5, signal.SIGRTMIN + 6
TARGET = "BENCH_SAMPLES"
"""Environment: the file that the stacks go to, one per line, outermost frame first, with how often it was met."""

_met: collections.Counter[tuple[str, ...]] = collections.Counter()


def _sample(_signal: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append(f"{code.co_filename}:{code.co_qualname}")
        frame = frame.f_back
    _met[tuple(reversed(stack))] += 1


def _start(_signal: int, _frame: FrameType | None) -> None:
    _met.clear()
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    draft = Path(os.environ[TARGET] + ".tmp")
    draft.write_text("".join(f"{';'.join(stack)} {times}\n" for stack, times in _met.items()))
    draft.replace(os.environ[TARGET])


if TARGET in os.environ and "cell" in sys.orig_argv:
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(START, _start)
    signal.signal(STOP, _stop)
