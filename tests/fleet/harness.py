"""A real fleet for a test: supervisor, NATS, committer and cells as processes, on a home of the test's own.

    with launch([...], log) as web, Fleet(home, web.ready) as fleet:
        fleet.start()
        fleet.seed()
        fleet.wait_quiet()

Whatever happens, every process that was started is stopped by its pid, and a failing test prints the logs.
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import nats
import psutil
from nats.js.errors import NotFoundError

from crawl_platform import settings as settings_module
from crawl_platform.clock import SystemClock
from crawl_platform.commit.manifest import decode_manifest
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.exchange import Endpoint
from crawl_platform.fleet.messages import Heartbeat, encode
from crawl_platform.fleet.supervisor import Companion, FleetStatus, read_status
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Commit, Fetch, Identity, Politeness, Refresh, Settings
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import Ready
from crawl_platform.simulation.verdict import read_log
from tests.fleet.state import CellState

DELAY = 0.02
"""Seconds between requests to a host or address: our own hosts on loopback (the default is 1 s)."""
CALM = 1.0
"""Seconds without a request after which a fleet may be done."""
STOP_WITHIN = 30.0
_LIBC = ctypes.CDLL(None)
"""Looked up before any fork: nothing may be loaded between fork and exec of a process with threads."""
Row = dict[str, Any]


class Stream(NamedTuple):
    """`held`: messages not acked yet. `published`: all that there ever were, repeats included."""

    held: int
    published: int


def settings_for(home: Path, web: Ready, **sections: msgspec.Struct) -> Settings:
    """Settings of a test: the defaults but for the loopback web, the delay and short times. `sections` win."""
    defaults: dict[str, msgspec.Struct] = {
        "identity": Identity(contact="crawler@example.org"),
        "politeness": Politeness(host_delay=DELAY, address_delay=DELAY),
        "fetch": fetch_from(web),
        "commit": Commit(epoch_seconds=1.0, stats_seconds=5.0),
        "refresh": Refresh(interval_min=3600.0),
    }
    return Settings(home=str(home), **{**defaults, **sections})  # type: ignore[arg-type]


def fetch_from(web: Ready, **values: Any) -> Fetch:
    """Fetch settings that reach `web`."""
    return Fetch(
        nameservers=(web.nameserver,), allow_networks=("127.0.0.0/8",), ca_file=web.ca_file, **values
    )


def eventually(
    condition: Callable[[], bool], within: float, what: str = "the condition", pause: float = 0.1
) -> float:
    """Wait until `condition` holds; returns the seconds it took. Fails after `within` seconds."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < within, f"{what}: not within {within:g} s"
        time.sleep(pause)
    return time.monotonic() - begun


