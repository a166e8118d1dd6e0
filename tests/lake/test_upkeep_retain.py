"""Retention: what is old goes, what is current stays whatever its age."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_platform.commit.staging import Row
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep import retain as retaining
from crawl_platform.lake.upkeep import run as running
from crawl_platform.lake.upkeep.report import Budget
from crawl_platform.testing.builders import sample_row
from tests.lake.aging import AgingLake, actions, clock_days_ago

pytestmark = pytest.mark.long

SHORT = {"links_days": 2.0, "pages_days": 3.0, "fetches_days": 1.0, "compact_after_files": 1000}


@pytest.fixture
def aging(lake: Lake) -> AgingLake:
    return AgingLake(lake, clock_days_ago(30))


@pytest.fixture(autouse=True)
def every_row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retaining, "LEAST_SHARE", 1e-9)


# single promises


def test_what_a_page_showed_before_goes_and_what_it_shows_now_stays(aging: AgingLake) -> None:
    aging.round(aging.visit("old", "https://a.test/", "https://b.test/1", body=b"one"))
    aging.pass_days(1)
    aging.round(aging.visit("new", "https://a.test/", "https://b.test/2", body=b"two"))
    aging.pass_days(10)

    report = aging.upkeep(**SHORT)

    for table in ("fetches", "links", "pages"):
        assert aging.column(f"SELECT fetch_id FROM {table}") == ["new"]
    assert aging.column("SELECT dst_url FROM links_now") == ["https://b.test/2"]
    assert {name: done.rows_removed for name, done in actions(report, "retain").items()} == {
        "pages": 1,
        "links": 1,
        "fetches": 1,
    }


def test_links_that_a_later_unchanged_fetch_cites_stay_with_their_fetch(aging: AgingLake) -> None:
    aging.round(aging.visit("first", "https://a.test/", "https://b.test/1", body=b"one"))
    for n in range(3):
        aging.pass_days(4)
        aging.round(aging.visit(f"again-{n}", "https://a.test/", link_set="first", outcome="not_modified"))
    aging.pass_days(10)

    aging.upkeep(**SHORT)

    assert aging.column("SELECT fetch_id FROM links_now") == ["first"]
    assert aging.column("SELECT fetch_id FROM pages_now") == ["first"]
    assert aging.column("SELECT fetch_id FROM fetches") == ["again-2", "first"]


def test_rows_within_their_days_stay(aging: AgingLake) -> None:
    aging.round(aging.visit("one", "https://a.test/", "https://b.test/1", body=b"one"))
    aging.pass_days(1)
    aging.round(aging.visit("two", "https://a.test/", "https://b.test/2", body=b"two"))

    report = aging.upkeep(**{**SHORT, "fetches_days": 1.0, "links_days": 1.0, "pages_days": 1.0})

    assert actions(report, "retain") == {}
    assert aging.column("SELECT fetch_id FROM fetches") == ["one", "two"]


def test_fetches_of_robots_and_failures_go_by_age_alone(aging: AgingLake) -> None:
    aging.round(
        aging.visit("robots", "https://a.test/robots.txt", kind="robots"),
        aging.visit("failed", "https://a.test/x", outcome="http_error", status=500),
    )
    aging.pass_days(10)

    aging.upkeep(**SHORT)

    assert aging.column("SELECT fetch_id FROM fetches") == []


def snapshot(aging: AgingLake, shard: int, *urls: str) -> dict[str, list[Row]]:
    at = aging.clock.now()
    rows = [
        sample_row("frontier", at, snapshot_id=f"s{shard}-{at:.0f}", shard=shard, url=url, state="queued")
        for url in urls
    ]
    return {"frontier": rows}


def test_the_last_snapshot_of_each_shard_stays(aging: AgingLake) -> None:
    aging.round(
        snapshot(aging, 1, "https://a.test/", "https://a.test/x"), snapshot(aging, 2, "https://b.test/")
    )
    aging.pass_days(1)
    aging.round(snapshot(aging, 1, "https://a.test/", "https://a.test/y"))
    aging.pass_days(20)

    aging.upkeep(frontier_days=14.0)

    assert aging.column("SELECT url FROM frontier") == [
        "https://a.test/",
        "https://a.test/y",
        "https://b.test/",
    ]
    assert aging.column("SELECT url FROM frontier_now") == aging.column("SELECT url FROM frontier")


def test_reports_of_cells_go_by_age(aging: AgingLake) -> None:
    for n in range(3):
        aging.round({"fleet_stats": [sample_row("fleet_stats", aging.clock.now(), cell=f"cell-{n}")]})
        aging.pass_days(1)

    aging.upkeep(fleet_stats_days=1.0)

    assert aging.column("SELECT cell FROM fleet_stats") == ["cell-2"]


def test_days_that_nothing_stays_of_leave_whole(aging: AgingLake) -> None:
    for _ in range(3):
        aging.round(aging.visit(f"f{aging.clock.now()}", "https://a.test/", body=b"x"))
        aging.pass_days(1)
    aging.pass_days(5)

    report = aging.upkeep(**SHORT)

    done = actions(report, "retain")["pages"]
    assert (done.files_before, done.files_after, done.rows_removed) == (3, 1, 2)


def test_an_old_day_is_not_rewritten_for_a_few_rows(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    aging.round(*(aging.visit(f"f{n}", f"https://a.test/{n}", body=b"x") for n in range(20)))
    aging.pass_days(1)
    aging.round(aging.visit("new", "https://a.test/0", body=b"y"))
    aging.pass_days(10)
    assert actions(aging.upkeep(**SHORT), "retain").keys() == set()

    aging.round(*(aging.visit(f"new-{n}", f"https://a.test/{n}", body=b"y") for n in range(3)))
    report = aging.upkeep(**SHORT)

    assert actions(report, "retain")["pages"].rows_removed == 4


def test_what_was_let_go_is_still_there_at_an_earlier_commit(aging: AgingLake) -> None:
    aging.round(aging.visit("old", "https://a.test/", "https://b.test/1", body=b"one"))
    aging.pass_days(1)
    aging.round(aging.visit("new", "https://a.test/", "https://b.test/2", body=b"two"))
    aging.pass_days(10)
    aging.upkeep(**SHORT, history_days=20.0)

    assert aging.column("SELECT fetch_id FROM pages") == ["new"]
    assert aging.column("SELECT fetch_id FROM pages", at=2) == ["new", "old"]


# any history


@dataclass(frozen=True)
class Visit:
    page: int
    days_later: int
    links: int | None
    """Links of a new link set; None: unchanged."""
    new_body: bool
    fails: bool


visits = st.builds(
    Visit,
    page=st.integers(0, 3),
    days_later=st.integers(0, 2),
    links=st.one_of(st.none(), st.integers(0, 3)),
    new_body=st.booleans(),
    fails=st.booleans(),
)


def play(aging: AgingLake, history: list[Visit]) -> None:
    link_set: dict[int, str | None] = {}
    known: set[int] = set()
    for n, visit in enumerate(history):
        aging.pass_days(visit.days_later)
        aging.clock.advance(1.0)
        url, name = f"https://a.test/{visit.page}", f"f{n}"
        if visit.fails:
            aging.round(aging.visit(name, url, outcome="http_error", link_set=None))
            continue
        body = b"%d" % n if visit.new_body or visit.page not in known else None
        targets = [f"https://b.test/{n}-{i}" for i in range(visit.links or 0)]
        if targets:
            link_set[visit.page] = name
        elif visit.links == 0:
            link_set[visit.page] = None
        known.add(visit.page)
        aging.round(aging.visit(name, url, *targets, body=body, link_set=link_set.get(visit.page)))


CURRENT = {
    "links": "SELECT src_url, dst_url, fetch_id FROM links_now ORDER BY ALL",
    "pages": "SELECT url, fetch_id, body FROM pages_now ORDER BY ALL",
}


def broken_promises(aging: AgingLake, check: Callable[[], None]) -> list[str]:
    """What retention has broken, by upkeep as `check` runs it."""
    before = {name: aging.lake.query(sql) for name, sql in CURRENT.items()}
    check()
    lost = [name for name, sql in CURRENT.items() if not aging.lake.query(sql).equals(before[name])]
    for table in ("links", "pages"):
        orphans = aging.column(f"SELECT fetch_id FROM {table} ANTI JOIN fetches USING (fetch_id)")
        lost += [f"{table} of {name} without fetch" for name in orphans]
    return lost


def in_a_lake(new_lake: Path, history: list[Visit], days: int, check: Callable[[AgingLake], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        aging = AgingLake(Lake(shutil.copytree(new_lake, Path(folder) / "lake")), clock_days_ago(30))
        play(aging, history)
        aging.pass_days(days)
        check(aging)


@pytest.mark.long
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(visits, min_size=1, max_size=8), days=st.integers(0, 6))
def test_every_page_keeps_its_links_and_body_and_every_row_its_fetch(
    new_lake: Path, history: list[Visit], days: int
) -> None:
    def check(aging: AgingLake) -> None:
        assert broken_promises(aging, lambda: aging.upkeep(**SHORT)) == []  # type: ignore[func-returns-value]
        assert too_old(aging) == []

    in_a_lake(new_lake, history, days, check)


def too_old(aging: AgingLake) -> list[str]:
    """Rows past their age that nothing makes current."""
    oldest = {name: aging.clock.now() - (SHORT[f"{name}_days"] + 1) * 86_400 for name in ("links", "pages")}
    return [
        *aging.column(
            "SELECT fetch_id FROM pages ANTI JOIN pages_now USING (fetch_id) "
            f"WHERE epoch(fetched_at) < {oldest['pages']}"
        ),
        *aging.column(
            f"SELECT fetch_id FROM links ANTI JOIN links_now USING (fetch_id) WHERE epoch(seen_at) < {oldest['links']}"
        ),
    ]


LAST_CHANGED_LONG_AGO = [
    Visit(0, 0, 2, True, False),
    Visit(0, 2, None, False, False),
    Visit(0, 2, None, False, False),
]


@pytest.mark.parametrize("table", ["links", "pages", "fetches"])
def test_ablation_by_age_alone_a_promise_is_broken(
    new_lake: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    by_age = tuple(
        replace(rule, stays="SELECT NULL::VARCHAR WHERE false") if rule.table == table else rule
        for rule in retaining.RULES
    )
    monkeypatch.setattr(running, "RULES", by_age)

    def check(aging: AgingLake) -> None:
        assert broken_promises(aging, lambda: aging.upkeep(**SHORT)) != []  # type: ignore[func-returns-value]

    in_a_lake(new_lake, LAST_CHANGED_LONG_AGO, 6, check)


def test_a_large_day_is_dealt_with_in_portions(aging: AgingLake) -> None:
    for n in range(6):
        aging.round(
            aging.visit(f"stays-{n}", f"https://a.test/{n}", body=b"x"),
            aging.visit(f"goes-{n}", "https://a.test/again", body=b"%d" % n),
        )
        aging.clock.advance(1.0)
    aging.round(aging.visit("last", "https://a.test/again", body=b"y"))
    aging.pass_days(10)
    before = aging.lake.query(CURRENT["pages"])

    calls = 0
    while aging.upkeep(**SHORT, tables=("pages",), budget=Budget(aging.clock, bytes_left=1)).left:
        calls += 1

    assert calls == 5
    assert aging.lake.query(CURRENT["pages"]).equals(before)
    assert aging.column("SELECT fetch_id FROM pages") == ["last", *(f"stays-{n}" for n in range(6))]
