"""Windows from the lake to the fleet: capacity among groups, promises kept or named, and priors told with them."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from assets import schedule, schedule_plan, schedule_work
from assets.schedule import directive, window_at
from crawl_platform.clock import as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.scheduling import bandit
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import HostRule, Orchestration, Refresh, Settings
from resources.lake import LakeResource
from tests.orchestration.made_up_crawl import small_web
from tests.orchestration.one_host import one_host

DAY = 86_400.0
HOUR = 3_600.0


def read(crawl, url: str, template: str, **columns) -> str:
    """A successful fetch of a page that has a group."""
    host = url.split("/")[2]
    return crawl.fetch(url, group_id=group_id(host, template), template=template, **columns)


def queued(crawl, host: str, template: str, urls: int) -> None:
    """Known URLs of a group that wait for their first fetch, in a snapshot before anything was fetched."""
    for n in range(urls):
        crawl.row(
            "frontier",
            snapshot_id="s1",
            snapshot_at=as_datetime(0.0),
            shard=0,
            host=host,
            url=f"https://{host}{template.replace('*', f'new-{n}')}",
            state="queued",
            group_id=group_id(host, template),
        )


def by_template(lake, window: str = "allocations") -> dict[str | None, dict]:
    return {r["template"]: r for r in lake.query(f"SELECT * FROM {window} ORDER BY template").to_pylist()}


def test_a_window_is_planned_within_capacity_and_politeness_and_published(harness, crawl, lake, fleet):
    small_web(crawl, farm=False)

    harness.execute("crawl_schedule")

    (window,) = fleet.windows
    rows = {row["host"]: row for row in lake.query("SELECT * FROM crawl_schedule").to_pylist()}
    assert window.allocations == {host: row["fetches"] for host, row in rows.items()}
    assert set(rows) == {f"seed-{i}.test" for i in range(12)}
    assert 0 < sum(window.allocations.values()) <= window.budget
    assert all(row["fetches"] <= row["most"] for row in rows.values())
    assert window.starts_at <= crawl.clock.now() < window.ends_at


def test_a_window_is_planned_once_and_published_again_as_it_was(harness, crawl, lake, fleet, clock):
    small_web(crawl, farm=False)
    queued(crawl, "seed-0.test", "/p/*", 5)
    crawl.commit()
    harness.execute("crawl_schedule")
    crawl.host("another.test")
    crawl.commit()

    harness.execute("crawl_schedule")

    assert fleet.windows[0] == fleet.windows[1]
    assert fleet.windows[0].groups["seed-0.test"]
    assert fleet.believed[0] == fleet.believed[1]
    assert lake.query("SELECT DISTINCT window_id FROM crawl_schedule").num_rows == 1
    assert lake.query("SELECT * FROM decisions WHERE kind = 'schedule'").num_rows == 1


@pytest.mark.long
def test_the_same_lake_gives_the_same_plan(harness, crawl, lake, settings):
    """Chance is drawn from the window's name, and nothing depends on the order of rows."""
    small_web(crawl, farm=False)
    for i in range(12):
        queued(crawl, f"seed-{i}.test", "/p/*", 40 + i)
    crawl.commit()
    window = window_at(crawl.clock.now(), HOUR)

    def planned():
        resource = LakeResource(root=str(lake.root))
        with resource.read(*schedule_work.INPUTS) as reading:
            work = schedule_work.work_of(reading, settings, window)
        return schedule_plan.rows_of(schedule_plan.plan_window(work, window.window_id), window, {})

    assert planned().equals(planned())


@pytest.mark.long
def test_the_next_window_is_planned_anew(harness, crawl, lake, fleet, clock):
    small_web(crawl, farm=False)
    harness.execute("crawl_schedule")
    clock.advance(3_600)

    harness.execute("crawl_schedule")

    first, second = fleet.windows
    assert second.starts_at == first.ends_at


@pytest.mark.long
@pytest.mark.parametrize(("into", "ahead"), [pytest.param(0.4, 0, marks=pytest.mark.long), (0.6, 1)])
def test_a_window_that_is_half_over_is_left_for_the_next(harness, crawl, fleet, clock, into, ahead):
    small_web(crawl, farm=False)
    clock.advance(into * HOUR)

    harness.execute("crawl_schedule")

    (window,) = fleet.windows
    assert window.starts_at == window_at(clock.now(), HOUR).starts_at + ahead * HOUR


