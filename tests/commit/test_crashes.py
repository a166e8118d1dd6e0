"""Killed anywhere, the next one goes on: each step of the protocol, and the window before and after it.

A fault raises instead of killing the process; whoever comes next starts from what is on disk alone.
"""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import FLEET_TABLES, Committer, Round
from crawl_platform.commit.faults import (
    ACKED,
    ALL_TABLES,
    POINTS,
    SOME_TABLES,
    VECTOR,
    Faults,
    KillAt,
    parse_fault,
)
from crawl_platform.commit.manifest import Manifest
from crawl_platform.commit.staging import Block, RowBuffer
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.testing.builders import fetched, sample_row, staged_manifest
from crawl_platform.testing.invariants import committed_once, links_have_fetches


class Dies(Exception):
    """The process ends here."""


class DieAt(Faults):
    def __init__(self, point: str, nth: int = 1) -> None:
        self.point, self.left = point, nth

    def reached(self, point: str) -> None:
        self.left -= point == self.point
        if self.left == 0 and point == self.point:
            raise Dies(point)


def epoch(lake: Lake, clock: ManualClock, number: int) -> Manifest:
    at = clock.now()
    rows = fetched(f"f{number}", f"https://a.test/{number}", at, "https://a.test/x", "https://h.test/y")
    hosts = {"hosts": [sample_row("hosts", at, host="a.test")]}
    return staged_manifest(lake, number, [rows, hosts], at=at)


def commit(
    lake: Lake,
    clock: ManualClock,
    manifests: Sequence[Manifest],
    faults: Faults | None = None,
    redelivered: list[str] | None = None,
) -> Round | None:
    """A new committer process does one round."""
    told = redelivered if redelivered is not None else []
    committer = Committer(
        lake, clock, redeliver=lambda m: told.append(m.label), max_age=5 * 86_400.0, faults=faults
    )
    committer.offer(manifests)
    return committer.round()


def healthy(lake: Lake, expected: Sequence[str]) -> None:
    assert lake.query("SELECT fetch_id FROM fetches ORDER BY 1")["fetch_id"].to_pylist() == list(expected)
    assert committed_once(lake) == []
    assert links_have_fetches(lake) == []


KILLS = [
    *((SOME_TABLES, nth) for nth in range(1, len(FLEET_TABLES) + 1)),
    (ALL_TABLES, 1),
    (VECTOR, 1),
]


@pytest.mark.parametrize(
    ("point", "nth"),
    [*KILLS[:2], *(pytest.param(*kill, marks=pytest.mark.long) for kill in KILLS[2:-3]), *KILLS[-3:]],
)
def test_a_round_that_died_is_taken_up_where_each_table_stands(
    lake: Lake, clock: ManualClock, point: str, nth: int
) -> None:
    commit(lake, clock, [epoch(lake, clock, 1)])
    manifests = [epoch(lake, clock, n) for n in (2, 3)]
    with pytest.raises(Dies):
        commit(lake, clock, manifests, DieAt(point, nth))

    commit(lake, clock, manifests)

    healthy(lake, ["f1", "f2", "f3"])
    assert lake.query("SELECT count(*) AS n FROM hosts")["n"].to_pylist() == [3]


@pytest.mark.long
@pytest.mark.parametrize(("point", "nth"), [KILLS[0], KILLS[2], *KILLS[-2:]])
def test_readers_stand_at_the_last_vector_while_a_round_is_half_done(
    lake: Lake, clock: ManualClock, point: str, nth: int
) -> None:
    commit(lake, clock, [epoch(lake, clock, 1)])
    with pytest.raises(Dies):
        commit(lake, clock, [epoch(lake, clock, 2)], DieAt(point, nth))

    healthy(lake, ["f1", "f2"] if point == VECTOR else ["f1"])


def test_a_next_round_may_bring_more_than_the_one_that_died(lake: Lake, clock: ManualClock) -> None:
    first = [epoch(lake, clock, 1), epoch(lake, clock, 2)]
    with pytest.raises(Dies):
        commit(lake, clock, first, DieAt(SOME_TABLES))

    commit(lake, clock, [*first, epoch(lake, clock, 3)])

    healthy(lake, ["f1", "f2", "f3"])


@pytest.mark.long
def test_dying_again_and_again_commits_all_once(lake: Lake, clock: ManualClock) -> None:
    manifests = [epoch(lake, clock, n) for n in (1, 2, 3)]
    for point, nth in KILLS[:-1]:
        with pytest.raises(Dies):
            commit(lake, clock, manifests, DieAt(point, nth))

    commit(lake, clock, manifests)

    healthy(lake, ["f1", "f2", "f3"])
    assert [lake.commit(1).manifests] == [["cell-a/bulk/1", "cell-a/bulk/2", "cell-a/bulk/3"]]


