"""Pages of one host that change by chance, crawled by the real frontier in virtual time, and how fresh they were."""

import math
import random
from dataclasses import dataclass, field

from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.posterior import posterior_after, predicted_change
from crawl_platform.frontier.revisits import Revisits
from crawl_platform.scheduling.refresh import expected_freshness, known_rate_index
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, url

SECONDS = Refresh(interval_min=2.0, interval_max=3_600.0, prior_rate=1_440.0)
"""Bounds of a web that changes in seconds."""


@dataclass
class ChangingHost:
    """`rates`: changes per second by page; `values` likewise. One visit a second is all that politeness allows."""

    rates: dict[str, float]
    values: dict[str, float]
    seed: int
    refresh: Refresh = SECONDS
    policy: type[Revisits] = Revisits
    fresh: dict[str, float] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    predicted: float = 0.0
    """Sum of the probabilities of a change before each visit; `changed`: the changes found."""
    changed: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self.rig = FrontierRig(A, refresh=self.refresh)
        frontier = self.rig.frontier
        frontier.revisits = frontier.lanes.revisits = self.policy(self.refresh)
        self._stale_at: dict[str, float] = {}
        self._visited_at: dict[str, float] = {}
        for page in self.rates:
            self.rig.discover(page, value=self.values[page])

    @property
    def threshold(self) -> float:
        return self.rig.frontier.hosts[A].threshold

    def run(self, seconds: float, count_after: float = 0.0) -> None:
        """Crawl for so long; freshness and visits count from `count_after` (seconds) on."""
        start = self.rig.clock.now()
        end, self._counts_from = start + seconds, start + count_after
        while (lease := self.rig.next_claim(max(end - self.rig.clock.now(), 0.0))) is not None:
            assert isinstance(lease, Lease)
            self._visit(lease)
        for page in self._visited_at:
            self._count(page, end)

    def _visit(self, lease: Lease) -> None:
        now, page = self.rig.clock.now(), lease.url
        prior = self.rig.frontier.revisits.priors.of(0, A, lease.record.group)
        changed = None
        if page in self._visited_at:
            self._count(page, now)
            changed = self._stale_at[page] < now
            self.changed += changed
            self.predicted += predicted_change(lease.record, now, prior) or 0.0
        if changed is not False:
            self._stale_at[page] = now + self._chance.expovariate(self.rates[page])
        self._visited_at[page] = now
        if now >= self._counts_from:
            self.visits[page] = self.visits.get(page, 0) + 1
        self.rig.finish(lease, changed=changed, posterior=posterior_after(lease.record, changed, now, prior))

    def _count(self, page: str, now: float) -> None:
        since = max(self._visited_at[page], self._counts_from)
        self.fresh[page] = self.fresh.get(page, 0.0) + max(min(self._stale_at[page], now) - since, 0.0)

    def freshness(self, seconds: float) -> float:
        """Share of `seconds` that the copies were fresh, weighted by value."""
        worth = sum(self.values[page] * self.fresh.get(page, 0.0) for page in self.rates)
        return worth / sum(self.values.values()) / seconds


class MeanInterval(Revisits):
    """The rule before: due after the mean time between changes, first come first served."""

    def interval(self, shard, host, page, threshold):  # type: ignore[no-untyped-def]
        mean = self.belief(shard, host, page).mean
        return min(max(86_400.0 / mean, self._settings.interval_min), self._settings.interval_max)

    def best(self, state, kv, now):  # type: ignore[no-untyped-def]
        head = state.head(kv, 4)
        return head if head is not None and head.rank <= int(now * 1000) else None

    def spare(self, state, kv, now):  # type: ignore[no-untyped-def]
        return None


class Uniform(MeanInterval):
    """Every page as often as every other."""

    def interval(self, shard, host, page, threshold):  # type: ignore[no-untyped-def]
        return self._settings.interval_min


def spread(count: int, fastest: float, slowest: float, seed: int) -> dict[str, float]:
    """Rates of pages whose mean times between changes lie between `fastest` and `slowest` seconds, log-uniform."""
    chance = random.Random(seed)
    times = (math.exp(chance.uniform(math.log(fastest), math.log(slowest))) for _ in range(count))
    return {url(f"p{n}"): 1 / time for n, time in enumerate(times)}


def best_possible(rates: dict[str, float], values: dict[str, float], per_second: float) -> float:
    """Freshness at Cho & Garcia-Molina's optimum: the rates are known, `per_second` visits are shared out."""
    low, high = 1e-9, 1e9
    for _ in range(100):
        middle = math.sqrt(low * high)
        used = sum(_visits(rates[page], values[page], middle) for page in rates)
        low, high = (middle, high) if used > per_second else (low, middle)
    at = {page: _visits(rates[page], values[page], high) for page in rates}
    worth = sum(values[p] * expected_freshness(rates[p], f) for p, f in at.items() if f > 0)
    return worth / sum(values.values())


def _visits(rate: float, value: float, index: float) -> float:
    """Visits per second at which the index at the end of each interval is `index`; 0 if it is never reached."""
    low, high = 1e-3, 1e8
    if known_rate_index(rate, high, value) <= index:
        return 0.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if known_rate_index(rate, middle, value) > index else (middle, high)
    return 1 / high
