"""Dagster's processes live and die together."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from resources.instance import instance_config
from resources.launcher import Group, prepare_storage

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)"]
SHORT = [sys.executable, "-c", "pass"]

OWNER = """
import signal, sys
from resources.instance import instance_config
from resources.launcher import Group, prepare_storage
group = Group([[sys.executable, "-c", "import time; time.sleep(60)"]] * 2)
signal.signal(signal.SIGTERM, group.stop)
print("started", flush=True)
sys.exit(group.wait())
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"started\n"
    children = psutil.Process(process.pid).children()
    yield process, children
    for child in (*children, psutil.Process(process.pid) if process.poll() is None else None):
        if child and child.is_running():
            child.kill()
    process.stdout.close()


def wait_for_end(processes, seconds=5.0):
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_when_one_has_died_the_others_are_ended_and_the_status_says_so():
    group = Group([SLEEPER, SHORT])

    assert group.wait() == 1
    assert wait_for_end(psutil.Process().children()) == []


def test_a_signal_ends_all_and_is_a_success(owner):
    process, children = owner

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=5) == 0
    assert wait_for_end(children) == []


def test_a_killed_owner_leaves_nobody_behind(owner):
    process, children = owner

    process.kill()
    process.wait()

    assert wait_for_end(children) == []


def test_who_ignores_the_signal_is_killed_in_the_end(monkeypatch):
    monkeypatch.setattr("resources.launcher.GRACE", 0.3)
    group = Group([STUBBORN])
    time.sleep(0.3)
    group.stop(signal.SIGTERM, None)

    assert group.wait() == 0
    assert wait_for_end(psutil.Process().children()) == []


def test_storage_is_made_once_before_anybody_uses_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(instance_config("demo", postgres=False))

    prepare_storage(tmp_path)
    databases = {path.name for path in tmp_path.rglob("*.db")}
    monkeypatch.setattr("resources.launcher.PREPARE", "raise SystemExit(1)")
    prepare_storage(tmp_path)

    assert {"runs.db", "schedules.db", "index.db"} <= databases
