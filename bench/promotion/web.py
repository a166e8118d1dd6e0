"""A made-up web with link farms, page by page, of which it is known who is honest.

Trusted and untrusted hosts are crawled; honest ones of one to five pages stand on the horizon and are linked to by
popularity. A farm is one host on the horizon that thousands of made-up pages link to, and a few links that its owner
got into other people's pages (hijacked: comments, guest books, hacked pages).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

TRUSTED, UNTRUSTED, HONEST, TARGET, BOOSTER = range(5)
SPREAD = {TRUSTED: 1.0, UNTRUSTED: 1.0, HONEST: 1.75}
"""Standard deviation of the logarithm of a host's popularity."""
DRAW = {TRUSTED: 0.15, UNTRUSTED: 0.35, HONEST: 0.5}
"""Share of links between hosts that go to hosts of each kind."""


@dataclass(frozen=True)
class Farms:
    """`untrusted` and `trusted` pages carry a hijacked link to each farm. `boosters` hosts hold its `pages`; with
    `living_on` they live on so many trusted hosts instead."""

    count: int = 30
    pages: int = 10_000
    boosters: int = 20
    untrusted: int = 8
    trusted: int = 2
    living_on: int = 0
    together: bool = False
    """All farms on the same trusted hosts, not each on its own."""
    links_back: bool = False
    """The target is read and links to its boosters."""
    scattered: bool = False
    """Hijacked links go to any host of the farm."""


@dataclass(frozen=True)
class Plan:
    """Sizes of a web. The mean numbers of links from a page to other hosts are such that nine in ten honest hosts are
    reachable from the seed, and that trust without a gate gets an AUC of 0.6 with 8 + 2 hijacked links."""

    farms: Farms = field(default_factory=Farms)
    trusted: int = 300
    trusted_pages: int = 60
    untrusted: int = 2_000
    untrusted_pages: int = 10
    honest: int = 3_000
    trusted_links: float = 8.0
    untrusted_links: float = 8.0
    everywhere: float = 0.02
    """Share of a crawled host's linked hosts that it links to on every page (footers, blogrolls)."""
    only_trusted_crawled: bool = False


SCENARIOS = {
    "hijacked_8_2": Farms(),
    "hijacked_40_10": Farms(untrusted=40, trusted=10),
    "on_seed_hosts": Farms(count=10, untrusted=0, trusted=0, living_on=5),
}


@dataclass(frozen=True)
class Web:
    """Links between pages; `host` (pages,) is the host of each, `kind` (hosts,) what each host is. `hijacked` (links,)
    says which the owners of farms got into other people's pages."""

    src: Ints
    dst: Ints
    hijacked: Flags
    host: Ints
    kind: Ints

    @property
    def hosts(self) -> int:
        return len(self.kind)

    @property
    def trusted(self) -> Flags:
        return np.asarray(self.kind == TRUSTED)


def make_web(plan: Plan, seed: int) -> Web:
    """The same plan and seed give the same web."""
    return _Maker(plan, np.random.default_rng(seed)).web()


