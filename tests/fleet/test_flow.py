"""What comes from behind reaches the sockets: a lake that confirms nothing stops claims, and everybody can see why."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawl_platform.cli import main
from crawl_platform.cli.status import HELD, _print_report
from crawl_platform.fleet.report import fleet_report
from crawl_platform.fleet.telemetry import HELD_BY
from crawl_platform.settings import Commit
from tests.fleet.checks import assert_brought_home, assert_one_row_per_request, assert_polite
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, serve


def test_status_says_what_holds_a_cell_back_and_what_should_be_in_flight(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    beat = {"rate": 40.0, "latency": 0.5, "in_flight": 19, "slots": 128, "pages": 7}
    cells = [
        {"cell": f"cell-{n}", "held_by": held, "silent": n == 1, "last_heartbeat": None, **beat}
        for n, held in enumerate(HELD_BY)
    ]
    report = {
        "home": "h", "state": "running", "paused": False, "paused_domains": [], "processes": [], "cells": cells,
        "commit": None, "dagster": None,
    }  # fmt: skip

    _print_report(report)

    shown = capsys.readouterr().out
    assert "rate × s" in shown
    assert "20" in shown.splitlines()[3].replace(".0", "").split(), "40 a second for half a second each"
    assert "cell-0 claims nothing" not in shown
    assert "cell-1 is silent: its last sign of life" in shown
    assert shown.count("is silent") == 1
    for n, held in enumerate(HELD_BY[1:], 1):
        assert f"cell-{n} claims nothing: {HELD[held]}" in shown


@pytest.mark.long
def test_a_committer_that_stands_still_stops_the_sockets_and_status_says_why(tmp_path: Path) -> None:
    with (
        serve(tmp_path / "web", Plan("one.test", 400)) as world,
        Fleet(
            tmp_path / "home",
            world.web,
            commit=Commit(epoch_seconds=0.5, stats_seconds=1.0, spool_bytes=20_000),
        ) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(30)
        with fleet.suspended("committer"):
            eventually(lambda: held_by(fleet) == "spool", 20.0, "the spool is full")
            shown = CliRunner().invoke(main, ["status", "--home", str(fleet.home)]).output
            assert "cell-0 claims nothing: the lake does not confirm" in shown
            time.sleep(0.5)  # what was in flight has landed
            before = len(fleet.requests())
            time.sleep(2.0)
            assert len(fleet.requests()) == before, "nothing is asked for that could not be kept"

        eventually(lambda: held_by(fleet) == "", 30.0, "it goes on by itself")
        (cell,) = fleet_report(fleet.settings, fleet.lake, fleet.client, time.time())["cells"]
        assert cell["latency"] > 0
        fleet.wait_quiet()
        fleet.stop()
        assert_one_row_per_request(fleet.requests(), fleet.fetches())
        assert_brought_home(fleet, world.sites["one.test"])
        assert_polite(fleet.requests())


def held_by(fleet: Fleet) -> str:
    (cell,) = fleet_report(fleet.settings, fleet.lake, fleet.client, time.time())["cells"]
    return str(cell["held_by"])