def test_what_could_not_be_published_is_published_by_the_next_run(harness, crawl, lake, fleet):
    small_web(crawl, farm=False)
    fleet.away = True
    harness.execute("crawl_schedule", fails=True)

    fleet.away = False
    harness.execute("crawl_schedule")

    assert fleet.windows[0].allocations


def decide_at(lake, settings, window, run: str = "run"):
    return schedule.decide(LakeResource(root=str(lake.root)), settings, window, run)


def interrupted(monkeypatch, name: str, between) -> None:
    """Let something happen just before the next append to the table `name`, once."""
    append, waiting = Lake.append, [between]

    def late(self, table, *rest):
        if table == name and waiting:
            waiting.pop()()
        return append(self, table, *rest)

    monkeypatch.setattr(Lake, "append", late)


def window_twice(lake) -> tuple[list, list]:
    """Rows per host and group and window, and the input versions of rows and decisions."""
    counts = lake.query("SELECT count(*) AS n FROM crawl_schedule GROUP BY window_id, host, group_id")
    inputs = lake.query(
        "SELECT DISTINCT d.input_versions = s.input_versions AS same FROM crawl_schedule s "
        "LEFT JOIN decisions d ON d.subject = s.window_id"
    )
    return sorted(set(counts["n"].to_pylist())), inputs["same"].to_pylist()


@pytest.mark.long
@pytest.mark.parametrize("table_name", [pytest.param("decisions", marks=pytest.mark.long), "crawl_schedule"])
def test_two_runs_of_one_window_write_it_once(crawl, lake, settings, monkeypatch, table_name):
    small_web(crawl, farm=False)
    window = window_at(crawl.clock.now(), HOUR)
    other = []

    def another_run():
        crawl.host("another.test")
        crawl.commit()
        other.append(decide_at(lake, settings, window, "other"))

    interrupted(monkeypatch, table_name, another_run)

    ours = decide_at(lake, settings, window)

    assert ours.window == other[0].window
    assert ours.rows.equals(other[0].rows)
    assert window_twice(lake) == ([1], [True])
    assert lake.query("SELECT * FROM decisions WHERE kind = 'schedule'").num_rows == 1
    assert sum(ours.window.allocations.values()) == ours.evidence.allotted


class Crash(Exception):
    """The run ends here."""


def crash() -> None:
    raise Crash


@pytest.mark.long
def test_after_a_crash_the_decision_is_carried_out_as_it_was_taken(crawl, lake, settings, monkeypatch):
    small_web(crawl, farm=False)
    window = window_at(crawl.clock.now(), HOUR)
    interrupted(monkeypatch, "crawl_schedule", crash)
    with pytest.raises(Crash):
        decide_at(lake, settings, window)
    crawl.host("another.test")
    crawl.commit()

    decided = decide_at(lake, settings, window)

    assert window_twice(lake) == ([1], [True])
    assert "another.test" not in decided.window.allocations
    assert sum(decided.window.allocations.values()) == decided.evidence.allotted


@pytest.mark.long
def test_a_run_carries_out_the_decision_that_another_left_behind_not_its_own_plan(
    crawl, lake, settings, monkeypatch
):
    small_web(crawl, farm=False)
    window = window_at(crawl.clock.now(), HOUR)

    def another_run():
        crawl.host("another.test")
        crawl.commit()
        interrupted(monkeypatch, "crawl_schedule", crash)
        with pytest.raises(Crash):
            decide_at(lake, settings, window, "other")

    interrupted(monkeypatch, "decisions", another_run)

    ours = decide_at(lake, settings, window)

    assert window_twice(lake) == ([1], [True])
    assert "another.test" in ours.window.allocations


