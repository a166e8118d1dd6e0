"""How much one caller may ask: a bucket of calls that refills steadily."""

from dataclasses import dataclass

from crawl_platform.clock import Clock


@dataclass(frozen=True)
class Limits:
    """`rate`: calls per second in the long run; `burst`: calls at once; `explains` at a time, others wait."""

    rate: float = 20.0
    burst: float = 100.0
    explains: int = 2
    explains_waiting: int = 16


class RateLimit:
    """One bucket per caller, of whom there are as many as tokens. Not shared between processes."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, caller: str) -> float:
        """Take one call of `caller`: 0 if it may go on, else the seconds after which it may come again."""
        now = self._clock.boottime()
        left, since = self._buckets.pop(caller, (self._limits.burst, now))
        left = min(left + (now - since) * self._limits.rate, self._limits.burst)
        allowed = left >= 1.0
        self._buckets[caller] = (left - 1.0 if allowed else left, now)
        return 0.0 if allowed else (1.0 - left) / self._limits.rate
