"""Orderings of horizon hosts, and how well each keeps farms below honest hosts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.promotion.web import HONEST, TARGET, TRUSTED, Ints, Web, host_arcs
from crawl_platform.graph.harmonic import harmonic
from crawl_platform.graph.host_rank import HostRanks, rank_hosts
from crawl_platform.graph.pagerank import pagerank

Floats = NDArray[np.float64]

TOP = 300
SOURCES = 300
"""Hosts from which harmonic centrality is sampled."""
RATIO_GATE = 0.25
"""The gate shipped first: least trust/uniform as a share of its median on the horizon."""
BARRED = 1e-9
"""A host that a gate holds stands below all others, by trust."""


class Seen(NamedTuple):
    """A web as the platform knows it."""

    web: Web
    arcs: tuple[Ints, Ints, Ints]
    ranks: HostRanks


def see(web: Web) -> Seen:
    arcs = host_arcs(web)
    return Seen(web, arcs, rank_hosts(*arcs, web.hosts, web.trusted))


def shipped(seen: Seen) -> Floats:
    """Trust, behind the gate."""
    ranks = seen.ranks
    return np.where(ranks.eligible, ranks.trust, ranks.trust * BARRED)


def ratio_gate(seen: Seen) -> Floats:
    """Trust, behind a gate that asks for trust/uniform alone."""
    ranks = seen.ranks
    ratio = ranks.trust / ranks.uniform
    passes = ratio >= RATIO_GATE * np.median(ratio[ranks.horizon])
    return np.where(passes, ranks.trust, ranks.trust * BARRED)


def trust_alone(seen: Seen) -> Floats:
    return seen.ranks.trust


def uniform_hosts(seen: Seen) -> Floats:
    return seen.ranks.uniform


def harmonic_hosts(seen: Seen) -> Floats:
    src, dst, _ = seen.arcs
    return harmonic(src, dst, seen.web.hosts, max_sources=SOURCES, random=np.random.default_rng(1))


def plain_pages(seen: Seen) -> Floats:
    """PageRank of pages with uniform teleport, added up by host."""
    return _by_host(seen.web, None)


def trusted_pages(seen: Seen) -> Floats:
    """The same with teleport to the trusted hosts' pages."""
    return _by_host(seen.web, (seen.web.kind[seen.web.host] == TRUSTED).astype(float))


def _by_host(web: Web, teleport: Floats | None) -> Floats:
    ranks = pagerank(web.src, web.dst, len(web.host), teleport=teleport, tol=1e-8)
    return np.bincount(web.host, weights=ranks, minlength=web.hosts).astype(np.float64)


ORDERINGS: dict[str, Callable[[Seen], Floats]] = {
    "shipped": shipped,
    "ratio_gate": ratio_gate,
    "trust_without_gate": trust_alone,
    "uniform_host_pagerank": uniform_hosts,
    "plain_pagerank": plain_pages,
    "page_trust": trusted_pages,
    "harmonic": harmonic_hosts,
}


def area(score: Floats, honest: Ints, farms: Ints) -> float:
    """Share of (honest host, farm) pairs in which the honest one stands higher; ties count half (AUC)."""
    below = np.sort(score[farms])
    of = score[honest]
    places = np.searchsorted(below, of, "left") + np.searchsorted(below, of, "right")
    return float(places.mean() / 2 / len(farms))


def scores(seen: Seen, orderings: dict[str, Callable[[Seen], Floats]]) -> dict[str, dict[str, float]]:
    """By ordering: `auc`, and `farms_in_top` among the first 300 horizon hosts (ties: the farm first)."""
    honest, farms = (np.flatnonzero(seen.web.kind == kind) for kind in (HONEST, TARGET))
    found = {}
    for name, order in orderings.items():
        score = order(seen)
        candidates = np.concatenate([farms, honest])
        top = candidates[np.argsort(-score[candidates], kind="stable")][:TOP]
        found[name] = {
            "auc": area(score, honest, farms),
            "farms_in_top": int(np.isin(top, farms).sum()),
        }
    ranks = seen.ranks
    reached = ranks.trust[honest] > 0
    found["shipped"]["reachable"] = float(reached.mean())
    found["shipped"]["honest_held"] = float((~ranks.eligible[honest] & reached).mean())
    found["shipped"]["farms_held"] = float((~ranks.eligible[farms]).mean())
    return found
