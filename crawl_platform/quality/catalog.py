"""All measures, and the one call that computes them."""

import duckdb

from crawl_platform.quality import (
    admission,
    completeness,
    cost,
    freshness,
    politeness,
    reliability,
    timeliness,
    usefulness,
)
from crawl_platform.quality.measure import COPIES, RECENT, Look, Measure, Value, computed, prepare

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for room in (usefulness, admission, completeness, freshness, reliability, timeliness, cost, politeness)
    for measure in room.MEASURES
}
READS = (
    *("fetches", "links", "pages", "hosts", "frontier", "fleet_stats", "commits", "requests"),
    *("change_rates", "cold_priors"),
)
"""Tables that the measures look at, with the views `frontier_now` and `hosts_now`."""

SHARED = (
    RECENT,
    COPIES,
    usefulness.CLASSED,
    completeness.ELIGIBLE,
    freshness.SAMPLED,
    timeliness.WAITS,
    admission.OBTAINED,
    politeness.REQUESTED,
    politeness.PAIRED,
)


def measured(connection: duckdb.DuckDBPyConnection, look: Look) -> dict[str, Value]:
    """Every declared measure's value. Leaves temporary tables behind in `connection`."""
    prepare(connection, SHARED, look)
    estimated = freshness.freshness(connection, look)
    return {
        name: estimated[name] if name in estimated else computed(connection, measure, look)
        for name, measure in MEASURES.items()
    }
