"""Cells as pods run them: one process each, nobody of ours above them. Real processes on loopback."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.fleet.ordering import read_table
from crawl_platform.fleet.pulse import pulse_path
from crawl_platform.fleet.shards import read_owners
from crawl_platform.settings import Fleet as FleetSettings
from tests.deploy.alone import Alone
from tests.fleet.checks import (
    assert_brought_home,
    assert_drained,
    assert_one_row_per_request,
    assert_polite,
    assert_whole_at_every_commit,
    surplus,
)
from tests.fleet.harness import eventually
from tests.fleet.sites import Plan, World, serve

pytestmark = pytest.mark.long

TWO = FleetSettings(cells=2, shards=8)
HOSTS = 6
STALLED = 8.0
"""Seconds that the web stands still: longer than the five that SIGTERM leaves requests in flight."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    plans = [Plan(f"host{n}.test", 150) for n in range(HOSTS)]
    with serve(tmp_path / "web", *plans) as running_world:
        yield running_world


@pytest.fixture
def small_world(tmp_path: Path) -> Iterator[World]:
    plans = [Plan(f"host{n}.test", 20) for n in range(HOSTS)]
    with serve(tmp_path / "web", *plans) as running_world:
        yield running_world


@pytest.mark.long
def test_two_cells_one_of_them_started_anew_crawl_a_web_to_its_end(
    tmp_path: Path, small_world: World
) -> None:
    with Alone(tmp_path / "home", small_world.web, fleet=TWO) as fleet:
        fleet.start_all()
        fleet.seed()
        fleet.wait_requests(40)
        assert fleet.end("cell-1") == 0
        fleet.start_cell("cell-1")
        fleet.wait_quiet(120.0)
        cells = {row["cell"] for row in fleet.rows("SELECT DISTINCT cell FROM fetches")}
        fleet.stop()

        assert cells == {"cell-0", "cell-1"}
        assert_brought_home(fleet, *small_world.sites.values())
        assert_one_row_per_request(fleet.requests(), fleet.fetches())
        assert_polite(fleet.requests())
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)


def test_prepare_may_be_repeated_and_done_by_two_at_once(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web, fleet=FleetSettings(cells=2, shards=32)) as fleet:
        fleet.start_nats()

        both = [fleet.begin("prepare"), fleet.begin("prepare", name="prepare-too")]

        assert [process.wait(120.0) for process in both] == [0, 0]
        assert fleet.run("prepare") == 0
        assert Counter(read_owners(fleet.home / "run" / "nats.json").values()) == {"cell-0": 16, "cell-1": 16}


def test_whoever_waits_goes_on_once_the_fleet_is_prepared(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web, fleet=TWO) as fleet:
        waiting = fleet.begin("wait")
        fleet.start_nats()
        assert fleet.run("wait", "--within", "0") == 1
        assert waiting.poll() is None
        assert fleet.run("prepare") == 0

        assert waiting.wait(60.0) == 0


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("1", "gives shards to cell-1, which is not part of this fleet"),
        ("9", "8 shards are too few for 9 cells"),
    ],
    ids=["fewer", "more than shards"],
)
def test_another_number_of_cells_is_refused(tmp_path: Path, small_world: World, cells: str, why: str) -> None:
    with Alone(tmp_path / "home", small_world.web, fleet=TWO) as fleet:
        fleet.start_nats()
        assert fleet.run("prepare") == 0

        assert fleet.run("prepare", "--cells", cells) == 1
        assert why in fleet.log_text("prepare")


def test_another_cell_is_promised_its_part_of_the_shards(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web, fleet=TWO) as fleet:
        fleet.start_nats()
        assert fleet.run("prepare") == 0

        assert fleet.run("prepare", "--cells", "3") == 0
        assert fleet.run("prepare", "--cells", "3") == 0

        owners = read_table(fleet.home / "run" / "nats.json").values()
        assert Counter(owner.to for owner in owners) == {"": 6, "cell-2": 2}


# draining


def in_flight(fleet: Alone) -> float:
    return sum(beat.report["in_flight"] for beat in fleet.beats().values())


def stall(fleet: Alone, world: World) -> None:
    """The web stops answering with requests in flight."""
    fleet.wait_requests(60)
    os.kill(world.web.pid, signal.SIGSTOP)
    eventually(lambda: in_flight(fleet) > 0, 30.0, "requests hang")


