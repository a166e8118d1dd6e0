"""What can be done with the fleet's processes, wherever they run: one interface, and the rule that both keep.

Deciding what the fleet does goes through the exchange (`FleetClient`); this is about its processes. They
are not Dagster's: the fleet goes on when Dagster stops.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.report import STALE


class CellState(msgspec.Struct, frozen=True):
    """`last_heartbeat` is UTC seconds by the cell's own clock, None if it has never been heard of."""

    name: str
    state: str
    """running, starting, restarting, refused, silent or stopped"""
    shards: int
    restarts: int = 0
    last_heartbeat: float | None = None
    detail: str = ""


class FleetState(msgspec.Struct, frozen=True):
    """`wanted`: how many cells should run now; 0 when the fleet was stopped."""

    wanted: int
    cells: tuple[CellState, ...]

    @property
    def well(self) -> bool:
        """Whether what should run does, and every shard has a cell that does."""
        running = {cell.name for cell in self.cells if cell.state == "running"}
        return len(running) == self.wanted and all(
            cell.name in running for cell in self.cells if cell.shards and self.wanted
        )


FLEET_CHECK = "fleet_is_well"
"""The check of `fetches` that says how the cells are."""


class FleetControl(Protocol):
    """Each call may be repeated. Raises `ConfigurationError` for what can't be done, and says what can;
    `ExchangeError` when NATS or Kubernetes does not answer."""

    def start(self) -> None:
        """Have every cell run that owns shards."""

    def stop(self) -> None:
        """Stop all cells: requests in flight land, everything is committed. The shards stay theirs."""

    def scale(self, cells: int) -> None:
        """Have `cells` cells. Refuses a number that the shard table has no use for (`require_scalable`)."""

    def restart(self) -> None:
        """Start every cell anew, as after a change of settings."""

    def status(self) -> FleetState:
        """How each cell is, by what its keeper and its heartbeat say."""


def require_scalable(owners: Mapping[int, str], cells: int) -> None:
    """Raise `ConfigurationError` unless `cells` is the number that the shard table is made for.

    A shard's queues are on its cell's disk and move by order alone: with fewer cells some hosts would not be
    crawled at all, and a cell more would own nothing until it is given its part (`fleet.prepare`).
    """
    owning = len(set(owners.values()))
    if not owning:
        raise ConfigurationError("the shards have no owners yet: prepare the fleet first")
    if cells != owning:
        why = "the others' hosts would not be crawled" if cells < owning else "a new cell would own no shard"
        raise ConfigurationError(
            f"{owning} cells own the shards: with {cells} {why}. More cells get their part when the fleet is started "
            f"with them (`crawl up --cells N`, or `prepare`); before there are fewer, shards have to be moved away"
        )


def cell_states(
    kept: Mapping[str, CellState], owners: Mapping[int, str], beats: Iterable[Heartbeat], now: float
) -> tuple[CellState, ...]:
    """What the keeper knows of each cell, with its shards, its heartbeat, and those that nobody keeps."""
    shards = Counter(owners.values())
    heard = {beat.cell: beat.at for beat in beats}
    states = []
    for name in sorted({*kept, *shards}, key=_number):
        cell = kept.get(name, CellState(name, "stopped", 0))
        at = heard.get(name)
        silent = cell.state == "running" and (at is None or now - at > STALE)
        states.append(
            msgspec.structs.replace(
                cell, state="silent" if silent else cell.state, shards=shards[name], last_heartbeat=at
            )
        )
    return tuple(states)


def _number(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdigit() else -1), name
