"""Dagster keeps what happens: production's cadence is a budget, and it is kept."""

import pytest

from bench.dagster_storage import BUDGET, measure


@pytest.mark.long
@pytest.mark.timeout(900)
def test_dagsters_storage_grows_by_less_than_a_megabyte_an_hour_in_production(tmp_path):
    found = measure(tmp_path)

    assert 0 < found["bytes_per_hour"] <= BUDGET, found


def test_no_event_of_a_version_carries_what_the_assets_definition_says(harness, lake):
    """A table's columns are 10 kB, and an event of a run is kept three times."""
    (event, *_) = harness.sense("table_events").asset_events

    assert not {"dagster/column_schema", "dagster/table_name", "dagster/uri"} & set(event.metadata)
    specs = {s.key: s for s in harness.definitions.resolve_all_asset_specs()}
    assert {"dagster/column_schema", "dagster/table_name", "dagster/uri"} <= set(
        specs[event.asset_key].metadata
    )
