"""How much Dagster's own storage grows in an hour of production: `python -m bench.dagster_storage [--json]`.

An accelerated day. Real definitions in the production profile, on a real instance (SQLite, `dagster.yaml` as
`resources/instance.py` writes it), driven by Dagster's own daemon code under a frozen clock that is moved on by
hand over a crawl that is made up. Three parts are measured on the disk and put together:

1. all sensors at their pace for twenty minutes, and one round of events in which every table has news;
2. automation evaluations: some that find nothing due, at their pace; and the two after each tick of a cron from
   midnight to midnight, in which something changes, with what it takes to queue the runs that they ask for;
3. every kind of run (the set of assets or checks that it makes) executed twice, the second time measured:
   database rows, event log, captured output. Repeats within the day are not executed but counted.

Growth per hour = ticks + rounds of events an hour + 2 + Σ over kinds of (runs a day × bytes of one) / 24. It is
that of the first day: from then on Dagster also deletes (ticks after 1 and 14 days, evaluations after 30), but
never the events of runs. On Postgres the rows are the same; what SQLite adds is a file with all tables and indexes
for every run.
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.asset_daemon import AssetDaemon
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._utils.schedules import cron_string_iterator

from assets.fleet import EXTERNAL
from crawl_platform.clock import ManualClock, SystemClock, as_datetime
from crawl_platform.definitions import build_definitions
from crawl_platform.fleet.upkeep import Order, Task, do_portion
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Report
from crawl_platform.settings import Orchestration, Settings
from resources.cadence import PRODUCTION
from resources.instance import write_dagster_home
from tests.orchestration.made_up_crawl import SHARDS, MadeUpCrawl, RememberingFleet, small_web

BUDGET = 1_000_000
"""Bytes per hour."""
MIDNIGHT = as_datetime(SystemClock().now()).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(
    days=1
)
"""Near the real time: Dagster stamps some rows by the database's own clock, and deletes by its frozen one."""
START = MIDNIGHT - timedelta(hours=12)
SAMPLE, STEP = 1_200, 30
"""Seconds of sensors' ticks that are measured, and the step: no sensor of production is quicker."""
ROUNDS = 4
AFTER = 2
"""Evaluations that follow a cron's tick closely: what was due is due no more, what ran has run."""
CRONS = [value for name, value in vars(PRODUCTION).items() if name.endswith("_cron")]
HOUR = 3_600


@dataclass
class Day:
    """The accelerated day: one crawl, one instance, one clock. `now` is the frozen time."""

    home: Path
    settings: Settings
    clock: ManualClock
    crawl: MadeUpCrawl
    fleet: RememberingFleet
    definitions: dg.Definitions
    now: datetime = START
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.clock.advance(seconds)

    def commit(self) -> None:
        """What a fleet writes in a minute, small but into every table."""
        for _ in range(6):
            host = f"seed-{self.random.integers(12)}.test"
            url = f"https://{host}/{self.random.integers(200)}"
            self.crawl.page(url, f"what {url} says at {self.now}")
            self.crawl.fetch(url, changed=bool(self.random.random() < 0.4), predicted_change=0.4)
        self.crawl.host(f"seed-{self.random.integers(12)}.test", event="robots")
        self.crawl.link(
            f"f{1:06d}", "https://seed-0.test/", f"https://honest-{self.random.integers(30)}.test/"
        )
        self.crawl.row(
            "frontier", snapshot_id=f"s{self.clock.now()}", snapshot_at=self.now, shard=0, host="seed-0.test",
            url="https://seed-0.test/", state="fetched",
        )  # fmt: skip
        self.crawl.report()
        self.crawl.commit()


@dataclass
class UpkeepFleet(RememberingFleet):
    """A fleet that also does upkeep, in this process."""

    settings: Settings = field(default_factory=lambda: Settings(home=""))
    clock: ManualClock = field(default_factory=ManualClock)

    def upkeep(self, tables: tuple[str, ...] = (), *, dry_run: bool = False) -> Report:
        return do_portion(self.settings, self.clock, Task(Order(tables, dry_run)))


_day: list[Day] = []


def accelerated() -> dg.Definitions:
    """The definitions that the in-process code location loads."""
    return _day[0].definitions


def begin(folder: Path) -> Day:
    """A crawl that has run for a while, and its empty Dagster instance."""
    settings = Settings(home=str(folder), orchestration=Orchestration(profile="production"))
    lake = Lake(settings.lake_root)
    lake.create(SHARDS)
    clock = ManualClock(START.timestamp())
    fleet = UpkeepFleet(settings=settings, clock=clock)
    crawl = MadeUpCrawl(lake, clock)
    small_web(crawl)
    definitions = build_definitions({"clock": clock, "fleet": fleet}, settings)
    day = Day(write_dagster_home(settings), settings, clock, crawl, fleet, definitions)
    _day[:] = [day]
    return day


