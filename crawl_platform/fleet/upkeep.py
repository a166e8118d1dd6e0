"""Who runs upkeep, and when: never beside a commit.

While a fleet runs, whoever wants upkeep asks the committer over NATS. Between two rounds the committer starts upkeep
as a child process (memory of its own, killed without harm), keeps its lease meanwhile, and answers with the report;
cells spool what they bring. One answer is one bounded portion: `left` says whether to ask again. Without a fleet,
`upkeep_here` does the same under the home's lock, which keeps supervisors out. Upkeep itself holds a lock beside the
tables: processes of different homes (pods, say) may share one lake.
"""

import contextlib
import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from crawl_platform.clock import Clock
from crawl_platform.commit.committer import Committer
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.manifest import Manifest
from crawl_platform.commit.outbox import unforgotten
from crawl_platform.errors import PlatformError, StateError
from crawl_platform.fleet.natsserver import spawn
from crawl_platform.fleet.supervisor import hold_home
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.catalog import CATALOG_NAME, write_catalog
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Budget, Report
from crawl_platform.lake.upkeep.run import Held, upkeep
from crawl_platform.settings import Settings

SUBJECT = "upkeep.order"
PATIENCE = 600.0
"""Seconds to wait for one portion: ten times what it may take, for a machine that is busy crawling."""
ABSENT = 20.0
"""Seconds that the committer may be away: a fleet that starts, or a lost committer's lease of 10 s."""
PORTIONS = 50
"""Most portions asked for in one go: 50 GB rewritten."""
LOCK_NAME = ".upkeep.lock"
Files = dict[str, list[str]]


class Order(msgspec.Struct, frozen=True):
    """What is wanted: `tables`, all if empty. `only_purges`: the purges that stand, and nothing else."""

    tables: tuple[str, ...] = ()
    dry_run: bool = False
    only_purges: bool = False


class Task(msgspec.Struct, frozen=True):
    """An order with what the committer knows: table → staged files of manifests that wait in NATS."""

    order: Order = Order()
    waiting: Files = {}


class Answer(msgspec.Struct, frozen=True):
    """The report, or why there is none."""

    report: Report | None = None
    error: str = ""

    def result(self) -> Report:
        """The report. Raises `PlatformError` if there is none."""
        if self.report is None:
            raise PlatformError(f"upkeep did not run: {self.error}")
        return self.report


def in_portions(ask: Callable[[], Report], most: int) -> Report:
    """Ask until nothing is left, at most `most` times; ends early when a portion has done nothing."""
    report = portion = ask()
    for _ in range(most - 1):
        if portion.dry_run or not portion.left or not portion.done:
            break
        portion = ask()
        report += portion
    return report


def do_portion(
    settings: Settings,
    clock: Clock,
    task: Task,
    *,
    faults: Faults | None = None,
    budget: Budget | None = None,
) -> Report:
    """One portion in this process. Nobody may commit meanwhile: the caller sees to that.

    Raises `PlatformError` if upkeep is under way on this lake already.
    """
    with _alone(settings.lake_root):
        return upkeep(
            Lake(settings.lake_root),
            settings.retention,
            clock,
            tables=task.order.tables,
            held=held_files(settings.root, task.waiting),
            manifest_max_age=settings.commit.manifest_max_age,
            dry_run=task.order.dry_run,
            only_purges=task.order.only_purges,
            budget=budget,
            reached=(faults or Faults()).reached,
        )


def upkeep_here(settings: Settings, clock: Clock, order: Order) -> Report:
    """All portions in this process, while no fleet runs. Raises `ConfigurationError` if one does."""
    lake = Lake(settings.lake_root)

    def portion() -> Report:
        """What it has rewritten is published before the next one, as the committer does."""
        report = do_portion(settings, clock, Task(order))
        if not order.dry_run:
            committer = Committer(lake, clock, redeliver=_never, max_age=settings.commit.manifest_max_age)
            if committer.publish_versions() is not None:
                write_catalog(lake, settings.root / CATALOG_NAME)
        return report

    with hold_home(settings.root):
        return in_portions(portion, PORTIONS)


def _never(manifest: Manifest) -> None:
    raise AssertionError(f"no manifest was offered, {manifest.label} can't be quarantined")


@contextlib.contextmanager
def _alone(lake_root: Path) -> Iterator[None]:
    """A second upkeep is turned away: one that outlived its committer, or of another home with the same lake."""
    with (lake_root / LOCK_NAME).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PlatformError(f"upkeep is under way at {lake_root} already") from error
        yield


def held_files(home: Path, waiting: Mapping[str, list[str]]) -> Held | None:
    """Table → staged files that a manifest names which the lake hasn't confirmed; None if a cell can't be asked.

    From the cells' own stores, beside `waiting`: a manifest may not have been published yet. Cells on other machines
    can't be read, so an orphan is also kept for longer than the oldest manifest that would still be taken.
    """
    held = {table: set(files) for table, files in waiting.items()}
    try:
        for state in sorted((home / "cells").glob("*/state")):
            for table, files in files_of(_manifests(state)).items():
                held.setdefault(table, set()).update(files)
    except StateError:
        return None
    return held


def _manifests(state: Path) -> list[Manifest]:
    with tempfile.TemporaryDirectory() as scratch:
        kv = RocksKV.read_beside(state, Path(scratch))
        try:
            return list(unforgotten(kv))
        finally:
            kv.close()


def files_of(manifests: Iterable[Manifest]) -> Files:
    """Table → paths of the files that these manifests name."""
    files: Files = {}
    for manifest in manifests:
        for file in manifest.files:
            files.setdefault(file.table, []).append(file.path)
    return files


class Child:
    """Upkeep as a child process of the committer. It gets SIGTERM when the committer dies, however that happens."""

    def __init__(self, home: Path, task: Task, fault: str = "") -> None:
        run = home / "run"
        order, self._answer = run / "upkeep.task.json", run / "upkeep.answer.json"
        self._answer.unlink(missing_ok=True)
        order.write_bytes(msgspec.json.encode(task))
        command = [sys.executable, "-m", "crawl_platform.fleet", "upkeep", "--home", str(home)]
        command += ["--task", str(order), "--answer", str(self._answer)]
        command += ["--fault", fault] if fault else []
        self._process: subprocess.Popen[bytes] = spawn(command, home / "logs" / "upkeep.out")

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> Answer | None:
        """The answer once it has ended, None while it works."""
        code = self._process.poll()
        if code is None:
            return None
        try:
            return msgspec.json.decode(self._answer.read_bytes(), type=Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            return Answer(error=f"its process ended with status {code}, see logs/upkeep.out")

    def end(self) -> None:
        """Stop it if it still runs: whatever it was doing, the lake can be read."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
