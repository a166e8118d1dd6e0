"""Starts the fleet's processes, keeps them running, and stops them in order.

Children that die are started again with a growing pause; one that says it must not go on (the lake was
restored to an older state) stays down and is reported. What is going on stands in `run/status.json`. SIGHUP has cells
and committer end in order and start again, so that they read their settings anew.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.descriptors import raise_descriptors
from crawl_platform.fleet.exchange import Endpoint
from crawl_platform.fleet.logs import rotate_outputs
from crawl_platform.fleet.prepare import cell_names, prepare_fleet
from crawl_platform.fleet.reloading import settings_to_reload
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
EXIT_REFUSES = 3
"""Exit status of a child that must not be started again without an operator."""
POLL = 0.25
STOP_PATIENCE = 10.0
STABLE = 60.0
"""A child that ran this long (seconds) has its restart pause reset."""
MAX_PAUSE = 30.0
LOOPING = 3
"""Short lives in a row from which on a child counts as failing, also while it happens to run."""
OUTPUTS_EVERY = 30.0
"""Seconds between looks at the size of what children print."""
FULL, ROOM = 1_000_000, 16_000_000
"""Free bytes below which the disk counts as full, and from which on it is no longer."""
NATS_PATIENCE = 20.0
LOCK_TRIES = 5
"""A command that only looks whether a fleet runs holds the lock for an instant."""


class ChildStatus(msgspec.Struct):
    name: str
    pid: int
    state: str
    """running, restarting, failing (it keeps ending soon after its start) or refused"""
    restarts: int
    detail: str = ""


class FleetStatus(msgspec.Struct):
    """What `crawl status` reads. `at` is UTC seconds of the last write."""

    pid: int
    state: str
    started_at: float
    at: float
    children: list[ChildStatus]


class Companion(msgspec.Struct, frozen=True):
    """A command to keep running beside the fleet; `env` is added to the supervisor's own."""

    name: str
    command: list[str]
    env: dict[str, str] = {}


@dataclass(slots=True)
class Child:
    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restarts: int = 0
    pause: float = 0.5
    again_at: float = 0.0
    refused: str = ""
    short_lives: int = 0
    """Since it last ran for `STABLE` seconds."""
    ended_with: int = 0

    def status(self, now: float) -> ChildStatus:
        """`now`: boottime."""
        running = self.process is not None and self.process.poll() is None
        pid = self.process.pid if running and self.process is not None else 0
        if running and now - self.started_at > STABLE:
            self.short_lives = 0
        state, detail = "running" if running else "restarting", ""
        if self.refused:
            state, detail = "refused", self.refused
        elif self.short_lives >= LOOPING:
            state = "failing"
            detail = (
                f"ended {self.short_lives} times in a row, last with status {self.ended_with}: see {self.log}"
            )
        return ChildStatus(self.name, pid, state, self.restarts, detail)

    @property
    def log(self) -> str:
        """Where it says why: a process of ours that died before it could log wrote to `.out`."""
        return f"logs/{self.name}.log and .out"


