"""How a window's capacity is shared out: arrays in, arrays out, and the rows that say so.

1. What deadlines need, the longest overdue first; what doesn't fit is named.
2. A small random share, so that a group that has become good is found.
3. The rest by value per cost: what a group is thought to bring (`scheduling/bandit.py`) times its host's value.
4. What is left of a host's turns goes to the host as a whole, for links yet to be found.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from assets.schedule_work import Work
from crawl_platform.clock import as_datetime
from crawl_platform.fleet.messages import ScheduleWindow
from crawl_platform.lake.tables import CRAWL_SCHEDULE
from crawl_platform.scheduling.allocation import allocate, marginal, shortfall
from crawl_platform.scheduling.bandit import by_chance, expected_cost, width, worth

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEADY = 1e9
"""Width of a value that does not fade: deadlines are served in order, not in turns."""
NAMED = 10
"""Broken promises that are named; all are counted."""


@dataclass(frozen=True)
class Plan:
    """A window's allocation; arrays have one value per group of `work`."""

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
        return [
            f"{work.hosts[work.host[g]]}{work.template[g] or ''}: {self.missing[g]} of {work.overdue[g]} pages"
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
    drawn = by_chance(_room(work, most, reserved), _usable(work, most), _random(window_id))
    halved = np.minimum(width(work.fetches), work.pages)
    given = allocate(work.eligible, most, cost, value, budget, reserved + drawn.given, width=halved, **limits)
    given = given + _for_links_to_come(work, given, cost)
    return Plan(
        work,
        given,
        reserved,
        shortfall(work.overdue, reserved),
        drawn.given,
        np.where(work.group == 0, work.host_most[work.host], most),
        cost,
        marginal(given, halved, value, cost),
        drawn.propensity,
    )


def _random(window_id: str) -> np.random.Generator:
    return np.random.default_rng(xxhash.xxh3_64_intdigest(window_id.encode()))


def _room(work: Work, most: Ints, reserved: Ints) -> Ints:
    """What chance may give each group: none on a host whose turns deadlines take up."""
    left = work.host_most - np.bincount(work.host, reserved, len(work.hosts)).astype(np.int64)
    room: Ints = np.clip(np.minimum(most - reserved, left[work.host]), 0, None)
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


def rows_of(plan: Plan, window: ScheduleWindow, inputs: dict[str, int]) -> pa.Table:
    """Rows of `crawl_schedule`: the groups that are awake, and each host as a whole."""
    work, start = plan.work, as_datetime(window.starts_at)
    shown = np.flatnonzero((work.group == 0) | (work.eligible > 0) | (work.overdue > 0))
    n = len(shown)
    columns = {
        "window_id": [window.window_id] * n,
        "starts_at": [start] * n,
        "ends_at": [as_datetime(window.ends_at)] * n,
        "host": [work.hosts[work.host[g]] for g in shown],
        "group_id": work.group[shown],
        "fetches": plan.given[shown],
        "reserved": plan.reserved[shown],
        "most": plan.most[shown],
        "score": plan.score[shown],
        "template": [work.template[g] for g in shown],
        "eligible": work.eligible[shown],
        "cost": plan.cost[shown],
        "propensity": plan.propensity[shown],
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
