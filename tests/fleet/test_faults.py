"""kill -9 in the middle of a crawl, and at every fault point of the commit protocol.

Whatever was killed, and wherever: after the restart the same pages and links, no row twice, nothing lost,
and no more requests without a row than were in flight or uncommitted at the kill. Beyond that each point
shows its row of the table "killed after | what happens".
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawl_platform.commit.faults import (
    ACKED,
    ALL_TABLES,
    COMMITTED,
    FORGOTTEN,
    POINTS,
    PUBLISHED,
    SOME_TABLES,
    STAGED,
    VECTOR,
)
from crawl_platform.commit.manifest import SERIES, Manifest, application
from crawl_platform.settings import Commit
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import launch
from tests.docs_sites.manuals import BODY_CAP, PYTHON, assert_crawled_to_the_end
from tests.fleet.checks import (
    asked,
    assert_brought_home,
    assert_drained,
    assert_nothing_twice,
    assert_polite,
    assert_whole_at_every_commit,
    orphans,
    recorded,
    surplus,
)
from tests.fleet.harness import Fleet, Row, eventually, fetch_from
from tests.fleet.sites import Plan, Site, serve
from tests.fleet.state import CellState
from tests.fleet.together import Together, side_by_side

pytestmark = pytest.mark.long

FASTER = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=5.0)
"""Enough epochs in a crawl of three seconds to die in the third or fourth."""
MIDDLE = "cell in the middle of a manual"
NTH = {SOME_TABLES: 13}
"""At which passing of the point: in the third round of the six tables, when `fetches` alone is done."""


PLANS = (
    Plan("one.test", 100, abroad=(("horizon.test", ""),)),
    Plan("two.test", 100, abroad=(("horizon.test", ""),)),
    Plan("horizon.test", 3),
)
SEED = ("one.test", "two.test")


@dataclass(frozen=True)
class Death:
    """What was there when the process had died, before anything was started again."""

    at: float
    """CLOCK_BOOTTIME."""
    state: CellState | None
    """What the cell's disk held, if it was the cell that died."""
    shown: dict[str, dict[str, int]]
    """Table → series → number of the last manifest that it shows."""
    visible: int
    """Fetch rows that readers saw, at the version vector."""
    held: int
    published: int
    """Manifests in the stream now, and ever."""

    @property
    def cell(self) -> CellState:
        assert self.state is not None
        return self.state

    def newest(self) -> Manifest:
        """The last manifest that the cell committed."""
        return max(self.cell.manifests, key=lambda manifest: manifest.created_at)


@dataclass(frozen=True)
class End:
    """What was there in the end, after a clean stop."""

    log: list[Entry]
    fetches: list[Row]
    orphans: list[Row]
    manifests: int
    """In the lake."""
    published: int
    """To the stream, repeats included."""

    def rows_of(self, manifest: Manifest) -> list[Row]:
        return [
            row
            for row in self.fetches
            if (row["series"], row["manifest"]) == (manifest.series, manifest.number)
        ]


def death_of(fleet: Fleet, name: str) -> Death:
    with fleet.after_death_of(name):
        at = fleet.clock.boottime()
        state = fleet.copy_of_state(name) if name.startswith("cell") else None
        incarnation = fleet.beats()["cell-0"].incarnation
        tables = {table: fleet.lake.delta(table) for table in ("fetches", "links", "commits")}
        shown = {
            name: {s: table.transaction_version(application(incarnation, s)) or 0 for s in SERIES}
            for name, table in tables.items()
        }
        visible = len(fleet.fetches())
        stream = fleet.stream("MANIFESTS")
    return Death(at, state, shown, visible, stream.held, stream.published)


def end_of(fleet: Fleet, sites: Sequence[Site]) -> End:
    """Let the crawl come to its end, stop, and check what holds whatever happened."""
    fleet.wait_quiet(120)
    published = fleet.stream("MANIFESTS").published
    manifests = fleet.rows("SELECT sum(len(manifests)) AS n FROM commits")[0]["n"]
    fleet.stop()
    log, fetches, left = fleet.requests(), fleet.fetches(), orphans(fleet.lake, "fetches")
    end = End(log, fetches, left, manifests, published)
    assert_polite(end.log)
    assert {entry.host for entry in end.log} == {site.host for site in sites}, "a horizon host was asked"
    assert_brought_home(fleet, *sites)
    assert_nothing_twice(end.fetches)
    assert_whole_at_every_commit(fleet.lake)
    assert_drained(fleet)
    return end


def assert_surplus_is_what_was_uncommitted(
    state: CellState, at: float, log: list[Entry], fetches: list[Row]
) -> None:
    """Requests without a row are those that were in flight or uncommitted when the cell died, and no others."""
    durable = [row for row in fetches if state.committed(row) and row["incarnation"] == state.incarnation]
    later = [row for row in fetches if not state.committed(row)]
    before = [entry for entry in log if entry.start_boot <= at]
    after = [entry for entry in log if entry.start_boot > at]
    assert surplus(log, fetches) == asked(before) - recorded(durable)
    assert asked(after) == recorded(later), "after the restart every request is a row"


# the outcome table, row by row


def orphan_file_remains_and_pages_are_fetched_again(death: Death, end: End) -> None:
    assert end.orphans
    for row in end.orphans:
        assert row["manifest"] == death.cell.last[row["series"]] + 1, "of the epoch that was not committed"
    lost = recorded(end.orphans)
    assert lost <= surplus(end.log, end.fetches)
    assert {asked(end.log)[page] for page in lost} == {2}, "asked for before and after"
    assert {recorded(end.fetches)[page] for page in lost} == {1}


