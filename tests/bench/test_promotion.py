"""The promotion bench: its webs, and that no farm comes in on them."""

from dataclasses import replace

import numpy as np
import pytest

from bench.promotion import weights
from bench.promotion.__main__ import LINES, all_crawled, seed_only
from bench.promotion.score import area, scores, see, shipped, trust_alone
from bench.promotion.seed_only import Crawl
from bench.promotion.web import HONEST, SCENARIOS, TARGET, Farms, Plan, host_arcs, make_web
from crawl_platform.graph.spam import UNVOUCHED_WEIGHT

FEW = Plan(trusted=100, untrusted=400, honest=600)


def small(name):
    """A web of the scenario with fewer hosts and farms, and pages to match."""
    return replace(FEW, farms=replace(SCENARIOS[name], count=6, pages=4_000))


@pytest.mark.parametrize("name", SCENARIOS)
def test_farms_stand_below_honest_hosts(name):
    found = scores(see(make_web(small(name), 7)), {"shipped": shipped, "trust": trust_alone})

    assert found["shipped"]["farms_in_top"] == 0
    assert found["shipped"]["auc"] >= found["shipped"]["reachable"] - 0.02
    assert found["trust"]["auc"] < found["shipped"]["auc"] - 0.15


def test_without_the_gate_a_farm_would_be_promoted():
    """Ablation: fifty hijacked links give a farm as much trust as an honest host has."""
    found = scores(see(make_web(small("hijacked_40_10"), 7)), {"shipped": shipped, "trust": trust_alone})

    assert found["trust"]["farms_in_top"] > 0
    assert found["shipped"]["farms_in_top"] == 0


def test_a_web_is_made_as_planned():
    plan = replace(FEW, farms=Farms(count=3, pages=400, boosters=4, untrusted=5, trusted=2))
    web = make_web(plan, 3)
    src, dst, links = host_arcs(web)

    targets = np.flatnonzero(web.kind == TARGET)
    assert web.hosts == 100 + 400 + 600 + 3 + 3 * 4
    assert [int(np.sum(dst == target)) for target in targets] == [5 + 2 + 4] * 3
    assert [int(links[dst == target].sum()) for target in targets] == [407] * 3
    assert not set(src) & set(np.flatnonzero(web.kind == HONEST))
    assert np.array_equal(make_web(plan, 3).dst, web.dst)


def test_ties_count_half():
    assert area(np.array([1.0, 3.0, 1.0, 2.0]), np.array([0, 1]), np.array([2, 3])) == (0.25 + 1.0) / 2


@pytest.mark.long
def test_the_lines_hold_on_webs_of_full_size():
    report = all_crawled([11, 12])

    assert report["holds"]
    assert all(of["shipped"]["auc"]["mean"] >= 0.90 for of in report["scenarios"].values())
    assert LINES["farms_in_top"] == 0


def crawled(*options):
    """300 promotions in a small web of which only the trusted hosts are crawled."""
    plan = replace(small("hijacked_40_10"), only_trusted_crawled=True, trusted_links=1.0)
    crawl = Crawl(make_web(plan, 5), np.random.default_rng(5), *options)
    crawl.run()
    return crawl.found()


def test_where_only_trusted_hosts_are_crawled_who_set_a_link_keeps_farms_out_and_probation_demotes_them():
    """Ablation: without the first all farms are promoted, without the second those that were stay."""
    assert crawled()["farm_hosts_promoted"] <= 1
    assert crawled()["farm_hosts_kept"] == 0

    unguarded = crawled(False, True)
    assert unguarded["farm_hosts_promoted"] == 6
    assert crawled(False, False)["farm_hosts_kept"] == 6
    assert unguarded["farm_hosts_kept"] < 6


@pytest.mark.long
def test_the_lines_hold_where_only_trusted_hosts_are_crawled():
    report = seed_only([11, 12])

    assert report["holds"]
    assert report["scenarios"]["hijacked_40_10"]["others"]["without_both"]["farm_hosts_promoted"]["min"] > 3


@pytest.mark.long
def test_the_shipped_weight_is_near_the_fitted_one_and_holds_on_other_webs():
    made, others = (
        [weights.evidence(seed) for seed in seeds] for seeds in (range(1_000, 1_030), range(7_000, 7_015))
    )

    assert weights.fitted(made)["unvouched_weight"] == pytest.approx(UNVOUCHED_WEIGHT, abs=0.3)
    found = weights.tried(others)
    assert found["farms_passed"] <= 0.05 * found["farms"]
    assert found["honest_held"]["mean"] < 0.02
