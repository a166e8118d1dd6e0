"""The policies that the freshness benchmark compares, by name. All but `true` have to learn how pages change."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from crawl_platform.scheduling.change_rate import HALF_LIFE, SMALLEST, update_page
from crawl_platform.scheduling.comparison.world import World
from crawl_platform.scheduling.group_prior import fit_gamma
from crawl_platform.scheduling.refresh import bayes_index, known_rate_index

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Policy(Protocol):
    """What comes next, and what is learnt of it. Of `world` it may know all but rates and changes."""

    def priority(self, now: float, age: Floats) -> Floats:
        """(pages,): the highest are fetched at `now` (days); `age` (days) since the last fetch of each."""

    def learn(self, pages: Ints, now: float, age: Floats, changed: NDArray[np.bool_]) -> None:
        """These pages were fetched `age` days after their last fetch, and had changed or not."""


class Blind:
    """Learns nothing."""

    def __init__(self, world: World) -> None:
        self.importance = world.importance

    def learn(self, pages: Ints, now: float, age: Floats, changed: NDArray[np.bool_]) -> None:
        """Nothing is."""


class Uniform(Blind):
    def priority(self, now: float, age: Floats) -> Floats:
        return age


class ImportanceAge(Blind):
    def priority(self, now: float, age: Floats) -> Floats:
        return self.importance * age


class True_(Blind):
    """The index of one who knows every rate: the yardstick."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.rate = world.rate

    def priority(self, now: float, age: Floats) -> Floats:
        return known_rate_index(self.rate, age, self.importance)


class Adaptive(Blind):
    """Each page's interval is halved by a change and half as long again without one, within [1, 180] days."""

    SHORTEST, LONGEST, FIRST = 1.0, 180.0, 7.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.interval = np.full(world.params.n_pages, self.FIRST)

    def priority(self, now: float, age: Floats) -> Floats:
        return np.asarray(age / self.interval)

    def learn(self, pages: Ints, now: float, age: Floats, changed: NDArray[np.bool_]) -> None:
        step = np.where(changed, 0.5, 1.5)
        self.interval[pages] = np.clip(self.interval[pages] * step, self.SHORTEST, self.LONGEST)


class Naive(Blind):
    """The index with changes per time as the rate: half a change where there was none."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.first = world.params.prior_mean_per_day
        self.found, self.watched = np.zeros(world.params.n_pages), np.zeros(world.params.n_pages)

    def priority(self, now: float, age: Floats) -> Floats:
        rate = np.maximum(self.found, 0.5) / np.maximum(self.watched, 1e-9)
        return known_rate_index(np.where(self.watched > 0, rate, self.first), age, self.importance)

    def learn(self, pages: Ints, now: float, age: Floats, changed: NDArray[np.bool_]) -> None:
        self.found[pages] += changed
        self.watched[pages] += age


class Learning:
    """The product's belief: a Gamma posterior per page as increments over its group's prior, which is fitted anew
    from the pages' posteriors each day. Two floats a page."""

    def __init__(self, world: World) -> None:
        params, self.importance, self.group = world.params, world.importance, world.group
        self.cost, self.params = params.cost_per_fetch, params
        self.prior_a = np.full(params.n_groups, params.prior_shape)
        self.prior_b = self.prior_a / params.prior_mean_per_day
        self.da, self.db = np.zeros(params.n_pages), np.zeros(params.n_pages)
        self.pages = np.bincount(self.group, minlength=params.n_groups)
        self.fit_at = params.eb_refit_days

    def belief(self, kept: Floats | float = 1.0, pages: Ints | slice = slice(None)) -> tuple[Floats, Floats]:
        """Posteriors (a, b) of `pages`, of which the part `kept` of what was learnt still counts."""
        prior_a, prior_b = self.prior_a[self.group[pages]], self.prior_b[self.group[pages]]
        a = np.maximum(prior_a + self.da[pages] * kept, SMALLEST)
        return a, np.maximum(prior_b + self.db[pages] * kept, SMALLEST * prior_b)

    def learn(self, pages: Ints, now: float, age: Floats, changed: NDArray[np.bool_]) -> None:
        a, b = update_page(*self.belief(np.exp2(-age / HALF_LIFE), pages), age, changed)
        self.da[pages] = a - self.prior_a[self.group[pages]]
        self.db[pages] = b - self.prior_b[self.group[pages]]
        if now + 1e-9 >= self.fit_at:
            self.fit_at += self.params.eb_refit_days
            self._fit()

    def _fit(self) -> None:
        """Gammas with the mean and mean logarithm of the posteriors of each group's pages (empirical Bayes)."""
        a, b = self.belief()
        mean, log = a / b, digamma(a) - np.log(b)
        extra, groups = self.params.eb_hyper_pages, self.params.n_groups
        means = np.bincount(self.group, mean, groups) + extra * mean.mean()
        logs = np.bincount(self.group, log, groups) + extra * log.mean()
        some = self.pages + extra
        self.prior_a, self.prior_b = fit_gamma(means / some, logs / some)


class Bayes(Learning):
    """The product's own: the index averaged over the posterior."""

    def priority(self, now: float, age: Floats) -> Floats:
        return bayes_index(*self.belief(), age, self.importance, self.cost)


class Gain(Learning):
    """Importance times the probability of a change: what a visit now brings, though waiting might bring more."""

    def priority(self, now: float, age: Floats) -> Floats:
        a, b = self.belief()
        return np.asarray(self.importance / self.cost * -np.expm1(-a * np.log1p(age / b)))


class Proportional(Learning):
    """Visits in proportion to the rate: the page with the most expected changes."""

    def priority(self, now: float, age: Floats) -> Floats:
        a, b = self.belief()
        return np.asarray(a / b * age)


POLICIES: dict[str, Callable[[World], Policy]] = {
    "bayes": Bayes,
    "true": True_,
    "uniform": Uniform,
    "proportional": Proportional,
    "adaptive": Adaptive,
    "gain": Gain,
    "importance_age": ImportanceAge,
    "naive": Naive,
}
