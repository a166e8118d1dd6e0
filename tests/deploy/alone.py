"""A fleet without a supervisor, as in a cluster: NATS, `prepare`, and one process per cell started by hand."""

import subprocess
import sys
from typing import Self

from crawl_platform.fleet import natsserver
from tests.fleet.harness import STOP_WITHIN, Fleet, eventually


class Alone(Fleet):
    """Processes by name; each is stopped by its pid at the end, whatever happens."""

    @property
    def processes(self) -> dict[str, subprocess.Popen[bytes]]:
        found: dict[str, subprocess.Popen[bytes]] = self.__dict__.setdefault("_processes", {})
        return found

    def start_nats(self) -> None:
        _, config = natsserver.prepare(self.home)
        self.processes["nats"] = natsserver.start(config, self.home / "logs" / "nats.out")

    def run(self, command: str, *arguments: str) -> int:
        """Exit status of a command that ends by itself."""
        return self.begin(command, *arguments).wait(120.0)

    def begin(self, command: str, *arguments: str, name: str = "") -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "crawl_platform.fleet", command, "--home", str(self.home), *arguments]
        return natsserver.spawn(line, self.home / "logs" / f"{name or command}.out")

    def start_cell(self, name: str) -> subprocess.Popen[bytes]:
        self.processes[name] = self.begin("cell", "--name", name, name=name)
        return self.processes[name]

    def start_committer(self) -> None:
        self.processes["committer"] = self.begin("committer")

    def start_all(self) -> Self:
        """NATS, the lake and the shard table, the committer, and every cell."""
        self.start_nats()
        assert self.run("prepare") == 0
        self.start_committer()
        for number in range(self.settings.fleet.cells):
            self.start_cell(f"cell-{number}")
        eventually(lambda: len(self.beats()) == self.settings.fleet.cells, 60.0, "cells live")
        return self

    def end(self, name: str) -> int:
        """SIGTERM, and the exit status."""
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(STOP_WITHIN)

    def stop(self) -> None:
        """Cells, then the committer, then NATS."""
        order = sorted(self.processes, key=lambda name: ("cell" not in name, name == "nats"))
        ended = {name: self.end(name) for name in order}
        assert {status for name, status in ended.items() if name != "nats"} == {0}, ended

    def _end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
