"""What `crawl status` and the API say about the fleet: its processes, its cells, how far the lake is."""

from collections.abc import Sequence
from typing import Any

from crawl_platform.admission.stops import Stops
from crawl_platform.clock import as_datetime
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.stops import read_words
from crawl_platform.fleet.supervisor import FleetStatus, is_running, read_status
from crawl_platform.fleet.telemetry import HELD_BY
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings

STALE = 10.0
"""Seconds without a heartbeat after which a cell is called silent."""


def fleet_report(settings: Settings, lake: Lake, client: FleetClient | None, now: float) -> dict[str, Any]:
    """All facts as one JSON-able dict; `well` is whether everything is as it should be.

    `client` is None when no fleet runs. An exchange that does not answer is a fact too (`trouble`).
    """
    status = read_status(settings.root)
    supervised = is_running(settings.root)
    beats, stops, trouble = _ask(client)
    stops.hear(read_words(settings.root, now))
    commit = lake.latest_commit()
    children = status.children if status is not None and supervised else []
    silent = [beat.cell for beat in beats if now - beat.at > STALE]
    # Where something else than our supervisor keeps the processes, the cells' heartbeats are all there is.
    running = supervised or (status is None and len(beats) > len(silent))
    well = running and not trouble and not silent and all(child.state == "running" for child in children)
    return {
        "home": str(settings.root),
        "state": _state(status, supervised, running),
        "paused": stops.paused,
        "paused_domains": stops.domains,
        "well": well,
        "trouble": trouble,
        "processes": [
            {"name": c.name, "pid": c.pid, "state": c.state, "restarts": c.restarts, "detail": c.detail}
            for c in children
        ],
        "cells": [
            {
                "cell": b.cell,
                "held_by": HELD_BY[int(b.report.get("held_back", 0))],
                "silent": b.cell in silent,
                "last_heartbeat": as_datetime(b.at),
                **b.report,
            }
            for b in beats
        ],
        "commit": None
        if commit is None
        else {"commit_id": commit.commit_id, "committed_at": commit.committed_at},
        "dagster": f"http://127.0.0.1:{settings.orchestration.port}"
        if any(c.name == "dagster" for c in children)
        else None,
    }


def _ask(client: FleetClient | None) -> tuple[Sequence[Heartbeat], Stops, str | None]:
    """(heartbeats by cell, what is paused as far as the exchange knows, what went wrong)."""
    stops = Stops()
    if client is None:
        return [], stops, None
    try:
        beats = sorted(client.heartbeats(), key=lambda beat: beat.cell)
        stops.hear(client.stop_words())
    except ExchangeError as error:
        return [], stops, f"the cells can't be asked: {error}"
    return beats, stops, None


def _state(status: FleetStatus | None, supervised: bool, running: bool) -> str:
    if supervised and status is not None:
        return status.state
    if running:
        return "running"
    return "stopped" if status is None or status.state == "stopped" else "died"