def manifest_is_republished_on_start(death: Death, end: End) -> None:
    newest = death.newest()
    assert death.published == sum(death.cell.last.values()) - 1, "all but the newest had been published"
    assert end.rows_of(newest)
    assert {asked(end.log)[page] for page in recorded(end.rows_of(newest))} == {1}, "not fetched again"
    assert end.orphans == []


def message_comes_twice_and_is_skipped(death: Death, end: End) -> None:
    assert death.published == sum(death.cell.last.values()), "all had been published"
    assert len(death.cell.manifests) == death.published, "none had been confirmed"
    assert {asked(end.log)[page] for page in recorded(end.rows_of(death.newest()))} == {1}


def forgotten_manifests_are_not_published_again(death: Death, end: End) -> None:
    assert len(death.cell.manifests) < sum(death.cell.last.values())
    assert end.published <= end.manifests + len(death.cell.manifests)


def each_table_resumes_from_its_own_transaction(death: Death, end: End) -> None:
    assert death.shown["fetches"]["bulk"] > death.shown["commits"]["bulk"]
    assert death.shown["links"]["bulk"] == death.shown["commits"]["bulk"], (
        "died between the tables of one round"
    )
    _hidden_from_readers_until_the_round_was_whole(death, end)


def tables_are_done_and_only_the_vector_is_written(death: Death, end: End) -> None:
    assert death.shown["fetches"]["bulk"] == death.shown["links"]["bulk"] > death.shown["commits"]["bulk"]
    _hidden_from_readers_until_the_round_was_whole(death, end)


def _hidden_from_readers_until_the_round_was_whole(death: Death, end: End) -> None:
    shown = {series: death.shown["commits"][series] for series in SERIES}
    assert death.visible == sum(1 for row in end.fetches if row["manifest"] <= shown[row["series"]])


def committed_manifests_are_skipped(death: Death, end: End) -> None:
    assert death.shown["commits"]["bulk"] == death.shown["fetches"]["bulk"] > 0
    assert death.held > 0, "none of the round was acked"


def nothing_happens(death: Death, end: End) -> None:
    assert death.shown["commits"]["bulk"] == death.shown["fetches"]["bulk"] > 0


OUTCOMES: dict[str, Callable[[Death, End], None]] = {
    STAGED: orphan_file_remains_and_pages_are_fetched_again,
    COMMITTED: manifest_is_republished_on_start,
    PUBLISHED: message_comes_twice_and_is_skipped,
    FORGOTTEN: forgotten_manifests_are_not_published_again,
    SOME_TABLES: each_table_resumes_from_its_own_transaction,
    ALL_TABLES: tables_are_done_and_only_the_vector_is_written,
    VECTOR: committed_manifests_are_skipped,
    ACKED: nothing_happens,
}


@pytest.fixture(scope="module")
def kills(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    def run(point: str) -> None:
        folder = tmp_path_factory.mktemp(point.replace(".", "-"))
        if point == MIDDLE:
            killed_in_the_middle_of_a_manual(folder)
        else:
            killed_at(point, folder)

    with side_by_side(request, "point", run) as together:
        yield together


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_at_a_fault_point(kills: Together, point: str) -> None:
    kills.result(point)


@pytest.mark.long
@pytest.mark.parametrize("point", [MIDDLE])
def test_after_a_kill_in_the_middle_of_a_manual(kills: Together, point: str) -> None:
    kills.result(point)


def killed_at(point: str, folder: Path) -> None:
    process = "cell-0" if point.startswith("cell") else "committer"
    with serve(folder, *PLANS) as world, Fleet(folder / "home", world.web, commit=FASTER) as fleet:
        fleet.start(f"{process}={point}:{NTH.get(point, 4 if process == 'cell-0' else 3)}")
        # For one point the lake is to confirm nothing before the cell has died and come back.
        with fleet.suspended("committer") if point == PUBLISHED else contextlib.nullcontext():
            fleet.seed([world.url(host) for host in SEED])
            death = death_of(fleet, process)
            if point in (PUBLISHED, VECTOR):
                _see_manifests_twice(fleet, death)
        end = end_of(fleet, [world.sites[host] for host in SEED])

        assert fleet.restarts(process) == 1
        OUTCOMES[point](death, end)
        if death.state is not None:
            assert_surplus_is_what_was_uncommitted(death.state, death.at, end.log, end.fetches)
        else:
            assert surplus(end.log, end.fetches) == Counter(), "the crawl went on without the committer"


def _see_manifests_twice(fleet: Fleet, death: Death) -> None:
    """Until what was in the stream at the death stands in it again, beside the first copy."""
    if death.state is None:
        fleet.ring(f"bell.resend.{fleet.beats()['cell-0'].incarnation}")
    eventually(lambda: _twice(fleet.manifests_waiting()) >= death.held, 30.0, "manifests came again")


def _twice(waiting: Counter[str]) -> int:
    return sum(1 for copies in waiting.values() if copies > 1)


def killed_in_the_middle_of_a_manual(folder: Path) -> None:
    PYTHON.require()
    with (
        launch(["files", PYTHON.option], folder / "requests.jsonl") as web,
        Fleet(folder / "home", web.ready, fetch=fetch_from(web.ready, body_cap=BODY_CAP)) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(300)

        state = fleet.kill_cell()
        at = fleet.clock.boottime()

        fleet.wait_quiet(180)
        assert fleet.restarts("cell-0") == 1
        fleet.stop()
        log, fetches = fleet.requests(), fleet.fetches()
        assert_crawled_to_the_end(fleet, PYTHON)
        assert_polite(log)
        assert_nothing_twice(fetches)
        assert_surplus_is_what_was_uncommitted(state, at, log, fetches)
        assert 0 < sum(surplus(log, fetches).values()) < 150, "killed in the middle, and little was lost"
        assert_whole_at_every_commit(fleet.lake)
        assert_drained(fleet)