@pytest.mark.parametrize("table_name", [pytest.param("decisions", marks=pytest.mark.long), "crawl_schedule"])
def test_a_window_before_one_that_is_written_is_not_planned_any_more(
    crawl, lake, settings, monkeypatch, table_name
):
    small_web(crawl, farm=False)
    window = window_at(crawl.clock.now(), HOUR)
    later = window_at(crawl.clock.now() + HOUR, HOUR)
    interrupted(monkeypatch, table_name, lambda: decide_at(lake, settings, later))

    for _ in range(2):
        decided = decide_at(lake, settings, window)

        assert (decided.window.starts_at, decided.window.ends_at) == (later.starts_at, later.ends_at)
        assert sum(decided.window.allocations.values()) == decided.evidence.allotted > 0
    assert lake.query("SELECT DISTINCT window_id FROM crawl_schedule").num_rows == 1


# what there is to do


@pytest.mark.long
def test_queued_urls_and_due_pages_of_a_group_are_its_work(harness, crawl, lake, clock):
    crawl.host("a.test")
    for n in range(4):
        read(crawl, f"https://a.test/story/{n}", "/story/*")
    clock.advance(2 * DAY)
    queued(crawl, "a.test", "/story/*", 6)
    crawl.commit()

    harness.execute("crawl_schedule")

    assert by_template(lake)["/story/*"]["eligible"] == 10


@pytest.mark.long
def test_a_queued_url_that_has_been_fetched_since_the_snapshot_is_no_work(harness, crawl, lake):
    crawl.host("a.test")
    queued(crawl, "a.test", "/story/*", 3)
    read(crawl, "https://a.test/story/new-0", "/story/*", discovered_at=None)
    crawl.commit()

    harness.execute("crawl_schedule")

    assert by_template(lake)["/story/*"]["eligible"] == 2


@pytest.mark.long
def test_a_group_without_work_sleeps(harness, crawl, lake, fleet):
    crawl.host("a.test")
    read(crawl, "https://a.test/about", "/about")
    queued(crawl, "a.test", "/story/*", 3)
    crawl.commit()

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert "/about" not in rows
    assert set(fleet.windows[0].groups["a.test"]) == {group_id("a.test", "/story/*")}


def test_a_promise_to_some_hosts_makes_their_pages_overdue_before_those_of_others(
    settings, lake, crawl, clock
):
    for host in ("a.test", "b.test"):
        crawl.host(host)
        for n in range(3):
            crawl.visit(f"https://{host}/{n}")
    crawl.commit()
    promising = msgspec.structs.replace(settings, hosts=(HostRule("a.test", promises={"within": DAY}),))
    window = window_at(clock.now() + 2 * DAY, 3_600.0)

    with LakeResource(root=str(lake.root)).read(*schedule_work.INPUTS) as reading:
        work = schedule_work.work_of(reading, promising, window)

    overdue = {work.hosts[host]: int(work.overdue[work.host == host].sum()) for host in range(2)}
    assert overdue == {"a.test": 3, "b.test": 0}


@pytest.mark.long
@pytest.mark.parametrize(
    ("outcome", "work"), [("gone", False), pytest.param("unavailable", True, marks=pytest.mark.long)]
)
def test_pages_that_are_gone_are_no_work_and_those_that_failed_are(
    harness, crawl, lake, clock, outcome, work
):
    crawl.host("a.test")
    read(crawl, "https://a.test/x", "/x")
    clock.advance(10)
    read(crawl, "https://a.test/x", "/x", outcome=outcome)
    clock.advance(200 * DAY)
    crawl.commit()

    harness.execute("crawl_schedule")

    assert ("/x" in by_template(lake)) is work


@pytest.fixture
def hasty(settings) -> Settings:
    """Pages that change in seconds, windows of a minute."""
    return Settings(
        home=settings.home,
        orchestration=Orchestration(profile="demo", window_seconds=60.0),
        refresh=Refresh(interval_min=2.0, interval_max=3_600.0, prior_rate=1_440.0),
    )


def test_a_page_that_changes_fast_may_be_visited_several_times_in_a_window(hasty, lake, crawl):
    crawl.host("a.test")
    for n in range(31):
        now = as_datetime(crawl.clock.now() - 4.0 * (31 - n))
        read(
            crawl,
            "https://a.test/",
            "/",
            started_at=now,
            previous_success_at=now - timedelta(seconds=4) if n else None,
            changed=bool(n % 2) if n else None,
            rate_a=0.5 * n,
            rate_b=0.5 * n * 10 / 86_400,
        )
    crawl.commit()
    window = window_at(crawl.clock.now(), 60.0)

    with LakeResource(root=str(lake.root)).read(*schedule_work.INPUTS) as reading:
        work = schedule_work.work_of(reading, hasty, window)

    (g,) = np.flatnonzero(work.group > 0)
    assert 10 <= work.eligible[g] <= 31
    assert work.pages[g] == 1


