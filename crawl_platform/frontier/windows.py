"""What schedule windows allot: fetches per host, and within a host per URL group, until the window ends.

A shard has its own window. Turns are charged at the claim and given back if no request was sent; the fastlane is
outside every allotment. A host or group that has used up its own waits for the window's end, or until turns are lent:
when fewer turns of the window have been used than its hosts should have used by then, some can't make use of theirs,
and whoever has the best page may. Else turns of pages that were planned for and are not there are lost (decision 0030).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.records import FASTLANE, HostRecord

NONE: frozenset[int] = frozenset()
LOOKS = 8
"""Times in a window that a host which has used up its own looks whether turns are lent."""


@dataclass(slots=True)
class Window:
    """The schedule window of a shard: fetches per host until `ends_at` (UTC seconds).

    `groups`: host → group → fetches, caps within the host's allotment. Hosts and groups that are not named are
    bound by politeness, and by what their host has.
    """

    window_id: str
    ends_at: float
    allocations: Mapping[str, int]
    groups: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def usable(self) -> int:
        """Turns that named hosts were given, as far as their groups may use them."""
        return sum(
            min(given, sum(self.groups[host].values())) if host in self.groups else given
            for host, given in self.allocations.items()
        )


class Windows:
    """The windows in force by shard."""

    def __init__(self) -> None:
        self._by_shard: dict[int, Window] = {}
        self._last = ""
        self._began = 0.0
        self._ends = 0.0
        self._allotted = 0
        self._used = 0
        """Of the window last opened: turns that named hosts were given, and have used since."""

    def begin(self, opened: Mapping[int, Window], now: float) -> None:
        """Put the windows of some shards in force; a window may come in several parts."""
        for shard, window in opened.items():
            self._by_shard[shard] = window
            if window.window_id != self._last:
                self._last, self._began, self._ends = window.window_id, now, window.ends_at
                self._allotted = self._used = 0
            self._allotted += window.usable

    def lends(self, now: float) -> bool:
        """Whether turns of the window are left that nobody seems to use."""
        if not self._began <= now < self._ends:
            return False
        return self._used + 1 <= self._allotted * (now - self._began) / (self._ends - self._began)

    def next_look(self, window: Window, now: float) -> float:
        """When (UTC seconds) a host that has used up its own in `window` looks for turns that are lent."""
        return min(window.ends_at, now + max(self._ends - self._began, 0.0) / LOOKS)

    def get(self, shard: int) -> Window | None:
        """The window last opened for the shard; it may have ended."""
        return self._by_shard.get(shard)

    def in_force(self, shard: int, now: float) -> Window | None:
        window = self._by_shard.get(shard)
        return window if window is not None and now < window.ends_at else None

    def spent(self, state: HostState, now: float) -> bool:
        """Whether the host has used up its allotment, and no turns are lent."""
        window = self.in_force(state.shard, now)
        allotted = None if window is None else window.allocations.get(state.host)
        return allotted is not None and state.window_used >= allotted and not self.lends(now)

    def is_used_up(self, state: HostState) -> bool:
        """Whether the host has used up its allotment of the window last opened, though that may have ended."""
        return self.spent(state, -math.inf)

    def spent_groups(self, state: HostState, now: float) -> frozenset[int]:
        """Groups of the host that have used up theirs; none while turns are lent."""
        window = self.in_force(state.shard, now)
        caps = None if window is None else window.groups.get(state.host)
        if not caps or self.lends(now):
            return NONE
        used = state.group_used
        return frozenset(group for group, most in caps.items() if used.get(group, 0) >= most)

    def charge(self, state: HostState, lane: int, group: int, turns: int = 1) -> None:
        """Count a turn; −1 gives it back. Groups that no window names are not counted: names are many."""
        if lane == FASTLANE:
            return
        state.window_used = max(state.window_used + turns, 0)
        window = self._by_shard.get(state.shard)
        if window is not None and state.host in window.allocations:
            self._used = max(self._used + turns, 0)
        if window is not None and group in window.groups.get(state.host, {}):
            state.group_used[group] = max(state.group_used.get(group, 0) + turns, 0)

    def recall(self, state: HostState) -> None:
        """What the host has used of its window as of the last commit, before a restart too."""
        window, record = self._by_shard.get(state.shard), state.record
        same = window is not None and window.window_id == record.window
        state.window_used = record.window_used if same else 0
        state.group_used = dict(record.window_groups) if same else {}

    def stamp(self, state: HostState, record: HostRecord) -> None:
        """Write what the host has used into the record that is about to be stored."""
        window = self._by_shard.get(state.shard)
        if window is not None:
            record.window, record.window_used = window.window_id, state.window_used
            record.window_groups = dict(state.group_used)
