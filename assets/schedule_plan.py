"""How a window's capacity is shared out: arrays in, arrays out, and the rows that say so.

1. What deadlines need, the longest overdue first; what doesn't fit is named.
2. A small random share, so that a group that has become good is found; it never displaces a deadline.
3. The rest by value per cost: what a group is thought to bring (`scheduling/bandit.py`) times its host's value.
4. What is left of a host's turns goes to the host as a whole, for links yet to be found.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from assets.schedule_work import NO_LEVELS, Levels, Work
from crawl_platform.clock import as_datetime
from crawl_platform.fleet.messages import ScheduleWindow
from crawl_platform.lake.tables import CRAWL_SCHEDULE
from crawl_platform.scheduling.allocation import allocate, marginal, shortfall
from crawl_platform.scheduling.bandit import by_chance, expected_cost, width, worth

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEADY = 1e9
"""Width of a value that does not fade: deadlines are served in order, not in turns."""
VARIETY = 0.25
"""Share of its host's turns after which a group's value has halved: facets without end must be several times as good
as a shop's products to take all turns from them."""
NAMED = 10
"""Broken promises that are named; all are counted."""


@dataclass(frozen=True)
class Plan:
    """A window's allocation; arrays have one value per group of `work`.

    `drawn` is what chance gave and the limits left. Where they cut a host's share short, no probability is known
    of what its groups got: `propensity` is NaN there.
    """

    work: Work
    given: Ints
    reserved: Ints
    missing: Ints
    drawn: Ints
    most: Ints
    cost: Floats
    score: Floats
    propensity: Floats

    @property
    def unmet(self) -> list[str]:
        """Promises that don't fit, the worst first, for people."""
        work, worst = self.work, np.argsort(-self.missing, kind="stable")[:NAMED]
        new = np.zeros(len(worst), np.int64) if work.unvisited is None else work.unvisited
        return [
            f"{work.hosts[work.host[g]]}{work.template[g] or ''}: {self.missing[g]} of {work.overdue[g]} pages"
            + (f", {new[g]} of them for the first time" if new[g] else "")
            for g in worst
            if self.missing[g] > 0
        ]


def plan_window(work: Work, window_id: str) -> Plan:
    """Share out the window. The same work and window give the same plan: chance is drawn from the window's name."""
    limits = {"host": work.host, "host_most": work.host_most}
    cost = expected_cost(work.duration, work.size, work.measured)
    value = worth(work.reward, work.fetches, work.so_far) * work.host_value[work.host]
    most = np.minimum(work.eligible, work.host_most[work.host])
    none = np.zeros(len(most), np.int64)
    budget = float(work.budget)
    overdue = np.minimum(work.overdue, most)
    reserved = allocate(overdue, overdue, cost, 1.0 + work.late, budget, none, width=STEADY, **limits)
    random = _random(window_id)
    room = _room(work, most, reserved, cost)
    drawn = by_chance(room, _usable(work, most), random)
    first = reserved + drawn.given
    by_lot = cost * (1.0 - random.random(len(most)))  # above 0; chance, not value, says whose draw finds room
    kept = allocate(first, first, cost, by_lot, budget, reserved, width=STEADY, **limits)
    halved = np.minimum(np.minimum(width(work.fetches), work.pages), VARIETY * work.host_most[work.host])
    given = _by_value(work, most, cost, value, halved, kept)
    promised = np.minimum(reserved, given)
    given = given + _for_links_to_come(work, given, cost)
    return Plan(
        work,
        given,
        promised,
        shortfall(work.overdue, promised),
        kept - reserved,
        np.where(work.group == 0, work.host_most[work.host], most),
        cost,
        marginal(given, halved, value, cost),
        np.where((room > 0) & _any_on_host(work, kept < first), np.nan, drawn.propensity),
    )


def _by_value(work: Work, most: Ints, cost: Floats, value: Floats, halved: Floats, kept: Ints) -> Ints:
    """Fetches (G,): `kept`, and the rest where the next one is worth most for its cost.

    Both kinds of visits are counted in days of freshness. One of a known page is worth its index. What a first visit
    brings is known on average; groups differ in it as their news do (`value`, against the mean of all).
    """
    n, levels = len(most), work.levels or NO_LEVELS
    first = np.ones(n) if work.first is None else work.first
    usual = float(np.average(value, weights=np.maximum(work.fetches, 1e-9))) if n else 1.0
    again = np.bincount(levels.group, levels.visits, n).astype(np.int64)
    group = np.concatenate((np.arange(n), levels.group))
    worth_again = levels.worth * work.host_value[work.host[levels.group]]
    wanted = np.concatenate((np.clip(work.eligible - again, 0, None), levels.visits))
    worth_each = np.concatenate((first * value / max(usual, 1e-9), worth_again))
    low = _kept_by_level(kept, levels, n)
    given = allocate(
        wanted,
        np.minimum(wanted, most[group]),
        cost[group],
        worth_each,
        float(work.budget),
        np.concatenate((np.clip(kept - np.bincount(levels.group, low, n).astype(np.int64), 0, None), low)),
        host=work.host[group],
        host_most=work.host_most,
        width=np.concatenate((halved, np.full(len(levels.group), STEADY))),
    )
    return np.bincount(group, given, n).astype(np.int64)


