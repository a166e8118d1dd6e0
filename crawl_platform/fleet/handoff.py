"""How a shard moves from one cell to another, and what each of them does at which word of its record.

Theory of operation. The record of the shard changes by compare-and-swap alone, so everybody sees one history:

    owned(A) ──order──▶ owned(A), to B ──A──▶ draining(A, snapshot, sequence), to B ──B──▶ owned(B)
        ▲                     │                                │
        └───────cancel────────┴─────────────cancel─────────────┘

    A  1 rest      claim nothing of it; wait, for so long, until all that was claimed is committed
       2 forget    out of memory, in one step of the loop: from now on A asks its hosts for nothing
       3 snapshot  all that the store has of it, into a file in the lake's folder; synced
       4 drain     the record names the file and the inbox sequence whose effects it has
    B  5 wipe      what may be left of it from earlier times
       6 take      the file's records; the last batch is synced and marks them as whole
       7 own       the record says B, by compare-and-swap: a cancel and this one exclude each other
       8 adopt     the mark goes, the inbox is read from that sequence on, each host waits for its whole delay
                   and the file goes
    A  9 wipe      the shard's keys

Each cell does what `next_step` says of the record and of its own disk, again and again. So whoever is killed, between
any two steps, goes on when it is started again: before 4 it crawls on as if nothing had been said; from 4 to 7 neither
crawls the shard, from 7 on B does. A keeps its copy until B has the shard: a cancel needs no file.

Messages that come meanwhile wait in the shard's inbox, which A reads no further after 1 and B reads from 4's sequence.
A's links to the shard's hosts go through that inbox from 2 on, as to any other cell's hosts.
"""

from dataclasses import dataclass
from enum import StrEnum, auto

import msgspec

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.messages import ShardOwner


class Do(StrEnum):
    """One step; a process may die behind each."""

    REST = auto()
    FORGET = auto()
    SNAPSHOT = auto()
    DRAIN = auto()
    WIPE = auto()
    TAKE = auto()
    OWN = auto()
    ADOPT = auto()
    REBUILD = auto()
    GIVE_UP = auto()


@dataclass(frozen=True, slots=True)
class Held:
    """What a cell has of a shard. `copy`: its store has a copy that is not in use, a whole one if `taken` names its
    snapshot."""

    crawls: bool = False
    taken: str = ""
    copy: bool = False
    stored: bool = False


LEAVE = (Do.REST, Do.FORGET, Do.SNAPSHOT, Do.DRAIN)
LEAVE_AGAIN = (Do.SNAPSHOT, Do.DRAIN)
TAKE = (Do.WIPE, Do.TAKE, Do.OWN)
NOTHING: tuple[Do, ...] = ()


def next_step(owner: ShardOwner, cell: str, held: Held) -> tuple[Do, ...]:
    """What `cell` has to do about a shard, in this order."""
    if owner.cell == cell:
        return _of_owner(owner, cell, held)
    if held.crawls:
        return (Do.GIVE_UP,)
    if owner.snapshot and owner.to == cell:
        return (Do.OWN,) if held.taken == owner.snapshot else TAKE
    # A copy that nobody may need goes; a store that was given away in no handoff is kept for whoever looks into it.
    return (Do.WIPE,) if held.copy or (held.stored and owner.handed) else NOTHING


def _of_owner(owner: ShardOwner, cell: str, held: Held) -> tuple[Do, ...]:
    if owner.lost:
        return (Do.REBUILD,)
    if owner.snapshot:
        return (Do.GIVE_UP,) if held.crawls else NOTHING
    if owner.to not in ("", cell):
        return LEAVE if held.crawls else LEAVE_AGAIN
    return NOTHING if held.crawls else (Do.ADOPT,)


# what the record says next


def ordered(owner: ShardOwner, to: str) -> ShardOwner:
    """Somebody wants `to` to have it; its present owner's name cancels what was ordered before.

    Raises `ConfigurationError` while it is on its way to a third cell.
    """
    if to == owner.cell:
        return msgspec.structs.replace(owner, to="", snapshot="", sequence=0)
    if owner.snapshot and owner.to != to:
        raise ConfigurationError(
            f"it is on its way from {owner.cell} to {owner.to}: wait, or order it back to {owner.cell} first"
        )
    return msgspec.structs.replace(owner, to=to)


def taken_from_the_dead(owner: ShardOwner, cell: str) -> ShardOwner:
    """Its cell and that one's disk are gone: `cell` has to rebuild it. The dead one, should it come back, drops it."""
    lost = owner.lost or owner.incarnation
    return ShardOwner(cell, owner.incarnation, handed=f"rebuilt-{lost}", lost=lost)


def rebuilt(owner: ShardOwner, incarnation: str) -> ShardOwner:
    return msgspec.structs.replace(owner, incarnation=incarnation, lost="")


def drained(owner: ShardOwner, snapshot: str, sequence: int) -> ShardOwner:
    return msgspec.structs.replace(owner, snapshot=snapshot, sequence=sequence)


def owned(owner: ShardOwner, cell: str, incarnation: str) -> ShardOwner:
    return ShardOwner(cell, incarnation, handed=owner.snapshot)
