"""The demo, as a newcomer runs it: the whole loop within three minutes, then Ctrl-C."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

DEMO = [sys.executable, "-c", "from crawl_platform.cli import main; main()", "demo"]
MILESTONES = (
    "pages fetched from",
    "hosts discovered on the horizon",
    "Dagster has promoted",
    "first page fetched from a promoted host",
    "fetched again and in the lake",
    "schedule window",
    "the whole loop has been seen",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def still_running(home: Path) -> list[str]:
    """Command lines of processes that belong to the demo at `home`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(home) in line and process.pid != os.getpid() and "pytest" not in line:
            found.append(line)
    return found


def test_the_whole_loop_is_seen_and_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    command = [*DEMO, "--home", str(home), "--port", str(free_port()), "--web-seed", "1"]
    with (tmp_path / "out").open("w+") as output:
        demo = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 240  # another worker has the other core
            while MILESTONES[-1] not in (tmp_path / "out").read_text():
                assert demo.poll() is None, (tmp_path / "out").read_text()
                assert time.monotonic() < deadline, (tmp_path / "out").read_text()
                time.sleep(0.5)
            demo.send_signal(signal.SIGINT)
            status = demo.wait(15)
        finally:
            if demo.poll() is None:
                demo.kill()
                demo.wait()
    told = (tmp_path / "out").read_text()

    assert status == 0, told
    assert all(milestone in told for milestone in MILESTONES)
    assert (
        "0 requests that overlapped, 0 gaps under the delay, 0 paths that robots forbids, 0 hosts outside"
        in told
    )
    assert still_running(home) == []


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_on_any_web_the_loop_and_its_analysis_are_seen_and_right(turn: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    command = [*DEMO, "--home", str(tmp_path / "demo"), "--port", str(free_port()), "--web-seed", str(seed)]

    done = subprocess.run([*command, "--for", "240"], capture_output=True, text=True)

    assert done.returncode == 0, f"--web-seed {seed}\n{done.stdout}{done.stderr}"
