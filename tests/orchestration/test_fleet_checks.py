"""Checks of the fleet's tables: they pass on a sound lake, each fails on what it is for, and they are run."""

import shutil
from datetime import timedelta
from itertools import pairwise

import dagster as dg
import pyarrow as pa
import pytest

from assets.fleet import EXTERNAL
from assets.fleet_checks import CHECKS, counted
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from resources.requests import Request, append_requests, refuse
from tests.orchestration.made_up_crawl import MadeUpCrawl

HOST = "a.test"
PAGE = f"https://{HOST}/"


@pytest.fixture(scope="module")
def kept(empty_lake, tmp_path_factory):
    """A small crawl that keeps every promise, an hour and a half old: robots first, snapshots, reports."""
    root, clock = tmp_path_factory.mktemp("sound") / "lake", ManualClock()
    shutil.copytree(empty_lake, root)
    crawl = MadeUpCrawl(Lake(root), clock)
    crawl.host(HOST)
    crawl.robots(HOST)
    for n in range(5):
        clock.advance(2)
        crawl.visit(f"{PAGE}{n}", "https://b.test/")
    crawl.commit()
    for _ in range(3):
        clock.advance(1_800)
        crawl.report()
        snapshot(crawl, 5)
        crawl.commit()
    return crawl


@pytest.fixture
def sound(kept, crawl, clock, lake):
    """A copy of it, at the time of its last commit."""
    shutil.copytree(kept.lake.root, lake.root, dirs_exist_ok=True)
    clock.advance(kept.clock.now() - clock.now())
    crawl.go_on_after(kept)
    return crawl


def snapshot(crawl, pages, shard=0):
    at = as_datetime(crawl.clock.now())
    for n in range(pages):
        crawl.row(
            "frontier", snapshot_id=f"s{crawl.clock.now():.0f}", snapshot_at=at, shard=shard, host=HOST,
            url=f"{PAGE}{n}", state="fetched",
        )  # fmt: skip


def keys():
    return [dg.AssetCheckKey(dg.AssetKey(c.table), c.name) for c in CHECKS]


