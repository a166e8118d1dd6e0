"""Each invariant holds on a healthy crawl, and each sees the violation that is planted."""

import copy
import dataclasses
import shutil
from pathlib import Path

import msgspec
import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer
from crawl_platform.commit.manifest import Manifest
from crawl_platform.lake.lake import Lake
from crawl_platform.simulation.log import Entry
from crawl_platform.testing.builders import fetched, staged_manifest, tiny_lake
from crawl_platform.testing.invariants import (
    Death,
    Violation,
    boundary_held,
    committed_is_kept,
    committed_once,
    fetches_match_log,
    links_have_fetches,
    polite,
    redo_is_bounded,
    robots_first,
)

T0 = 1_800_000_000.0


class Crawl:
    """A small, well-behaved crawl of a.test: a lake in three commits, and the server's log of it."""

    def __init__(self, root: Path) -> None:
        self.lake = tiny_lake(root)
        self.clock = ManualClock(T0)
        self.log: list[Entry] = []
        self.number = 0
        self.commit(self.page("robots", "https://a.test/robots.txt", kind="robots", lane="robots"))
        self.commit(self.page("f1", "https://a.test/1", "https://a.test/2", "https://h.test/"))
        self.commit(self.page("f2", "https://a.test/2?q=%20x", "https://a.test/1"))

    def page(self, fetch_id: str, url: str, *targets: str, **values: object):  # type: ignore[no-untyped-def]
        """One second later a page is fetched; the server notes it."""
        self.clock.advance(1.0)
        self.request(url)
        return fetched(fetch_id, url, self.clock.now(), *targets, host="a.test", **values)

    def request(self, url: str, after: float = 0.001) -> None:
        host, _, path = url.removeprefix("https://").partition("/")
        start, boot = self.clock.now() + after, self.clock.boottime() + after
        self.log.append(
            Entry(
                host,
                "127.0.0.9",
                443,
                f"/{path}",
                "GET",
                "t",
                start,
                start + 0.1,
                boot,
                boot + 0.1,
                200,
                "response",
            )
        )

    def commit(self, *rows: object, number: int | None = None, incarnation: str = "cell-a") -> Manifest:
        """One epoch and one round of the committer."""
        self.number += 1
        made = staged_manifest(
            self.lake,
            number or self.number,
            rows,
            at=self.clock.now(),
            incarnation=incarnation,  # type: ignore[arg-type]
        )
        committer = Committer(self.lake, self.clock, redeliver=lambda m: None, max_age=1e9)
        committer.offer([made])
        assert committer.round() is not None
        return made


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    return Crawl(tmp_path_factory.mktemp("healthy") / "lake")


@pytest.fixture
def crawl(healthy: Crawl, tmp_path: Path) -> Crawl:
    """A copy of the healthy crawl, to be spoiled."""
    copied = copy.copy(healthy)
    copied.lake = Lake(shutil.copytree(healthy.lake.root, tmp_path / "lake"))
    copied.clock = ManualClock(healthy.clock.now(), healthy.clock.boottime())
    copied.log = list(healthy.log)
    return copied


def names(violations: list[Violation]) -> set[str]:
    return {violation.invariant for violation in violations}


def test_everything_holds_on_a_healthy_crawl(crawl: Crawl) -> None:
    assert committed_once(crawl.lake) == []
    assert links_have_fetches(crawl.lake) == []
    assert [links_have_fetches(crawl.lake, at=n) for n in (1, 2, 3)] == [[], [], []]
    assert fetches_match_log(crawl.lake, crawl.log) == []
    assert polite(crawl.log, 1.0) == []
    assert robots_first(crawl.log) == []
    assert boundary_held(crawl.lake, crawl.log, {"a.test"}) == []


def test_everything_holds_on_an_empty_lake(tmp_path: Path) -> None:
    lake = tiny_lake(tmp_path / "lake")

    assert committed_once(lake) == links_have_fetches(lake) == fetches_match_log(lake, []) == []


def test_violations_are_values() -> None:
    violation = Violation("polite", "too close")

    assert violation == Violation("polite", "too close")
    with pytest.raises(dataclasses.FrozenInstanceError):
        violation.detail = "x"  # type: ignore[misc]


# committed_once


def test_a_fetch_that_is_committed_twice_is_seen(crawl: Crawl) -> None:
    crawl.commit(fetched("f1", "https://a.test/1", crawl.clock.now()), number=1, incarnation="cell-b")

    (violation, *_) = committed_once(crawl.lake)

    assert "fetch f1 is there twice at commit 4" in violation.detail


def test_a_fetch_twice_in_one_file_is_seen(crawl: Crawl) -> None:
    crawl.commit(fetched("f3", "https://a.test/3", T0), fetched("f3", "https://a.test/4", T0))

    assert any("f3" in violation.detail for violation in committed_once(crawl.lake))


def test_one_request_under_two_ids_is_seen(crawl: Crawl) -> None:
    at = crawl.clock.now()
    crawl.commit(fetched("f8", "https://a.test/8", at), fetched("f9", "https://a.test/8", at))

    assert any("has 2 rows" in violation.detail for violation in committed_once(crawl.lake))


