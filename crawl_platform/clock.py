"""Time as a constructor argument: nothing outside this file reads the system's clocks.

Two readings, both in seconds. `now` is UTC since 1970 and may step; it goes into rows and due times.
`boottime` never steps and goes on through suspend; delays, deadlines and liveness are measured with it.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

DAY = 86_400.0
"""Seconds."""


class Clock(Protocol):
    def now(self) -> float:
        """UTC seconds since 1970. May step either way."""
        ...

    def boottime(self) -> float:
        """Seconds since boot, never stepping; comparable between processes of one machine."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class ManualClock:
    """A clock that moves only when told; for tests and virtual time."""

    def __init__(self, now: float = 1_800_000_000.0, boottime: float = 1_000.0) -> None:
        self._now = now
        self._boottime = boottime

    def now(self) -> float:
        return self._now

    def boottime(self) -> float:
        return self._boottime

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both readings."""
        self._now += seconds
        self._boottime += seconds

    def step(self, seconds: float) -> None:
        """Step the wall clock (an operator or NTP did it); boottime does not move."""
        self._now += seconds


def as_datetime(seconds: float) -> datetime:
    """UTC `datetime` of `seconds` since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