def run_checks(harness, *names):
    """Results by name of the checks (default: all) of one run."""
    chosen = [key for key in keys() if not names or key.name in names]
    job = harness.definitions.resolve_implicit_global_asset_job_def()
    only = job.get_subset(asset_selection=set(), asset_check_selection=set(chosen))
    result = only.execute_in_process(
        instance=harness.instance,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    return {e.check_name: e for e in result.get_asset_check_evaluations()}


def test_every_table_of_the_fleet_has_a_check_that_says_what_it_is_for():
    assert {c.table for c in CHECKS} == set(EXTERNAL)
    assert all(c.description.endswith(".") for c in CHECKS)


def test_a_sound_lake_passes_all_checks(harness, sound):
    results = run_checks(harness)

    assert set(results) == {c.name for c in CHECKS}
    assert {name: e.description for name, e in results.items() if not e.passed} == {}


def test_before_the_first_commit_nothing_can_be_wrong(harness, lake):
    assert all(e.passed for e in run_checks(harness).values())


# Ablations: what each check is for, planted into the sound lake.


def fetch_twice(crawl, lake):
    row = crawl.fetch(f"{PAGE}5")
    crawl.clock.advance(5)
    crawl.fetch(f"{PAGE}6", fetch_id=row)


def request_with_two_ids(crawl, lake):
    crawl.fetch(f"{PAGE}5")
    crawl.fetch(f"{PAGE}5", fetch_id="another")


def unnamed_manifest(crawl, lake):
    crawl.fetch(f"{PAGE}5", manifest=99)


def manifest_gap(crawl, lake):
    crawl.commits += 1
    crawl.report()
    crawl.commit()


def impolite(crawl, lake):
    crawl.fetch(f"{PAGE}5")
    crawl.clock.advance(0.5)
    crawl.fetch(f"{PAGE}6")


def no_robots(crawl, lake):
    crawl.host("c.test")
    crawl.clock.advance(1)
    crawl.fetch("https://c.test/")
    crawl.clock.advance(100)


def horizon_fetched(crawl, lake):
    crawl.robots("horizon.test")
    crawl.clock.advance(100)


def page_of_a_robots_host(crawl, lake):
    crawl.fetch(f"https://{HOST}/robots.txt", kind="robots", redirect_to="https://horizon.test/r")
    crawl.clock.advance(5)
    crawl.fetch("https://horizon.test/r")
    crawl.clock.advance(100)


@pytest.mark.long
def test_a_host_outside_the_seed_may_be_asked_for_a_robots_txt_that_has_moved_there(harness, crawl, sound):
    crawl.fetch(f"https://{HOST}/robots.txt", kind="robots", redirect_to="https://horizon.test/r")
    crawl.clock.advance(5)
    crawl.fetch("https://horizon.test/r", kind="robots", lane="robots")
    crawl.clock.advance(100)
    crawl.commit()

    assert run_checks(harness)["only_seed_hosts"].passed


def fetched_before_it_entered(crawl, lake):
    crawl.robots("c.test")
    crawl.clock.advance(100)
    crawl.host("c.test", event="promoted")


def link_without_fetch(crawl, lake):
    crawl.link("no-such-fetch", f"{PAGE}1", "https://b.test/")


def link_of_another_page(crawl, lake):
    crawl.link(crawl.fetch(f"{PAGE}5"), f"{PAGE}1", "https://b.test/")


def page_row(crawl, fetch, url):
    crawl.row("pages", fetch_id=fetch, url=url, host=HOST, fetched_at=as_datetime(crawl.clock.now()))


def page_without_fetch(crawl, lake):
    page_row(crawl, "no-such-fetch", f"{PAGE}1")


def page_of_a_failure(crawl, lake):
    page_row(crawl, crawl.fetch(f"{PAGE}5", outcome="unavailable"), f"{PAGE}5")


def host_in_two_shards(crawl, lake):
    now = as_datetime(crawl.clock.now())
    crawl.row("hosts", host=HOST, shard=3, happened_at=now, event="robots", state="seed")


def excluded_but_seed(crawl, lake):
    crawl.host("c.test", "seed", event="excluded")


def excluded_and_fetched(crawl, lake):
    crawl.host(HOST, "excluded", event="excluded")
    crawl.clock.advance(90)
    crawl.fetch(f"{PAGE}1")


def incomplete_snapshot(crawl, lake):
    snapshot(crawl, 4)


def url_twice_in_snapshot(crawl, lake):
    snapshot(crawl, 5)
    snapshot(crawl, 1)


def shard_without_snapshot(crawl, lake):
    crawl.fetch(f"{PAGE}5", shard=7)
    crawl.clock.advance(1_000)
    crawl.report()


def silent_cell(crawl, lake):
    crawl.fetch(f"{PAGE}5", cell="cell-1")
    crawl.clock.advance(100)
    crawl.report()


def fleet_gone_silent(crawl, lake):
    crawl.clock.advance(1_000)
    crawl.host("c.test")


def filters_that_err(crawl, lake):
    crawl.report(seen=(50_000, 200))


def unanswered_trim(crawl, lake):
    ask(crawl, lake, "trim", HOST)


def commit_row(lake, commit_id, at, **columns):
    """A row of `commits` that the committer did not write."""
    row = {"commit_id": commit_id, "committed_at": at, "versions": [], "manifests": [], "quarantined": [],
           "rows": [], "date": at.date()}  # fmt: skip
    lake.append("commits", pa.Table.from_pylist([row | columns], schema=TABLES["commits"].schema))


def lost_commit(crawl, lake):
    crawl.commits += 1


def version_falls(crawl, lake):
    vector = lake.latest_commit().versions | {"fetches": 0}
    commit_row(lake, crawl.commits + 1, as_datetime(crawl.clock.now()), versions=list(vector.items()))
    crawl.commits += 1


def quarantined(crawl, lake):
    at = as_datetime(crawl.clock.now())
    commit_row(
        lake, crawl.commits + 1, at, versions=list(lake.latest_commit().versions.items()),
        manifests=[f"made-up/bulk/{crawl.commits + 1}"], quarantined=[f"made-up/bulk/{crawl.commits + 1}"],
    )  # fmt: skip
    crawl.commits += 1


def ask(crawl, lake, kind, target):
    request = Request(f"r-{kind}", crawl.clock.now(), kind, target, "ada", "table")
    append_requests(lake, [request])
    crawl.clock.advance(660)
    return request


def unanswered_recrawl(crawl, lake):
    ask(crawl, lake, "recrawl", f"{PAGE}1")


def unanswered_promotion(crawl, lake):
    ask(crawl, lake, "promote", "wanted.test")


def unanswered_exclusion(crawl, lake):
    ask(crawl, lake, "exclude", HOST)


def usage_of_nothing(crawl, lake):
    at = as_datetime(crawl.clock.now())
    row = {"host": HOST, "used_at": at, "source": "use.csv", "line": 2, "import_id": "x", "imported_at": at,
           "date": at.date()}  # fmt: skip
    lake.append("usage", pa.Table.from_pylist([row], schema=TABLES["usage"].schema))


PLANTED = [
    ("each_fetch_once", fetch_twice),
    ("each_fetch_once", request_with_two_ids),
    ("no_lost_epochs", unnamed_manifest),
    ("no_lost_epochs", manifest_gap),
    ("politeness_held", impolite),
    ("politeness_held", no_robots),
    ("only_seed_hosts", horizon_fetched),
    ("only_seed_hosts", page_of_a_robots_host),
    ("only_seed_hosts", fetched_before_it_entered),
    ("links_have_their_fetch", link_without_fetch),
    ("links_have_their_fetch", link_of_another_page),
    ("pages_have_their_fetch", page_without_fetch),
    ("pages_have_their_fetch", page_of_a_failure),
    ("states_agree", host_in_two_shards),
    ("states_agree", excluded_but_seed),
    ("excluded_hosts_rest", excluded_and_fetched),
    ("snapshots_complete", incomplete_snapshot),
    ("snapshots_complete", url_twice_in_snapshot),
    ("snapshots_complete", shard_without_snapshot),
    ("every_cell_reports", fleet_gone_silent),
    ("seen_set_in_budget", filters_that_err),
    ("commits_follow_one_another", lost_commit),
    ("commits_follow_one_another", version_falls),
    ("nothing_quarantined", quarantined),
    ("requests_answered", unanswered_recrawl),
    ("requests_answered", unanswered_promotion),
    ("requests_answered", unanswered_exclusion),
    ("requests_answered", unanswered_trim),
    ("usage_makes_sense", usage_of_nothing),
]


SECOND = {id(plant) for (before, _), (name, plant) in pairwise(PLANTED) if name == before}
"""Further ways to fail a check, told by `make test-long`."""


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        pytest.param(n, p, id=f"{n}-{p.__name__}", marks=[pytest.mark.long] * (id(p) in SECOND))
        for n, p in PLANTED
    ],
)
def test_a_planted_violation_fails_its_check(harness, sound, lake, clock, name, plant):
    clock.advance(60)
    plant(sound, lake)
    clock.advance(1)
    sound.commit()

    result = run_checks(harness, name)[name]

    assert not result.passed
    assert result.metadata["violations"].value >= 1
    assert result.description


