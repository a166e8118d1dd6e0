"""How long an answer may take: a deadline for each of its phases and a least rate. Sans-IO; times in seconds.

Told of the request's write, of bytes and of the head's end; says when an answer has been waited for long enough.
"""

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch


class Deadlines:
    __slots__ = ("_begun", "_headed", "_last", "_mark", "_phase", "_received", "_settings", "first_byte_at")

    def __init__(self, settings: Fetch, now: float) -> None:
        self._settings = settings
        self._begun = self._last = now
        self._headed = False
        self._phase = 0
        self._received = 0
        self._mark = (now, 0)
        self.first_byte_at = 0.0

    def received(self, size: int, now: float) -> None:
        if not self.first_byte_at:
            self.first_byte_at = now
            self._mark = (now, 0)
        self._received += size
        self._last = now

    def phase(self, headed: bool) -> bool:
        """Told whether the final head has been read; whether a new phase has begun since this was last called."""
        before, self._phase = self._phase, 1 + headed
        self._headed = headed
        return before != self._phase

    def due(self) -> float:
        """The earliest time at which the verdict could be other than None if no more bytes came."""
        s = self._settings
        total = self._begun + s.total_timeout
        if not self.first_byte_at:
            return min(total, self._begun + s.first_byte_timeout)
        due = min(total, self._last + s.read_timeout, self._mark[0] + s.rate_window)
        return due if self._headed else min(due, self._begun + s.head_timeout)

    def verdict(self, now: float) -> SiteError | None:
        """Why the answer is cut off at `now`, or None if it may go on. Ends a window of the rate when it is over."""
        s = self._settings
        if not self.first_byte_at:
            if now >= self._begun + min(s.first_byte_timeout, s.total_timeout):
                return SiteError(Outcome.FIRST_BYTE_TIMEOUT, f"no byte within {now - self._begun:.1f} s")
            return None
        if now >= self._last + s.read_timeout:
            return SiteError(Outcome.READ_TIMEOUT, f"no byte for {now - self._last:.1f} s")
        if not self._headed and now >= self._begun + s.head_timeout:
            return SiteError(Outcome.TOO_SLOW, f"no whole head within {now - self._begun:.1f} s")
        if now >= self._begun + s.total_timeout:
            return SiteError(
                Outcome.TOO_SLOW, f"{self._received} bytes and no end in {now - self._begun:.1f} s"
            )
        return self._rate(now)

    def _rate(self, now: float) -> SiteError | None:
        since, before = self._mark
        if now < since + self._settings.rate_window:
            return None
        rate = (self._received - before) / (now - since)
        if rate < self._settings.min_rate:
            return SiteError(Outcome.TOO_SLOW, f"{rate:.0f} bytes per second over {now - since:.1f} s")
        self._mark = (now, self._received)
        return None
