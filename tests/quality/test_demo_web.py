"""Freshness on the web of the demo, whose every page knows when it changed: visited by a made-up scheduler."""

import heapq
from typing import NamedTuple

import numpy as np
import pytest

from crawl_platform.quality.rates import Checks, still_equal
from crawl_platform.scheduling.change_rate import Gamma, observe, posterior
from crawl_platform.simulation.web import SyntheticWeb

DAY = 86_400.0
PRIOR = Gamma(0.5, 0.5 / 1440)
START = 1_800_000_000.0


class Visited(NamedTuple):
    """What the crawl found, what it holds, and the share that really is as it is held."""

    checks: Checks
    group: np.ndarray
    age: np.ndarray
    truth: float


def visit(web: SyntheticWeb, seconds: float, seed: int) -> Visited:
    """One page per host and 1.1 s: the page that is due longest, or every second time a new one while there are any."""
    random = np.random.default_rng(seed)
    now = START + 60.0
    end = now + seconds
    last: dict[str, float] = {}
    group: dict[str, int] = {}
    names: dict[str, int] = {}
    found: list[tuple[str, float, bool]] = []
    for host in sorted(name for name, h in web.hosts.items() if h.role == "trusted"):
        new = list(random.permutation(web.urls(host, now)))
        due: list[tuple[float, str]] = []
        belief: dict[str, tuple[float, float]] = {}
        for at in np.arange(now, end, 1.1):
            if new and (not due or due[0][0] > at or random.random() < 0.5):
                url = str(new.pop())
                belief[url] = (0.0, 0.0)
                group[url] = names.setdefault(web.group(url, at), len(names))
            elif due and due[0][0] <= at:
                url = heapq.heappop(due)[1]
                changed = bool(web.changes(url, last[url], at))
                days = (at - last[url]) / DAY
                found.append((url, days, changed))
                belief[url] = observe(PRIOR, *belief[url], days, changed)
            else:
                continue
            last[url] = at
            mean = posterior(PRIOR, *belief[url]).mean
            heapq.heappush(due, (at + min(max(DAY / mean, 2.0), 3_600.0), url))
    pages = {url: number for number, url in enumerate(last)}
    found.sort(key=lambda check: pages[check[0]])
    checks = Checks(
        np.array([pages[url] for url, _, _ in found], np.int64),
        np.array([days for _, days, _ in found]),
        np.array([changed for _, _, changed in found], np.bool_),
    )
    fresh = [not web.changes(url, at, end) for url, at in last.items()]
    age = np.array([end - at for at in last.values()]) / DAY
    return Visited(checks, np.array([group[url] for url in last]), age, float(np.mean(fresh)))


@pytest.mark.parametrize("web_seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_measured_freshness_is_within_three_points_of_the_truth_on_the_demos_web(web_seed):
    web = visit(SyntheticWeb(web_seed, START), 240.0, web_seed)

    assert float(still_equal(web.checks, web.group, web.age, PRIOR).mean()) == pytest.approx(
        web.truth, abs=0.03
    )


@pytest.mark.long
def test_it_is_so_before_pages_are_grouped_too():
    """In the first minutes all pages of a host are one group."""
    web = visit(SyntheticWeb(1, START), 120.0, 1)

    ungrouped = still_equal(web.checks, np.zeros(len(web.age), np.int64), web.age, PRIOR)

    assert float(ungrouped.mean()) == pytest.approx(web.truth, abs=0.03)