# what is reserved


def test_overdue_pages_have_their_fetches_reserved(harness, crawl, lake, clock):
    crawl.host("a.test")
    for i in range(7):
        crawl.visit(f"https://a.test/{i}")
    crawl.commit()
    clock.advance(200 * DAY)
    crawl.report()
    crawl.commit()

    harness.execute("crawl_schedule")

    (row,) = lake.query("SELECT * FROM crawl_schedule").to_pylist()
    assert row["reserved"] == 7
    assert "7 of them overdue" in row["reason"]


def overdue_beside_queued(crawl, clock) -> None:
    """A dull group whose pages were last read half a year ago, and one that always has news, on a host with room
    for few fetches."""
    crawl.host("a.test")
    for n in range(30):
        read(
            crawl,
            f"https://a.test/old/{n}",
            "/old/*",
            previous_success_at=as_datetime(clock.now() - DAY),
            changed=False,
        )
    clock.advance(180 * DAY)
    for n in range(30):
        read(crawl, f"https://a.test/story/{n}", "/story/*")
    queued(crawl, "a.test", "/story/*", 9_000)
    crawl.report()
    crawl.commit()


def test_deadlines_come_before_value(harness, crawl, lake, clock):
    overdue_beside_queued(crawl, clock)

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert rows["/old/*"]["fetches"] >= rows["/old/*"]["reserved"] == 30
    assert rows["/story/*"]["fetches"] > 1_000


@pytest.mark.long
def test_without_reservations_the_deadlines_of_a_dull_group_are_missed(
    harness, crawl, lake, clock, monkeypatch
):
    """Ablation: value alone decides."""
    overdue_beside_queued(crawl, clock)
    monkeypatch.setattr(schedule_plan, "allocate", unreserved(schedule_plan.allocate))
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.0)
    monkeypatch.setattr(schedule_plan, "width", lambda n: np.full(len(n), 1e9))
    monkeypatch.setattr(schedule_plan, "VARIETY", 1e9)
    monkeypatch.setattr(schedule_work, "capacity", lambda *_: 1_000)

    harness.execute("crawl_schedule")

    assert by_template(lake)["/old/*"]["fetches"] < 30


def unreserved(allocate):
    def without(wanted, most, cost, value, budget, reserved, **limits):
        return allocate(wanted, most, cost, value, budget, 0 * np.asarray(reserved), **limits)

    return without


DULL = 1


def crowded(budget: int, host_most: int) -> schedule_work.Work:
    """One host: a dull group with 60 overdue pages beside 40 that bring news, each of which chance may draw."""
    n = 42
    whole, dull = np.arange(n) == 0, np.arange(n) == DULL
    work = one_host(
        "a.test",
        host_most,
        [f"/{g}/*" for g in range(n)],
        eligible=np.where(whole, 0, 60),
        reward=np.where(dull | whole, 0, 90),
        so_far=4_200.0,
        budget=budget,
    )
    return replace(work, overdue=np.where(dull, 60, 0), late=np.where(dull, 1.0, 0.0))


@pytest.mark.parametrize(("budget", "host_most"), [(60, 1_000), (62, 1_000), (1_000, 62)])
def test_chance_displaces_no_deadline_and_says_what_it_gave(monkeypatch, budget, host_most):
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.5)
    left = min(budget, host_most) - 60

    plans = [schedule_plan.plan_window(crowded(budget, host_most), str(n)) for n in range(20)]

    for plan in plans:
        assert plan.reserved[DULL] == 60
        assert plan.missing.sum() == 0
        assert np.all(plan.given >= plan.reserved + plan.drawn)
        assert plan.given.sum() == min(budget, host_most)
        assert plan.drawn.sum() <= left
        assert np.isnan(plan.propensity).sum() == (40 if left else 0)
    winners = {int(g) for plan in plans for g in np.flatnonzero(plan.drawn)}
    assert len(winners) > 5 if left else not winners


