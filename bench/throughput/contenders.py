"""Who is measured by `bench.crawl`, each as processes of its own: a bare client, Scrapy, and the whole product."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.throughput.pages import host_name
from bench.throughput.server import Listening, Seen
from crawl_platform import settings as settings_module
from crawl_platform.errors import PlatformError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.natsserver import die_with_parent
from crawl_platform.fleet.stages import CPU
from crawl_platform.fleet.supervisor import read_status
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Commit, Fetch, Fleet, Identity, Politeness, Settings

MEASURED, ELSEWHERE = 0, 1
"""Cores of the process that is measured, and of everything else."""
START_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Workload:
    """`size`: bytes of a page; `delay`: seconds between two requests to a host."""

    hosts: int
    size: int
    delay: float
    pin: bool


@dataclass(frozen=True, slots=True)
class Running:
    """`measured` is whose CPU the score is about, `others` are what it needs beside it."""

    measured: psutil.Process
    others: dict[str, psutil.Process]
    finish: Callable[[], dict[str, Any]] = dict
    """Stop cleanly and say what is left to be read."""
    stages: Callable[[], dict[str, float]] = dict
    """CPU seconds by stage since the start, as the process itself says."""


class Server:
    """`bench.throughput.server` as a child."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self.process = _child(
            ["bench.throughput.server", "--hosts", workload.hosts, "--bytes", workload.size,
             "--delay", workload.delay, "--folder", folder],
            folder / "server.out", pipes=True,
        )  # fmt: skip
        pin(self.process.pid, workload, ELSEWHERE)
        self.listening = msgspec.json.decode(self._line(), type=Listening)

    def _line(self) -> bytes:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise PlatformError(f"the server has ended with status {self.process.wait()}: see server.out")
        return line

    def seen(self) -> Seen:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self._line(), type=Seen)

    def stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        _end(self.process)


def _child(command: list[Any], output: Path, *, pipes: bool = False) -> subprocess.Popen[bytes]:
    with output.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else errors,
            stderr=errors,
            preexec_fn=die_with_parent,
        )


def _end(process: subprocess.Popen[bytes], patience: float = 30.0) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def pin(pid: int, workload: Workload, core: int) -> None:
    """Keep all threads of a process on one core, if that is wanted and there are two."""
    if not workload.pin or (os.cpu_count() or 1) < 2:
        return
    for thread in psutil.Process(pid).threads():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread.id, {core})


@contextlib.contextmanager
def bare(workload: Workload, server: Server, folder: Path, *options: str) -> Iterator[Running]:
    listening = server.listening
    with _alone(
        ["bench.throughput.bare", "--hosts", workload.hosts, "--port", listening.port, "--ca", listening.ca_file,
         "--delay", workload.delay, *options],
        workload, folder / "bare.out",
    ) as running:  # fmt: skip
        yield running


@contextlib.contextmanager
def scrapy(workload: Workload, server: Server, folder: Path) -> Iterator[Running]:
    with _alone(
        ["bench.throughput.scrapy_peer", "--hosts", workload.hosts, "--port", server.listening.port,
         "--delay", workload.delay],
        workload, folder / "scrapy.out",
    ) as running:  # fmt: skip
        yield running


@contextlib.contextmanager
def _alone(command: list[Any], workload: Workload, output: Path) -> Iterator[Running]:
    process = _child(command, output)
    try:
        pin(process.pid, workload, MEASURED)
        yield Running(psutil.Process(process.pid), {})
        if (status := process.poll()) is not None:
            raise PlatformError(f"{command[0]} ended with status {status}:\n{output.read_text()[-2_000:]}")
    finally:
        _end(process, 5.0)


def product_settings(workload: Workload, listening: Listening, home: Path, slots: int) -> Settings:
    """The defaults, but for the loopback web and the delay."""
    return Settings(
        home=str(home),
        identity=Identity(contact="crawler@example.org"),
        politeness=Politeness(host_delay=workload.delay, address_delay=workload.delay),
        fetch=Fetch(
            slots=slots,
            nameservers=(listening.nameserver,),
            allow_networks=("127.0.0.0/8",),
            ca_file=listening.ca_file,
        ),
        commit=Commit(),
        fleet=Fleet(min_free_disk=100_000_000),
    )


@contextlib.contextmanager
def product(workload: Workload, server: Server, folder: Path, slots: int = 128) -> Iterator[Running]:
    """Supervisor, NATS, committer and one cell, with a lake in `folder`."""
    home = folder / "home"
    settings = product_settings(workload, server.listening, home, slots)
    settings_module.save(settings)
    supervisor = _child(["crawl_platform.fleet", "supervisor", "--home", home], folder / "supervisor.out")
    try:
        children = _children(home, supervisor)
        for name, process in children.items():
            pin(process.pid, workload, MEASURED if name == "cell-0" else ELSEWHERE)
        client = FleetClient(home / "run" / "nats.json", settings.fleet.shards)
        port = server.listening.port
        client.seed([f"https://{host_name(n)}:{port}/" for n in range(workload.hosts)])

        def finish() -> dict[str, Any]:
            _end(supervisor)
            return _readable(Lake(home / "lake"))

        cell = children.pop("cell-0")
        others = children | {"supervisor": psutil.Process(supervisor.pid)}
        yield Running(cell, others, finish, partial(_stages, client))
    finally:
        _end(supervisor)


def _children(home: Path, supervisor: subprocess.Popen[bytes]) -> dict[str, psutil.Process]:
    until = time.monotonic() + START_WITHIN
    while time.monotonic() < until and supervisor.poll() is None:
        status = read_status(home)
        if status is not None and status.state == "running" and all(child.pid for child in status.children):
            return {child.name: psutil.Process(child.pid) for child in status.children}
        time.sleep(0.1)
    raise PlatformError(f"the fleet did not start: see {home / 'logs'}")


def _stages(client: FleetClient) -> dict[str, float]:
    """As the cell's last heartbeat says, which is up to two seconds old."""
    (beat,) = client.heartbeats()
    return {name.removeprefix(CPU): value for name, value in beat.report.items() if name.startswith(CPU)}


def _readable(lake: Lake) -> dict[str, Any]:
    """What a reader finds at the last commit."""
    (row,) = lake.query(
        "SELECT count(*) FILTER (kind = 'page' AND outcome = 'ok') AS pages, count(*) AS fetches FROM fetches"
    ).to_pylist()
    (links,) = lake.query("SELECT count(*) AS links FROM links").to_pylist()
    (bodies,) = lake.query("SELECT count(*) AS bodies FROM pages").to_pylist()
    (commits,) = lake.query("SELECT count(*) AS commits FROM commits").to_pylist()
    return {"readable": row | links | bodies | commits}
