"""A web as a process: `serve` runs inside it, `launch` starts one and stops it by pid."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import PlatformError
from crawl_platform.simulation.dns import Nameserver, Zone
from crawl_platform.simulation.message import Served
from crawl_platform.simulation.server import WebServer
from crawl_platform.simulation.web import SyntheticWeb

_READY_WITHIN = 30.0
_STOP_WITHIN = 5.0


class Ready(msgspec.Struct, frozen=True):
    """The line that a web prints when it answers. `seed` and what follows are None for a file web."""

    nameserver: str
    http_port: int
    https_port: int
    ca_file: str
    log: str
    seeds: list[str]
    pid: int
    started_at: float
    seed: int | None = None
    pace: float | None = None
    scale: float | None = None

    def web(self) -> SyntheticWeb:
        """The same web as an object, to ask for the truth."""
        if self.seed is None or self.pace is None or self.scale is None:
            raise PlatformError("a file web has no seed: its files are the truth")
        return SyntheticWeb(
            self.seed, self.started_at, self.pace, self.scale, self.http_port, self.https_port
        )


@dataclass(frozen=True)
class RunningWeb:
    """A web in a child process."""

    ready: Ready
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """SIGTERM, then SIGKILL if it doesn't listen."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Options:
    """Where to serve: `log` and `ca_file` are written; ports of 0 are chosen; `ttl` in seconds."""

    log: Path
    ca_file: Path
    http_port: int = 0
    https_port: int = 0
    ttl: int = 60
    overrides: Mapping[str, Sequence[str]] | None = None


async def serve(
    build: Callable[[int, int], Served],
    options: Options,
    clock: Clock,
    ready: Callable[[str, int, int], None],
) -> None:
    """Serve `build(http_port, https_port)` until SIGTERM or SIGINT.

    Calls `ready(nameserver, http_port, https_port)` when it answers.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = WebServer(clock, options.log, options.ca_file)
    # Addresses don't depend on the ports, so a first web tells where to bind and the second has right URLs.
    server.bind(build(0, 0).hosts, options.http_port, options.https_port)
    web = build(server.http_port, server.https_port)
    nameserver = Nameserver(Zone(web.hosts, options.ttl, options.overrides))
    await server.start(web)
    await nameserver.start()
    ready(nameserver.address, server.http_port, server.https_port)
    await until_stopped_or_orphaned(stopped)
    nameserver.close()
    server.close()


async def until_stopped_or_orphaned(stopped: asyncio.Event) -> None:
    """A web whose launcher was killed has nobody left to stop it."""
    parent = os.getppid()
    while os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), 1.0)
            return


@contextlib.contextmanager
def launch(arguments: Sequence[str], log: Path, **options: Any) -> Iterator[RunningWeb]:
    """Start `python -m crawl_platform.simulation <arguments>` and stop it at the end.

    `arguments`: ("synthetic", "--seed", "7"), ("files", "HOST=FOLDER", …) or ("hostile", "NAME", …); `options` become
    --option value.
    """
    command = [sys.executable, "-m", "crawl_platform.simulation", *arguments, "--log", str(log)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        running = RunningWeb(_wait_ready(process), process)
        yield running
    finally:
        RunningWeb(_NEVER, process).stop()
        if process.stdout:
            process.stdout.close()


_NEVER = Ready("", 0, 0, "", "", [], 0, 0.0)


def _wait_ready(process: subprocess.Popen[bytes]) -> Ready:
    assert process.stdout
    with DefaultSelector() as selector:
        selector.register(process.stdout, EVENT_READ)
        if not selector.select(_READY_WITHIN):
            raise PlatformError(f"the simulated web was not ready within {_READY_WITHIN:g} s")
    line = process.stdout.readline()
    if not line:
        raise PlatformError(f"the simulated web ended with code {process.wait()} before it was ready")
    return msgspec.json.decode(line, type=Ready)
