"""Checks of the tables that the fleet itself writes: what the crawl promises, looked up in the lake."""

import dagster as dg

from resources.cadence import Cadence


def fleet_checks(cadence: Cadence) -> list[dg.AssetChecksDefinition]:
    """Checks of the tables in `assets.fleet.EXTERNAL`, due at `cadence.checks_cron`."""
    return []
