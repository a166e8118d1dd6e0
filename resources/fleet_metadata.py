"""What Dagster shows of the fleet's processes. Apart from their control, which `crawl up` needs without Dagster."""

from typing import Any

import dagster as dg

from resources.fleet_control import FleetState


def state_metadata(state: FleetState) -> dict[str, Any]:
    """For the UI: how many cells run, and a table of them."""
    columns = ("cell", "state", "shards", "restarts")
    return {
        "wanted": state.wanted,
        "running": sum(cell.state == "running" for cell in state.cells),
        "cells": dg.TableMetadataValue(
            [
                dg.TableRecord(dict(zip(columns, (c.name, c.state, c.shards, c.restarts), strict=True)))
                for c in state.cells
            ],
            dg.TableSchema([dg.TableColumn(name) for name in columns]),
        ),
    }
