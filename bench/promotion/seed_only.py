"""Only trusted hosts are crawled: day after day the best hosts are promoted, read a little, and kept or demoted.

No rank can tell a farm here. What can is evidence on links (those in comments or marked ugc don't vote), links in bulk,
and probation. Pages are not made up: of each host it is drawn how many of its pages are useless.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.promotion.web import BOOSTER, HONEST, TARGET, UNTRUSTED, Ints, Plan, Web, make_web
from crawl_platform.graph.host_rank import HostRanks, rank_hosts
from crawl_platform.graph.independence import independent_support, support
from crawl_platform.graph.probation import Terms, Trial, judge
from crawl_platform.graph.promotion import FLOOR_SHARE, Bars, Candidate, Rules, decide
from crawl_platform.graph.spam import MOST_EXCESS, set_by_strangers

DAYS, QUOTA, MIN_SUPPORT = 15, 20, 2
EDITORIAL = {False: 0.92, True: 0.3}
"""Share of honest and of hijacked links that look as if the site's owner had set them."""
USELESS = {HONEST: (1.0, 6.0), UNTRUSTED: (1.0, 6.0), TARGET: (8.0, 2.0), BOOSTER: (8.0, 2.0)}
"""Beta distribution, by kind of host, of the share of its pages that are useless."""
OUTWARD = 2.0
"""Mean number of links from an honest page to other hosts on the horizon."""
CAMOUFLAGE = 5
"""Honest hosts that a farm links to beside its own."""
LINKS_PER_PAGE = 0.5
"""Few enough for ten hijacked links to bring a farm among the first 300."""

LINES = {"farm_hosts_promoted": 3, "farm_hosts_kept": 0}
"""Most farm hosts that may ever be promoted in 300 promotions, and most that may be left after probation."""