@dataclass
class Supervisor:
    settings: Settings
    clock: Clock
    faults: dict[str, str] = field(default_factory=dict)
    """Tests only: process name → fault point, for its first start."""
    companions: list["Companion"] = field(default_factory=list)
    """Processes that live and die with the fleet but are not part of it (Dagster)."""
    login: tuple[str, str] | None = None
    """User and password of the NATS at `fleet.nats_url`."""

    def __post_init__(self) -> None:
        self._children: list[Child] = []
        self._started_at = self.clock.now()
        self._home = self.settings.root
        self._status_is_stale = False
        self._was_full = False
        self._outputs_seen_at = self.clock.boottime()
        self._to_reload = False

    def reload(self) -> None:
        """Have the cells and the committer read their settings anew, soon."""
        self._to_reload = True

    async def run(self, stop: asyncio.Event) -> None:
        """Run the fleet until `stop`. Raises `ConfigurationError` if one is running here already."""
        raise_descriptors(self.settings)
        async with _sole_supervisor(self._home):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        self._write_status("starting")
        try:
            cells = self.settings.fleet.cells
            endpoint = self._start_nats()
            counts = await prepare_fleet(self.settings, endpoint, self.clock, cells, within=NATS_PATIENCE)
            log.info("shards per cell: %s", counts)
            self._add("committer", "committer")
            for name in cell_names(cells):
                self._add(name, "cell", "--name", name)
            for companion in self.companions:
                self._accompany(companion)
            self._write_status("running")
            while not stop.is_set():
                self._reload_if_told()
                self._look_after_children()
                self._write_status("running")
                self._heal_nats()
                self._rotate_outputs()
                await _sleep(stop, POLL)
        finally:
            self._write_status("stopping")
            self._stop_all()
            self._write_status("stopped")

    def _start_nats(self) -> Endpoint:
        if self.settings.fleet.nats_url:
            return natsserver.remember(self._home, self.settings.fleet.nats_url, self.login)
        endpoint, config = natsserver.prepare(self._home)
        output = self._home / "logs" / "nats.out"
        self._start(Child("nats", lambda: natsserver.start(config, output)))
        return endpoint

    def _add(self, name: str, kind: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "crawl_platform.fleet", kind, "--home", str(self._home), *arguments]
        fault = self.faults.pop(name, "")
        first = [*command, "--fault", fault] if fault else command
        commands = iter([first])

        def start() -> subprocess.Popen[bytes]:
            return natsserver.spawn(next(commands, command), self._home / "logs" / f"{name}.out")

        self._start(Child(name, start))

    def _accompany(self, companion: Companion) -> None:
        output = self._home / "logs" / f"{companion.name}.out"
        self._start(
            Child(
                companion.name,
                lambda: natsserver.spawn(companion.command, output, companion.env),
            )
        )

    def _start(self, child: Child) -> None:
        child.process = child.start()
        child.started_at = self.clock.boottime()
        self._children.append(child)
        log.info("%s started, pid %d", child.name, child.process.pid)

    def _look_after_children(self) -> None:
        now = self.clock.boottime()
        for child in self._children:
            if child.refused or child.process is None or (code := child.process.poll()) is None:
                continue
            if not child.again_at:
                self._ended(child, code, now)
            elif now >= child.again_at:
                self._start_again(child, now)

    def _reload_if_told(self) -> None:
        """All of them end before the first starts: no two cells go by different settings at one time."""
        if not self._to_reload:
            return
        self._to_reload = False
        try:
            settings_to_reload(self._home, self.settings.fleet.cells)
        except ConfigurationError as error:
            log.error("all goes on as it was: %s", error)
            return
        log.info("settings are read anew: cells and committer end and start again")
        self._write_status("reloading")
        cells = [child for child in self._children if child.name in cell_names(self.settings.fleet.cells)]
        committer = [child for child in self._children if child.name == "committer"]
        self._stop_in_order(cells, committer)
        for child in committer + cells:
            child.refused, child.pause, child.short_lives = "", 0.5, 0
            self._start_again(child, self.clock.boottime())

    def _start_again(self, child: Child, now: float) -> None:
        try:
            child.process = child.start()
        except OSError as error:  # its output file can't be made while the disk is full
            child.again_at = now + child.pause
            log.error("%s can't be started: %s", child.name, error)
            return
        child.again_at, child.started_at = 0.0, now
        child.restarts += 1
        log.info("%s started again, pid %d", child.name, child.process.pid)

    def _heal_nats(self) -> None:
        """A full disk has passed: NATS goes on refusing to write to the streams it hit until it is restarted."""
        free = shutil.disk_usage(self._home).free
        if self._status_is_stale or free < FULL:
            self._was_full = True
        elif self._was_full and free >= ROOM:
            self._was_full = False
            for child in self._children:
                if child.name == "nats" and child.process is not None:
                    log.warning("the disk was full and has room again: nats is started anew")
                    child.process.terminate()

    def _rotate_outputs(self) -> None:
        now = self.clock.boottime()
        if now - self._outputs_seen_at < OUTPUTS_EVERY:
            return
        self._outputs_seen_at = now
        try:
            rotate_outputs(self._home / "logs", self.settings.fleet.log_bytes)
        except OSError as error:  # a full disk has its own way of being told
            log.error("outputs can't be rotated: %s", error)

    def _ended(self, child: Child, code: int, now: float) -> None:
        if code == EXIT_REFUSES:
            child.refused = f"refuses to go on, see logs/{child.name}.log"
            log.critical("%s %s", child.name, child.refused)
            return
        lived = now - child.started_at
        child.pause = 0.5 if lived > STABLE else min(child.pause * 2, MAX_PAUSE)
        child.short_lives = 0 if lived > STABLE else child.short_lives + 1
        child.ended_with = code
        child.again_at = now + child.pause
        log.error("%s ended with status %d; starting it again in %.1f s", child.name, code, child.pause)

    def _stop_all(self) -> None:
        """Cells first (they commit what they have) with the companions, then the committer, NATS last."""
        others = [child for child in self._children if child.name not in ("committer", "nats")]
        left = self._stop_in_order(others, [child for child in self._children if child.name == "committer"])
        self._stop_in_order([child for child in self._children if child.name == "nats"], patience=left)

    def _stop_in_order(self, *groups: list[Child], patience: float = STOP_PATIENCE) -> float:
        """One group after another, all within `patience` seconds; returns what is left of these."""
        for group in groups:
            patience -= self._stop([c.process for c in group if c.process is not None], patience)
        return patience

    def _stop(self, processes: list[subprocess.Popen[bytes]], patience: float) -> float:
        """SIGTERM, wait up to `patience` seconds, then SIGKILL; returns the seconds it took."""
        begun = self.clock.boottime()
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            left = max(patience - (self.clock.boottime() - begun), 0.5)
            try:
                process.wait(left)
            except subprocess.TimeoutExpired:
                log.warning("pid %d did not stop in time, killing it", process.pid)
                process.kill()
                process.wait()
        return self.clock.boottime() - begun

    def _write_status(self, state: str) -> None:
        status = FleetStatus(
            os.getpid(),
            state,
            self._started_at,
            self.clock.now(),
            [child.status(self.clock.boottime()) for child in self._children],
        )
        try:
            self._save(msgspec.json.encode(status))
        except OSError as error:  # a full disk must not take down the fleet, nor leave it without a parent
            if not self._status_is_stale:
                log.error("run/status.json can't be written: %s", error)
            self._status_is_stale = True
        else:
            self._status_is_stale = False

    def _save(self, status: bytes) -> None:
        path = status_path(self._home)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_bytes(status)
        draft.replace(path)


