"""Stop switches that need nothing but the cell: a file in the crawl's home, and a signal to look at it now.

`crawl pause` writes `stops.json`, signals the cells of this machine and tells the exchange, so it works with NATS
down, and before a fleet starts. A file that can't be read means stop: somebody wanted to say something.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from crawl_platform.admission.stops import EVERYTHING, Stops, Word
from crawl_platform.clock import Clock
from crawl_platform.fleet.pulse import FRESH
from crawl_platform.lake.delta import sync_folder

log = logging.getLogger(__name__)
STOPS_NAME = "stops.json"
LOOK = signal.SIGUSR2
LOOK_EVERY = 1.0
"""Seconds between looks at the file, for cells that a signal does not reach (other machines, other users)."""


def read_words(home: Path, now: float) -> list[Word]:
    """What the file says. `now` (UTC seconds) is the time of the word that a damaged file stands for."""
    try:
        return msgspec.json.decode((home / STOPS_NAME).read_bytes(), type=list[Word])
    except FileNotFoundError:
        return []
    except (msgspec.DecodeError, OSError) as error:
        log.critical("%s can't be read, so everything is paused: %s", home / STOPS_NAME, error)
        return [Word(EVERYTHING, True, now)]


def write_word(home: Path, word: Word) -> None:
    """Add a word to the file, in the place of an earlier one about the same. Durable on return."""
    with (home / f".{STOPS_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others: list[Word] = []
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            known = msgspec.json.decode((home / STOPS_NAME).read_bytes(), type=list[Word])
            others = [other for other in known if other.domain != word.domain]
        draft = home / f".{STOPS_NAME}"
        with draft.open("wb") as file:
            file.write(msgspec.json.encode([*others, word]))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(home / STOPS_NAME)
        sync_folder(home)


def signal_cells(home: Path, clock: Clock) -> int:
    """Have the cells of this machine look at the file now; returns how many were told."""
    told = 0
    for path in (home / "run").glob("cell-*.alive"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError, ValueError):
            if clock.now() - path.stat().st_mtime < FRESH:
                os.kill(int(path.read_text()), LOOK)
                told += 1
    return told


class Watch:
    """A cell's look at the file: at the start, at a signal, and every second. `changed` is called after a change."""

    def __init__(self, home: Path, stops: Stops, clock: Clock, changed: Callable[[], None]) -> None:
        self._home = home
        self._stops = stops
        self._clock = clock
        self._changed = changed
        self._seen: tuple[int, int] | None = None
        self._now = asyncio.Event()

    def look(self) -> None:
        """Read the file if it is another one than at the last look."""
        path = self._home / STOPS_NAME
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        seen = status.st_mtime_ns, status.st_ino
        if seen == self._seen:
            return
        self._seen = seen
        if self._stops.hear(read_words(self._home, self._clock.now())):
            log.warning("paused: %s; domains paused: %s", self._stops.paused, self._stops.domains)
            self._changed()

    def ring(self) -> None:
        """Look now."""
        self._now.set()

    async def look_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._now.wait(), LOOK_EVERY)
            self._now.clear()
            self.look()
