"""When pages change: homogeneous Poisson processes, drawn once from a key and extended on demand."""

import math
from bisect import bisect_right

import xxhash

_TOP = 2**64 - 2**11
"""Draws from here on round to 1.0, whose logarithm is infinite."""

_BEFORE = 2**64 - 1
"""Number of the wait before the first event counted; no process gets that far."""
_YEAR = 365 * 86_400.0


class Poisson:
    """Event times of a Poisson process of `rate` per second that starts at `start` (UTC seconds)."""

    __slots__ = ("_key", "_times", "rate", "start")

    def __init__(self, key: int, rate: float, start: float) -> None:
        self.rate = rate
        self.start = start
        self._key = key
        self._times: list[float] = []

    def count(self, t: float) -> int:
        """Events in (start, t]."""
        self._extend(t)
        return bisect_right(self._times, t)

    def between(self, t0: float, t1: float) -> list[float]:
        """Event times in (t0, t1], in order."""
        self._extend(t1)
        return self._times[bisect_right(self._times, t0) : bisect_right(self._times, t1)]

    def last(self, t: float) -> float:
        """Time of the last event at or before `t`; before the start it is as old as the rate lets expect."""
        n = self.count(t)
        return self._times[n - 1] if n else self.start - self._age()

    def _age(self) -> float:
        """Seconds from the last event before the start, at most a year: exponential, as the process forgets."""
        return min(_YEAR, self._wait(_BEFORE)) if self.rate > 0 else _YEAR

    def _wait(self, n: int) -> float:
        draw = xxhash.xxh3_64_intdigest(n.to_bytes(8, "little"), self._key)
        return -math.log1p(-min(draw, _TOP) / 2**64) / self.rate

    def _extend(self, t: float) -> None:
        if self.rate <= 0:
            return
        last = self._times[-1] if self._times else self.start
        while last <= t:
            last += self._wait(len(self._times))
            self._times.append(last)


class Stream:
    """Items that keep appearing: `stock` of them before the web starts, then one per Poisson event.

    Item `n` (from 0) exists at `t` if `n < count(t)`.
    """

    __slots__ = ("arrivals", "stock")

    def __init__(self, arrivals: Poisson, stock: int) -> None:
        self.arrivals = arrivals
        self.stock = stock

    def count(self, t: float) -> int:
        return self.stock + self.arrivals.count(t)

    def born(self, n: int, t: float) -> float | None:
        """When item `n` appeared, -inf for the stock; None if it doesn't exist at `t`."""
        if n < 0 or n >= self.count(t):
            return None
        if n < self.stock:
            return float("-inf")
        return self.arrivals.between(self.arrivals.start, t)[n - self.stock]
