"""The promotion bench: its webs, and that no farm comes in on them."""

from dataclasses import replace

import numpy as np
import pytest

from bench.promotion.__main__ import LINES, all_crawled
from bench.promotion.score import area, scores, see, shipped, trust_alone
from bench.promotion.web import HONEST, SCENARIOS, TARGET, Farms, Plan, host_arcs, make_web

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
