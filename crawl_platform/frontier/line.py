"""Who is served first when more hosts are ready than there are slots: the one whose next visit is worth most.

Worth grows with age, so whoever waits is put on the agenda to be looked at anew now and then. And each `OLDEST`-th turn
is that of the host which has waited longest: a host of little worth is served late, not never.
"""

import heapq
import math
from collections.abc import Callable

from crawl_platform.frontier.hosts import Agenda

OLDEST = 33
"""One turn in so many goes by waiting alone (3 %)."""
ENTRANTS = 16
"""Hosts that join the line at one claim, at most: after a start all are due at once."""
LOOK_ANEW = 0.1
"""Part of a page's age after which what it is worth is looked at anew."""


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

    def next_due(
        self, agenda: Agenda, boot: float, look: Callable[[str], tuple[float, float]], *, crowded: bool
    ) -> str | None:
        """The host whose turn it is, of those in line and those on the agenda until `boot`; None if there is none.

        `look`: what the next visit of a host is worth, and the age (seconds) that this comes from; an infinite age if
        there is nothing to look at again. Unless it is `crowded`, all who are due have a slot, and in which order
        they come is all the same.
        """
        first = agenda.pop_due(boot)
        if not (crowded or self._waiting):
            return first
        for _ in range(ENTRANTS):
            if first is None:
                break
            worth, age = look(first)
            self.enter(first, worth)
            if age < math.inf:
                agenda.put(first, boot + max(age * LOOK_ANEW, 1.0))
            first = agenda.pop_due(boot)
        if first is not None:
            agenda.put(first, boot)
        host = self.next()
        if host is not None:
            agenda.drop(host)
        return host
