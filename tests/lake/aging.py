"""A lake that grows old: rounds of the committer on past days, and files as old as the clock says."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer
from crawl_platform.commit.manifest import Manifest
from crawl_platform.commit.staging import Row
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Budget, Report
from crawl_platform.lake.upkeep.run import upkeep
from crawl_platform.settings import Retention
from crawl_platform.testing.builders import fetched, sample_row, staged_manifest

DAY = 86_400.0
Rows = Mapping[str, list[Row]]


def clock_days_ago(days: float) -> ManualClock:
    return ManualClock(time.time() - days * DAY)


class AgingLake:
    """Every file that appears gets the clock's time as its modification time: history goes by that."""

    def __init__(self, lake: Lake, clock: ManualClock, *, grown: bool = False) -> None:
        """`grown`: the files of `lake` have their ages already."""
        self.lake = lake
        self.clock = clock
        self.committer = self.new_committer()
        self._numbers: dict[str, int] = {}
        self._stamped: set[str] = set(self._all_files()) if grown else set()
        self.stamp()

    def copied(self, lake: Lake, clock: ManualClock) -> "AgingLake":
        """The same numbers on `lake`, a copy of this one's; `clock` stands where this one's does."""
        copy = AgingLake(lake, clock, grown=True)
        copy._numbers = dict(self._numbers)
        return copy

    def new_committer(self, max_age: float = 1e12) -> Committer:
        return Committer(self.lake, self.clock, redeliver=lambda manifest: None, max_age=max_age)

    def stamp(self) -> None:
        for path in set(self._all_files()) - self._stamped:
            os.utime(path, (self.clock.now(), self.clock.now()))
            self._stamped.add(path)

    def _all_files(self) -> Iterator[str]:
        for folder, _, names in os.walk(self.lake.root):
            yield from (f"{folder}/{name}" for name in names)

    def pass_days(self, days: float) -> None:
        self.clock.advance(days * DAY)

    # what is written

    def staged(self, *rows: Rows, incarnation: str = "cell-a") -> Manifest:
        """A manifest that nobody has committed yet."""
        number = self._numbers[incarnation] = self._numbers.get(incarnation, 0) + 1
        made = staged_manifest(self.lake, number, rows, at=self.clock.now(), incarnation=incarnation)
        self.stamp()
        return made

    def round(self, *rows: Rows) -> Manifest:
        """One epoch, committed."""
        manifest = self.staged(*rows)
        self.committer.offer([manifest])
        self.committer.round()
        self.stamp()
        return manifest

    def visit(self, fetch_id: str, url: str, *targets: str, body: bytes | None = None, **values: Any) -> Rows:
        """A page fetched now; with `targets` it shows a new link set, with `body` a new version."""
        at = self.clock.now()
        if targets:
            values = {"link_set": fetch_id, **values}
        rows = dict(fetched(fetch_id, url, at, *targets, **values))
        if body is not None:
            rows["pages"] = [sample_row("pages", at, fetch_id=fetch_id, url=url, body=body)]
        return rows

    def busy_day(self, rounds: int = 12) -> None:
        """Rounds of one page each, all on this day."""
        day = int(self.clock.now() // DAY)
        for n in range(rounds):
            name = f"d{day}-{n}"
            self.round(self.visit(name, f"https://a.test/{name}", "https://b.test/", body=name.encode()))

    # what is done to it

    def upkeep(
        self,
        *,
        held: Mapping[str, Collection[str]] | None = {},
        dry_run: bool = False,
        budget: Budget | None = None,
        tables: tuple[str, ...] = (),
        reached: Callable[[str], None] = lambda point: None,
        **retention: Any,
    ) -> Report:
        report = upkeep(
            self.lake,
            Retention(**retention),
            self.clock,
            tables=tables,
            held=held,
            dry_run=dry_run,
            budget=budget,
            reached=reached,
        )
        if not dry_run:
            self.stamp()
            self.committer.publish_versions()
            self.stamp()
        return report

    # what is there

    def files(self, name: str) -> set[str]:
        """Data files of the table on the disk, staged ones too."""
        root = self.lake.path(name)
        return {
            str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts
        }

    def live(self, name: str) -> int:
        """Data files of the current version."""
        return len(self.lake.delta(name).file_uris())

    def column(self, sql: str, at: int | None = None) -> list[Any]:
        return sorted(self.lake.query(sql, at=at).column(0).to_pylist())


def actions(report: Report, action: str) -> dict[str, Any]:
    """Table → what was done of that kind."""
    return {done.table: done for done in report.done if done.action == action}
