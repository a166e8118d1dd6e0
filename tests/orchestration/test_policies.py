"""Policies against each other in virtual time, and candidates for the random share judged by what is logged."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from assets import policy_comparison, policy_evaluation
from assets.policy_comparison import BENCHMARK, CRAWL, SMALL, TURN
from assets.policy_evaluation import CANDIDATES, Rows, estimates
from assets.schedule import window_at
from assets.schedule_plan import plan_window, rows_of
from crawl_platform.clock import as_datetime
from crawl_platform.lake.tables import TABLES
from crawl_platform.scheduling.bandit import by_chance
from crawl_platform.scheduling.comparison.policies import POLICIES
from crawl_platform.scheduling.comparison.world import generate_like
from resources.lake import LakeResource
from tests.orchestration.one_host import one_host

MINUTE = timedelta(minutes=1)


def check(result, name):
    (found,) = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return found


def table(lake, name: str) -> list[dict]:
    return lake.query(f"SELECT * FROM {name}").to_pylist()


# policies against each other


TINY = msgspec.structs.replace(
    SMALL, n_pages=120, n_groups=6, n_hosts=3, fetch_per_day=12.0, horizon_days=65.0, tick_days=0.5
)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(policy_comparison, "SMALL", TINY)
    monkeypatch.setattr(policy_comparison, "SEEDS", (1,))


def rates(lake, *groups: tuple[str, float, int]) -> None:
    """Groups of `change_rates`: host, changes per day and pages; each page is checked every half day."""
    known = {
        "template": "/*",
        "checks": 40,
        "changed": 20,
        "unchanged": 20,
        "mean_interval": 0.5,
        "prior_a": 2.0,
    }
    rows = [
        {**known, "host": host, "group_id": n + 1, "pages": pages, "rate": rate, "prior_b": 2.0 / rate}
        for n, (host, rate, pages) in enumerate(groups)
    ]
    lake.overwrite("change_rates", pa.Table.from_pylist(rows, schema=TABLES["change_rates"].schema))


@pytest.mark.usefixtures("tiny")
def test_all_policies_are_compared_in_a_world_of_the_benchmarks_and_in_one_like_this_crawl(harness, lake):
    rates(lake, ("a.test", 0.5, 3), ("a.test", 4.0, 20), ("b.test", 40.0, 2))

    result = harness.execute("policy_comparison")

    rows = table(lake, "policy_comparison")
    assert {(row["world"], row["policy"]) for row in rows} == {
        (world, policy) for world in (BENCHMARK, CRAWL) for policy in POLICIES
    }
    ratio = {(row["world"], row["policy"]): row["paired_ratio"] for row in rows}
    assert ratio[BENCHMARK, "true"] == ratio[CRAWL, "true"] == 1.0
    assert ratio[CRAWL, "bayes"] > ratio[CRAWL, "proportional"]
    (made,) = result.asset_materializations_for_node("policy_comparison")
    assert made.metadata["worlds"].value == 2
    assert "| like this crawl | bayes |" in made.metadata["policies"].md_str


@pytest.mark.usefixtures("tiny", "pictures")
def test_where_too_little_is_known_the_benchmarks_world_stands_alone(harness, lake):
    rates(lake, ("a.test", 0.5, 3))

    result = harness.execute("policy_comparison")

    assert {row["world"] for row in table(lake, "policy_comparison")} == {BENCHMARK}
    (made,) = result.asset_materializations_for_node("policy_comparison")
    assert made.metadata["comparison"].md_str.startswith("![Freshness as part of")


def test_a_world_like_this_crawl_has_its_changes_per_visit_and_its_groups(lake):
    """Half a day between visits is as `TURN` days: 4 changes a day are 2 per visit."""
    rates(lake, ("a.test", 0.04, 900), ("a.test", 4.0, 90), ("b.test", 0.4, 10))

    with LakeResource(root=str(lake.root)).read("change_rates") as reading:
        groups = policy_comparison.groups_of(reading)
    world = generate_like(SMALL, groups, 1)

    assert groups.mean * TURN == pytest.approx([0.02, 2.0, 0.2])
    assert groups.host.tolist() == [0, 0, 1]
    assert world.params.n_hosts == 2
    assert np.bincount(world.group) / SMALL.n_pages == pytest.approx([0.9, 0.09, 0.01], abs=0.03)
    assert world.rate[world.group == 1].mean() == pytest.approx(groups.mean[1], rel=0.3)


def compared_rows(**ratios: float) -> list[dict]:
    usual = {"true": 1.0, "bayes": 0.985, "naive": 0.94, "uniform": 0.6}
    return [
        {"world": BENCHMARK, "policy": name, "paired_ratio": ratio, "ratio_to_optimum": ratio}
        for name, ratio in {**usual, **ratios}.items()
    ]


def test_a_policy_of_ours_that_a_baseline_beats_is_pointed_out():
    fine, beaten, bad = (
        policy_comparison._ours_is_best(compared_rows(**ratios))
        for ratios in ({}, {"bayes": 0.96, "naive": 0.98}, {"bayes": 0.7, "naive": 0.65})
    )

    assert fine.passed
    assert beaten.description == "benchmark: naive reaches 0.980, bayes 0.960"
    assert bad.description == "benchmark: bayes reaches 0.700 of the known-rate index"


def test_a_comparison_in_which_one_does_better_than_the_optimum_is_wrong():
    assert policy_comparison._comparison_is_sound(compared_rows()).passed
    assert not policy_comparison._comparison_is_sound(compared_rows(uniform=1.2)).passed
    assert not policy_comparison._comparison_is_sound(compared_rows(true=0.8)).passed


@pytest.mark.long
def test_in_the_worlds_that_are_shown_ours_is_best(harness, lake):
    rates(lake, *[(f"h{n % 5}.test", float(0.01 * 2**n), 10) for n in range(12)])

    result = harness.execute("policy_comparison")

    assert all(found.passed for found in result.get_asset_check_evaluations())


# candidates for the random share


def windows(crawl, lake, count: int, random, *, told=None, begun=timedelta(hours=3)) -> None:
    """Windows of a minute with ten groups, the first `begun` ago; one that is drawn brings a page of news, others none.

    `told` makes the propensities that are logged of the true ones."""
    crawl.host("a.test")
    rows, start = [], as_datetime(crawl.clock.now()) - begun
    for number in range(count):
        begins = start + number * MINUTE
        draw = by_chance(np.full(10, 4), 100.0, random)
        propensity = draw.propensity if told is None else told(draw)
        for group, given in enumerate(draw.given):
            rows.append(
                {
                    "window_id": begins.isoformat(),
                    "starts_at": begins,
                    "ends_at": begins + MINUTE,
                    "host": "a.test",
                    "group_id": group,
                    "template": f"/{group}/*",
                    "fetches": 1 + int(given),
                    "reserved": 0,
                    "drawn": int(given),
                    "most": 4,
                    "score": 1.0,
                    "eligible": 4 + group % 3,
                    "cost": 1.0 + group % 2,
                    "propensity": None if np.isnan(propensity[group]) else float(propensity[group]),
                    "reason": "",
                    "input_versions": [],
                    "date": begins.date(),
                }
            )
            crawl.fetch(
                f"https://a.test/{group}/x",
                started_at=begins + MINUTE / 2,
                window_id=begins.isoformat(),
                group_id=group,
                changed=bool(given),
                previous_success_at=begins - MINUTE,
            )
    lake.append("crawl_schedule", pa.Table.from_pylist(rows, schema=TABLES["crawl_schedule"].schema))
    crawl.commit()


def test_candidates_are_judged_by_what_the_log_says_of_them(harness, crawl, lake):
    windows(crawl, lake, 60, np.random.default_rng(1))

    result = harness.execute("policy_evaluation")

    rows = table(lake, "policy_evaluation")
    assert len(rows) == len(CANDIDATES) * 2 * 3
    assert {(row["decisions"], row["windows"]) for row in rows} == {(600, 60)}
    found = {(r["candidate"], r["outcome"], r["method"]): r for r in rows}
    shipped = found["shipped", "news", "inverse propensity"]
    assert shipped["value"] == pytest.approx(shipped["logged"])
    for method in ("inverse propensity", "self-normalised", "doubly robust"):
        none, twice = (found[name, "news", method] for name in ("no random share", "twice the random share"))
        assert none["value"] == pytest.approx(0.0, abs=0.02)
        assert none["verdict"].startswith("less than what is shipped")
        assert none["gain"] == pytest.approx(none["value"] - none["logged"])
        assert twice["low"] <= 2 * shipped["logged"] * 1.1
        assert twice["high"] >= 2 * shipped["logged"] * 0.9
    assert check(result, "chance_is_as_logged").passed


def test_what_a_plan_gives_by_lot_is_logged_with_the_chance_of_it():
    """Rows as `crawl_schedule` writes them: the log is of the lottery that was held."""
    n = 12
    work = one_host("a.test", 60, [f"/{g}/*" for g in range(n)], eligible=[30] * n, reward=[9.0] * n)
    tables = []
    for number in range(150):
        window = window_at(60.0 * number, 60.0)
        tables.append(rows_of(plan_window(work, window.window_id), window, {}))

    planned = pa.concat_tables(tables)
    lucky, propensity = planned["drawn"].to_numpy() > 0, planned["propensity"].to_numpy()
    chance = np.where(lucky, propensity, 1.0 - propensity)

    assert not np.isnan(propensity).any()
    assert chance == pytest.approx(np.full(n * 150, 0.02 * 60 / n))
    assert lucky.mean() == pytest.approx(chance.mean(), abs=0.02)


@pytest.mark.usefixtures("pictures")
def test_the_verdicts_are_shown_in_words_and_drawn(harness, crawl, lake):
    windows(crawl, lake, 20, np.random.default_rng(1))

    result = harness.execute("policy_evaluation")

    (made,) = result.asset_materializations_for_node("policy_evaluation")
    assert "| no random share | news | less than what is shipped" in made.metadata["candidates"].md_str
    assert made.metadata["gains"].md_str.startswith("![Gain over what is shipped")


def test_propensities_that_the_draws_belie_are_pointed_out(harness, crawl, lake):
    """Ablation: the log claims that every group is drawn once in ten windows, and one in five was."""
    windows(crawl, lake, 60, np.random.default_rng(1), told=lambda draw: np.where(draw.given > 0, 0.05, 0.95))

    result = harness.execute("policy_evaluation")

    assert not check(result, "chance_is_as_logged").passed


def decisions_logged(lake) -> int:
    with LakeResource(root=str(lake.root)).read(*policy_evaluation.INPUTS) as reading:
        return len(policy_evaluation.logged(reading).chance)


def test_a_window_counts_once_a_commit_was_made_well_after_its_end(crawl, lake):
    windows(crawl, lake, 3, np.random.default_rng(1), begun=timedelta(seconds=100))

    assert decisions_logged(lake) == 0, "the first is over for 40 seconds: its last fetches may be under way"

    for counted in (10, 20):
        crawl.clock.advance(50.0)
        crawl.commit()
        assert decisions_logged(lake) == counted


def test_rows_without_a_known_propensity_do_not_count(crawl, lake):
    windows(crawl, lake, 3, np.random.default_rng(1), told=lambda draw: np.full(10, np.nan))

    assert decisions_logged(lake) == 0


def test_without_any_window_nothing_is_claimed_and_nothing_fails(harness, lake):
    result = harness.execute("policy_evaluation")

    assert table(lake, "policy_evaluation") == []
    assert check(result, "chance_is_as_logged").passed


def some_rows(n: int = 200) -> Rows:
    random = np.random.default_rng(4)
    lucky = random.random(n) < 0.25
    blank = np.ones(n)
    news = lucky.astype(float)
    return Rows(
        np.arange(n) // 5, lucky, np.full(n, 0.25), random.uniform(1, 9, n), blank, blank, blank, news, news
    )


def test_a_rule_for_groups_that_were_never_drawn_gets_no_number_but_a_reason():
    rows = some_rows()
    closed = replace(rows, lucky=rows.lucky & (rows.window > 4), chance=np.where(rows.window > 4, 0.25, 0.0))

    for row in estimates(closed, lambda found: np.full(len(found.chance), 0.5)):
        assert row["value"] is row["low"] is row["gain"] is None
        assert "had propensity 0" in row["verdict"]


def test_a_rule_shares_out_what_each_window_gave_to_chance():
    rows = some_rows()

    shared = rows.share(rows.eligible)

    assert np.bincount(rows.window, shared) == pytest.approx(np.bincount(rows.window, rows.chance))
    assert np.corrcoef(shared, rows.eligible)[0, 1] > 0.9
    assert rows.share(np.zeros(len(rows.chance))).tolist() == [0.0] * len(rows.chance)
