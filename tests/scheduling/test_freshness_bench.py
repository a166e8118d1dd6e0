"""`bench.freshness`: the harness is right where its invariants and the known ranges of its baselines hold."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.freshness.__main__ import measure, read_params, table
from bench.freshness.figure import draw
from crawl_platform.scheduling.comparison.crawl import crawl, overlaps, pick, rank_within
from crawl_platform.scheduling.comparison.policies import POLICIES
from crawl_platform.scheduling.comparison.world import Params, World, generate, optimum, reflected
from crawl_platform.scheduling.refresh import expected_freshness

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
SMALL = Params(
    n_pages=400, n_groups=8, n_hosts=4, horizon_days=30.0, measure_last_days=10.0, fetch_per_day=48.0
)


@pytest.fixture(scope="module")
def world() -> World:
    return generate(SMALL, 1)


def test_the_defaults_are_those_of_the_specification() -> None:
    assert read_params(CASES / "freshness_params.json") == Params()


def test_what_is_no_parameter_file_is_refused_with_its_name(tmp_path: Path) -> None:
    for text in ("{", "{}", '{"world": {"pages": 1}}'):
        (tmp_path / "params.json").write_text(text)
        with pytest.raises(ValueError, match=r"params\.json"):
            read_params(tmp_path / "params.json")


def test_a_world_is_as_its_parameters_say(world: World) -> None:
    again, other = generate(SMALL, 1), generate(SMALL, 2)

    assert world.importance.sum() == pytest.approx(1.0)
    assert (world.rate >= SMALL.lam_min_per_day).all()
    assert (world.rate <= SMALL.lam_max_per_day).all()
    assert len(world.changes) == pytest.approx((world.rate * SMALL.horizon_days).sum(), rel=0.05)
    assert all(len(set(world.host[world.group == group])) <= 1 for group in range(SMALL.n_groups))
    assert np.array_equal(world.changes, again.changes)
    assert not np.array_equal(world.rate, other.rate)


def test_a_log_rate_is_folded_back_at_both_ends() -> None:
    assert reflected(np.array([-1.0, 0.5, 2.5, 4.5]), 0.0, 2.0).tolist() == [1.0, 0.5, 1.5, 0.5]


def test_ticks_use_up_the_budget_and_no_more() -> None:
    world = generate(msgspec.structs.replace(SMALL, fetch_per_day=500.0, horizon_days=180.0), 1)

    rooms = [world.room(tick) for tick in range(1, SMALL.ticks * 6 + 1)]

    assert sum(rooms) == 500 * 180
    assert set(rooms) == {20, 21}


def test_those_of_the_highest_priority_are_picked_up_to_their_hosts_cap() -> None:
    host = np.array([0, 0, 0, 1, 1, 2])

    assert pick(np.array([9.0, 8.0, 7.0, 6.0, 6.0, 1.0]), host, 4, 2).tolist() == [0, 1, 3, 4]
    assert pick(np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]), host, 6, 1).tolist() == [2, 3, 5]
    assert pick(np.zeros(6), host, 0, 1).tolist() == []
    assert rank_within(np.array([5, 3, 5, 5, 3])).tolist() == [0, 0, 1, 2, 1]


def test_freshness_is_integrated_exactly() -> None:
    windows = np.array([[10.0, 20.0], [30.0, 40.0]])
    since, until = np.array([0.0, 12.0, 35.0, 21.0]), np.array([15.0, 33.0, 36.0, 29.0])

    assert overlaps(windows, np.array([1.0, 0.5, 2.0, 7.0]), since, until).tolist() == [5 + 4.0, 1.5 + 2.0]


def test_a_report_says_whether_the_lines_are_reached_and_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    tiny = msgspec.structs.replace(SMALL, n_pages=60, fetch_per_day=6.0, tick_days=0.5)
    report = measure(tiny, [1], ("bayes", "uniform"))

    for name in ("a.svg", "b.svg"):
        draw(report, tmp_path / name)

    assert f"days 30-60 0.978): {'reached' if report['holds'] else 'NOT reached'}" in table(report)
    assert len(report["course"]) == 3
    assert 0.5 < report["early_ratio"]["mean"] < 1.2, "a world of thirty days has early days too"
    assert report["others"]["uniform"]["paired_ratio"]["mean"] < 1.0
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == (tmp_path / "b.svg").read_bytes()
    assert b">uniform<" in drawn


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_spends_the_budget_within_the_hosts_caps(
    policy: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []

    def counted(priority, host, room, cap):  # type: ignore[no-untyped-def]
        pages = pick(priority, host, room, cap)
        most.append(np.bincount(host[pages]).max(initial=0))
        assert len(pages) <= room
        assert len(set(pages)) == len(pages)
        return pages

    monkeypatch.setattr("crawl_platform.scheduling.comparison.crawl.pick", counted)
    score, again = crawl(world, policy), crawl(world, policy)

    assert score == again
    assert max(most) <= SMALL.host_cap_per_tick
    assert score.fetches == 48 * 30
    assert 0.0 < score.catches / score.fetches < 1.0


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"true"}))
def test_no_policy_but_the_yardstick_looks_at_rates_or_changes_to_come(policy: str, world: World) -> None:
    blindfolded = replace(world, rate=np.full(SMALL.n_pages, np.nan))

    assert crawl(blindfolded, policy) == crawl(world, policy)


def test_the_optimum_is_one_of_equal_yields_within_the_budgets(world: World) -> None:
    spread = generate(msgspec.structs.replace(SMALL, host_cap_per_tick=48), 1)
    best = optimum(spread)
    even = expected_freshness(spread.rate, np.full(SMALL.n_pages, SMALL.fetch_per_day / SMALL.n_pages))

    assert best > float((spread.importance * even).sum())
    assert optimum(
        generate(msgspec.structs.replace(SMALL, host_cap_per_tick=1, fetch_per_day=96.0), 1)
    ) < optimum(generate(msgspec.structs.replace(SMALL, host_cap_per_tick=48, fetch_per_day=96.0), 1))
    assert crawl(spread, "true").late / best == pytest.approx(1.0, abs=0.03)


@pytest.mark.long
def test_the_product_s_policy_reaches_its_lines_and_the_baselines_are_where_they_are_known_to_be() -> None:
    report = measure(Params(), [1, 2, 3, 4, 5, 6], ("bayes", "uniform", "gain", "importance_age"))

    assert report["holds"], json.dumps(report)
    assert report["true_to_optimum"]["min"] >= 0.985
    assert report["true_to_optimum"]["mean"] <= 1.005
    others = report["others"]
    assert all(0.45 <= ratio <= 0.75 for ratio in others["uniform"]["ratio_to_optimum"]["by_seed"])
    assert 0.73 <= others["gain"]["ratio_to_optimum"]["mean"] <= 0.83
    assert 0.915 <= others["importance_age"]["paired_ratio"]["mean"] <= 0.945