def test_a_manifest_in_two_commits_is_seen(crawl: Crawl) -> None:
    class Repeats(Committer):
        def _select(self, result: object, commits: object) -> None:
            result.manifests = [m for waiting in self._pending.values() for m in waiting.values()]  # type: ignore[attr-defined]

        def _write_vector(self, result: object, commits: object) -> None:
            label = result.manifests[0].label  # type: ignore[attr-defined]
            result.manifests = [_Relabelled(label)]  # type: ignore[attr-defined]
            super()._write_vector(result, commits)  # type: ignore[arg-type]
            result.manifests = []  # type: ignore[attr-defined]

    class _Relabelled:
        app, number, tables = "elsewhere/bulk", 1, frozenset[str]()

        def __init__(self, label: str) -> None:
            self.label = label

    again = Repeats(crawl.lake, crawl.clock, redeliver=lambda m: None, max_age=1e9)
    again.offer([staged_manifest(crawl.lake, 3, [], at=T0)])
    again.round()

    assert any("cell-a/bulk/3 is in 2 commits" in v.detail for v in committed_once(crawl.lake))


def test_compaction_is_no_violation(crawl: Crawl) -> None:
    for table in ("fetches", "links"):
        crawl.lake.delta(table).optimize.compact()
    crawl.commit(crawl.page("f3", "https://a.test/3", "https://a.test/1"))

    assert committed_once(crawl.lake) == []
    assert links_have_fetches(crawl.lake) == []


# links_have_fetches


def test_links_without_their_fetch_are_seen_now_and_at_their_commit(crawl: Crawl) -> None:
    rows = fetched("f3", "https://a.test/3", T0, "https://a.test/1")
    crawl.commit({"links": rows["links"]})

    assert names(links_have_fetches(crawl.lake)) == {"links_have_fetches"}
    assert links_have_fetches(crawl.lake, at=4) != []
    assert links_have_fetches(crawl.lake, at=3) == []


def test_links_that_came_before_their_fetch_are_seen_although_it_came_later(crawl: Crawl) -> None:
    rows = fetched("f3", "https://a.test/3", T0, "https://a.test/1")
    crawl.commit({"links": rows["links"]})
    crawl.commit({"fetches": rows["fetches"]})

    assert links_have_fetches(crawl.lake, at=5) == []
    (violation,) = links_have_fetches(crawl.lake)
    assert violation.detail == "links of f3 without its fetch at commit 4"


# fetches_match_log


def test_a_row_without_a_request_is_seen(crawl: Crawl) -> None:
    del crawl.log[1]

    (violation,) = fetches_match_log(crawl.lake, crawl.log)

    assert "https://a.test/1 (f1): the server saw no such request" in violation.detail


def test_a_request_at_another_time_is_not_the_rows(crawl: Crawl) -> None:
    crawl.log[1] = msgspec.structs.replace(crawl.log[1], start=crawl.log[1].start + 30)

    assert len(fetches_match_log(crawl.lake, crawl.log)) == 2  # the row has none, and the request is surplus


def test_the_clocks_of_the_two_ends_may_differ(crawl: Crawl) -> None:
    crawl.log[1] = msgspec.structs.replace(crawl.log[1], start=crawl.log[1].start + 0.4)

    assert len(fetches_match_log(crawl.lake, crawl.log)) == 2
    assert fetches_match_log(crawl.lake, crawl.log, wire=0.5) == []


def test_a_row_takes_the_nearest_request_not_the_one_that_a_kill_has_cost_its_row(crawl: Crawl) -> None:
    killed = death(crawl, 0.8)
    crawl.request("https://a.test/9", after=0.6)
    crawl.commit(crawl.page("f9", "https://a.test/9"))

    assert redo_is_bounded(crawl.lake, crawl.log, [killed], 5.0, wire=1.0) == []


def test_two_rows_do_not_share_one_request(crawl: Crawl) -> None:
    crawl.commit(fetched("f9", "https://a.test/1", T0 + 2.0))

    assert len(fetches_match_log(crawl.lake, crawl.log)) == 1


def test_surplus_requests_are_reported_unless_that_many_were_under_way_at_kills(crawl: Crawl) -> None:
    crawl.clock.advance(1.0)
    crawl.request("https://a.test/uncommitted")

    (violation,) = fetches_match_log(crawl.lake, crawl.log)
    assert "no row for the request for a.test/uncommitted" in violation.detail
    assert fetches_match_log(crawl.lake, crawl.log, surplus=1) == []


def test_a_failed_attempt_may_have_reached_the_server_or_not(crawl: Crawl) -> None:
    lost = {"outcome": "connection_lost", "status": None}
    crawl.commit(crawl.page("f3", "https://a.test/3", **lost))
    assert fetches_match_log(crawl.lake, crawl.log) == []

    del crawl.log[-1]
    assert fetches_match_log(crawl.lake, crawl.log) == []


def test_a_failed_attempt_does_not_take_the_request_of_a_completed_one(crawl: Crawl) -> None:
    crawl.commit(
        crawl.page("f3", "https://a.test/3"),
        fetched("f4", "https://a.test/3", crawl.clock.now() - 0.01, outcome="connection_lost", status=None),
    )

    assert fetches_match_log(crawl.lake, crawl.log) == []


