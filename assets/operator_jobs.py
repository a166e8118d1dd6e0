"""Jobs for operators in the launchpad: promote or exclude a host, recrawl a page now, compact the lake, start or
stop the cells.

Each request writes the `requests` row (who asked, and why) and publishes at once, so a run is only the form that
people fill in; what the fleet does is in the lake under the request id. The run reports its own latency.
"""

from collections.abc import Callable
from typing import Literal

import dagster as dg
import msgspec
from pydantic import Field

from assets.operator_preview import preview
from assets.promotion_jobs import PROMOTION_JOBS
from assets.upkeep import report_metadata
from crawl_platform.clock import Clock
from crawl_platform.fleet.client import FleetClient
from crawl_platform.settings import Settings
from resources.fleet import FleetResource
from resources.fleet_metadata import state_metadata
from resources.lake import LakeResource
from resources.requests import Request, append_requests, require_host


class Wish(dg.Config):
    """What an operator fills in."""

    target: str = Field(
        description="A URL to recrawl; a host (www.example.org) to promote or exclude, or *.domain."
    )
    reason: str = Field(default="", description="Why. Kept with the request and shown with the decision.")
    requested_by: str = Field(default="operator", description="Who asks.")
    priority: float = Field(
        default=0.0, description="Of several requests the one with the highest goes first."
    )
    dry_run: bool = Field(default=False, description="Only say what would come of it, with the evidence.")


Publish = Callable[[FleetClient, Request], int]


def _recrawl(client: FleetClient, request: Request) -> int:
    return client.recrawl(request.target, request_id=request.request_id)


def _promote(client: FleetClient, request: Request) -> int:
    host = require_host(request.target)
    reason = f"asked for by {request.requested_by}: {request.reason or 'no reason given'}"
    return client.promote(host, [f"https://{host}/"], decision_id=request.request_id, reason=reason)


def _exclude(client: FleetClient, request: Request) -> int:
    return client.exclude(request.target, request_id=request.request_id, reason=request.reason)


def _operator_job(name: str, kind: str, description: str, publish: Publish) -> dg.JobDefinition:
    @dg.op(name=f"request_{kind}", description=description)
    def request_op(
        context: dg.OpExecutionContext,
        config: Wish,
        lake: LakeResource,
        fleet: FleetResource,
        crawl_settings: dg.ResourceParam[Settings],
        clock: dg.ResourceParam[Clock],
    ) -> None:
        if config.dry_run:
            shown = preview(lake, kind, config.target, crawl_settings.orchestration)
            context.add_output_metadata({"preview": shown})
            return
        asked = clock.now()
        request = Request(
            f"run-{context.run_id}",
            asked,
            kind,
            config.target,
            config.requested_by,
            "exchange",
            config.reason,
            config.priority,
        )
        began = clock.boottime()
        sequence = publish(fleet.client(), request)
        published = clock.boottime()
        append_requests(lake.open(), [request])
        context.log.info("%s accepted at %d: %s", name, sequence, msgspec.json.encode(request).decode())
        context.add_output_metadata(
            {
                "request_id": request.request_id,
                "sequence": sequence,
                "publish_seconds": published - began,
                "row_seconds": clock.boottime() - published,
            }
        )

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor)
    def operator_job() -> None:
        request_op()

    return operator_job


class Scope(dg.Config):
    """What to look after."""

    tables: list[str] = Field(default=[], description="Names of tables; all if empty.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")


@dg.op(name="look_after_the_lake", description="Has the fleet's committer do it between its rounds.")
def look_after_the_lake(context: dg.OpExecutionContext, config: Scope, fleet: FleetResource) -> None:
    report = fleet.client().upkeep(config.tables, dry_run=config.dry_run)
    context.log.info("%d things done, %d partitions left", len(report.done), report.left)
    context.add_output_metadata(report_metadata(report))


@dg.job(
    name="compact_lake",
    description="Compact closed days, let old rows go, and delete what nobody can read any more.",
    executor_def=dg.in_process_executor,
)
def compact_lake() -> None:
    look_after_the_lake()


class Control(dg.Config):
    """What to do with the fleet's processes."""

    action: Literal["status", "start", "stop", "restart"] = Field(
        default="status",
        description="stop: requests in flight land and everything is committed; the crawl's state stays.",
    )


@dg.op(name="control_cells", description="Asks the fleet's keeper: the supervisor, or the StatefulSet.")
def control_cells(context: dg.OpExecutionContext, config: Control, fleet: FleetResource) -> None:
    control = fleet.control()
    if config.action != "status":
        getattr(control, config.action)()
    state = control.status()
    for cell in state.cells:
        context.log.info("%s %s, %d shards %s", cell.name, cell.state, cell.shards, cell.detail)
    context.add_output_metadata({**state_metadata(state), "well": state.well})


@dg.job(
    name="control_fleet",
    description="Start, stop or restart the fleet's cells, or say how they are.",
    executor_def=dg.in_process_executor,
)
def control_fleet() -> None:
    control_cells()


OPERATOR_JOBS = (
    _operator_job("promote_host", "promote", "Move a host into the seed by request.", _promote),
    _operator_job("exclude_host", "exclude", "Never fetch a host or *.domain again.", _exclude),
    _operator_job("recrawl_now", "recrawl", "Fetch one page of a seed host at once.", _recrawl),
    *PROMOTION_JOBS,
    compact_lake,
    control_fleet,
)