class _Maker:
    def __init__(self, plan: Plan, random: np.random.Generator) -> None:
        self.plan, self.random = plan, random
        farms = plan.farms
        boosters = 0 if farms.living_on else farms.boosters
        self.kind = np.repeat(
            np.arange(5),
            [plan.trusted, plan.untrusted, plan.honest, farms.count, farms.count * boosters],
        )
        shared = random.choice(plan.trusted, farms.living_on, replace=False)
        own = [random.choice(plan.trusted, farms.living_on, replace=False) for _ in range(farms.count)]
        self.landlords = [shared if farms.together else hosts for hosts in own] if farms.living_on else []
        self.pages = self._pages_of_hosts(boosters)
        self.first = np.concatenate([[0], np.cumsum(self.pages)])[:-1]
        self.host = np.repeat(np.arange(len(self.kind)), self.pages)

    def _pages_of_hosts(self, boosters: int) -> Ints:
        plan, farms = self.plan, self.plan.farms
        pages = np.ones(len(self.kind), np.int64)
        pages[self.kind == TRUSTED] = plan.trusted_pages
        pages[self.kind == UNTRUSTED] = plan.untrusted_pages
        pages[self.kind == HONEST] = self.random.integers(1, 6, plan.honest)
        if boosters:
            pages[self.kind == BOOSTER] = farms.pages // boosters
        for hosts in self.landlords:
            pages[hosts] += farms.pages // farms.living_on
        return pages

    def web(self) -> Web:
        parts = [self._within(), self._between(), self._boosting(), self._back()]
        hijacked = self._hijacked()
        src = np.concatenate([*(tail for tail, _ in parts), hijacked[0]])
        dst = np.concatenate([*(head for _, head in parts), hijacked[1]])
        marked = np.arange(len(src)) >= len(src) - len(hijacked[0])
        if self.plan.only_trusted_crawled:
            seen = self.kind[self.host[src]] == TRUSTED
            src, dst, marked = src[seen], dst[seen], marked[seen]
        return Web(src, dst, marked, self.host, self.kind)

    def _own_pages(self, *kinds: int) -> Ints:
        """Pages of crawled hosts that their owners made."""
        own = np.isin(self.kind[self.host], kinds)
        number = np.arange(len(self.host)) - self.first[self.host]
        return np.flatnonzero(own & ((self.kind[self.host] != TRUSTED) | (number < self.plan.trusted_pages)))

    def _page_of(self, hosts: Ints) -> Ints:
        """A page of each of these hosts: the first as often as all others together."""
        deep = self.random.integers(0, self._made_pages(hosts))
        return self.first[hosts] + np.where(self.random.random(len(hosts)) < 0.5, 0, deep)

    def _made_pages(self, hosts: Ints) -> Ints:
        """Pages of these hosts, without those of farms that live on them; they come first."""
        return np.where(self.kind[hosts] == TRUSTED, self.plan.trusted_pages, self.pages[hosts])

    def _within(self) -> tuple[Ints, Ints]:
        """Every page links to the first of its host and to two others."""
        pages = self._own_pages(TRUSTED, UNTRUSTED)
        others = [self.random.integers(0, self._made_pages(self.host[pages])) for _ in range(2)]
        base = self.first[self.host[pages]]
        return np.tile(pages, 3), np.concatenate([base, *(base + other for other in others)])

    def _between(self) -> tuple[Ints, Ints]:
        """Links to other hosts by popularity; some stand on every page of their host."""
        pages = self._own_pages(TRUSTED, UNTRUSTED)
        trusted = self.kind[self.host[pages]] == TRUSTED
        mean = np.where(trusted, self.plan.trusted_links, self.plan.untrusted_links)
        src = np.repeat(pages, self.random.poisson(mean))
        weight = np.zeros(len(self.kind))
        for kind, spread in SPREAD.items():
            popularity = np.exp(self.random.normal(0, spread, int(np.sum(self.kind == kind))))
            weight[self.kind == kind] = DRAW[kind] * popularity / popularity.sum()
        target = self.random.choice(len(self.kind), len(src), p=weight / weight.sum())
        return self._everywhere(src, self._page_of(target))

    def _everywhere(self, src: Ints, dst: Ints) -> tuple[Ints, Ints]:
        chosen = np.flatnonzero(self.random.random(len(src)) < self.plan.everywhere)
        owner = self.host[src[chosen]]
        many = self._made_pages(owner)
        number = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        more = np.repeat(self.first[owner], many) + number
        return np.concatenate([src, more]), np.concatenate([dst, np.repeat(dst[chosen], many)])

    def _farm_pages(self) -> tuple[Ints, Ints]:
        """(pages, number of the farm of each)."""
        farms = self.plan.farms
        if not farms.living_on:
            pages = np.flatnonzero(self.kind[self.host] == BOOSTER)
            return pages, np.arange(len(pages)) // (len(pages) // farms.count)
        each, taken = farms.pages // farms.living_on, np.full(self.plan.trusted, self.plan.trusted_pages)
        lots: list[Ints] = []
        for hosts in self.landlords:
            lots.append((self.first[hosts] + taken[hosts])[:, None] + np.arange(each))
            taken[hosts] += each
        return np.concatenate(lots, axis=None), np.repeat(np.arange(farms.count), each * farms.living_on)

    def _targets(self) -> Ints:
        return np.flatnonzero(self.kind == TARGET)

    def _boosting(self) -> tuple[Ints, Ints]:
        """Every page of a farm links to its target, and to another page of it."""
        pages, farm = self._farm_pages()
        each = len(pages) // self.plan.farms.count
        other = farm * each + self.random.permutation(each)[np.arange(len(pages)) % each]
        return np.tile(pages, 2), np.concatenate([self.first[self._targets()[farm]], pages[other]])

    def _back(self) -> tuple[Ints, Ints]:
        farms = self.plan.farms
        if not farms.links_back or farms.living_on:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.repeat(self.first[self._targets()], farms.boosters), self.first[self.kind == BOOSTER]

    def _hijacked(self) -> tuple[Ints, Ints]:
        """Links on random pages of random hosts, one host not twice for one farm."""
        farms = self.plan.farms
        pages = [np.zeros(0, np.int64)]
        for _ in range(farms.count):
            for kind, count in ((UNTRUSTED, farms.untrusted), (TRUSTED, farms.trusted)):
                hosts = self.random.choice(np.flatnonzero(self.kind == kind), count, replace=False)
                pages.append(self.first[hosts] + self.random.integers(0, self._made_pages(hosts)))
        farm = np.repeat(np.arange(farms.count), farms.untrusted + farms.trusted)
        goal = self._targets()[farm]
        if farms.scattered and not farms.living_on:
            lot = self.random.integers(0, farms.boosters + 1, len(goal))
            number = farm * farms.boosters + np.minimum(lot, farms.boosters - 1)
            booster = np.flatnonzero(self.kind == BOOSTER)[number]
            goal = np.where(lot == farms.boosters, goal, booster)
        return np.concatenate(pages), self.first[goal]


def host_arcs(web: Web) -> tuple[Ints, Ints, Ints]:
    """(src, dst, number of links) between different hosts."""
    tail, head = web.host[web.src], web.host[web.dst]
    apart = tail != head
    key, links = np.unique(tail[apart] * web.hosts + head[apart], return_counts=True)
    return key // web.hosts, key % web.hosts, links
