"""The fleet on this machine: a supervisor and the processes that it keeps (`crawl up`)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from crawl_platform import settings as settings_module
from crawl_platform.clock import Clock, SystemClock
from crawl_platform.errors import ConfigurationError, PlatformError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.natsserver import die_with_parent
from crawl_platform.fleet.reloading import settings_to_reload
from crawl_platform.fleet.shards import read_owners
from crawl_platform.fleet.supervisor import Companion, FleetStatus, is_running, read_status
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings
from resources.fleet_control import CellState, FleetState, cell_states, require_scalable

START_PATIENCE = 30.0
STOP_PATIENCE = 15.0
KEPT = ("nats", "api", "dagster")
"""What goes on while cells and the committer read their settings anew."""


class LocalFleet:
    """`FleetControl` of the crawl at `settings.root`; `beside` are processes that live and die with the fleet."""

    def __init__(
        self, settings: Settings, *, beside: Sequence[Companion] = (), clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._beside = beside
        self._clock = clock or SystemClock()
        self._home = settings.root
        self._endpoint_file = settings.root / "run" / "nats.json"

    def start(self) -> None:
        if is_running(self._home):
            return
        self._settings.require_contact()
        wait_until_running(self._settings, start_supervisor(self._settings, self._beside, outlives_us=True))

    def stop(self) -> None:
        stop_fleet(self._home)

    def restart(self) -> None:
        self.stop()
        self._settings = settings_module.load(self._home)
        self.start()

    def scale(self, cells: int) -> None:
        if not Lake(self._settings.lake_root).exists():
            fleet = msgspec.structs.replace(self._settings.fleet, cells=cells)
            self._settings = msgspec.structs.replace(self._settings, fleet=fleet)
            self._settings.validate()
            settings_module.save(self._settings)
            return
        if not is_running(self._home):
            raise ConfigurationError(
                f"the fleet at {self._home} does not run: who owns the shards can't be read. Start it first"
            )
        require_scalable(read_owners(self._endpoint_file), cells)

    def status(self) -> FleetState:
        status = read_status(self._home)
        if status is None or not is_running(self._home):
            return FleetState(0, ())
        children = [child for child in status.children if child.name.startswith("cell-")]
        kept = {c.name: CellState(c.name, c.state, 0, c.restarts, detail=c.detail) for c in children}
        client = FleetClient(self._endpoint_file, Lake(self._settings.lake_root).n_shards)
        owners = read_owners(self._endpoint_file)
        return FleetState(len(kept), cell_states(kept, owners, client.heartbeats(), self._clock.now()))


def start_supervisor(
    settings: Settings, beside: Iterable[Companion], *, outlives_us: bool = False
) -> subprocess.Popen[bytes]:
    """The supervisor in a session of its own: Ctrl-C reaches us, and we stop it in order.

    Unless it `outlives_us` it also stops when we are killed.
    """
    command = [sys.executable, "-m", "crawl_platform.fleet", "supervisor", "--home", str(settings.root)]
    for companion in beside:
        command += ["--companion", msgspec.json.encode(companion).decode()]
    logs = settings.root / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "supervisor.out").open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if outlives_us else die_with_parent,
        )


def wait_until_running(settings: Settings, process: subprocess.Popen[bytes]) -> FleetStatus:
    """Wait for the fleet's first sign of life. Raises `PlatformError` with the log's last line if it ends."""
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PlatformError(
                f"the fleet did not start: {last_line(settings.root / 'logs' / 'supervisor.log')}"
            )
        status = read_status(settings.root)
        if status is not None and status.pid == process.pid and status.state == "running":
            return status
        time.sleep(0.05)
    raise PlatformError(
        f"the fleet did not start within {START_PATIENCE:.0f} s: see {settings.root / 'logs'}"
    )


def last_line(path: Path) -> str:
    """The end of a log, for a message."""
    lines = path.read_text().splitlines() if path.exists() else []
    return lines[-1] if lines else f"{path} is empty"


def stop_fleet(home: Path) -> bool:
    """Stop the fleet at `home` in order; False if none runs. Raises `PlatformError` if it does not stop."""
    status = read_status(home)
    if status is None or not is_running(home):
        return False
    os.kill(status.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE
    while is_running(home):
        if time.monotonic() > deadline:
            raise PlatformError(f"the fleet (pid {status.pid}) has not stopped within {STOP_PATIENCE:.0f} s")
        time.sleep(0.1)
    return True


def reload_fleet(home: Path) -> None:
    """Have the fleet at `home` read its settings anew, and wait until all its processes run again.

    Raises `ConfigurationError` if none runs or they are wrong, `PlatformError` if one of them does not come back.
    """
    before = read_status(home)
    if before is None or not is_running(home):
        raise ConfigurationError(f"no fleet is running at {home}: the next `crawl up` reads them")
    old = {child.name: child.pid for child in before.children if child.name not in KEPT}
    settings_to_reload(home, len(old) - 1)
    os.kill(before.pid, signal.SIGHUP)
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        status = read_status(home)
        if status is not None and status.state == "running" and _all_new(status, old):
            return
        time.sleep(0.1)
    raise PlatformError(
        f"the fleet is not back after {START_PATIENCE:.0f} s: `crawl status` says what is wrong"
    )


def _all_new(status: FleetStatus, old: dict[str, int]) -> bool:
    return all(
        child.state == "running" and child.pid != old[child.name]
        for child in status.children
        if child.name in old
    )


def stop_supervisor(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM and wait; SIGKILL (its children follow it) only if it does not listen."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
