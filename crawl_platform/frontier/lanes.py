"""Which page of a host is next, once it is the host's turn: pure choice, nothing is claimed here.

Fastlane > freshlane > deadline > discovery | refresh, the last two by the live split; among pages due for refresh the
best (`revisits`). A host that has used up its allotment of the window has the urgent lanes only.
"""

import math
from collections.abc import Callable

from crawl_platform.frontier.hosts import Entry, HostState
from crawl_platform.frontier.kv import OrderedKV
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import (
    DEADLINE,
    DISCOVERY,
    FASTLANE,
    FRESHLANE,
    REFRESH,
    HostRecord,
    UrlRecord,
)
from crawl_platform.frontier.revisits import Revisits
from crawl_platform.frontier.windows import NONE, Windows
from crawl_platform.scheduling.split import SplitCredit, target_share
from crawl_platform.settings import Refresh

URGENT = (FASTLANE, FRESHLANE, DEADLINE)


class Lanes:
    """`backlog`: URLs that wait for their first success. `delay`: seconds between two requests, in force for a host."""

    def __init__(
        self,
        kv: OrderedKV,
        windows: Windows,
        revisits: Revisits,
        settings: Refresh,
        backlog: Callable[[], int],
        delay: Callable[[HostRecord, str], float],
    ) -> None:
        self._kv = kv
        self._windows = windows
        self.revisits = revisits
        self._settings = settings
        self._backlog = backlog
        self._delay = delay
        self.split = SplitCredit()
        self.emit_rate = 0.0
        """Fetches per second of late."""

    def choose(self, state: HostState, now: float) -> tuple[int, Entry, float | None] | None:
        """(lane, entry, share at which the split is charged) for a host whose turn it is; no share where only one
        lane has work."""
        urgent = self._urgent(state, now)
        if urgent is not None:
            return *urgent, None
        if self._windows.in_force(state.shard, now) is not None:
            if self._windows.spent(state, now):
                return None
            state.bar(self._windows.spent_groups(state, now))
        elif state.barred:
            state.bar(NONE)
        new, old = self._ripe(state, DISCOVERY, now), self._ripe(state, REFRESH, now)
        share = self.share() if new is not None and old is not None else None
        if new is not None and (share is None or self.split.next_lane(share) == "discovery"):
            return DISCOVERY, new, share
        page = self.revisits.best(state, self._kv, now)
        if page is None:
            page = self.revisits.spare(state, self._kv, now)
        return None if page is None else (REFRESH, page, share)

    def worth(self, state: HostState, now: float) -> tuple[float, float]:
        """What the host's next visit is worth (days of freshness), and the age (seconds) that this comes from; an
        infinite worth has a host that is to be seen to at once, be it to find that it has no turn."""
        if self._urgent(state, now) is not None or self._windows.spent(state, now):
            return math.inf, 0.0
        state.bar(self._windows.spent_groups(state, now))
        return self.revisits.worth(state, self._kv, now)

    def _urgent(self, state: HostState, now: float) -> tuple[int, Entry] | None:
        if not state.may_have(URGENT):
            return None
        for lane in URGENT:
            entry = self._ripe(state, lane, now)
            if entry is not None:
                return lane, entry
        return None

    def _ripe(self, state: HostState, lane: int, now: float) -> Entry | None:
        head = state.head(self._kv, lane)
        return head if head is not None and head.rank <= now * 1000 else None

    def share(self) -> float:
        """Discovery's present share of the turns that both lanes want."""
        settings = self._settings
        return target_share(
            self._backlog(),
            self.emit_rate,
            floor=settings.split_floor,
            ceiling=settings.split_ceiling,
            drain_short=settings.drain_short,
            drain_long=settings.drain_long,
        )

    def charge(self, state: HostState, lane: int, record: UrlRecord, share: float | None, now: float) -> None:
        """Count the turn."""
        self._windows.charge(state, lane, record.group)
        if lane in URGENT:
            return
        if lane == REFRESH:
            state.refresh_turns += 1
            self.revisits.taken(state, record, now, self._delay(state.record, state.host))
        if share is None:
            self.split.lend()
        else:
            self.split.charge(share)

    def refund(self, state: HostState, lease: Lease) -> None:
        """No request was sent: the turn counts for nothing."""
        self._windows.charge(state, lease.lane, lease.record.group, -1)
        if lease.lane not in URGENT:
            state.refresh_turns -= lease.lane == REFRESH
            self.split.take_back("discovery" if lease.lane == DISCOVERY else "refresh", lease.share)
