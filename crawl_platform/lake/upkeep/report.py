"""What upkeep did, and how much one call may do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import pyarrow as pa

from crawl_platform.clock import DAY, Clock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import UPKEEP

PORTION_BYTES = 1_000_000_000
"""Rewritten in one call: some 20 s on one core (50 MB/s of small zstd files), rounds of the committer wait."""
PORTION_SECONDS = 60.0
"""After this nothing new is begun: cells spool 4 GB meanwhile, hours of a crawl."""

WRITTEN, COMMITTED, FORGOTTEN = "upkeep.written", "upkeep.committed", "upkeep.forgotten"
POINTS = (WRITTEN, COMMITTED, FORGOTTEN)
"""Fault points: new files are on disk and nobody names them; the commit is there and nothing is deleted; readers
have been told where history begins and nothing is deleted."""


class Done(msgspec.Struct, frozen=True):
    """One thing done to one table: a row of `upkeep`. Sizes in bytes, `at` is UTC."""

    at: datetime
    table: str
    action: str
    seconds: float
    files_before: int = 0
    files_after: int = 0
    files_removed: int = 0
    rows_removed: int = 0
    bytes_freed: int = 0
    detail: str = ""


class Report(msgspec.Struct, frozen=True):
    """`left`: partitions that are due and didn't fit into this call. `rewritten`: a table has a new version."""

    done: tuple[Done, ...] = ()
    left: int = 0
    rewritten: bool = False
    dry_run: bool = False

    def __add__(self, later: "Report") -> "Report":
        return Report(
            self.done + later.done,
            later.left,
            self.rewritten or later.rewritten,
            self.dry_run or later.dry_run,
        )


@dataclass
class Budget:
    """`until`: boottime seconds. The first piece of work is always allowed, else a big one would never be done."""

    clock: Clock
    bytes_left: int = PORTION_BYTES
    seconds: float = PORTION_SECONDS
    _begun: float = field(init=False)
    _spent: bool = False

    def __post_init__(self) -> None:
        self._begun = self.clock.boottime()

    def allows(self, size: int) -> bool:
        """Whether work on `size` bytes may begin."""
        if not self._spent:
            return True
        return size <= self.bytes_left and self.clock.boottime() - self._begun < self.seconds

    def spend(self, size: int) -> None:
        self._spent = True
        self.bytes_left -= size


@dataclass
class Job:
    """What every step needs. `reached` is told of fault points; `dry_run` changes nothing."""

    lake: Lake
    clock: Clock
    budget: Budget
    dry_run: bool = False
    reached: Callable[[str], None] = lambda point: None
    done: list[Done] = field(default_factory=list)
    left: int = 0
    rewritten: bool = False

    def today(self, days_ago: float = 0.0) -> str:
        """The UTC day so long ago, as partitions are named."""
        return as_datetime(self.clock.now() - days_ago * DAY).date().isoformat()

    def note(self, table: str, action: str, begun: float, **figures: int | str) -> None:
        at = as_datetime(self.clock.now())
        took = self.clock.boottime() - begun
        self.done.append(Done(at, table, action, took, **figures))  # type: ignore[arg-type]


def record(lake: Lake, done: Iterable[Done], versions: Mapping[str, int]) -> int | None:
    """Append the rows of `upkeep`; returns the version, None if there is nothing to record.

    `versions`: of the tables that it speaks of, as upkeep left them.
    """
    rows = [
        {**msgspec.structs.asdict(d), "happened_at": d.at, "table_name": d.table, "date": d.at.date()}
        for d in done
    ]
    if not rows:
        return None
    known = {column.name for column in UPKEEP.columns}
    kept = [{name: value for name, value in row.items() if name in known} for row in rows]
    return lake.append(UPKEEP.name, pa.Table.from_pylist(kept, schema=UPKEEP.schema), versions)
