"""Where a cell's CPU time goes: seconds per stage, counted as it is spent.

A span is closed before the loop's next step: nothing is awaited inside one. Spans may lie in one another; each second
belongs to the innermost. What no span covers is the wire's: sockets, TLS, HTTP and the event loop, most of which is
the libraries' and can't be told apart from here.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

INFLATE, DIGEST, ROWS, FRONTIER, COMMIT, WIRE = "inflate", "digest", "rows", "frontier", "commit", "wire"
MEASURED = (INFLATE, DIGEST, ROWS, FRONTIER, COMMIT)
CPU = "cpu."
"""Before the name of a stage in a heartbeat: CPU seconds since the cell started."""


class _Span:
    """A generator would take three times as long, and a page has some ten of these."""

    __slots__ = ("_stage", "_stages")

    def __init__(self, stages: "Stages", stage: str) -> None:
        self._stages, self._stage = stages, stage

    def __enter__(self) -> None:
        self._stages.enter(self._stage)

    def __exit__(self, *_: object) -> None:
        self._stages.leave()


class Stages:
    """`clock`: CPU seconds of the calling thread."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(MEASURED, 0.0)
        self._open: list[str] = []
        self._since = 0.0
        self._spans = {stage: _Span(self, stage) for stage in MEASURED}

    def of(self, stage: str) -> AbstractContextManager[None]:
        """The loop's thread works on `stage`."""
        return self._spans[stage]

    def enter(self, stage: str) -> None:
        self._charge()
        self._open.append(stage)

    def leave(self) -> None:
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