def test_no_check_counts_by_a_window_over_everything():
    """DuckDB's threads meet in an internal error there now and then, which no real check may fail by."""
    assert not [c.name for c in CHECKS if "OVER ()" in counted(c.sql)]


ONE_OR_NONE = """
    WITH one AS (SELECT i FROM range(1) t(i))
    SELECT i AS what FROM one WHERE i >= 5000
    UNION ALL SELECT i FROM one WHERE NOT EXISTS (SELECT 1 FROM one WHERE i >= 5000)
"""


@pytest.mark.long
def test_counting_what_a_filter_has_left_raises_no_internal_error():
    """With `count(*) OVER ()` about one of 400 did, on a busy machine with two cores."""
    with open_duckdb() as connection:
        connection.execute("SET threads = 2")
        for _ in range(10_000):
            assert connection.execute(counted(ONE_OR_NONE)).fetchall() == [(1, 0)]


def test_every_check_has_an_ablation():
    assert {name for name, _ in PLANTED} == {c.name for c in CHECKS}


def test_a_cell_that_fetches_must_report_too(harness, sound, lake, clock):
    silent_cell(sound, lake)
    sound.commit()

    assert "cell-1" in run_checks(harness, "every_cell_reports")["every_cell_reports"].description


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "recrawl",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("promote", "exclude", "trim")),
        "refused",
    ],
)
def test_a_request_that_was_carried_out_or_refused_is_answered(harness, sound, lake, clock, kind):
    if kind == "recrawl":
        ask(sound, lake, "recrawl", f"{PAGE}1")
        sound.fetch(f"{PAGE}1", request_id="r-recrawl")
    elif kind == "promote":
        ask(sound, lake, "promote", "wanted.test")
        sound.host("wanted.test", event="promoted", trusted=False)
    elif kind == "exclude":
        ask(sound, lake, "exclude", HOST)
        sound.host(HOST, "excluded", event="excluded")
    elif kind == "trim":
        ask(sound, lake, "trim", HOST)
        sound.host(HOST, event="trimmed", decision_id="r-trim")
    else:
        refuse(
            lake, ask(sound, lake, "promote", "no host"), "not a hostname", clock.now(), "promotion sensor"
        )
    sound.commit()

    assert run_checks(harness, "requests_answered")["requests_answered"].passed


