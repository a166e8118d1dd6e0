"""Requests for a recrawl go straight to the exchange: a Dagster run can't do five seconds."""

import dagster as dg
import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError
from resources.cadence import Cadence
from resources.fleet import FleetResource
from resources.lake import LakeResource
from resources.requests import Cursor, new_requests, refuse, require_fresh


def fastlane_sensor(cadence: Cadence) -> dg.SensorDefinition:
    """A sensor that publishes new `requests` rows of kind recrawl that came by table."""

    @dg.sensor(
        name="fastlane",
        minimum_interval_seconds=cadence.fastlane_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Hands new recrawl requests from the table `requests` to the fleet, without a run.",
    )
    def fastlane(
        context: dg.SensorEvaluationContext,
        lake: LakeResource,
        fleet: FleetResource,
        clock: dg.ResourceParam[Clock],
    ) -> dg.SensorResult | dg.SkipReason:
        store = lake.open()
        if not store.exists():
            return dg.SkipReason(f"There is no lake at {store.root} yet: start a crawl.")
        cursor = msgspec.json.decode(context.cursor or "{}", type=Cursor)
        requests, read = new_requests(store, ("recrawl",), cursor)
        client = fleet.client()
        for request in requests:
            try:
                require_fresh(request, clock.now())
                sequence = client.recrawl(request.target, request_id=request.request_id)
                context.log.info("recrawl of %s accepted at sequence %d", request.target, sequence)
            except ConfigurationError as error:
                context.log.warning("recrawl of %s refused: %s", request.target, error)
                refuse(store, request, str(error), clock.now(), "fastlane")
        outcome = f"{len(requests)} requests handled" if requests else "No new requests."
        return dg.SensorResult(skip_reason=outcome, cursor=msgspec.json.encode(read).decode())

    return fastlane