@given(data=st.data())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.long
def test_in_any_order_with_repeats_and_deaths_every_manifest_is_committed_once(
    new_lake: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lake = Lake(shutil.copytree(new_lake, tmp_path_factory.mktemp("any") / "lake"))
    clock = ManualClock()
    manifests = [epoch(lake, clock, n) for n in (1, 2, 3, 4)]
    arrivals = data.draw(st.lists(st.lists(st.sampled_from(manifests), max_size=4), min_size=1, max_size=4))
    deaths = data.draw(st.lists(st.sampled_from(KILLS), max_size=len(arrivals)))

    for n, some in enumerate(arrivals):
        with contextlib.suppress(Dies):
            commit(lake, clock, some, DieAt(*deaths[n]) if n < len(deaths) else None)
    commit(lake, clock, manifests)

    healthy(lake, ["f1", "f2", "f3", "f4"])


@pytest.mark.parametrize("table", ["fetches", "links"])
@pytest.mark.parametrize(
    "nth", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_a_quarantined_manifest_stays_empty_in_every_table_through_a_crash(
    lake: Lake, clock: ManualClock, nth: int, table: str
) -> None:
    manifests = [epoch(lake, clock, 1), epoch(lake, clock, 2)]
    next(lake.path(table) / f.path for f in manifests[1].files if f.table == table).unlink()
    redelivered: list[str] = []
    with pytest.raises(Dies):
        commit(lake, clock, manifests, DieAt(SOME_TABLES, nth), redelivered)

    commit(lake, clock, manifests, redelivered=redelivered)

    healthy(lake, ["f1"])
    assert lake.query("SELECT count(*) AS n FROM hosts")["n"].to_pylist() == [1]
    assert set(redelivered) == {"cell-a/bulk/2"}


def test_ablation_a_committer_that_forgets_where_tables_stand_doubles_or_refuses(
    lake: Lake, clock: ManualClock
) -> None:
    class Unaware(Committer):
        """Commits its files under a transaction of its own instead of the manifest's."""

        def _commit_table(self, name: str, result: Round) -> None:
            writer = self._writers[name]
            writer.refresh()
            files = [f for m in result.manifests for f in m.files if f.table == name]
            if files:
                writer.commit(files, {"unaware": (writer.transaction_version("unaware") or 0) + 1}, {})

    manifests = [epoch(lake, clock, 1)]
    for n in range(2):
        committer = Unaware(
            lake, clock, redeliver=lambda m: None, max_age=1e9, faults=DieAt(ALL_TABLES) if n == 0 else None
        )
        again = manifests if n == 0 else [epoch(lake, clock, 1)]  # staged anew: other file names
        committer.offer(again)
        if n == 0:
            with pytest.raises(Dies):
                committer.round()
        else:
            committer.round()

    assert committed_once(lake) != []


# fault points themselves


def test_fault_points_have_distinct_names_and_can_be_written_as_text() -> None:
    assert len(set(POINTS)) == len(POINTS)
    assert type(parse_fault("")) is Faults
    assert isinstance(parse_fault(f"{ACKED}:3"), KillAt)
    with pytest.raises(ValueError, match="no such fault point"):
        parse_fault("nowhere")


def test_the_cells_rows_are_taken_once() -> None:
    buffer = RowBuffer()
    buffer.add("fetches", {"fetch_id": "f1"}, weight=100)
    buffer.add("links", {"fetch_id": "f1"}, weight=50)
    assert (buffer.bytes, buffer.count, bool(buffer)) == (150, 2, True)

    buffer.add_block("links", Block({"fetch_id": "f2"}, {"anchor": ["one", "two"]}), weight=90)
    assert (buffer.bytes, buffer.count) == (240, 4)

    rows, blocks = buffer.take(), buffer.take_blocks()

    assert (set(rows), set(blocks)) == ({"fetches", "links"}, {"links"})
    assert (buffer.take(), buffer.take_blocks(), buffer.bytes, bool(buffer)) == ({}, {}, 0, False)


def test_fetches_are_committed_before_what_cites_them() -> None:
    assert FLEET_TABLES[0] == "fetches"
    assert set(FLEET_TABLES) == {t.name for t in TABLES.values() if t.writer == "fleet"}
