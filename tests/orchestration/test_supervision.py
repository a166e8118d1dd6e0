"""How the fleet's processes are, as Dagster tells it; and the job that starts and stops them."""

import dagster as dg

from resources.fleet_control import CellState, FleetState

ONE = CellState("cell-0", "running", 32)
TWO = CellState("cell-1", "running", 32)


def checks(harness):
    return [(e.passed, e.description) for e in harness.sense("supervision").asset_events]


def test_the_first_look_is_reported(harness):
    assert checks(harness) == [(True, "cell-0: unknown → running")]


def test_a_fleet_that_stays_as_it_is_adds_no_event(harness):
    checks(harness)

    assert [checks(harness) for _ in range(5)] == [[]] * 5


def test_a_cell_that_falls_silent_fails_the_check_once_and_its_return_passes_it(harness, fleet):
    fleet.state = FleetState(2, (ONE, TWO))
    checks(harness)

    fleet.state = FleetState(2, (ONE, CellState("cell-1", "silent", 32)))
    silent, still = checks(harness), checks(harness)
    fleet.state = FleetState(2, (ONE, TWO))

    assert (silent, still) == ([(False, "cell-1: running → silent")], [])
    assert checks(harness) == [(True, "cell-1: silent → running")]


def test_an_exchange_that_is_away_is_a_failed_check_with_the_reason_not_a_failed_tick(harness, fleet):
    fleet.away = True

    assert checks(harness) == [(False, "the exchange is away")]


def test_a_fleet_that_was_stopped_on_purpose_is_no_fault(harness, fleet):
    fleet.state = FleetState(0, ())

    assert checks(harness) == [(True, "the fleet was stopped")]


def test_the_check_can_be_run_by_hand(harness, fleet):
    fleet.state = FleetState(2, (ONE, CellState("cell-1", "restarting", 32, restarts=3)))

    key = dg.AssetCheckKey(dg.AssetKey("fetches"), "fleet_is_well")
    job = dg.define_asset_job("one_check", dg.AssetSelection.checks(key))
    definitions = harness.definitions
    result = job.resolve(asset_graph=definitions.resolve_asset_graph()).execute_in_process(
        instance=harness.instance, resources=definitions.resources | harness.overrides
    )

    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert evaluation.metadata["cells"].value.records[1].data["restarts"] == 3


def test_an_operator_stops_the_cells_from_the_launchpad(harness, fleet):
    job = harness.definitions.resolve_job_def("control_fleet")

    result = job.execute_in_process(
        instance=harness.instance,
        run_config={"ops": {"control_cells": {"config": {"action": "stop"}}}},
    )

    assert result.success
    assert fleet.state.wanted == 0