def test_a_reservation_that_is_not_kept_is_missing(monkeypatch):
    """Whatever breaks it: the plan looks at what was given."""
    monkeypatch.setattr(schedule_plan, "allocate", broken_after(2, schedule_plan.allocate))

    plan = schedule_plan.plan_window(crowded(60, 1_000), "w")

    assert plan.given[DULL] < 60
    assert plan.missing[DULL] == 60 - plan.given[DULL]


def broken_after(calls: int, allocate):
    """Reservations are kept in the first calls and ignored from then on."""
    made = []

    def allotted(wanted, most, cost, value, budget, reserved, **limits):
        made.append(1)
        kept = np.asarray(reserved) * (len(made) <= calls)
        return allocate(wanted, most, cost, value, budget, kept, **limits)

    return allotted


@pytest.mark.long
def test_a_promise_that_does_not_fit_is_said_aloud_and_stops_nothing(harness, crawl, lake, clock, fleet):
    crawl.host("a.test")
    for i in range(60):
        read(crawl, f"https://a.test/p/{i}", "/p/*")
    crawl.commit()
    clock.advance(200 * DAY)
    crawl.report(fetches=60, slots=1, cpu_seconds=6_000.0)  # a cell that needs 100 s of its core per fetch
    crawl.commit()

    result = harness.execute("crawl_schedule")

    failed = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert [e.check_name for e in failed] == ["deadlines_fit"]
    assert "a.test/p/*: 28 of 60 pages" in failed[0].description
    assert len(fleet.windows) == 1


@pytest.mark.long
def test_a_promise_beyond_politeness_is_named_too(harness, crawl, clock):
    crawl.host("a.test")
    for i in range(60):
        read(crawl, f"https://a.test/p/{i}", "/p/*")
    clock.advance(200 * DAY)
    crawl.row(
        "hosts",
        host="a.test",
        shard=0,
        happened_at=as_datetime(clock.now()),
        event="robots",
        state="seed",
        delay=120.0,
    )
    crawl.commit()

    result = harness.execute("crawl_schedule")

    (failed,) = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert "a.test/p/*: 30 of 60 pages" in failed.description  # 3,600 s / 120 s


@pytest.mark.long
def test_a_schedule_over_capacity_fails_its_check(harness, crawl, monkeypatch):
    """The check looks at the rows, not at the plan: an allocation that ignores the budget is caught."""
    monkeypatch.setattr(schedule_plan, "allocate", lambda want, most, *rest, **limits: np.asarray(most) + 1)
    small_web(crawl, farm=False)

    result = harness.execute("crawl_schedule")

    assert [e.check_name for e in result.get_asset_check_evaluations() if not e.passed] == ["within_capacity"]


@pytest.mark.long
def test_capacity_is_bound_by_slots_or_by_the_core(harness, crawl, fleet):
    crawl.host("a.test")
    crawl.report(fetches=600, slots=16, cpu_seconds=6.0)  # 16 slots / 0.1 s = 160/s; 1 / 10 ms = 100/s
    crawl.commit()

    harness.execute("crawl_schedule")

    assert fleet.windows[0].budget == pytest.approx(0.9 * 100 * 3_600)


# what is learnt


def two_groups(crawl, clock) -> None:
    """On one host: a group whose pages had changed at every check, and one where nothing ever did."""
    crawl.host("a.test")
    for n in range(80):
        for template, changed in (("/news/*", True), ("/dead/*", False)):
            name = template.replace("*", str(n % 40))
            before = as_datetime(clock.now() - DAY) if n >= 40 else None
            read(
                crawl,
                f"https://a.test{name}",
                template,
                changed=changed if before else None,
                previous_success_at=before,
            )
    for template in ("/news/*", "/dead/*"):
        queued(crawl, "a.test", template, 9_000)
    crawl.report()
    crawl.commit()


@pytest.mark.long
def test_the_group_that_brought_news_gets_more(harness, crawl, lake, clock):
    two_groups(crawl, clock)

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert rows["/news/*"]["fetches"] > 1.5 * rows["/dead/*"]["fetches"] > 0
    assert sum(r["fetches"] for r in rows.values()) == rows[None]["most"]  # all that politeness allows


