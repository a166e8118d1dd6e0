"""Where a cell's CPU time goes: seconds per stage, counted as it is spent.

A span is closed before the loop's next step: nothing is awaited inside one. Spans may lie in one another; each second
belongs to the innermost. What no span covers is the wire's: sockets, TLS, HTTP and the event loop, most of which is
the libraries' and can't be told apart from here.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INFLATE, DIGEST, ROWS, FRONTIER, COMMIT, WIRE = "inflate", "digest", "rows", "frontier", "commit", "wire"
MEASURED = (INFLATE, DIGEST, ROWS, FRONTIER, COMMIT)
CPU = "cpu."
"""Before the name of a stage in a heartbeat: CPU seconds since the cell started."""


class Stages:
    """`clock`: CPU seconds of the calling thread."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(MEASURED, 0.0)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """The loop's thread works on `stage`."""
        self._charge()
        self._open.append(stage)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    @contextmanager
    def elsewhere(self, stage: str) -> Iterator[None]:
        """A thread of its own works on `stage`."""
        begun = self._clock()
        try:
            yield
        finally:
            self.add(stage, self._clock() - begun)

    def add(self, stage: str, seconds: float) -> None:
        self._seconds[stage] += seconds

    def shares(self, total: float) -> dict[str, float]:
        """Seconds per stage of `total`, the process' CPU seconds."""
        rest = max(total - sum(self._seconds.values()), 0.0)
        return {**self._seconds, WIRE: rest}

    def _charge(self) -> None:
        now = self._clock()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now
