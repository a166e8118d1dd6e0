"""The pages of the simulated web: when each is published, when it changes, and which page links to it.

Hosts have one to three sections (URL groups), each with a page of contents that links to its latest pages and changes
when one is published. Nothing else of a page is known to a crawler but whether it has changed since its last visit.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from crawl_platform.scheduling.comparison.world import reflected

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Params(msgspec.Struct, frozen=True):
    """A world and the crawler's means; times in days unless stated."""

    pages: int = 1_000
    """Known at the start."""
    published: float = 5.0
    """Pages published a day, by all hosts together."""
    groups: int = 20
    hosts: int = 10
    days: float = 40.0
    fetches_per_day: float = 180.0
    """What the crawler's one slot can do."""
    delay_least: float = 600.0
    delay_most: float = 7_200.0
    """Delays of hosts, seconds, log-uniform."""
    slowest: float = 1.0 / 180.0
    fastest: float = 24.0
    """Changes a day; groups are spread evenly over their logarithms."""
    within_group: float = 0.7
    """Standard deviation of ln(rate) between pages of a group."""
    zipf: float = 1.0
    """Importance of the page of rank r: r^-zipf."""
    listed: int = 40
    """Latest pages that a page of contents links to."""
    promised_hosts: int = 1
    """Hosts whose pages are promised to be visited again within `promised` days, whatever they are worth."""
    promised: float = 10.0

    @property
    def took(self) -> float:
        """Seconds that a fetch occupies the slot."""
        return 86_400.0 / self.fetches_per_day


@dataclass(frozen=True)
class Web:
    """Arrays (pages,): `rate` (changes a day), `importance` in (0, 1], `group`, `host`, `born` (days). The first
    `params.groups` pages are the pages of contents."""

    params: Params
    url: list[str]
    rate: Floats
    importance: Floats
    group: Ints
    host: Ints
    born: Floats
    delay: Floats
    """(hosts,) seconds."""
    changes: list[list[float]]
    """By page: days at which it changes, in order."""
    number: dict[str, int] = field(default_factory=dict)
    """URL → page."""

    def next_change(self, page: int, after: float) -> float:
        """When (days) it changes for the first time after `after`; infinite if it doesn't."""
        when = self.changes[page]
        place = bisect_right(when, after)
        return when[place] if place < len(when) else np.inf

    def links(self, page: int, now: float) -> list[int]:
        """Pages that `page` links to at `now` (days)."""
        if page >= self.params.groups:
            return []
        pages = self.members[page]
        latest = bisect_right(self.births[page], now)
        return pages[max(latest - self.params.listed, 0) : latest]

    members: list[list[int]] = field(default_factory=list)
    """By page of contents: the pages published in its section after the start, in order."""
    births: list[list[float]] = field(default_factory=list)


def host_name(host: int) -> str:
    return f"h{host}.test"


def section(group: int) -> str:
    """A word: a number would pass for the name of a thing."""
    return "section-" + chr(97 + group // 26) + chr(97 + group % 26)


def generate(params: Params, seed: int) -> Web:
    """The web of this seed, always the same."""
    random = np.random.default_rng(seed)
    groups, n_new = params.groups, int(params.published * params.days)
    weight = np.arange(1, groups + 1) ** -0.7
    old = params.pages - groups
    group = np.concatenate((np.arange(groups), random.choice(groups, old + n_new, p=weight / weight.sum())))
    born = np.concatenate((np.zeros(params.pages), np.sort(random.random(n_new) * params.days)))
    host_of_group = random.permutation(np.arange(groups) % params.hosts)
    rate = _rates(params, group, random)
    ranks = random.permutation(np.arange(1, len(group) + 1))
    members = [np.flatnonzero((group == g) & (born > 0)).tolist() for g in range(groups)]
    births = [born[pages].tolist() for pages in members]
    rate[:groups] = [max(len(pages), 0.2) / params.days for pages in members]
    changes = births + [_changes(random, rate[p], born[p], params.days) for p in range(groups, len(group))]
    host = host_of_group[group]
    url = [f"https://{host_name(host[g])}/{section(g)}" for g in range(groups)]
    url += [f"https://{host_name(host[p])}/{section(group[p])}/page-{p}" for p in range(groups, len(group))]
    delay = np.exp(random.uniform(np.log(params.delay_least), np.log(params.delay_most), params.hosts))
    return Web(
        params, url, rate, ranks ** -params.zipf, group, host, born, delay, changes,
        {name: page for page, name in enumerate(url)}, members, births,
    )  # fmt: skip


def _rates(params: Params, group: Ints, random: np.random.Generator) -> Floats:
    low, high = np.log(params.slowest), np.log(params.fastest)
    strata = (np.arange(params.groups) + random.random(params.groups)) / params.groups
    centre = low + (high - low) * random.permutation(strata)
    logs = centre[group] + random.normal(0.0, params.within_group, len(group))
    return np.exp(reflected(logs, low, high))


def _changes(random: np.random.Generator, rate: float, born: float, until: float) -> list[float]:
    count = random.poisson(rate * (until - born))
    return sorted((born + random.random(count) * (until - born)).tolist())
