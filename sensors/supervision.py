"""How the fleet's processes are becomes the check `fleet_is_well` of `fetches`, so that the UI and its alerts know.

A tick asks the fleet's keeper (supervisor or StatefulSet) and compares the answer with the last one that was
reported: only a difference becomes an event, since Dagster keeps events for ever.
"""

import dagster as dg
import msgspec

from crawl_platform.errors import ConfigurationError, ExchangeError, LakeError
from resources.cadence import Cadence
from resources.fleet import FleetResource
from resources.fleet_control import FLEET_CHECK, FleetState
from resources.fleet_metadata import state_metadata

ASSET = dg.AssetKey("fetches")


class Seen(msgspec.Struct, frozen=True):
    """What was last reported: each cell with its state, or what kept us from knowing."""

    cells: dict[str, str] = {}
    trouble: str = ""


def supervision_sensor(cadence: Cadence) -> dg.SensorDefinition:
    """A sensor that reports each change in how the fleet's cells are."""

    @dg.sensor(
        name="supervision",
        minimum_interval_seconds=cadence.supervision_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports when a cell stops, is silent, restarts or is well again: check fleet_is_well.",
    )
    def supervision(
        context: dg.SensorEvaluationContext, fleet: FleetResource
    ) -> dg.SensorResult | dg.SkipReason:
        before = msgspec.json.decode(context.cursor or "{}", type=Seen)
        state, trouble = _look(fleet)
        now = Seen({cell.name: cell.state for cell in state.cells}, trouble)
        if context.cursor and now == before:
            return dg.SkipReason("Nothing has changed.")
        return dg.SensorResult(
            asset_events=[evaluation(state, trouble, before)],
            skip_reason=trouble or ("The fleet is well." if state.well else "The fleet is not well."),
            cursor=msgspec.json.encode(now).decode(),
        )

    return supervision


def _look(fleet: FleetResource) -> tuple[FleetState, str]:
    """The fleet's state, or why it can't be told."""
    try:
        return fleet.control().status(), ""
    except (ConfigurationError, ExchangeError, LakeError) as error:
        return FleetState(0, ()), str(error)


def evaluation(state: FleetState, trouble: str, before: Seen) -> dg.AssetCheckEvaluation:
    """The check's result. A fleet that was stopped is no fault; one that should run and doesn't is."""
    changed = [
        f"{cell.name}: {before.cells.get(cell.name, 'unknown')} → {cell.state} {cell.detail}".rstrip()
        for cell in state.cells
        if before.cells.get(cell.name) != cell.state
    ]
    return dg.AssetCheckEvaluation(
        asset_key=ASSET,
        check_name=FLEET_CHECK,
        passed=not trouble and state.well,
        severity=dg.AssetCheckSeverity.ERROR,
        description=trouble
        or "; ".join(changed)
        or ("as before" if state.cells else "the fleet was stopped"),
        metadata=state_metadata(state),
    )
