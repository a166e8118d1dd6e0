"""Dagster's processes live and die together."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
from dagster import DagsterInstance, DagsterRunStatus, job

from resources.dagster_storage import prepare_storage
from resources.instance import instance_config
from resources.launcher import Group

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)"]
SHORT = [sys.executable, "-c", "pass"]

RUN = [sys.executable, "-c", "print('runs', flush=True); import time; time.sleep(60)"]
CODE_SERVER = [
    sys.executable,
    "-c",
    f"import signal, subprocess; signal.signal(2, lambda *_: None); subprocess.run({RUN})",
]
"""Waits for the end of the run that it executes."""

OWNER = """
import signal, sys
from resources.launcher import Group
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


def test_a_run_in_progress_is_interrupted_and_not_waited_for(capfd):
    group = Group([CODE_SERVER])
    while "runs" not in capfd.readouterr().out:
        time.sleep(0.05)
    group.stop(signal.SIGTERM, None)
    begun = time.monotonic()

    assert group.wait() == 0
    assert time.monotonic() - begun < 3
    assert wait_for_end(psutil.Process().children()) == []


@pytest.fixture
def instance(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(instance_config("demo", postgres=False))
    prepare_storage()
    with DagsterInstance.get() as instance:
        yield instance


def test_storage_is_made_before_anybody_uses_it(tmp_path, instance):
    assert {"runs.db", "schedules.db", "index.db"} <= {path.name for path in tmp_path.rglob("*.db")}


@pytest.mark.long
def test_runs_that_a_killed_dagster_left_behind_are_reported_at_the_next_start(instance):
    @job
    def left_behind():
        pass

    left = instance.create_run_for_job(left_behind, status=DagsterRunStatus.STARTED)
    done = instance.create_run_for_job(left_behind, status=DagsterRunStatus.SUCCESS)
    waiting = instance.create_run_for_job(left_behind, status=DagsterRunStatus.NOT_STARTED)

    prepare_storage()

    now = {run.run_id: run.status for run in instance.get_runs()}
    assert now[left.run_id] is DagsterRunStatus.FAILURE
    assert now[done.run_id] is DagsterRunStatus.SUCCESS
    assert now[waiting.run_id] is DagsterRunStatus.NOT_STARTED, "nobody has begun it: the daemon takes it up"
    assert any("killed during this run" in (e.message or "") for e in instance.all_logs(left.run_id))
