"""Manifests → Delta over a real lake: in order, checked, exactly once, one consistent vector per round."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer, Round
from crawl_platform.commit.manifest import BULK, FAST, Manifest
from crawl_platform.errors import LakeError, OwnershipLostError
from crawl_platform.lake.delta import STAGED, DeltaWriter
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import SCHEMA_VERSION, TABLES
from crawl_platform.testing.builders import fetched, sample_row, staged_manifest

DAY = 86_400.0


class Desk:
    """A committer at work on a lake, and what it asked to be redelivered."""

    def __init__(self, lake: Lake, clock: ManualClock) -> None:
        self.lake = lake
        self.clock = clock
        self.redelivered: list[str] = []
        self.committer = self.hire()

    def hire(self, kind: type[Committer] = Committer) -> Committer:
        """A new committer process over the same lake."""
        self.committer = kind(
            self.lake,
            self.clock,
            redeliver=lambda manifest: self.redelivered.append(manifest.label),
            max_age=5 * DAY,
        )
        return self.committer

    def manifest(self, number: int, series: str = BULK, incarnation: str = "cell-a") -> Manifest:
        """Epoch `number`: one page with two links."""
        name = f"{incarnation}-{series}-{number}"
        at = self.clock.now()
        rows = fetched(name, f"https://a.test/{name}", at, "https://a.test/x", "https://h.test/y")
        return staged_manifest(self.lake, number, [rows], at=at, series=series, incarnation=incarnation)

    def round(self, *manifests: Manifest) -> Round | None:
        self.committer.offer(manifests)
        return self.committer.round()

    def ids(self, table: str = "fetches", at: int | None = None) -> list[str]:
        return sorted(self.lake.query(f"SELECT fetch_id FROM {table}", at=at)["fetch_id"].to_pylist())


@pytest.fixture
def desk(lake: Lake, clock: ManualClock) -> Desk:
    return Desk(lake, clock)


# order


def test_a_round_commits_all_tables_and_one_row_of_commits(desk: Desk) -> None:
    done = desk.round(desk.manifest(1), desk.manifest(2))

    assert done is not None
    assert (done.commit_id, done.rows, done.gaps, done.quarantined) == (1, {"fetches": 2, "links": 4}, {}, [])
    row = desk.lake.latest_commit()
    assert row is not None
    assert row.manifests == ["cell-a/bulk/1", "cell-a/bulk/2"]
    assert row.rows == {"fetches": 2, "links": 4}
    assert row.versions["fetches"] == desk.lake.version("fetches")


def test_a_round_with_nothing_new_commits_nothing(desk: Desk) -> None:
    made = desk.manifest(1)
    desk.round(made)
    versions = desk.lake.versions()

    assert desk.round() is None
    assert desk.round(made) is None
    assert desk.lake.versions() == versions


def test_manifests_are_taken_contiguously_a_gap_waits_and_is_reported(desk: Desk) -> None:
    one, two, three, five = (desk.manifest(n) for n in (1, 2, 3, 5))

    done = desk.round(five, three, one)
    assert done is not None
    assert [m.number for m in done.manifests] == [1]
    assert done.gaps == {"cell-a/bulk": 2}

    only_gaps = desk.round()
    assert only_gaps is not None
    assert (only_gaps.manifests, only_gaps.commit_id, only_gaps.gaps) == ([], 0, {"cell-a/bulk": 2})

    done = desk.round(two)
    assert done is not None
    assert [m.number for m in done.manifests] == [2, 3]
    assert done.gaps == {"cell-a/bulk": 4}


def test_each_incarnation_and_series_has_a_sequence_of_its_own(desk: Desk) -> None:
    done = desk.round(
        desk.manifest(1),
        desk.manifest(1, FAST),
        desk.manifest(1, incarnation="cell-b"),
        desk.manifest(3, FAST),
    )

    assert done is not None
    assert sorted(m.label for m in done.manifests) == ["cell-a/bulk/1", "cell-a/fast/1", "cell-b/bulk/1"]
    assert done.gaps == {"cell-a/fast": 2}


@pytest.mark.parametrize("restarted", [False, True], ids=["same committer", "new committer"])
def test_a_manifest_that_comes_again_is_skipped(desk: Desk, restarted: bool) -> None:
    one, two = desk.manifest(1), desk.manifest(2)
    desk.round(one, one)
    if restarted:
        desk.hire()

    done = desk.round(one, two, one)

    assert done is not None
    assert [m.number for m in done.manifests] == [2]
    assert desk.ids() == ["cell-a-bulk-1", "cell-a-bulk-2"]


def test_done_says_what_commits_shows(desk: Desk) -> None:
    one, two = desk.manifest(1), desk.manifest(2)
    assert not desk.committer.done(one)

    desk.round(one)

    assert desk.committer.done(one)
    assert not desk.committer.done(two)


def test_a_manifest_without_rows_of_a_table_leaves_that_table_alone(desk: Desk) -> None:
    rows = {"hosts": [sample_row("hosts", desk.clock.now(), host="a.test")]}
    version = desk.lake.version("fetches")

    desk.round(staged_manifest(desk.lake, 1, [rows], at=desk.clock.now()))

    assert desk.lake.version("fetches") == version
    assert desk.lake.query("SELECT host FROM hosts")["host"].to_pylist() == ["a.test"]


# what can't be trusted


def first_file(desk: Desk, manifest: Manifest, table: str) -> Path:
    return next(desk.lake.path(table) / f.path for f in manifest.files if f.table == table)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("table", ["fetches", "links"])
@pytest.mark.parametrize("damage", [Path.unlink, cut], ids=["missing", "short"])
def test_a_manifest_with_a_broken_file_is_published_empty_and_redelivered(
    desk: Desk, damage: Callable[[Path], None], table: str
) -> None:
    one, two, three = (desk.manifest(n) for n in (1, 2, 3))
    damage(first_file(desk, two, table))

    done = desk.round(one, two, three)

    assert done is not None
    assert [m.label for m in done.quarantined] == desk.redelivered == ["cell-a/bulk/2"]
    assert desk.ids() == ["cell-a-bulk-1", "cell-a-bulk-3"]
    assert sorted(set(desk.ids("links"))) == ["cell-a-bulk-1", "cell-a-bulk-3"]
    assert desk.committer.done(two)
    row = desk.lake.latest_commit()
    assert row is not None
    assert row.quarantined == ["cell-a/bulk/2"]


def test_redelivery_is_asked_for_before_the_number_is_used_up(lake: Lake, clock: ManualClock) -> None:
    desk = Desk(lake, clock)
    made = desk.manifest(1)
    first_file(desk, made, "links").unlink()

    def refuses(manifest: Manifest) -> None:
        raise ConnectionError("the exchange is away")

    committer = Committer(lake, clock, redeliver=refuses, max_age=5 * DAY)
    committer.offer([made])
    with pytest.raises(ConnectionError):
        committer.round()

    for table in (*made.tables, "commits"):
        assert DeltaWriter(lake.path(table), TABLES[table]).transaction_version(made.app) is None
    desk.round(made)
    assert desk.redelivered == ["cell-a/bulk/1"]


def test_a_manifest_too_old_to_be_sure_of_is_published_empty(desk: Desk) -> None:
    old = desk.manifest(1)
    desk.clock.advance(5 * DAY + 1)

    done = desk.round(old, desk.manifest(2))

    assert done is not None
    assert [m.number for m in done.quarantined] == [1]
    assert desk.redelivered == ["cell-a/bulk/1"]
    assert desk.ids() == ["cell-a-bulk-2"]


def test_ablation_a_commit_that_names_a_missing_file_makes_the_whole_table_unreadable(desk: Desk) -> None:
    class Credulous(Committer):
        def _broken(self, manifest: Manifest) -> bool:
            return False

    desk.round(desk.manifest(1))
    two = desk.manifest(2)
    first_file(desk, two, "fetches").unlink()
    desk.hire(Credulous)
    desk.round(two)

    with pytest.raises(Exception, match=r"(?i)no such file|not found|cannot open"):
        desk.ids()


def test_a_manifest_of_an_unknown_schema_version_is_held_with_all_behind_it(desk: Desk) -> None:
    one, three = desk.manifest(1), desk.manifest(3)
    two = msgspec.structs.replace(desk.manifest(2), schema_version=SCHEMA_VERSION + 1)

    done = desk.round(one, two, three)

    assert done is not None
    assert [m.number for m in done.manifests] == [1]
    assert [m.number for m in done.held] == [2]
    assert done.gaps == {}
    waiting = desk.round()
    assert waiting is not None
    assert [m.number for m in waiting.held] == [2]
    assert not desk.committer.done(two)


# the vector


def test_rows_of_later_manifests_are_invisible_at_an_earlier_vector(desk: Desk) -> None:
    for number in (1, 2, 3):
        desk.round(desk.manifest(number))

    for commit_id in (1, 2, 3):
        expected = [f"cell-a-bulk-{n}" for n in range(1, commit_id + 1)]
        assert desk.ids(at=commit_id) == expected
        assert sorted(set(desk.ids("links", at=commit_id))) == expected
    assert desk.lake.vector()[1] == 3


def test_readers_do_not_see_a_round_that_is_under_way(desk: Desk) -> None:
    desk.round(desk.manifest(1))
    two = desk.manifest(2)
    fetches = DeltaWriter(desk.lake.path("fetches"), TABLES["fetches"])
    fetches.commit([f for f in two.files if f.table == "fetches"], {two.app: 2}, {})

    assert desk.ids() == ["cell-a-bulk-1"]

    desk.round(two)
    assert desk.ids() == ["cell-a-bulk-1", "cell-a-bulk-2"]


# stale committers


def test_a_committer_that_was_overtaken_within_its_round_is_refused(desk: Desk) -> None:
    """It has read the transactions; then another one commits the same manifest."""
    made = desk.manifest(1)
    other = Desk(desk.lake, desk.clock)

    class Overtaken(Committer):
        overtaken = False

        def _commit_table(self, name: str, result: Round) -> None:
            if not self.overtaken:
                self.overtaken = True
                self._writers[name].refresh()
                refresh, self._writers[name].refresh = self._writers[name].refresh, lambda: 0  # type: ignore[method-assign]
                other.round(made)
                try:
                    super()._commit_table(name, result)
                finally:
                    self._writers[name].refresh = refresh  # type: ignore[method-assign]
            else:
                super()._commit_table(name, result)

    desk.hire(Overtaken)
    with pytest.raises(OwnershipLostError):
        desk.round(made)

    assert desk.ids() == ["cell-a-bulk-1"]


def test_a_stale_committer_with_an_old_picture_repeats_nothing(desk: Desk) -> None:
    made = desk.manifest(1)
    stale = desk.committer
    stale.offer([made])
    Desk(desk.lake, desk.clock).round(made)

    assert stale.round() is None
    assert desk.ids() == ["cell-a-bulk-1"]


# ablation of the transaction check


class Forgetful(Committer):
    """Commits every manifest it is given, without looking at what the tables already show."""

    def _select(self, result: Round, commits: DeltaWriter) -> None:
        result.manifests = [m for waiting in self._pending.values() for m in waiting.values()]

    def _commit_table(self, name: str, result: Round) -> None:
        files = [f for m in result.manifests for f in m.files if f.table == name]
        if files:
            self._numbers = getattr(self, "_numbers", 1_000) + 1
            self._writers[name].commit(files, {"whatever": self._numbers}, {})


def test_ablation_without_the_transaction_check_a_repeated_manifest_doubles_its_rows(desk: Desk) -> None:
    made = desk.manifest(1)
    desk.round(made)
    # Compaction has taken the file out of the log; adding its path again would bring the rows back twice.
    desk.lake.delta("fetches").optimize.compact()
    rewritten = msgspec.structs.replace(made, files=tuple(_copied(desk.lake, f) for f in made.files))
    desk.hire()
    desk.round(rewritten)
    assert desk.ids() == ["cell-a-bulk-1"]

    desk.hire(Forgetful)
    with pytest.raises((LakeError, OwnershipLostError)):
        desk.round(rewritten)  # the vector's own transaction refuses, but the rows are in

    fetches = desk.lake.delta("fetches").to_pyarrow_table()["fetch_id"].to_pylist()
    assert fetches == ["cell-a-bulk-1"] * 2


def _copied(lake: Lake, file: msgspec.Struct) -> msgspec.Struct:
    """The same rows under another name, as a second staging of the same epoch would leave them."""
    path = file.path.replace(".parquet", "-again.parquet")  # type: ignore[attr-defined]
    root = lake.path(file.table)  # type: ignore[attr-defined]
    assert path.startswith(STAGED)
    shutil.copyfile(root / file.path, root / path)  # type: ignore[attr-defined]
    return msgspec.structs.replace(file, path=path)
