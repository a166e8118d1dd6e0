"""Children that keep ending: started again later and later, and reported until they have lived for a while."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pytest
from click.testing import CliRunner

from crawl_platform import settings as settings_module
from crawl_platform.cli import main
from crawl_platform.clock import ManualClock, SystemClock
from crawl_platform.errors import StateTooNewError
from crawl_platform.fleet.logs import rotate_outputs
from crawl_platform.fleet.natsserver import spawn
from crawl_platform.fleet.report import fleet_report
from crawl_platform.fleet.supervisor import (
    LOOPING,
    MAX_PAUSE,
    STABLE,
    Child,
    ChildStatus,
    Supervisor,
    hold_home,
    read_status,
)
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.layout import KEY
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.lake.lake import CARD_NAME, Card, Lake
from crawl_platform.lake.tables import SCHEMA_VERSION
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.settings import Identity, Settings
from crawl_platform.testing.builders import tiny_lake
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, serve


class Kept:
    """A supervisor in virtual time that keeps one child, which ends at once or lives until it is told to end."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.supervisor = Supervisor(
            Settings(home=str(home), identity=Identity(contact="a@b.test")), self.clock
        )
        self.command = ["false"]
        self.child = Child("cell-0", lambda: subprocess.Popen(self.command))
        self.supervisor._start(self.child)

    def step(self, seconds: float = 0.25) -> ChildStatus:
        assert self.child.process is not None
        if self.child.process.args == ["false"]:
            self.child.process.wait()
        self.clock.advance(seconds)
        self.supervisor._look_after_children()
        return self.child.status(self.clock.boottime())

    def end(self) -> None:
        assert self.child.process is not None
        self.child.process.kill()
        self.child.process.wait()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.end()


def lives(kept: Kept, count: int) -> list[float]:
    """Pauses before each of the next `count` starts."""
    pauses = []
    for _ in range(count):
        kept.step()
        pauses.append(kept.child.pause)
        kept.step(kept.child.pause)
    return pauses


def test_the_pause_doubles_up_to_a_limit(kept: Kept) -> None:
    assert lives(kept, 8) == [1.0, 2.0, 4.0, 8.0, 16.0, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]
    assert kept.child.restarts == 8


def test_a_child_that_keeps_ending_is_failing_also_while_it_runs(kept: Kept) -> None:
    lives(kept, LOOPING - 1)
    assert kept.child.status(kept.clock.boottime()).state in ("running", "restarting")
    kept.command = ["sleep", "60"]
    lives(kept, 1)

    status = kept.child.status(kept.clock.boottime())

    assert kept.child.process is not None
    assert kept.child.process.poll() is None
    assert (status.state, status.pid) == ("failing", kept.child.process.pid)
    assert (
        status.detail == f"ended {LOOPING} times in a row, last with status 1: see logs/cell-0.log and .out"
    )


def test_one_that_has_lived_for_a_while_is_well_again(kept: Kept) -> None:
    lives(kept, LOOPING)
    kept.command = ["sleep", "60"]
    lives(kept, 1)

    assert kept.step(STABLE + 1.0).state == "running"
    kept.end()
    kept.command = ["false"]
    kept.step()
    assert kept.child.pause == 0.5


def test_status_and_doctor_tell_of_it(kept: Kept, tmp_path: Path) -> None:
    tiny_lake(tmp_path / "lake")
    settings_module.save(kept.supervisor.settings)
    lives(kept, LOOPING)
    kept.supervisor._write_status("running")

    with hold_home(tmp_path):
        report = fleet_report(kept.supervisor.settings, Lake(tmp_path / "lake"), None, kept.clock.now())
        doctor = CliRunner().invoke(main, ["doctor", "--json", "--home", str(tmp_path)])

    assert not report["well"]
    assert report["processes"][0]["state"] == "failing"
    found = {finding["check"]: finding for finding in json.loads(doctor.stdout)}["processes"]
    assert not found["ok"]
    assert "cell-0 failing: ended 3 times in a row" in found["detail"]
    assert str(tmp_path / "logs") in found["remedy"]


def test_what_a_child_prints_is_cut_off_and_goes_on_without_a_hole(kept: Kept, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    script = "head -c 50000 /dev/zero; read go; echo after"
    child = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=opened(logs / "dagster.out"), text=True
    )
    eventually(lambda: (logs / "dagster.out").stat().st_size == 50_000, 5.0)
    kept.supervisor.settings = msgspec.structs.replace(
        kept.supervisor.settings, fleet=FleetSettings(log_bytes=10_000)
    )

    kept.supervisor._rotate_outputs()
    assert (logs / "dagster.out").stat().st_size == 50_000, "not at every turn"
    kept.clock.advance(60.0)
    kept.supervisor._rotate_outputs()
    child.communicate("go\n", 5.0)

    assert (logs / "dagster.out").read_text() == "after\n"
    assert (logs / "dagster.out.1").stat().st_size == 50_000


def opened(path: Path) -> IO[bytes]:
    """As `spawn` opens it for a child."""
    spawn(["true"], path).wait()
    return path.open("ab")


def test_ablation_a_child_that_does_not_append_leaves_a_hole(tmp_path: Path) -> None:
    output = tmp_path / "x.out"
    child = subprocess.Popen(
        ["sh", "-c", "head -c 50000 /dev/zero; read go; echo after"],
        stdin=subprocess.PIPE,
        stdout=output.open("wb"),
        text=True,
    )
    eventually(lambda: output.stat().st_size == 50_000, 5.0)
    rotate_outputs(tmp_path, 10_000)
    child.communicate("go\n", 5.0)

    assert output.stat().st_size == 50_006


def test_a_lake_of_a_newer_release_is_not_written_to(tmp_path: Path) -> None:
    lake = tiny_lake(tmp_path / "lake")
    lake._write_card(Card(lake.n_shards, SCHEMA_VERSION + 1))

    with pytest.raises(StateTooNewError, match="run the newer release"):
        lake.create(lake.n_shards)

    assert (lake.root / CARD_NAME).exists()


@pytest.mark.long
def test_a_cell_whose_state_is_too_new_is_refused_and_not_started_again(tmp_path: Path) -> None:
    with serve(tmp_path / "web", Plan("one.test", 5)) as world, Fleet(tmp_path / "home", world.web) as fleet:
        kv, mark = RocksKV(fleet.home / "cells" / "cell-0" / "state"), Batch()
        mark.put(KEY, b"99")
        kv.write(mark, sync=True)
        kv.close()

        fleet.process = fleet.spawn_supervisor()
        eventually(lambda: _is_refused(fleet), 60.0, "the cell is refused")

        assert fleet.restarts("cell-0") == 0
        assert "has layout 99, this release knows" in fleet.log_text("cell-0")


def _is_refused(fleet: Fleet) -> bool:
    status = read_status(fleet.home)
    return status is not None and any(c.name == "cell-0" and c.state == "refused" for c in status.children)


@pytest.mark.long
def test_a_fleet_stops_within_fifteen_seconds_whatever_it_is_at(tmp_path: Path) -> None:
    """Also right after its committer was killed, when the next one waits for the lease."""
    with (
        serve(tmp_path / "web", Plan("one.test", 600)) as world,
        Fleet(tmp_path / "home", world.web) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(30)
        pid = fleet.kill("committer")
        eventually(lambda: fleet.pid("committer") not in (0, pid), 30.0, "it is started again")

        begun = SystemClock().boottime()
        fleet.stop()

        assert SystemClock().boottime() - begun < 15.0
        assert "did not stop in time" not in fleet.log_text("supervisor")
