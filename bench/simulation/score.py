"""How fresh a crawler's copies were: what product and oracle are both measured by."""

import numpy as np
from numpy.typing import NDArray

from bench.simulation.web import Web


class Copies:
    """The crawler's copies of a web's pages. `windows`: spans of days whose freshness is counted."""

    def __init__(self, web: Web, windows: tuple[tuple[float, float], ...]) -> None:
        self.web = web
        self.windows = windows
        self.fetched = np.full(len(web.url), np.nan)
        """Day of the last visit; NaN before the first."""
        self._stale_at = np.full(len(web.url), np.nan)
        self._fresh = np.zeros(len(windows))
        self.visits = 0

    def visit(self, page: int, now: float) -> bool | None:
        """A copy is taken at `now` (days); whether it differs from the last, None if it is the first."""
        self.visits += 1
        changed = None
        if not np.isnan(self.fetched[page]):
            changed = bool(self._stale_at[page] <= now)
            self._count(page, now)
        self.fetched[page], self._stale_at[page] = now, self.web.next_change(page, now)
        return changed

    def _count(self, page: int, until: float) -> None:
        since, end = self.fetched[page], min(self._stale_at[page], until)
        for n, (start, stop) in enumerate(self.windows):
            self._fresh[n] += self.web.importance[page] * max(min(end, stop) - max(since, start), 0.0)

    def freshness(self, end: float) -> NDArray[np.float64]:
        """Importance-weighted share of time, by window, that copies equalled the published pages. Ends the counting."""
        for page in np.flatnonzero(~np.isnan(self.fetched)):
            self._count(int(page), end)
        whole = [
            (self.web.importance * np.maximum(stop - np.maximum(start, self.web.born), 0.0)).sum()
            for start, stop in self.windows
        ]
        return np.asarray(self._fresh / whole)
