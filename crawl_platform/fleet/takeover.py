"""The shards of a cell that nobody has heard of for long go to cells that live, without an operator.

The committer watches, because there is one at any time, with a supervisor or without. What it orders is what
`crawl shards rebuild` does by hand; a cell that comes back all the same finds its shards gone and drops them.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.ordering import shard_table, take_over

log = logging.getLogger(__name__)
LOOK_EVERY = 10.0
LONGEST_GAP = 30.0
"""Seconds between two looks after which what was seen before counts for nothing: NATS was away, or we stood still."""
LIVES = 15.0
"""Seconds since a heartbeat within which a cell may be given shards: some seven of them."""


@dataclass
class Silence:
    """For how long cells have been silent while we could have heard them, by our own clock. Sans-IO."""

    patience: float
    _known: dict[str, tuple[object, float]] = field(default_factory=dict)
    """Cell → its last heartbeat, and when that was seen first."""
    _heard: dict[str, float] = field(default_factory=dict)
    """Cell → when one came while we watched."""
    _looked: float = float("-inf")

    def look(
        self, beats: Mapping[str, object], owners: Iterable[str], now: float
    ) -> tuple[list[str], list[str]]:
        """Those of `owners` that are given up, and the cells that live. `beats`: cell → what is new with each
        heartbeat; `now`: CLOCK_BOOTTIME."""
        if now - self._looked > LONGEST_GAP:
            self._known.clear()
            self._heard.clear()
        self._looked = now
        owners = set(owners)
        for cell in {*beats, *owners}:
            beat = beats.get(cell)
            if cell not in self._known:
                self._known[cell] = beat, now
            elif self._known[cell][0] != beat:
                self._known[cell] = beat, now
                self._heard[cell] = now
        lost = sorted(cell for cell in owners if now - self._known[cell][1] >= self.patience)
        alive = sorted(cell for cell, at in self._heard.items() if cell in beats and now - at <= LIVES)
        return lost, alive


@dataclass
class Takeover:
    """`patience`: seconds of silence after which a cell is given up."""

    exchange: Exchange
    clock: Clock
    patience: float
    _told: set[str] = field(default_factory=set)

    async def watch_forever(self) -> None:
        silence = Silence(self.patience)
        every = min(LOOK_EVERY, self.patience / 4)
        while True:
            try:
                await self._look(silence)
            except ExchangeError as error:
                log.warning("cells can't be watched: %s", error)
            await asyncio.sleep(every)

    async def _look(self, silence: Silence) -> None:
        beats = {}
        for cell, data in (await self.exchange.items("cells")).items():
            beat = msgspec.json.decode(data, type=Heartbeat)
            beats[cell] = beat.incarnation, beat.at, beat.boottime
        owners = {owner.cell for owner in (await shard_table(self.exchange)).values() if not owner.snapshot}
        lost, alive = silence.look(beats, owners, self.clock.boottime())
        for cell in lost:
            if alive:
                await self._give_up(cell, alive)
            elif cell not in self._told:
                log.warning(
                    "%s has been silent for %g s, and no cell lives to take its shards", cell, self.patience
                )
                self._told.add(cell)

    async def _give_up(self, cell: str, takers: list[str]) -> None:
        given = await take_over(self.exchange, cell, takers)
        log.warning(
            "%s has been silent for %g s: its %d shards go to %s, who make them anew from the lake",
            cell, self.patience, len(given), ", ".join(takers),
        )  # fmt: skip
        self._told.discard(cell)