@pytest.mark.long
@pytest.mark.parametrize("seen", [(50_000, 50), (900, 30)])
def test_filters_within_budget_or_hardly_asked_raise_no_alarm(harness, sound, lake, clock, seen):
    sound.report(seen=seen)
    sound.commit()

    assert run_checks(harness, "seen_set_in_budget")["seen_set_in_budget"].passed


@pytest.mark.long
def test_a_request_has_ten_minutes(harness, sound, lake, clock):
    unanswered_recrawl(sound, lake)
    clock.advance(-120)
    sound.report()
    sound.commit()

    assert run_checks(harness, "requests_answered")["requests_answered"].passed


@pytest.mark.long
def test_what_is_older_than_the_look_back_is_left_to_earlier_checks(harness, sound, lake, clock):
    link_without_fetch(sound, lake)
    sound.commit()
    clock.advance(3 * 86_400)
    sound.report()
    sound.commit()

    assert run_checks(harness, "links_have_their_fetch")["links_have_their_fetch"].passed


# automation, by real ticks


def ticks(harness):
    """Evaluates what the sensor `analysis` targets, like the daemon: tick(later) → requested checks."""
    sensor = harness.definitions.get_repository_def().get_sensor_def("analysis")
    state = {"cursor": None, "at": as_datetime(1_800_000_030.0)}

    def tick(later=timedelta(0)):
        state["at"] += later
        result = dg.evaluate_automation_conditions(
            harness.definitions, harness.instance, asset_selection=sensor.asset_selection,
            cursor=state["cursor"], evaluation_time=state["at"],
        )  # fmt: skip
        state["cursor"] = result.cursor
        requested = {r.key for r in result.results if not r.true_subset.is_empty}
        return {key for key in requested if isinstance(key, dg.AssetCheckKey)}

    return tick


def test_the_sensor_of_analysis_requests_every_check_when_they_are_due(harness, sound):
    tick = ticks(harness)

    assert tick() == set()
    assert tick(timedelta(minutes=2)) == set(keys())
    assert tick(timedelta(seconds=30)) == set()
    assert tick(timedelta(minutes=2)) == set(keys())


@pytest.mark.long
def test_all_checks_that_are_due_run_in_one_step(harness, sound):
    run_checks(harness)

    (run,) = harness.instance.get_runs()
    steps = harness.instance.get_run_step_stats(run.run_id)
    assert [step.step_key for step in steps] == ["fleet_checks"]