@pytest.mark.long
def test_links_that_nobody_had_shown_count_as_news(harness, crawl, lake, clock):
    crawl.host("a.test")
    for n in range(30):
        shown = [f"https://a.test/found/{n}-{k}" for k in range(20)]
        for template, targets in (("/hub/*", shown), ("/leaf/*", ["https://a.test/"])):
            crawl.clock.advance(1)
            url = f"https://a.test{template.replace('*', str(n))}"
            fetch = read(
                crawl, url, template, previous_success_at=as_datetime(clock.now() - 9), changed=False
            )
            for target in targets:
                crawl.link(fetch, url, target)
    for template in ("/hub/*", "/leaf/*"):
        queued(crawl, "a.test", template, 9_000)
    crawl.commit()

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert rows["/hub/*"]["fetches"] > 1.5 * rows["/leaf/*"]["fetches"]


@pytest.mark.long
def test_news_of_a_duplicate_is_none(harness, crawl, lake, clock):
    two_groups(crawl, clock)
    copies = [
        {
            "cluster_id": "c",
            "url": f"https://a.test/news/{n}",
            "host": "a.test",
            "fetch_id": "f",
            "representative": "https://b.test/",
            "is_representative": False,
            "kind": "exact",
            "similarity": 1.0,
            "words": 100,
            "size": 41,
        }
        for n in range(40)
    ]
    lake.overwrite("near_duplicates", table("near_duplicates", copies))

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert rows["/news/*"]["fetches"] < 1.1 * rows["/dead/*"]["fetches"]


def table(name: str, rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TABLES[name].schema)


@pytest.mark.long
def test_a_dear_group_gets_less_than_a_cheap_one_of_the_same_worth(harness, crawl, lake, clock):
    crawl.host("a.test")
    for n in range(200):
        for template, ms in (("/slow/*", 900.0), ("/quick/*", 30.0)):
            read(
                crawl,
                f"https://a.test{template.replace('*', str(n))}",
                template,
                duration_ms=ms,
                wire_bytes=int(ms * 100),
            )
    for template in ("/slow/*", "/quick/*"):
        queued(crawl, "a.test", template, 9_000)
    crawl.report()
    crawl.commit()

    harness.execute("crawl_schedule")

    rows = by_template(lake)
    assert rows["/slow/*"]["cost"] > 1.5 > 0.5 > rows["/quick/*"]["cost"]
    assert rows["/quick/*"]["fetches"] > 1.5 * rows["/slow/*"]["fetches"]


@pytest.mark.long
def test_chance_has_its_part_and_says_how_likely_it_was(harness, crawl, lake, clock):
    two_groups(crawl, clock)
    seen = []
    for _ in range(6):
        harness.execute("crawl_schedule")
        seen += [
            (row["propensity"], "drawn by chance" in row["reason"])
            for row in by_template(lake).values()
            if row["template"]
        ]
        clock.advance(HOUR)

    assert all(0 < propensity <= 1 for propensity, _ in seen)
    assert any(drawn for _, drawn in seen)


def test_the_likelihood_of_a_draw_among_very_many_groups_is_kept_as_its_logarithm():
    """Ablation: the product of as many probabilities is 0."""
    work = crowded(100_000, 1_000_000)
    plan = schedule_plan.plan_window(work, "w")
    likely = replace(plan, propensity=np.full(100_000, 0.5))
    assert np.prod(likely.propensity) == 0.0

    (row,) = schedule._decision_row(likely, window_at(7_250.0, HOUR), {}, "run").to_pylist()

    assert row["propensity"] is None
    evidence = msgspec.json.decode(row["evidence"], type=schedule.Evidence)
    assert evidence.log_propensity == pytest.approx(100_000 * np.log(0.5))


def test_where_a_limit_cut_the_draw_short_no_likelihood_is_claimed(monkeypatch):
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.5)
    plan, window = schedule_plan.plan_window(crowded(62, 1_000), "w"), window_at(7_250.0, HOUR)

    (row,) = schedule._decision_row(plan, window, {}, "run").to_pylist()

    assert msgspec.json.decode(row["evidence"], type=schedule.Evidence).log_propensity is None
    assert set(schedule_plan.rows_of(plan, window, {})["propensity"].to_pylist()) == {None, 1.0}