def status_path(home: Path) -> Path:
    return home / "run" / "status.json"


def read_status(home: Path) -> FleetStatus | None:
    """The supervisor's last word, None if there never was one."""
    try:
        return msgspec.json.decode(status_path(home).read_bytes(), type=FleetStatus)
    except FileNotFoundError:
        return None


def _lock_path(home: Path) -> Path:
    return home / "run" / "supervisor.lock"


@contextlib.asynccontextmanager
async def _sole_supervisor(home: Path) -> AsyncIterator[None]:
    """Hold the home's lock. It goes with the process however that ends; a pid in a file may be anybody's by now."""
    path = _lock_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for _ in range(LOCK_TRIES):
            if _lock(file, fcntl.LOCK_EX):
                break
            await asyncio.sleep(0.1)
        else:
            status = read_status(home)
            who = f" (pid {status.pid})" if status is not None else ""
            raise ConfigurationError(
                f"a fleet is already running here{who}, or upkeep is at work: `crawl down` stops a fleet"
            )
        yield


@contextlib.contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Keep supervisors away for a while. Raises `ConfigurationError` if a fleet is running here."""
    path = _lock_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        if not _lock(file, fcntl.LOCK_EX):
            raise ConfigurationError(f"a fleet is running at {home}, or upkeep is at work there")
        yield


def _lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_running(home: Path) -> bool:
    """Whether a supervisor holds the home."""
    try:
        with _lock_path(home).open() as file:
            return not _lock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