@dataclass
class Crawl:
    """One crawl. `evidence`: who set a link counts; `probation`: promoted hosts are judged."""

    web: Web
    random: np.random.Generator
    evidence: bool = True
    probation: bool = True
    promoted: dict[int, int] = field(default_factory=dict)
    """Host → day, of all that were ever promoted."""
    demoted: dict[int, int] = field(default_factory=dict)
    proven: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        web = self.web
        share = np.where(web.hijacked, EDITORIAL[True], EDITORIAL[False])
        own = (self.random.random(len(web.src)) < share) | (not self.evidence)
        tail, head = web.host[web.src], web.host[web.dst]
        votes, apart = own & (tail != head), tail != head
        self._tail, self._head = [tail[votes]], [head[votes]]
        pairs, where = np.unique(tail[apart] * web.hosts + head[apart], return_inverse=True)
        set_by_owner = np.bincount(where, weights=own[apart]) > 0
        strangers = set_by_strangers(pairs // web.hosts, pairs % web.hosts, set_by_owner, web.hosts)
        self._by_owners = strangers.excess < MOST_EXCESS
        self._useless = self.random.random(web.hosts)
        for kind, shape in USELESS.items():
            of_kind = web.kind == kind
            self._useless[of_kind] = self.random.beta(*shape, int(of_kind.sum()))

    def run(self) -> None:
        for day in range(DAYS):
            self._judge(day)
            self._promote(day)
        self._judge(DAYS + int(Terms().days))

    def _arcs(self) -> tuple[Ints, Ints, Ints]:
        tail, head = np.concatenate(self._tail), np.concatenate(self._head)
        kept = ~np.isin(tail, list(self.demoted))
        key, links = np.unique(tail[kept] * self.web.hosts + head[kept], return_counts=True)
        return key // self.web.hosts, key % self.web.hosts, links

    def _promote(self, day: int) -> None:
        arcs = self._arcs()
        ranks = rank_hosts(*arcs, self.web.hosts, self.web.trusted)
        floor = FLOOR_SHARE * float(np.median(ranks.trust[self.web.trusted]))
        verdicts = decide(self._candidates(arcs, ranks), Rules(QUOTA, MIN_SUPPORT, floor), Bars())
        for verdict in verdicts:
            if verdict.promoted:
                host = int(verdict.candidate.host)
                self.promoted[host] = day
                self._read(host)

    def _candidates(self, arcs: tuple[Ints, Ints, Ints], ranks: HostRanks) -> list[Candidate]:
        src, dst, _ = arcs
        free = ~self.web.trusted & (ranks.trust > 0)
        free[list(self.promoted)] = False
        counts = self.web.trusted[src] | np.isin(src, list(self.proven))
        by_all = support(src, dst, self.web.hosts)
        proven = independent_support(src[counts], dst[counts], self.web.hosts, np.arange(self.web.hosts))
        eligible = ranks.eligible & self._by_owners
        order = np.flatnonzero(free)[np.argsort(-ranks.trust[free], kind="stable")]
        return [
            Candidate(
                str(host), place, float(ranks.trust[host]), float(ranks.uniform[host]),
                float(ranks.spam_mass[host]), bool(eligible[host]), int(by_all[host]), int(proven[host]),
            )
            for place, host in enumerate(order.tolist(), start=1)
        ]  # fmt: skip

    def _read(self, host: int) -> None:
        """Its links to other hosts are known from now on."""
        kind, web = self.web.kind, self.web
        if kind[host] == TARGET:
            farm = host - int(np.flatnonzero(kind == TARGET)[0])
            boosters = np.array_split(np.flatnonzero(kind == BOOSTER), int(np.sum(kind == TARGET)))[farm]
            honest = self.random.choice(np.flatnonzero(kind == HONEST), CAMOUFLAGE, replace=False)
            head = np.concatenate([boosters, honest])
        elif kind[host] == BOOSTER:
            head = self.random.choice(np.flatnonzero(kind == TARGET), 1)
        else:
            links = int(self.random.poisson(OUTWARD * int(np.sum(web.host == host))))
            head = self.random.choice(np.flatnonzero(kind == HONEST), links)
        self._head.append(head)
        self._tail.append(np.full(len(head), host))

    def _judge(self, today: int) -> None:
        terms = Terms()
        for host, day in self.promoted.items():
            if host in self.demoted or host in self.proven or not self.probation:
                continue
            tried = min(
                terms.pages, int(np.sum(self.web.host == host)) if self._is_honest(host) else terms.pages
            )
            copies = int(self.random.binomial(tried, self._useless[host]))
            outcome = judge(Trial(str(host), float(today - day), tried, 0, copies, 0, 0), terms)
            if outcome.verdict == "demoted":
                self.demoted[host] = today
            elif outcome.verdict == "passed":
                self.proven.add(host)

    def _is_honest(self, host: int) -> bool:
        return bool(self.web.kind[host] in (HONEST, UNTRUSTED))

    def found(self) -> dict[str, float]:
        farms = [host for host in self.promoted if not self._is_honest(host)]
        honest = len(self.promoted) - len(farms)
        wrongly = sum(self._is_honest(host) for host in self.demoted)
        return {
            "promoted": len(self.promoted),
            "farm_hosts_promoted": len(farms),
            "farm_hosts_kept": sum(host not in self.demoted for host in farms),
            "honest_demoted": wrongly / max(1, honest),
        }


WAYS = {
    "shipped": (True, True),
    "without_link_evidence": (False, True),
    "without_probation": (True, False),
    "without_both": (False, False),
}
"""(evidence, probation)"""


def play(plan: Plan, seed: int) -> dict[str, dict[str, Any]]:
    """One web crawled in each of the ways."""
    web = make_web(replace(plan, only_trusted_crawled=True, trusted_links=LINKS_PER_PAGE), seed)
    found = {}
    for way, options in WAYS.items():
        crawl = Crawl(web, np.random.default_rng(seed), *options)
        crawl.run()
        found[way] = crawl.found()
    return found