# what is told


def test_groups_are_capped_within_their_host_and_may_use_what_it_has_left():
    rows = pa.table(
        {
            "host": ["a", "a", "a", "b", "b"],
            "group_id": [0, 5, 6, 0, 9],
            "fetches": [7, 10, 0, 3, 2],
            "eligible": [2, 10, 4, 3, 2],
        }
    )

    allocations, groups = directive(rows)

    assert allocations == {"a": 17, "b": 5}
    assert groups == {"a": {5: 15, 6: 5}, "b": {9: 2}}


@pytest.mark.long
def test_before_any_rate_is_known_the_settings_are_what_is_believed(harness, crawl, fleet, settings):
    small_web(crawl, farm=False)

    harness.execute("crawl_schedule")

    (told,) = fleet.believed
    refresh = settings.refresh
    assert told.default == (refresh.prior_shape, refresh.prior_shape / refresh.prior_rate)
    assert told.groups == {}


def test_priors_of_groups_hosts_and_all_are_told_and_cold_groups_have_the_models(harness, crawl, lake, fleet):
    small_web(crawl, farm=False)
    known = {"prior_a": 2.0, "rate": 1.0, "pages": 3, "checks": 30, "changed": 9, "unchanged": 21}
    rates = [
        {"host": h, "group_id": g, "template": t, **known, "prior_b": b}
        for h, g, t, b in [("x.test", 1, "/a", 4.0), ("x.test", 2, "/b", 400.0), ("y.test", 3, "/a", 4.0)]
    ]
    cold = [{"host": "x.test", "group_id": 2, "template": "/b", "prior_a": 1.0, "prior_b": 50.0}]
    lake.overwrite("change_rates", table("change_rates", rates))
    lake.overwrite("cold_priors", table("cold_priors", [{**c, "predicted_rate": 0.02} for c in cold]))

    harness.execute("crawl_schedule")

    (told,) = fleet.believed
    assert told.groups == {"x.test": {1: (2.0, 4.0), 2: (1.0, 50.0)}, "y.test": {3: (2.0, 4.0)}}
    assert told.hosts["y.test"] == pytest.approx((2.0, 4.0), rel=1e-3)
    a, b = told.hosts["x.test"]
    assert a / b == pytest.approx((0.5 + 0.02) / 2)
    assert told.default[0] < 2.0


@pytest.mark.long
def test_what_was_made_of_the_window_before_is_shown(harness, crawl, clock):
    small_web(crawl, farm=False)
    harness.execute("crawl_schedule")
    window = window_at(clock.now(), HOUR)
    for n in range(5):
        crawl.fetch(f"https://seed-0.test/{n}", window_id=window.window_id)
    crawl.commit()
    clock.advance(HOUR)

    result = harness.execute("crawl_schedule")

    metadata = result.asset_materializations_for_node("crawl_schedule")[0].metadata
    assert metadata["last_window_realised"].value == 5
    assert metadata["last_window_allotted"].value > 5


def test_windows_start_at_whole_multiples_and_hold_their_moment():
    window = window_at(7_250.0, 3_600.0)

    assert (window.starts_at, window.ends_at) == (7_200.0, 10_800.0)
    assert window.window_id == "1970-01-01T02:00:00+00:00"


def facets_and_products() -> schedule_work.Work:
    """One host: facets without end, each of them new, beside twenty products that often have news."""
    return one_host(
        "shop.test",
        30,
        ["", "/category/#?*", "/product/#"],
        eligible=[0, 10_000, 20],
        reward=[0, 95, 50],
        fetches=[0, 100, 100],
    )


@pytest.mark.parametrize(("variety", "products"), [(0.25, True), (1e9, False)], ids=["kept", "switched off"])
def test_facets_without_end_leave_turns_to_products_that_often_change(monkeypatch, variety, products):
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.0)
    monkeypatch.setattr(schedule_plan, "VARIETY", variety)

    plan = schedule_plan.plan_window(facets_and_products(), "w")

    assert plan.given.sum() == 30
    assert bool(plan.given[2] >= 5) is products
