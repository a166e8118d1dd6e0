"""The builders do what a cell does, and nothing that a cell could not do."""

import pyarrow as pa
import pytest

from crawl_platform.admission.politeness import ImpoliteError
from crawl_platform.frontier.lease import Lease
from crawl_platform.lake.conform import conform
from crawl_platform.lake.tables import TABLES
from crawl_platform.testing.builders import FrontierRig, fetched, sample_row


@pytest.mark.parametrize("table", TABLES)
def test_a_sample_row_fits_the_declaration_of_every_table(table: str) -> None:
    rows = pa.Table.from_pylist([sample_row(table, 1.8e9)], schema=TABLES[table].schema)

    assert conform(TABLES[table], rows).num_rows == 1


def test_a_sample_row_refuses_a_column_that_is_not_declared() -> None:
    with pytest.raises(KeyError, match="no column nonsense"):
        sample_row("fetches", 0.0, nonsense=1)


def test_fetched_rows_cite_each_other() -> None:
    rows = fetched("f1", "https://a.test/", 1.8e9, "https://b.test/")

    assert rows["links"][0]["fetch_id"] == rows["fetches"][0]["fetch_id"] == "f1"
    assert "links" not in fetched("f1", "https://a.test/", 1.8e9)


def test_the_rig_keeps_its_store_and_directives_through_a_restart_and_nothing_else() -> None:
    rig = FrontierRig("a.test", "b.test")
    rig.discover("https://a.test/1", "https://b.test/1")
    rig.exclude("b.test")
    before = rig.frontier
    assert isinstance(rig.next_claim(), Lease)

    rig.restart()

    assert rig.frontier is not before
    assert isinstance(rig.next_claim(), Lease)
    assert rig.next_claim() is None


def test_the_rig_is_as_polite_as_a_cell() -> None:
    rig = FrontierRig("a.test")
    rig.discover("https://a.test/1", "https://a.test/2")
    rig.claim_page()

    with pytest.raises(ImpoliteError):
        rig.gates.take_host("a.test", rig.clock.boottime() + 100)


def test_claiming_a_page_where_none_is_queued_says_so() -> None:
    with pytest.raises(LookupError, match="no page could be claimed"):
        FrontierRig("a.test").claim_page()
