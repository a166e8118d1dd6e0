"""Ranking hosts for promotion: trust from the seed, and the gate that keeps link farms out.

`trust` is PageRank with teleport to the trusted seed and one vote per (source host, target host): a farm
gains nothing by linking to itself, nor by linking often from one hijacked host. `uniform` is what a naive
ranking would say: uniform teleport, weighted by link counts; `spam_mass` sets the two against each other (Gyöngyi,
Berkhin, Garcia-Molina, Pedersen, VLDB 2006). The gate asks more: who made the links (`graph/spam.py`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crawl_platform.graph.link_sets import pair_of
from crawl_platform.graph.names import starts_of
from crawl_platform.graph.pagerank import pagerank
from crawl_platform.graph.spam import MOST_DOUBT, Flags, Floats, HostPairs, spam_evidence


class HostRanks(NamedTuple):
    """One value per host. `spam_mass` = 1 − trust/uniform; `eligible`: it has trust and does not look like a farm;
    `horizon`: no out-link of it is known. The last three are the evidence that the gate goes by: `graph/spam.py`."""

    trust: Floats
    uniform: Floats
    spam_mass: Floats
    eligible: Flags
    horizon: Flags
    per_supporter: Floats
    vouched: Floats
    doubt: Floats


def host_pairs(src: ArrayLike, dst: ArrayLike, links: ArrayLike, n: int) -> HostPairs:
    """Collapse repeated arcs into one and drop a host's links to itself."""
    tail, head, count = np.asarray(src), np.asarray(dst), np.asarray(links, np.float64)
    kept = (tail != head) & (count > 0)
    pair, count = pair_of(tail[kept], head[kept]), count[kept]
    if np.any(pair[1:] <= pair[:-1]):  # the graph's own edges come in order, each once
        order = np.argsort(pair, kind="stable")
        first = starts_of(pair[order])
        pair, count = pair[order][first], np.add.reduceat(count[order], first)
    return HostPairs((pair >> np.uint64(32)).astype(np.int64), pair.astype(np.uint32).astype(np.int64), count)


def rank_hosts(
    src: ArrayLike,
    dst: ArrayLike,
    links: ArrayLike,
    n: int,
    seed: ArrayLike,
    damping: float = 0.85,
    tol: float = 1e-8,
) -> HostRanks:
    """Ranks of n hosts from arcs (src, dst, number of links); `seed` (n,) is true for trusted hosts.

    Raises ValueError without a trusted host: there is nothing to take trust from.
    """
    trusted = np.asarray(seed, bool)
    if not trusted.any():
        raise ValueError("no trusted seed host: the ranks' teleport has nowhere to go")
    pairs = host_pairs(src, dst, links, n)
    trust = pagerank(pairs.src, pairs.dst, n, damping, trusted.astype(float), tol=tol)
    uniform = pagerank(pairs.src, pairs.dst, n, damping, weights=pairs.links, tol=tol)
    horizon = np.bincount(pairs.src, minlength=n) == 0
    spam = spam_evidence(pairs, trust, uniform, trusted, horizon)
    eligible = (trust > 0) & (spam.doubt < MOST_DOUBT)
    return HostRanks(trust, uniform, 1.0 - trust / uniform, eligible, horizon, *spam)
