"""Upkeep of the logs."""

from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.maintenance import checkpoint, log_length
from crawl_platform.lake.tables import TABLES
from tests.lake.samples import rows


def commit_times(lake: Lake, name: str, count: int) -> None:
    table = DeltaWriter(lake.path(name), TABLES[name])
    for number in range(1, count + 1):
        table.commit([], {"cell/bulk": number}, {})


def test_the_log_is_measured_from_the_last_checkpoint(lake: Lake) -> None:
    commit_times(lake, "fetches", 4)
    assert log_length(lake, "fetches") == 5

    lake.delta("fetches").create_checkpoint()

    assert log_length(lake, "fetches") == 0


def test_a_checkpoint_is_written_when_enough_entries_wait(lake: Lake) -> None:
    commit_times(lake, "fetches", 4)

    assert not checkpoint(lake, "fetches", after=6)
    assert checkpoint(lake, "fetches", after=5)
    assert not checkpoint(lake, "fetches", after=1)


def test_rows_transactions_and_past_versions_outlive_a_checkpoint(lake: Lake) -> None:
    lake.append("requests", rows("requests", 1), inputs={"links": 3}, transaction=("sensor", 5))
    lake.append("requests", rows("requests", 1, first=1))

    checkpoint(lake, "requests", after=1)

    assert lake.query("FROM requests").num_rows == 2
    assert lake.delta("requests").transaction_version("sensor") == 5
    assert lake.inputs_of("requests", 1) == {"links": 3}
    assert lake.delta("requests", 1).version() == 1