# kills


def death(crawl: Crawl, after: float, cell: str = "cell", committed: int = 3) -> Death:
    """A kill `after` seconds from now."""
    return Death(cell, crawl.clock.boottime() + after, "cell-a", {"bulk": committed, "fast": 0})


def test_what_was_uncommitted_at_a_kill_may_be_asked_for_again(crawl: Crawl) -> None:
    crawl.request("https://a.test/3")

    assert redo_is_bounded(crawl.lake, crawl.log, [death(crawl, 4.0)], 5.0) == []


def test_a_server_may_read_what_was_sent_a_moment_after_the_kill(crawl: Crawl) -> None:
    crawl.request("https://a.test/3")

    assert redo_is_bounded(crawl.lake, crawl.log, [death(crawl, -0.05)], 5.0) == []


@pytest.mark.parametrize(
    ("after", "cell"),
    [(6.0, "cell"), (-1.0, "cell"), (4.0, "another")],
    ids=["long before the kill", "after the kill", "another cell was killed"],
)
def test_a_request_that_no_kill_explains_is_seen(crawl: Crawl, after: float, cell: str) -> None:
    crawl.request("https://a.test/3")

    (violation,) = redo_is_bounded(crawl.lake, crawl.log, [death(crawl, after, cell)], 5.0)

    assert violation.invariant == "redo_is_bounded"
    assert "no row for a.test/3 from " in violation.detail
    assert "and no kill within 5 s after it; kills nearest to it: " in violation.detail


def test_a_manifest_that_was_committed_before_a_kill_and_never_came_is_seen(crawl: Crawl) -> None:
    assert committed_is_kept(crawl.lake, [death(crawl, 0.0)]) == []

    (violation,) = committed_is_kept(crawl.lake, [death(crawl, 0.0, committed=4)])

    assert violation.detail == "manifest cell-a/bulk/4 is not in the lake"


def test_a_manifest_that_came_empty_is_seen(crawl: Crawl) -> None:
    made = staged_manifest(crawl.lake, 4, [fetched("f4", "https://a.test/4", T0)], at=T0)
    (crawl.lake.path("fetches") / made.files[0].path).unlink()
    committer = Committer(crawl.lake, crawl.clock, redeliver=lambda m: None, max_age=1e9)
    committer.offer([made])
    committer.round()

    (violation,) = committed_is_kept(crawl.lake, [death(crawl, 0.0, committed=4)])

    assert violation.detail == "manifest cell-a/bulk/4 came empty"


# the log


def test_impolite_requests_are_seen_by_host_and_by_address(crawl: Crawl) -> None:
    crawl.clock.advance(0.5)
    crawl.request("https://a.test/early")
    crawl.request("https://b.test/same-address", after=0.02)

    details = [violation.detail for violation in polite(crawl.log, 1.0)]

    assert any("too close" in d and "host a.test" in d for d in details)
    assert any("overlap" in d and "address 127.0.0.9" in d for d in details)
    assert not any("host b.test" in d for d in details)


def test_an_address_may_have_a_delay_of_its_own(crawl: Crawl) -> None:
    crawl.clock.advance(0.5)
    crawl.request("https://b.test/robots.txt")

    assert polite(crawl.log, 1.0) != []
    assert polite(crawl.log, 1.0, address_delay=0.4) == []


def test_a_page_before_its_robots_is_seen_per_origin(crawl: Crawl) -> None:
    crawl.log.append(msgspec.structs.replace(crawl.log[1], port=8443))

    (violation,) = robots_first(crawl.log)

    assert violation.detail == "a.test:8443 was first asked for /1"
    assert robots_first(crawl.log[:-1][::-1]) == []  # whatever the order of the lines


def test_a_host_outside_the_seed_is_seen_in_the_log_and_in_the_lake(crawl: Crawl) -> None:
    crawl.commit(crawl.page("f3", "https://a.test/3"), fetched("f4", "https://h.test/", T0, host="h.test"))
    crawl.request("https://h.test/")

    details = [violation.detail for violation in boundary_held(crawl.lake, crawl.log, {"a.test"})]

    assert details == ["h.test was asked although it is not seed", "h.test has fetches but is not seed"]
    assert boundary_held(crawl.lake, crawl.log, {"a.test", "h.test"}) == []


def test_a_host_outside_the_seed_may_be_asked_for_a_robots_txt_that_has_moved_there(crawl: Crawl) -> None:
    moved = crawl.page("r2", "https://a.test/robots.txt", kind="robots", redirect_to="https://h.test/r?x=1")
    hop = fetched("r3", "https://h.test/r?x=1", T0, host="h.test", kind="robots")
    crawl.commit(moved, hop)
    crawl.request("https://h.test/r?x=1")
    assert boundary_held(crawl.lake, crawl.log, {"a.test"}) == []

    crawl.request("https://h.test/")

    assert [v.detail for v in boundary_held(crawl.lake, crawl.log, {"a.test"})] == [
        "h.test was asked although it is not seed"
    ]
