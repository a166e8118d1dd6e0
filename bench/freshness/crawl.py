"""One policy in one world: who is fetched at each tick, and for how long copies equalled the live pages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.freshness.policies import POLICIES
from bench.freshness.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EARLY = (30.0, 60.0)
"""Days by which a policy should have learnt most of what there is."""
REACH = 8
"""First among so many times the pages that there is room for: those of crowded hosts are passed over."""


@dataclass(frozen=True)
class Score:
    """Importance-weighted freshness in [0, 1] over the last days and the early ones; fetches, and how many of them
    found a change."""

    late: float
    early: float
    fetches: int
    catches: int


def crawl(world: World, policy: str) -> Score:
    """From the first tick to the last. All copies are fresh at 0."""
    params, mind = world.params, POLICIES[policy](world)
    windows = (EARLY, (params.horizon_days - params.measure_last_days, params.horizon_days))
    fresh, fetches, catches = np.zeros(2), 0, 0
    last = np.zeros(params.n_pages)
    stale_at = world.next_change(np.arange(params.n_pages), 0.0)
    for tick in range(1, params.ticks + 1):
        now = tick * params.tick_days
        age = now - last
        pages = pick(mind.priority(now, age), world.host, world.room(tick), params.host_cap_per_tick)
        changed = stale_at[pages] <= now
        fresh += overlaps(windows, world.importance[pages], last[pages], np.minimum(now, stale_at[pages]))
        mind.learn(pages, now, age[pages], changed)
        last[pages], stale_at[pages] = now, world.next_change(pages, now)
        fetches, catches = fetches + len(pages), catches + int(changed.sum())
    fresh += overlaps(windows, world.importance, last, np.minimum(params.horizon_days, stale_at))
    early, late = fresh / [end - start for start, end in windows]
    return Score(float(late), float(early), fetches, catches)


def overlaps(
    windows: tuple[tuple[float, float], ...], importance: Floats, since: Floats, until: Floats
) -> Floats:
    """(windows,): importance times the days from `since` to `until` that lie in each window, summed over pages."""
    lengths = [np.minimum(until, end) - np.maximum(since, start) for start, end in windows]
    return np.array([float((importance * np.maximum(length, 0.0)).sum()) for length in lengths])


def pick(priority: Floats, host: Ints, room: int, cap: int) -> Ints:
    """The `room` pages of the highest priority, at most `cap` of one host; among equals the lower number."""
    reach = min(REACH * room, len(priority))
    while room:
        best = np.argpartition(-priority, reach - 1)[:reach]
        best = best[np.lexsort((best, -priority[best]))]
        chosen = best[rank_within(host[best]) < cap][:room]
        if len(chosen) == room or reach == len(priority):
            return chosen
        reach = len(priority)
    return np.zeros(0, np.int64)


def rank_within(host: Ints) -> Ints:
    """How many before it have the same host, for each place in `host`."""
    order = np.argsort(host, kind="stable")
    ordered = host[order]
    first = np.searchsorted(ordered, ordered)
    rank = np.empty(len(host), np.int64)
    rank[order] = np.arange(len(host)) - first
    return rank