def on_disk(home: Path) -> int:
    """Bytes of Dagster's storage."""
    return sum(by_store(home).values())


def by_store(home: Path) -> dict[str, int]:
    """The same by what it is: pages in use, since a database keeps those that it has emptied for later."""
    sizes: defaultdict[str, int] = defaultdict(int)
    for path in home.rglob("*"):
        if path.suffix == ".db":
            sizes[_store(path.relative_to(home))] += _in_use(path)
        elif path.is_file() and path.suffix not in (".db-wal", ".db-shm"):
            sizes[_store(path.relative_to(home))] += path.stat().st_size
    return dict(sizes)


def _in_use(database: Path) -> int:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def _store(path: Path) -> str:
    if path.parts[0] == "schedules":
        return "ticks and evaluations"
    if path.parts[:2] == ("history", "runs") and path.name.startswith("index"):
        return "event index"
    if path.parts[:2] == ("history", "runs"):
        return "event logs of runs"
    return "runs" if path.parts[0] == "history" else "captured output"


@dataclass
class Driver:
    """Dagster's daemons, one iteration at a time."""

    day: Day
    instance: dg.DagsterInstance
    workspace: Any
    daemon: AssetDaemon = field(default_factory=lambda: AssetDaemon({}, pre_sensor_interval_seconds=30))
    asked: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    sizes: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def sensors(self) -> None:
        with freeze_time(self.day.now):
            for _ in execute_sensor_iteration(self.workspace, logging.getLogger("sensors"), None, None):
                pass

    def evaluate(self, most: int) -> int:
        """One automation evaluation, and the runs that it asks for: each kind is executed `most` times in all, later
        ones are counted and taken back. Returns the growth without the runs' own event logs."""
        before = on_disk(self.day.home)
        with freeze_time(self.day.now):
            self.daemon._run_iteration_impl(self.workspace, None, {}, {})
        queued = self.instance.get_runs(dg.RunsFilter(statuses=[DagsterRunStatus.QUEUED]))
        logs = {run.run_id: self._event_log(run) for run in queued}
        growth = on_disk(self.day.home) - before - sum(logs.values())
        for run in reversed(queued):
            self.asked[_kind(run)] += 1
            if len(self.sizes[_kind(run)]) >= most:
                self.instance.delete_run(run.run_id)
            else:
                self.sizes[_kind(run)].append(self._execute(run) + logs[run.run_id])
        return growth

    def _event_log(self, run: dg.DagsterRun) -> int:
        path = self.day.home / "history" / "runs" / f"{run.run_id}.db"
        return _in_use(path) if path.exists() else 0

    def _execute(self, run: dg.DagsterRun) -> int:
        """Execute a queued run; returns the growth."""
        before = on_disk(self.day.home)
        checks = run.asset_check_selection
        job = self.day.definitions.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection=set(run.asset_selection or ()),
            asset_check_selection=None if checks is None else set(checks),
        )
        with freeze_time(self.day.now):
            starting = DagsterEvent(DagsterEventType.PIPELINE_STARTING.value, job_name=run.job_name)
            self.instance.report_dagster_event(starting, run_id=run.run_id)
            started = self.instance.get_run_by_id(run.run_id)
            assert started is not None
            result = execute_run(InMemoryJob(job), started, self.instance, raise_on_error=True)
        assert result.success, _kind(run)
        return on_disk(self.day.home) - before


def _kind(run: dg.DagsterRun) -> str:
    assets = sorted({key.to_user_string().split("/")[0] for key in run.asset_selection or ()})
    tables = {key.asset_key.to_user_string() for key in run.asset_check_selection or ()} & set(EXTERNAL)
    return ", ".join([*assets, "checks of the fleet's tables"] if tables else assets)


@contextmanager
def driver(day: Day) -> Iterator[Driver]:
    """The daemons over the day's instance and an in-process code location."""
    origin = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(python_file=None, module_name=__name__, attribute="accelerated"),
        location_name="crawl",
    )
    with dg.DagsterInstance.from_config(str(day.home)) as instance:
        target = InProcessWorkspaceLoadTarget(origin)
        with create_test_daemon_workspace_context(target, instance) as workspace:
            yield Driver(day, instance, workspace)