class Fleet:
    """`began`: CLOCK_BOOTTIME of the first start; `requests` are those that the web has seen since."""

    def __init__(self, home: Path, web: Ready, **sections: msgspec.Struct) -> None:
        self.home = home
        self.web = web
        self.settings = settings_for(home, web, **sections)
        self.clock = SystemClock()
        self.began = self.clock.boottime()
        self.lake = Lake(home / "lake")
        self.process: subprocess.Popen[bytes] | None = None
        self.companions: list[Companion] = []
        """What runs beside the fleet, from the next start on."""
        self._pids: set[int] = set()
        self._first_beats: dict[int, float] = {}
        settings_module.save(self.settings)

    # life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.logs())
        self._end()

    def start(self, *faults: str) -> Self:
        """Start the supervisor and wait until it says that the fleet runs. `faults`: process=point:nth."""
        self.process = self.spawn_supervisor(*faults)
        started = time.time()
        eventually(self._up, 60.0, "the fleet runs")
        eventually(lambda: len(self._beats_after(started)) == self.settings.fleet.cells, 60.0, "cells live")
        self._note_pids()
        return self

    def spawn_supervisor(self, *faults: str) -> subprocess.Popen[bytes]:
        """A supervisor on this home, whether or not one runs here already."""
        command = [sys.executable, "-m", "crawl_platform.fleet", "supervisor", "--home", str(self.home)]
        command += [part for fault in faults for part in ("--fault", fault)]
        for companion in self.companions:
            command += ["--companion", msgspec.json.encode(companion).decode()]
        return subprocess.Popen(command, preexec_fn=_die_with_us)

    def _up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the supervisor ended with status {self.process.returncode}"
        status = read_status(self.home)
        return status is not None and status.pid == self.process.pid and status.state == "running"

    def stop(self) -> None:
        """Stop cleanly, as `crawl down` does. Fails if it takes too long or leaves a process behind."""
        assert self.process is not None
        self._note_pids()
        self.process.terminate()
        self.process.wait(STOP_WITHIN)
        assert self.left_over() == [], "a process was left behind"
        assert self.process.returncode == 0
        self.process = None

    def _end(self) -> None:
        """Whatever still runs of ours ends now, by pid."""
        process, self.process = self.process, None
        if process is not None:
            self._note_pids()
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for child in self.left_over():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGCONT)
                child.kill()

    # processes

    def status(self) -> FleetStatus:
        status = read_status(self.home)
        assert status is not None
        return status

    def pid(self, name: str) -> int:
        """Process id of a child; 0 while it is down."""
        return next(child.pid for child in self.status().children if child.name == name)

    def restarts(self, name: str) -> int:
        return next((child.restarts for child in self.status().children if child.name == name), 0)

    def kill(self, name: str) -> int:
        """kill -9 of one child; returns the pid it had."""
        self._note_pids()
        pid = self.living_pid(name)
        with contextlib.suppress(ProcessLookupError):  # it died by itself, and status.json doesn't know yet
            os.kill(pid, signal.SIGKILL)
        return pid

    def living_pid(self, name: str) -> int:
        """The pid of a child that runs now; waits for one that is being started again (0 would be all of us)."""
        eventually(lambda: self.pid(name) != 0, 60.0, f"{name} runs")
        return self.pid(name) or self.living_pid(name)

    def kill_supervisor(self) -> None:
        """kill -9 of the supervisor, which tells its children to end; another one starts at once."""
        assert self.process is not None
        self._note_pids()
        self.process.kill()
        self.process.wait()
        self.process = self.spawn_supervisor()

    def kill_everything(self) -> float:
        """kill -9 of supervisor and children at one moment, as a power cut; returns its CLOCK_BOOTTIME."""
        assert self.process is not None
        self._note_pids()
        self.process.send_signal(signal.SIGSTOP)
        at = self.clock.boottime()
        for child in self.left_over():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        self.process.wait()
        eventually(lambda: self.left_over() == [], 10.0, "all are dead", 0.01)
        return at

    def wait_up(self) -> None:
        """Until the supervisor that was started last says that the fleet runs."""
        eventually(self._up, 60.0, "the fleet runs")

    def kill_cell(self, name: str = "cell-0") -> CellState:
        """kill -9 of a cell; returns what its disk held at that moment."""
        while True:
            self.living_pid(name)
            with self.held():
                if pid := self.pid(
                    name
                ):  # else it died by itself, and only a supervisor that runs starts another
                    self._note_pids()
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    eventually(lambda: _dead(pid), 5.0, f"{name} is dead", 0.01)
                    return self.copy_of_state(name)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the supervisor from starting anything again meanwhile."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def suspended(self, name: str) -> Iterator[None]:
        """One child stands still (SIGSTOP), as on a machine that is too busy."""
        pid = self.living_pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def after_death_of(self, name: str, within: float = 60.0) -> Iterator[None]:
        """Wait until a child has died of its fault; inside the block nothing is started again."""
        self._note_pids()
        pid = self.pid(name)
        eventually(lambda: _dead(pid), within, f"{name} dies of its fault", 0.01)
        with self.held():
            yield

    def copy_of_state(self, name: str = "cell-0") -> CellState:
        """What the disk of a dead or stopped cell holds: read from a copy, so that nothing is changed."""
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            copy = Path(folder) / "state"
            shutil.copytree(self.home / "cells" / name / "state", copy)
            return CellState.read(copy)

    def left_over(self) -> list[psutil.Process]:
        """Processes of this fleet that still run."""
        return [process for pid in self._pids if (process := _process_of(pid, self.home)) is not None]

    def _note_pids(self) -> None:
        status = read_status(self.home)
        if status is not None:
            self._pids |= {child.pid for child in status.children if child.pid}
        if self.process is not None and not _dead(self.process.pid):
            self._pids |= {child.pid for child in psutil.Process(self.process.pid).children()}

    # what it is told

    @property
    def client(self) -> FleetClient:
        return FleetClient(self.home / "run" / "nats.json", self.settings.fleet.shards)

    def seed(self, urls: Sequence[str] | None = None) -> None:
        """Seed `urls`, or all that the web names."""
        self.client.seed(self.web.seeds if urls is None else urls)

    def ring(self, subject: str) -> None:
        """A plain message to whoever listens."""
        asyncio.run(self._with_nats(lambda connection: connection.publish(subject, b"")))

    def publish(self, subject: str, message: msgspec.Struct | bytes) -> None:
        """A message as anybody with the credentials could send it, past the client's own checks."""
        data = message if isinstance(message, bytes) else encode(message)
        asyncio.run(self._with_nats(lambda connection: connection.jetstream().publish(subject, data)))

    def stream(self, name: str) -> Stream:
        """How many messages a stream holds and has ever held."""
        info = asyncio.run(self._with_nats(lambda connection: connection.jetstream().stream_info(name)))
        return Stream(info.state.messages, info.state.last_seq)

    def manifests_waiting(self) -> Counter[str]:
        """Label of each manifest that stands in the stream, with how often."""

        async def read(connection: Any) -> Counter[str]:
            stream = connection.jetstream()
            state = (await stream.stream_info("MANIFESTS")).state
            found: Counter[str] = Counter()
            for sequence in range(state.first_seq, state.last_seq + 1):
                with contextlib.suppress(NotFoundError):
                    message = await stream.get_msg("MANIFESTS", sequence)
                    found[decode_manifest(message.data).label] += 1
            return found

        counted: Counter[str] = asyncio.run(self._with_nats(read))
        return counted

    async def _with_nats(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        endpoint = Endpoint.read(self.home / "run" / "nats.json")
        connection = await nats.connect(endpoint.url, user=endpoint.user, password=endpoint.password)
        try:
            return await work(connection)
        finally:
            await connection.drain()

    # what it does

    def beats(self) -> dict[str, Heartbeat]:
        return {beat.cell: beat for beat in self.client.heartbeats()}

    def _beats_after(self, moment: float) -> list[Heartbeat]:
        return [beat for beat in self.beats().values() if beat.at > moment]

    def requests(self) -> list[Entry]:
        """What the web's server has seen of this fleet, in the order of starts."""
        log = [entry for entry in read_log(Path(self.web.log)) if entry.start_boot >= self.began]
        return sorted(log, key=lambda entry: entry.start_boot)

    def requests_to(self, host: str) -> list[Entry]:
        return [entry for entry in self.requests() if entry.host == host]

    def wait_requests(self, number: int, host: str | None = None, within: float = 60.0) -> None:
        """Until the server has answered `number` requests of this fleet (to `host`)."""

        def enough() -> bool:
            log = self.requests()
            return sum(1 for entry in log if host in (None, entry.host)) >= number

        eventually(enough, within, f"{number} requests", 0.05)

    def wait_quiet(self, within: float = 60.0) -> float:
        """Until nothing is asked any more and all of it is in the lake. Returns the seconds it took.

        That is: no request for `CALM` seconds, and a sign of life of each cell from after them that names
        nothing in flight and nothing that the lake has not confirmed.
        """
        log = Path(self.web.log)
        size, since = -1, time.time()

        def quiet() -> bool:
            nonlocal size, since
            if (now := log.stat().st_size) != size:
                size, since = now, time.time()
            return time.time() - since > CALM and self._settled(since + CALM)

        return eventually(quiet, within, "the crawl comes to rest", 0.2)

    def _settled(self, after: float) -> bool:
        try:
            beats = self._beats_after(after)
        except ExchangeError:  # NATS was killed, and its supervisor waits the longer the more often it was
            return False
        return len(beats) == self.settings.fleet.cells and all(
            beat.report["in_flight"] == 0 and beat.report["spooled_bytes"] == 0 and self._was_up(beat)
            for beat in beats
        )

    def _was_up(self, beat: Heartbeat) -> bool:
        """Whether the process has told of itself before: a first beat is from before its first claim."""
        return self._first_beats.setdefault(beat.pid, beat.at) < beat.at

    # what it wrote

    def rows(self, sql: str, *parameters: object) -> list[Row]:
        """Rows of a query at the last commit."""
        found: list[Row] = self.lake.query(sql, parameters or None).to_pylist()
        return found

    def fetches(self) -> list[Row]:
        return self.rows("SELECT * FROM fetches ORDER BY started_at")

    def log_text(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text()

    def logs(self, lines: int = 15) -> str:
        """The end of every log, for whoever reads a failing test."""
        tails = {
            path.name: path.read_text(errors="replace").splitlines()[-lines:]
            for path in sorted((self.home / "logs").glob("*"))
        }
        return "\n".join(f"--- {name}\n" + "\n".join(tail) for name, tail in tails.items() if tail)


def _die_with_us() -> None:
    """In a new child: SIGTERM when this test run dies, however it dies (prctl(2), PR_SET_PDEATHSIG)."""
    _LIBC.prctl(1, signal.SIGTERM)


def _dead(pid: int) -> bool:
    """Ended, or a zombie that its parent has not collected yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _process_of(pid: int, home: Path) -> psutil.Process | None:
    """The process if it runs and is of the fleet at `home` (pids are used again)."""
    try:
        process = psutil.Process(pid)
        ours = any(str(home) in part for part in process.cmdline())
    except psutil.NoSuchProcess:
        return None
    return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
