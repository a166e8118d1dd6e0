"""A policy in a world: who is fetched at each tick, for how long copies equalled the live pages, and how near that
comes to one who knows every rate."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from crawl_platform.scheduling.comparison.policies import POLICIES
from crawl_platform.scheduling.comparison.world import Params, World, optimum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EARLY = (30.0, 60.0)
"""Days by which a policy should have learnt most of what there is; of a shorter world its second sixth."""
STEP = 10.0
"""Days over which the course of freshness is averaged."""
REACH = 8
"""First among so many times the pages that there is room for: those of crowded hosts are passed over."""


@dataclass(frozen=True)
class Score:
    """Importance-weighted freshness in [0, 1] over the last days, the early ones and each `STEP` in turn; fetches, and
    how many of them found a change."""

    late: float
    early: float
    course: tuple[float, ...]
    fetches: int
    catches: int


def crawl(world: World, policy: str) -> Score:
    """From the first tick to the last. All copies are fresh at 0."""
    params, mind = world.params, POLICIES[policy](world)
    windows = measured_days(params)
    fresh, fetches, catches = np.zeros(len(windows)), 0, 0
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
    late, early, *course = (fresh / (windows[:, 1] - windows[:, 0])).tolist()
    return Score(late, early, tuple(course), fetches, catches)


def measured_days(params: Params) -> Floats:
    """(windows, 2): first and last day of what a `Score` is measured over."""
    end = params.horizon_days
    early = EARLY if end >= EARLY[1] else (end / 6, end / 3)
    steps = np.arange(0.0, end, STEP)
    return np.array(
        [
            (end - params.measure_last_days, end),
            early,
            *zip(steps, np.minimum(steps + STEP, end), strict=True),
        ]
    )


class Figures(msgspec.Struct, frozen=True):
    """How a policy did in one world. Ratios are to `true`, on the same changes; `course` is the ratio of each `STEP`
    days."""

    paired_ratio: float
    early_ratio: float
    ratio_to_optimum: float
    freshness: float
    catch: float
    fetches: int
    course: tuple[float, ...]


def compared(world: World, policies: Iterable[str]) -> dict[str, Figures]:
    """`policies` in one world; `true` is always among them."""
    best, truth = optimum(world), crawl(world, "true")
    others = (name for name in policies if name != "true")
    scores = {**{name: crawl(world, name) for name in others}, "true": truth}
    return {name: _figures(score, truth, best) for name, score in scores.items()}


def _figures(score: Score, truth: Score, best: float) -> Figures:
    return Figures(
        paired_ratio=score.late / truth.late,
        early_ratio=score.early / truth.early,
        ratio_to_optimum=score.late / best,
        freshness=score.late,
        catch=score.catches / max(score.fetches, 1),
        fetches=score.fetches,
        course=tuple(own / known for own, known in zip(score.course, truth.course, strict=True)),
    )


def overlaps(windows: Floats, importance: Floats, since: Floats, until: Floats) -> Floats:
    """(windows,): importance times the days from `since` to `until` that lie in each window (start, end), summed over
    pages."""
    length = np.minimum(until, windows[:, 1:]) - np.maximum(since, windows[:, :1])
    return np.asarray((np.maximum(length, 0.0) * importance).sum(axis=1))


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