def measure(folder: Path) -> dict[str, Any]:
    """Run the accelerated day and say what grew."""
    started = time.monotonic()
    day = begin(folder)
    with driver(day) as drive:
        # What is there once and not every hour: the first look of everything.
        drive.sensors()
        drive.evaluate(most=0)
        ticks, events = _ticks(drive), _table_events(drive)
        quiet = _quiet_evaluations(drive)
        drive.day.advance((MIDNIGHT - drive.day.now).total_seconds())
        busy = _busy_evaluations(drive)
    kinds = {kind: (count, drive.sizes[kind][-1]) for kind, count in sorted(drive.asked.items())}
    evaluations = quiet + busy // 24
    runs = sum(count * size for count, size in kinds.values()) / 24
    return {
        "bytes_per_hour": round(ticks + events + evaluations + runs),
        "budget": BUDGET,
        "ticks": {"bytes_per_hour": ticks},
        "table_events": {"bytes_per_hour": events},
        "evaluations": {"bytes_per_hour": evaluations, "quiet": quiet, "busy": busy // 24},
        "runs": {
            "bytes_per_hour": round(runs),
            "kinds": {kind: {"a_day": count, "bytes_each": size} for kind, (count, size) in kinds.items()},
        },
        "seconds": round(time.monotonic() - started, 1),
    }


def _ticks(drive: Driver) -> int:
    """Growth per hour by sensors' ticks alone."""
    before = on_disk(drive.day.home)
    for _ in range(0, SAMPLE, STEP):
        drive.day.advance(STEP)
        drive.sensors()
    return (on_disk(drive.day.home) - before) * HOUR // SAMPLE


def _table_events(drive: Driver) -> int:
    """Growth per hour by events of tables that all have news whenever they may be reported."""
    growth: defaultdict[float, int] = defaultdict(int)
    gaps = (PRODUCTION.table_event_gap, PRODUCTION.other_event_gap)
    for gap in gaps * ROUNDS:
        drive.day.commit()
        drive.day.advance(gap)
        before = on_disk(drive.day.home)
        drive.sensors()
        growth[gap] += on_disk(drive.day.home) - before
    often, seldom = (growth[gap] / ROUNDS for gap in gaps)
    hourly = [HOUR / gap for gap in gaps]
    return int(often * (hourly[0] - hourly[1]) + seldom * hourly[1])


def _quiet_evaluations(drive: Driver) -> int:
    """Growth per hour by evaluations that find nothing due: in these hours nothing is after half past."""
    growth = count = 0
    for hour in (7, 8, 10, 11):
        for minute in (2, 17, 32, 37, 42):
            drive.day.advance((START + timedelta(hours=hour, minutes=minute) - drive.day.now).total_seconds())
            grown = drive.evaluate(most=0)
            if minute > 32:
                growth, count = growth + grown, count + 1
    return int(growth / count * (HOUR / PRODUCTION.decisions_tick + HOUR / PRODUCTION.analysis_tick))


def _busy_evaluations(drive: Driver) -> int:
    """Growth of a day by the evaluations at and after each tick of a cron, in which something changes."""
    growth = 0
    drive.asked.clear()
    for due in sorted(_evaluations_after_crons(drive.day.now, MIDNIGHT + timedelta(days=1))):
        drive.day.commit()
        for turn in range(AFTER):
            later = due + turn * timedelta(seconds=PRODUCTION.analysis_tick)
            if later > drive.day.now:
                drive.day.advance((later - drive.day.now).total_seconds())
                growth += drive.evaluate(most=2)
    return growth


def _evaluations_after_crons(since: datetime, until: datetime) -> set[datetime]:
    """When the first evaluation of either sensor after each tick of a cron is."""
    pace = timedelta(seconds=PRODUCTION.analysis_tick)
    ticks: set[datetime] = set()
    for cron in CRONS:
        for tick in cron_string_iterator(since.timestamp(), cron, "UTC"):
            if tick >= until:
                break
            ticks.add(tick + pace - (tick - MIDNIGHT) % pace)
    return ticks


def report(found: dict[str, Any]) -> str:
    lines = [
        f"Dagster's storage grows by {found['bytes_per_hour'] / 1e3:,.0f} kB an hour (budget {BUDGET / 1e3:,.0f} kB)",
        *(
            f"  {part.replace('_', ' '):14} {found[part]['bytes_per_hour'] / 1e3:6,.0f} kB/h"
            for part in ("ticks", "table_events", "evaluations", "runs")
        ),
    ]
    for kind, run in found["runs"]["kinds"].items():
        lines.append(f"    {run['a_day']:3d} a day × {run['bytes_each'] / 1e3:6,.0f} kB  {kind}")
    return "\n".join([*lines, f"measured in {found['seconds']} s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    # In memory where possible: SQLite waits for the disk with every row, and bytes are bytes.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="dagster-storage-", dir=memory if memory.is_dir() else None))
    try:
        found = measure(folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found) if arguments.json else report(found))
    raise SystemExit(found["bytes_per_hour"] > BUDGET)


if __name__ == "__main__":
    # The code location imports this module by its name: the day has to be in that one.
    from bench.dagster_storage import main as by_name

    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    by_name()
