"""What has come to a table between two versions."""

import pyarrow.parquet as pq
import pytest

from crawl_platform.lake.changes import changes, mark
from crawl_platform.lake.history import forget_before
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep.rewrite import live_files, replace_files, write_files
from tests.lake.samples import commit, rows


def fetch_ids(files):
    return [name for path in files for name in pq.read_table(path)["fetch_id"].to_pylist()]


@pytest.fixture
def grown(lake):
    """Two versions of `links`: rows 0 and 1, then 2."""
    commit(lake, "links", rows("links", 2), 1)
    commit(lake, "links", rows("links", 1, first=2), 2)
    return lake


def rewrite(lake, *, data_change):
    """All files of `links` become one."""
    table, root = TABLES["links"], lake.path("links")
    old = live_files(lake.delta("links"), root)
    parts = [pq.read_table(root / file.path) for file in old]
    new = write_files(table, root, old[0].day, parts, 1_000_000)
    replace_files(lake, "links", old, new, now=0.0, data_change=data_change)


def test_nothing_has_come_to_the_same_version(grown):
    assert changes(grown, "links", mark(grown, "links", 2), 2) == ([], "")


def test_only_the_rows_that_have_come_are_read(grown):
    assert fetch_ids(changes(grown, "links", mark(grown, "links", 1), 2).files) == ["fetch_id-2"]


def test_without_an_earlier_state_all_rows_are_read_in_the_order_in_which_they_came(grown):
    found = changes(grown, "links", None, 2)

    assert fetch_ids(found.files) == ["fetch_id-0", "fetch_id-1", "fetch_id-2"]
    assert found.reason == "there is no earlier state"


def test_what_upkeep_has_written_anew_is_no_news(grown):
    since = mark(grown, "links", 1)
    rewrite(grown, data_change=False)

    found = changes(grown, "links", since, 3)

    assert (fetch_ids(found.files), found.reason) == (["fetch_id-2"], "")


def test_where_rows_have_left_all_is_read(grown):
    since = mark(grown, "links", 2)
    rewrite(grown, data_change=True)

    found = changes(grown, "links", since, 3)

    assert found.reason == "rows have left links with version 3"
    assert len(fetch_ids(found.files)) == 3


def test_where_history_does_not_reach_back_all_is_read(grown):
    since = mark(grown, "links", 1)
    forget_before(grown.root, "links", 2)

    found = changes(grown, "links", since, 2)

    assert found.reason == "links can't be read from version 1 on any more"
    assert len(fetch_ids(found.files)) == 3


def test_where_the_log_does_not_reach_back_all_is_read(grown):
    since = mark(grown, "links", 1)
    grown.delta("links").create_checkpoint()
    for version in (0, 1):
        (grown.path("links") / "_delta_log" / f"{version:020d}.json").unlink()

    for known in (since, mark(grown, "links", 1)):
        assert len(fetch_ids(changes(grown, "links", known, 2).files)) == 3


def test_another_lakes_version_is_not_gone_on_from(grown):
    since = mark(grown, "links", 1)._replace(digest="of another")

    assert "doesn't lead from version 1" in changes(grown, "links", since, 2).reason
    assert "doesn't lead" in changes(grown, "links", mark(grown, "links", 2), 1).reason