def _kept_by_level(kept: Ints, levels: Levels, n: int) -> Ints:
    """What is kept of each level of visits: the best of each group first."""
    so_far = np.cumsum(levels.visits) - levels.visits
    begins = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(begins, levels.group, so_far)
    low: Ints = np.clip(kept[levels.group] - (so_far - begins[levels.group]), 0, levels.visits)
    return low


def _random(window_id: str) -> np.random.Generator:
    return np.random.default_rng(xxhash.xxh3_64_intdigest(window_id.encode()))


def _any_on_host(work: Work, true: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether it is true of any group on the host of each."""
    found: NDArray[np.bool_] = (np.bincount(work.host, true, len(work.hosts)) > 0)[work.host]
    return found


def _room(work: Work, most: Ints, reserved: Ints, cost: Floats) -> Ints:
    """What chance may give each group: none on a host whose turns deadlines take up, or where they take all."""
    left = work.host_most - np.bincount(work.host, reserved, len(work.hosts)).astype(np.int64)
    affordable = cost <= float(work.budget) - float(reserved @ cost)
    room: Ints = np.where(affordable, np.clip(np.minimum(most - reserved, left[work.host]), 0, None), 0)
    return room


def _usable(work: Work, most: Ints) -> float:
    """Fetches that can be made at all: by capacity, politeness and the work that there is."""
    by_host = np.minimum(np.bincount(work.host, most, len(work.hosts)), work.host_most)
    return min(float(work.budget), float(by_host.sum()))


def _for_links_to_come(work: Work, given: Ints, cost: Floats) -> Ints:
    """Extra fetches (G,) of the hosts as a whole."""
    whole = np.flatnonzero(work.group == 0)
    room = work.host_most - np.bincount(work.host, given, len(work.hosts)).astype(np.int64)
    budget = float(work.budget) - float(given @ cost)
    extra = np.zeros(len(given), np.int64)
    none = np.zeros(len(whole), np.int64)
    extra[whole] = allocate(room, room, cost[whole], work.host_value, budget, none)
    return extra


def awake(work: Work) -> Ints:
    """Numbers of the groups that have a row: those with work, and each host as a whole."""
    return np.flatnonzero((work.group == 0) | (work.eligible > 0) | (work.overdue > 0)).astype(np.int64)


def rows_of(plan: Plan, window: ScheduleWindow, inputs: dict[str, int]) -> pa.Table:
    """Rows of `crawl_schedule`: the groups that are awake, and each host as a whole."""
    work, start = plan.work, as_datetime(window.starts_at)
    shown = awake(work)
    n = len(shown)
    columns = {
        "window_id": [window.window_id] * n,
        "starts_at": [start] * n,
        "ends_at": [as_datetime(window.ends_at)] * n,
        "host": [work.hosts[work.host[g]] for g in shown],
        "group_id": work.group[shown],
        "fetches": plan.given[shown],
        "reserved": plan.reserved[shown],
        "drawn": plan.drawn[shown],
        "most": plan.most[shown],
        "score": plan.score[shown],
        "template": [work.template[g] for g in shown],
        "eligible": work.eligible[shown],
        "cost": plan.cost[shown],
        "propensity": pa.array(plan.propensity[shown], from_pandas=True),  # NaN, not known, becomes null
        "reason": [_reason(plan, int(g)) for g in shown],
        "input_versions": [list(inputs.items())] * n,
        "date": [start.date()] * n,
    }
    return pa.table(columns, schema=CRAWL_SCHEDULE.schema)


def _reason(plan: Plan, g: int) -> str:
    given, work, eligible = plan.given[g], plan.work, plan.work.eligible[g]
    more = given - eligible
    parts = [f"{min(given, eligible)} of {eligible} wanted"]
    if plan.reserved[g]:
        parts[0] += f", {plan.reserved[g]} of them overdue"
    if plan.drawn[g]:
        parts[0] += f", {plan.drawn[g]} drawn by chance"
    if more > 0:
        parts.append(f"{more} for links yet to be found")
    if given < eligible and given == work.host_most[work.host[g]]:
        parts.append("politeness allows no more")
    if plan.missing[g]:
        parts.append(f"{plan.missing[g]} overdue pages don't fit")
    return "; ".join(parts)
