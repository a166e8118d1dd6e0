"""Backpressure: when a cell claims no more pages, because what it has fetched can't go on."""

import logging
import shutil
from collections.abc import Callable

from crawl_platform.clock import Clock
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
DISK_EVERY = 3.0
"""Seconds between two looks at the free disk."""


class Backpressure:
    """`spooled`: bytes that the lake has not confirmed; `staging_fails`: whether rows can't be staged just now."""

    def __init__(
        self, settings: Settings, clock: Clock, spooled: Callable[[], int], staging_fails: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._spooled = spooled
        self._staging_fails = staging_fails
        self.spool_full = False
        self.held_by = ""
        """What holds claims back: one of `telemetry.HELD_BY`, empty if nothing does."""
        self._disk_is_low = False
        self._disk_seen_at = -DISK_EVERY

    def holds(self) -> bool:
        """Whether nothing may be claimed now: rows can't be staged, the lake has not confirmed a spool's worth of them,
        or the disk is nearly full."""
        full = self._spooled() >= self._settings.commit.spool_bytes
        if full and not self.spool_full:
            log.warning("the spool is full: the lake confirms nothing, no more pages are claimed")
        self.spool_full = full
        low, staging = self._disk_low(), self._staging_fails()
        self.held_by = "spool" if full else "staging" if staging else "disk" if low else ""
        return bool(self.held_by)

    def _disk_low(self) -> bool:
        """Less free space than the reserve."""
        boot = self._clock.boottime()
        if boot - self._disk_seen_at >= DISK_EVERY:
            self._disk_seen_at = boot
            low = self.free_disk() < self._settings.fleet.min_free_disk
            if low and not self._disk_is_low:
                log.warning("less than fleet.min_free_disk is free: no more pages are claimed")
            self._disk_is_low = low
        return self._disk_is_low

    def free_disk(self) -> int:
        """The lake's and our own state's: in a cluster these are different volumes."""
        root = self._settings.root
        places = [place for place in (root, root / "cells") if place.exists()]
        return min(shutil.disk_usage(place).free for place in places)
