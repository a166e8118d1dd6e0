"""Which sitemaps and feeds may be in memory at once, from the request until all of them has been delivered.

Nobody knows before the request how large one is. While there is room for a large one, one of unknown size may be
large; else it is cut where small ones end. From then on it is known to be large: nothing is sent for it again before
there is room, and what waits is called in the order in which it came.
"""

from dataclasses import dataclass

from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.listed import SITEMAP_WAITS
from crawl_platform.settings import Sitemaps

MOST_HELD = 32
"""Of any size: asked for, waiting to be read or being read. They never take more of a cell's slots either."""
MOST_WAITING = 5_000
"""Leases kept until there is room, a kilobyte each."""
CALLED_FOR = 60.0
"""Seconds for which the place of one that was called is kept: its host may have a turn to wait for."""


@dataclass(frozen=True, slots=True)
class _Call:
    until: float
    large: bool


class SitemapRoom:
    """Places by URL. Times are boottime seconds."""

    def __init__(self, large_at_once: int) -> None:
        self._large_at_once = large_at_once
        self._caps: dict[str, int] = {}
        self._large: set[str] = set()
        self._called: dict[str, _Call] = {}
        self._waiting: dict[bool, dict[str, Lease]] = {False: {}, True: {}}
        """By whether they are known to be large; in order."""

    def __len__(self) -> int:
        return len(self._caps)

    def enter(self, lease: Lease, settings: Sitemaps) -> bool:
        """Take a place, until `leave`; False if there is none. `settings`: its host's."""
        called, large = self._called.pop(lease.url, None), _known_large(lease, settings)
        if (called is None or called.large != large) and not self._may_enter(large):
            return False
        if large or (settings.body_cap > settings.small_cap and self._has_room_for_large()):
            self._large.add(lease.url)
            self._caps[lease.url] = settings.body_cap
        else:
            self._caps[lease.url] = min(settings.small_cap, settings.body_cap)
        return True

    def cap(self, url: str) -> int:
        """Bytes that the body may have, on the wire and inflated."""
        return self._caps[url]

    def leave(self, url: str) -> None:
        """It takes no more memory."""
        self._caps.pop(url, None)
        self._large.discard(url)

    def wait(self, lease: Lease, settings: Sitemaps) -> bool:
        """Stand in line until `call` hands it out; False if the line is full."""
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            return False
        self._waiting[_known_large(lease, settings)][lease.url] = lease
        return True

    def call(self, boot: float) -> list[Lease]:
        """Those for which there is room by now. Their places are kept for a while."""
        self._called = {url: one for url, one in self._called.items() if one.until > boot}
        ready: list[Lease] = []
        for large in (True, False):
            waiting = self._waiting[large]
            while waiting and self._free() > 0 and (not large or self._free_large() > 0):
                url = next(iter(waiting))
                ready.append(waiting.pop(url))
                self._called[url] = _Call(boot + CALLED_FOR, large)
        return ready

    def _may_enter(self, large: bool) -> bool:
        if self._waiting[False] or self._free() <= 0:
            return False
        return not large or self._has_room_for_large()

    def _has_room_for_large(self) -> bool:
        return self._free_large() > 0 and not self._waiting[True]

    def _free(self) -> int:
        return MOST_HELD - len(self._caps) - len(self._called)

    def _free_large(self) -> int:
        return self._large_at_once - len(self._large) - sum(one.large for one in self._called.values())


def _known_large(lease: Lease, settings: Sitemaps) -> bool:
    return lease.record.reason == SITEMAP_WAITS and settings.body_cap > settings.small_cap
