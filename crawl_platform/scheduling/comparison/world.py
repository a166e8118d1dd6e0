"""The pages that policies are compared on, when they change, and the best that one who knows their rates could do."""

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from crawl_platform.scheduling.policies import cho
from crawl_platform.scheduling.refresh import expected_freshness

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A world and the fetches that it allows; times in days."""

    n_pages: int = 5_000
    n_groups: int = 40
    n_hosts: int = 20
    horizon_days: float = 180.0
    tick_days: float = 1.0 / 24.0
    measure_last_days: float = 60.0
    fetch_per_day: float = 500.0
    host_cap_per_tick: int = 3
    zipf_s: float = 1.0
    """Importance of the page of rank r: r^-s."""
    lam_min_per_day: float = 1.0 / 180.0
    lam_max_per_day: float = 24.0
    within_group_log_sd: float = 0.7
    group_size_zipf: float = 0.7
    cost_per_fetch: float = 1.0
    prior_shape: float = 0.5
    prior_mean_per_day: float = 0.3
    """What is believed of a page's rate at first."""
    eb_refit_days: float = 1.0
    eb_hyper_pages: float = 3.0
    """Pages of the average of all that stand in every group's fit."""

    @property
    def ticks(self) -> int:
        return round(self.horizon_days / self.tick_days)


@dataclass(frozen=True)
class World:
    """`rate` (changes a day), `importance` (sum 1), `group` and `host` have shape (pages,). The changes of page u are
    `changes[start[u]:start[u + 1]]`, in days from 0 to the horizon."""

    params: Params
    rate: Floats
    importance: Floats
    group: Ints
    host: Ints
    changes: Floats
    start: Ints

    def room(self, tick: int) -> int:
        """Fetches that tick number `tick` (from 1) may make: whole ones, what is not used is lost."""
        per_tick = self.params.fetch_per_day * self.params.tick_days
        return int(per_tick * tick + 1e-9) - int(per_tick * (tick - 1) + 1e-9)

    def next_change(self, pages: Ints, after: float) -> Floats:
        """When each of `pages` changes for the first time after `after` (days); infinite if it doesn't."""
        found = np.full(len(pages), np.inf)
        for number, page in enumerate(pages):
            begin, end = self.start[page], self.start[page + 1]
            at = begin + np.searchsorted(self.changes[begin:end], after, side="right")
            if at < end:
                found[number] = self.changes[at]
        return found


@dataclass(frozen=True)
class Groups:
    """URL groups that pages are drawn from, shape (groups,): the host of each, its share of the pages, and the Gamma
    distribution of its pages' rates (shape, and mean in changes a day)."""

    host: Ints
    weight: Floats
    shape: Floats
    mean: Floats


def generate(params: Params, seed: int) -> World:
    """The world of this seed, always the same."""
    random = np.random.default_rng(seed)
    pages, groups = params.n_pages, params.n_groups
    low, high = np.log(params.lam_min_per_day), np.log(params.lam_max_per_day)
    weight = np.arange(1, groups + 1) ** -params.group_size_zipf
    group = random.choice(groups, pages, p=weight / weight.sum())
    host = random.permutation(np.arange(groups) % params.n_hosts)[group]
    strata = (np.arange(groups) + random.random(groups)) / groups
    centre = low + (high - low) * random.permutation(strata)
    logs = centre[group] + random.normal(0.0, params.within_group_log_sd, pages)
    return _changing(params, random, np.exp(reflected(logs, low, high)), group, host)


def generate_like(params: Params, groups: Groups, seed: int) -> World:
    """The world of this seed with pages of `groups`; rates are kept within the bounds of `params`, which counts
    groups and hosts as they are."""
    random = np.random.default_rng(seed)
    group = random.choice(len(groups.weight), params.n_pages, p=groups.weight / groups.weight.sum())
    rate = random.gamma(groups.shape[group]) * (groups.mean / groups.shape)[group]
    counted = msgspec.structs.replace(params, n_groups=len(groups.weight), n_hosts=int(groups.host.max()) + 1)
    bounded = np.clip(rate, params.lam_min_per_day, params.lam_max_per_day)
    return _changing(counted, random, bounded, group, groups.host[group])


def _changing(params: Params, random: np.random.Generator, rate: Floats, group: Ints, host: Ints) -> World:
    """Pages with importances and a history of changes."""
    importance = random.permutation(np.arange(1, params.n_pages + 1) ** -params.zipf_s)
    count = random.poisson(rate * params.horizon_days)
    owner, when = (
        np.repeat(np.arange(params.n_pages), count),
        random.random(count.sum()) * params.horizon_days,
    )
    start = np.concatenate(([0], np.cumsum(count)))
    changes = when[np.lexsort((when, owner))]
    return World(params, rate, importance / importance.sum(), group, host, changes, start)


def reflected(values: Floats, low: float, high: float) -> Floats:
    """`values` folded back into [low, high] at both ends, as often as it takes."""
    width = high - low
    offset = np.mod(values - low, 2 * width)
    return np.asarray(low + np.minimum(offset, 2 * width - offset))


def optimum(world: World) -> float:
    """Importance-weighted freshness of the best constant fetch rates, as if fetches could be split, under the budget a
    day and that of each host: hosts that would get more than theirs get theirs, the others share the rest."""
    params = world.params
    host_cap = params.host_cap_per_tick / params.tick_days
    visits = np.zeros(params.n_pages)
    free, left = np.ones(params.n_pages, np.bool_), params.fetch_per_day
    while left > 0 and free.any():
        visits[free] = cho(world.importance[free], world.rate[free], left).rates
        over = np.flatnonzero(np.bincount(world.host, visits * free, params.n_hosts) > host_cap * (1 + 1e-9))
        if not len(over):
            break
        for host in over:
            own = world.host == host
            visits[own] = cho(world.importance[own], world.rate[own], host_cap).rates
        free &= ~np.isin(world.host, over)
        left -= host_cap * len(over)
    return float((world.importance * expected_freshness(world.rate, visits)).sum())
