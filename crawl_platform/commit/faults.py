"""Named points of the commit protocol at which a test may kill the process.

In production `Faults` does nothing. `KillAt` ends the process with SIGKILL, as a power cut would.
"""

import os
import signal

from crawl_platform.lake.upkeep.report import POINTS as UPKEEP_POINTS

STAGED = "cell.staged"
COMMITTED = "cell.committed"
PUBLISHED = "cell.published"
FORGOTTEN = "cell.forgotten"
SOME_TABLES = "committer.some_tables"
ALL_TABLES = "committer.all_tables"
VECTOR = "committer.vector"
ACKED = "committer.acked"
FORGOT, WRITTEN, DRAINED = "handoff.forgot", "handoff.written", "handoff.drained"
IMPORTING, IMPORTED, SWAPPED, ADOPTED, WIPED = (
    f"handoff.{name}" for name in ("importing", "imported", "swapped", "adopted", "wiped")
)
HANDOFF_POINTS = (FORGOT, WRITTEN, DRAINED, IMPORTING, IMPORTED, SWAPPED, ADOPTED, WIPED)
REBUILT_BASE, REBUILT = "rebuild.base", "rebuild.done"
REBUILD_POINTS = (REBUILT_BASE, REBUILT)

POINTS = (STAGED, COMMITTED, PUBLISHED, FORGOTTEN, SOME_TABLES, ALL_TABLES, VECTOR, ACKED)


class Faults:
    def reached(self, point: str) -> None:
        """Called when the process has just passed `point`."""


class KillAt(Faults):
    """Kill this process when it passes `point` for the `nth` time (1 = first)."""

    def __init__(self, point: str, nth: int = 1) -> None:
        known = POINTS + HANDOFF_POINTS + REBUILD_POINTS + UPKEEP_POINTS
        if point not in known:
            raise ValueError(f"no such fault point: {point!r} (one of {', '.join(known)})")
        self._point = point
        self._left = nth

    def reached(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def parse_fault(text: str) -> Faults:
    """`""` or `point:nth`."""
    if not text:
        return Faults()
    point, _, nth = text.partition(":")
    return KillAt(point, int(nth or 1))
