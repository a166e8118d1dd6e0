"""Who is served first when more hosts are ready than there are slots: the one whose next visit is worth most.

Worth grows with age, so whoever waits is looked at anew now and then (`Frontier` puts it on the agenda for that). And
each `OLDEST`-th turn is that of the host which has waited longest: a host of little worth is served late, not never.
"""

import heapq

OLDEST = 33
"""One turn in so many goes by waiting alone (3 %)."""


class Line:
    """Hosts whose time has come, by worth (days of freshness); of equals the one that came first."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, int]] = {}
        """In order of arrival."""
        self._heap: list[tuple[float, int, str]] = []
        self._entered = 0
        self._turns = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, host: str, worth: float) -> None:
        """`host` waits from now on, or is worth something else than it was; its place by waiting stays."""
        self._entered += 1
        self._waiting[host] = -worth, self._entered
        heapq.heappush(self._heap, (-worth, self._entered, host))

    def next(self) -> str | None:
        """The host whose turn it is, taken out; None if nobody waits."""
        if not self._waiting:
            return None
        self._turns += 1
        if self._turns % OLDEST == 0:
            host = next(iter(self._waiting))
            del self._waiting[host]
            return host
        while True:
            worth, entered, host = heapq.heappop(self._heap)
            if self._waiting.get(host) == (worth, entered):
                del self._waiting[host]
                return host