@pytest.mark.long
def test_a_drain_lets_slow_requests_land_before_the_stop(tmp_path: Path, world: World) -> None:
    with Alone(tmp_path / "home", world.web).start_all() as fleet:
        fleet.seed()
        stall(fleet, world)

        draining = fleet.begin("drain", "--name", "cell-0")
        time.sleep(STALLED)
        os.kill(world.web.pid, signal.SIGCONT)
        assert draining.wait(60.0) == 0
        asked = len(fleet.requests())
        time.sleep(1.0)
        assert len(fleet.requests()) == asked, "nothing is claimed after the drain"
        assert fleet.end("cell-0") == 0
        eventually(lambda: not surplus(fleet.requests(), fleet.fetches()), 30.0, "each request has its row")

        assert_one_row_per_request(fleet.requests(), fleet.fetches())


@pytest.mark.long
def test_without_a_drain_slow_requests_are_cut_off(tmp_path: Path, world: World) -> None:
    """The ablation: what the drain is for."""
    with Alone(tmp_path / "home", world.web).start_all() as fleet:
        fleet.seed()
        stall(fleet, world)

        process = fleet.processes.pop("cell-0")
        process.terminate()
        assert process.wait(30.0) == 0
        os.kill(world.web.pid, signal.SIGCONT)
        time.sleep(1.0)

        assert surplus(fleet.requests(), fleet.fetches()) != Counter()


def test_a_cell_that_is_not_there_is_not_drained(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web) as fleet:
        stale = pulse_path(fleet.home, "cell-0")
        stale.parent.mkdir(parents=True, exist_ok=True)
        bystander = subprocess.Popen(["sleep", "60"])
        stale.write_text(str(bystander.pid))
        os.utime(stale, (time.time() - 60.0,) * 2)
        fleet.start_nats()

        assert fleet.run("drain", "--name", "cell-0") == 1
        assert bystander.poll() is None, "a pid of a process that is gone may be anybody's"
        bystander.kill()
        bystander.wait()


# disks


def test_a_cell_whose_own_disk_is_low_claims_nothing_though_the_lake_has_room(
    tmp_path: Path, small_world: World
) -> None:
    """Its state is on a volume of its own in a cluster; here that is the memory file system."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as volume:
        reserve = shutil.disk_usage(volume).free + 1_000_000_000
        if shutil.disk_usage(tmp_path).free <= reserve:
            pytest.skip("the home's disk has to have more room than the memory file system")
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "cells").symlink_to(volume)
        with Alone(tmp_path / "home", small_world.web, fleet=FleetSettings(min_free_disk=reserve)) as fleet:
            fleet.start_all()
            fleet.seed()
            eventually(lambda: "min_free_disk" in fleet.log_text("cell-0"), 30.0, "it says so")
            time.sleep(2.0)

            assert fleet.requests() == []


# what probes see


def test_the_pulse_stops_when_the_process_hangs_and_goes_when_it_ends(
    tmp_path: Path, small_world: World
) -> None:
    with Alone(tmp_path / "home", small_world.web).start_all() as fleet:
        pulse = pulse_path(fleet.home, "cell-0")
        eventually(pulse.exists, 10.0, "a pulse")
        assert int(pulse.read_text()) == fleet.processes["cell-0"].pid
        at = pulse.stat().st_mtime
        eventually(lambda: pulse.stat().st_mtime > at, 10.0, "it beats")

        fleet.processes["cell-0"].send_signal(signal.SIGSTOP)
        at = pulse.stat().st_mtime
        time.sleep(5.0)
        assert pulse.stat().st_mtime == at
        fleet.processes["cell-0"].send_signal(signal.SIGCONT)
        eventually(lambda: pulse.stat().st_mtime > at, 10.0, "it beats again")

        assert fleet.end("cell-0") == 0
        assert not pulse.exists()


def test_a_killed_cell_s_pulse_is_not_taken_for_the_next_one_s(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web).start_all() as fleet:
        pulse = pulse_path(fleet.home, "cell-0")
        eventually(pulse.exists, 10.0, "a pulse")
        killed = fleet.processes["cell-0"]
        killed.kill()
        killed.wait()

        successor = fleet.start_cell("cell-0")

        eventually(lambda: pulse.exists() and pulse.read_text() == str(successor.pid), 30.0, "its own pulse")


def test_a_process_logs_to_the_console_where_it_is_asked_to(tmp_path: Path, small_world: World) -> None:
    with Alone(tmp_path / "home", small_world.web) as fleet:
        fleet.start_nats()
        command = ["-m", "crawl_platform.fleet", "--console", "prepare", "--home", str(fleet.home)]
        done = subprocess.run([sys.executable, *command], capture_output=True, check=True, text=True)

        assert "shards per cell" in done.stderr
        assert "shards per cell" in fleet.log_text("prepare")
