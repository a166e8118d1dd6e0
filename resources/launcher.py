"""Starts a crawl's Dagster as three processes that live and die together: code server, daemon, webserver.

`dagster dev` needs two more processes for the same (a proxy in front of the code server and itself as
parent). Here the code server listens on a socket whose place depends on the crawl alone, so that sensors
keep their cursors and tick history over restarts.

Ends on SIGINT or SIGTERM, or when one of the three has died: then the others are ended too and the exit
status is 1. Runs in progress are interrupted and fail with a message that says so. If this process is killed, the
kernel passes SIGTERM on to the three; the runs they leave behind are reported as failed at the next start.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

GRACE = 6.0
"""Seconds that a process gets to end by itself before it is killed. Less than the fleet's supervisor gives all of us:
killed ourselves, we would leave a run behind."""
PR_SET_PDEATHSIG = 1


def commands(home: Path, socket: Path, port: int) -> list[list[str]]:
    """Command lines of the three processes; `home` is DAGSTER_HOME."""
    python, workspace = [sys.executable, "-m"], ["-w", str(home / "workspace.yaml")]
    address = ["-h", "127.0.0.1", "-p", str(port)]
    code = ["-m", "crawl_platform.definitions", "-a", "deployment", "--location-name", "crawl"]
    return [
        [*python, "dagster", "api", "grpc", *code, "--socket", str(socket), "--log-level", "warning"],
        [*python, "dagster._daemon", "run", *workspace, "--log-level", "warning"],
        [*python, "dagster_webserver", *workspace, *address, "--dagster-log-level", "warning"],
    ]


class Group:
    """Child processes that end together."""

    def __init__(self, command_lines: Sequence[Sequence[str]]) -> None:
        self._asked_to_stop = False
        self._children = [_start(line) for line in command_lines]

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Signal handler."""
        self._asked_to_stop = True

    def wait(self) -> int:
        """Block until asked to stop or a child has died; end all; return the exit status."""
        while not self._asked_to_stop and all(child.poll() is None for child in self._children):
            time.sleep(0.1)
        for child in self._children:
            for run in _runs_of(child):
                _end(run, signal.SIGINT)
            _end(child, signal.SIGINT)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(child.poll() is None for child in self._children):
            time.sleep(0.05)
        for child in self._children:
            _end(child, signal.SIGKILL)
            child.wait()
        return 0 if self._asked_to_stop else 1


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)
    return subprocess.Popen(command, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))


def _runs_of(child: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Processes in which a code server executes runs. It would wait for their ends."""
    try:
        return psutil.Process(child.pid).children()
    except psutil.NoSuchProcess:
        return []


def _end(process: subprocess.Popen[bytes] | psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def main(arguments: Sequence[str]) -> int:
    """`python -m resources.launcher SOCKET PORT`, with DAGSTER_HOME and CRAWL_HOME set."""
    socket, port = Path(arguments[0]), int(arguments[1])
    socket.unlink(missing_ok=True)
    # Started with & from a script these are ignored, and children inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    subprocess.run([sys.executable, "-m", "resources.dagster_storage"], check=True)
    group = Group(commands(Path(os.environ["DAGSTER_HOME"]), socket, port))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, group.stop)
    return group.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
