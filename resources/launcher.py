"""Starts a crawl's Dagster as three processes that live and die together: code server, daemon, webserver.

`dagster dev` needs two more processes for the same (a proxy in front of the code server and itself as
parent). Here the code server listens on a socket whose place depends on the crawl alone, so that sensors
keep their cursors and tick history over restarts.

Ends on SIGINT or SIGTERM, or when one of the three has died: then the others are ended too and the exit
status is 1. If this process is killed, the kernel passes SIGTERM on to the three.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

GRACE = 6.0
"""Seconds that a process gets to end by itself before it is killed. Less than the fleet's supervisor gives all of us:
killed ourselves, we would leave a run behind."""
PR_SET_PDEATHSIG = 1


PREPARE = "from dagster import DagsterInstance; DagsterInstance.get().dispose()"
PREPARED = "storage-ready"


def prepare_storage(home: Path) -> None:
    """Create Dagster's databases once, before several processes would all do so at the same moment.

    They would race: both stamp the same schema version, and no process starts on that storage again.
    """
    if not (home / PREPARED).exists():
        subprocess.run([sys.executable, "-c", PREPARE], check=True)
        (home / PREPARED).touch()


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


def _end(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if child.poll() is None:
        child.send_signal(number)


def main(arguments: Sequence[str]) -> int:
    """`python -m resources.launcher SOCKET PORT`, with DAGSTER_HOME and CRAWL_HOME set."""
    socket, port = Path(arguments[0]), int(arguments[1])
    socket.unlink(missing_ok=True)
    # Started with & from a script these are ignored, and children inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    home = Path(os.environ["DAGSTER_HOME"])
    prepare_storage(home)
    group = Group(commands(home, socket, port))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, group.stop)
    return group.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
