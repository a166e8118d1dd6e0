"""The checks themselves: each one fails when what it watches over is broken."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from crawl_platform.lake.delta import DeltaWriter, write_parquet
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.simulation.log import Entry
from tests.fleet.checks import (
    assert_each_row_has_its_request,
    assert_one_row_per_request,
    assert_polite,
    assert_same,
    assert_whole_at_every_commit,
    orphans,
    surplus,
)
from tests.fleet.harness import Row

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def entry(path: str, start: float, **values: object) -> Entry:
    made = Entry(
        "a.test", "127.9.0.1", 80, path, "GET", "us", start, start, start, start + 0.01, 200, "response"
    )
    return msgspec.structs.replace(made, **values)


def row(path: str, number: int, **values: object) -> Row:
    made: Row = {
        "url": f"http://a.test{path}", "host": "a.test", "fetch_id": f"i-{number}", "incarnation": "i",
        "status": 200, "outcome": "ok",
    }  # fmt: skip
    return {**made, **values}


def test_a_crawl_as_it_should_be_passes() -> None:
    log = [entry("/", 1.0), entry("/a", 1.1)]

    assert_polite(log)
    assert_one_row_per_request(log, [row("/", 1), row("/a", 2)])


@pytest.mark.parametrize(
    "second",
    [
        entry("/a", 1.005),
        entry("/a", 1.012),
        entry("/a", 1.005, host="b.test"),
        entry("/a", 1.012, host="b.test"),
    ],
    ids=["overlap", "gap", "overlap on the address", "gap on the address"],
)
def test_an_impolite_crawl_fails(second: Entry) -> None:
    with pytest.raises(AssertionError):
        assert_polite([entry("/", 1.0), second])


def test_a_request_without_a_row_fails_and_is_surplus() -> None:
    log = [entry("/", 1.0), entry("/a", 1.1)]

    with pytest.raises(AssertionError, match="not in the lake"):
        assert_one_row_per_request(log, [row("/", 1)])
    assert surplus(log, [row("/", 1)]) == {("a.test", "/a"): 1}


def test_a_row_that_is_there_twice_fails() -> None:
    with pytest.raises(AssertionError):
        assert_one_row_per_request([entry("/", 1.0)], [row("/", 1), row("/", 1)])
    with pytest.raises(AssertionError):
        assert_one_row_per_request([entry("/", 1.0), entry("/", 2.0)], [row("/", 1), row("/", 1)])


def test_a_row_without_a_request_fails_unless_the_connection_was_lost() -> None:
    log = [entry("/", 1.0)]

    for made_up in (row("/b", 2), row("/b", 2, status=None, outcome="read_timeout")):
        with pytest.raises(AssertionError):
            assert_each_row_has_its_request(log, [row("/", 1), made_up])
    lost = row("/b", 2, status=None, outcome="connection_lost")
    refused = row("/c", 3, status=None, outcome="connect_refused")
    assert_each_row_has_its_request(log, [row("/", 1), lost, refused])


# the lake at every commit


def _commit(lake: Lake, name: str, rows: list[Row], number: int) -> None:
    full = [dict.fromkeys(TABLES[name].schema.names, None) | _required(name) | r for r in rows]
    data = pa.Table.from_pylist(full, schema=TABLES[name].schema)
    writer = DeltaWriter(lake.path(name), TABLES[name])
    writer.refresh()
    folder = lake.path(name) / "_staged"
    file = write_parquet(TABLES[name], data, folder / f"{name}-{number}.parquet")
    writer.commit([file], {f"test-{name}": number}, {})


def _required(name: str) -> Row:
    blank: dict[str, object] = {"string": "x", "timestamp[us, tz=UTC]": DAY, "date32[day]": DAY.date()}
    fields = [c for c in TABLES[name].columns if c.required]
    return {c.name: blank.get(str(c.type), 0) for c in fields}


def _vector(lake: Lake, number: int) -> None:
    versions = list(lake.versions().items())
    _commit(
        lake,
        "commits",
        [{"commit_id": number, "versions": versions, "manifests": [], "quarantined": [], "rows": []}],
        number,
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """One commit with one fetch and its link."""
    made = Lake(tmp_path / "lake")
    made.create(8)
    _commit(made, "fetches", [{"fetch_id": "one"}], 1)
    _commit(made, "links", [{"fetch_id": "one"}], 1)
    _vector(made, 1)
    return made


def test_a_whole_lake_passes(lake: Lake) -> None:
    _commit(lake, "fetches", [{"fetch_id": "two"}], 2)
    _vector(lake, 2)

    assert assert_whole_at_every_commit(lake) == 2


def test_a_fetch_that_is_committed_again_fails(lake: Lake) -> None:
    _commit(lake, "fetches", [{"fetch_id": "one"}], 2)
    _vector(lake, 2)

    with pytest.raises(AssertionError, match="a fetch again in commit 2"):
        assert_whole_at_every_commit(lake)


def test_a_link_whose_fetch_comes_only_with_the_next_commit_fails(lake: Lake) -> None:
    _commit(lake, "links", [{"fetch_id": "two"}], 2)
    _vector(lake, 2)
    _commit(lake, "fetches", [{"fetch_id": "two"}], 2)
    _vector(lake, 3)

    with pytest.raises(AssertionError, match="links without fetch in commit 2"):
        assert_whole_at_every_commit(lake)


def test_an_orphan_that_is_torn_holds_no_rows(lake: Lake) -> None:
    data = pa.Table.from_pylist(
        [_required("fetches") | {"fetch_id": "lost"}], schema=TABLES["fetches"].schema
    )
    whole = lake.path("fetches") / "_staged" / "orphan.parquet"
    write_parquet(TABLES["fetches"], data, whole)
    (whole.parent / "torn.parquet").write_bytes(whole.read_bytes()[:-100])
    (whole.parent / "empty.parquet").write_bytes(b"")

    assert [row["fetch_id"] for row in orphans(lake, "fetches")] == ["lost"]


def test_what_differs_is_told_also_outside_of_pytest() -> None:
    assert_same("the lake", ["a", "b", "b"], ["b", "a", "b"])

    with pytest.raises(AssertionError, match="the lake lacks 1: a; has too much 2: b, b"):
        assert_same("the lake", ["b", "b"], ["a"])
