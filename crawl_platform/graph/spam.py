"""Spam evidence: what the links to a host say about whether a farm made them.

Farms need many links, and make them themselves. That shows in three ways:
1. *bulk*: a few hosts link to it very often each. `bulk` is the logarithm of the links per supporter, leaving out the
   supporter that links most (a footer is no farm), in standard deviations above what trusted links are like.
2. *nobody vouches* for the hosts that link to it. `vouched` is the share of the rank that flows into it which comes
   from trusted hosts, or from hosts that have as much trust for their rank as is usual on the horizon.
3. *strangers* set them. Many of the hosts that link to it do so only in comments, or in links that they don't answer
   for (`set_by_strangers`, of which no rank knows).

`doubt = bulk + 0.7·ln(1/vouched)`; from `MOST_DOUBT` on a host looks like a farm, and so it does with far more
strangers than usual. The weight comes from a logistic regression over made-up webs (`bench.promotion.weights`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_DOUBT = 2.0
UNVOUCHED_WEIGHT = 0.7
LEAST_DEVIATION = 0.8
"""Where all links look alike, five links per supporter instead of one are no farm: e^(2 · 0.8) = 5."""
LEAST_VOUCHED = 1e-4
MOST_EXCESS = 3.0
"""Standard deviations by which links that strangers set may exceed what is usual: 1 in 700 by chance, if many link."""
LEAST_STRANGERS = 0.05
"""Taken for usual where they are fewer: one among ten then says nothing."""


class HostPairs(NamedTuple):
    """Distinct arcs between different hosts, with the number of links behind each."""

    src: Ints
    dst: Ints
    links: Floats


class Spam(NamedTuple):
    """One value per host; `per_supporter` is links per supporter, 0 where none links to it."""

    per_supporter: Floats
    vouched: Floats
    doubt: Floats


def spam_evidence(pairs: HostPairs, trust: Floats, uniform: Floats, trusted: Flags, horizon: Flags) -> Spam:
    """Evidence on each of n hosts; `trust`, `uniform`, `trusted` and `horizon` have shape (n,)."""
    per_supporter = _links_per_supporter(pairs, len(trust))
    usual, deviation = _usual(pairs, trust)
    bulk = (np.log(np.maximum(per_supporter, 1e-9)) - usual) / deviation
    vouched = _vouched(pairs, uniform, _standing(trust, uniform, trusted, horizon))
    doubt = bulk - UNVOUCHED_WEIGHT * np.log(np.maximum(vouched, LEAST_VOUCHED))
    return Spam(per_supporter, vouched, np.where(per_supporter > 0, doubt, 0.0))


def _links_per_supporter(pairs: HostPairs, n: int) -> Floats:
    """Mean over all supporters but the one that links most; of an only supporter, its links."""
    supporters = np.bincount(pairs.dst, minlength=n)
    links = np.bincount(pairs.dst, weights=pairs.links, minlength=n)
    most = np.zeros(n)
    np.maximum.at(most, pairs.dst, pairs.links)
    several = supporters > 1
    mean: Floats = np.where(several, links - most, links) / np.maximum(
        np.where(several, supporters - 1, 1), 1
    )
    return mean


def _usual(pairs: HostPairs, trust: Floats) -> tuple[float, float]:
    """Mean and standard deviation of ln(links) over pairs, each as important as the trust that it passes on: hosts that
    nobody trusts can't move what is usual."""
    votes = np.bincount(pairs.src, minlength=len(trust))
    weight = trust[pairs.src] / votes[pairs.src]
    if not weight.sum() > 0:
        return 0.0, LEAST_DEVIATION
    logs = np.log(pairs.links)
    mean = float(np.average(logs, weights=weight))
    spread = float(np.average((logs - mean) ** 2, weights=weight))
    return mean, float(np.sqrt(spread + LEAST_DEVIATION**2))


def _standing(trust: Floats, uniform: Floats, trusted: Flags, horizon: Flags) -> Floats:
    """How far a host is vouched for, from 0 to 1: its trust/uniform over the median of the horizon's trust."""
    ratio = trust / uniform
    compared = np.flatnonzero(horizon & (trust > 0))
    if not len(compared):
        return np.where(trusted | (trust > 0), 1.0, 0.0)
    order = compared[np.argsort(ratio[compared])]
    held = np.cumsum(trust[order])
    middle = ratio[order[np.searchsorted(held, held[-1] / 2)]]
    return np.where(trusted, 1.0, np.minimum(1.0, ratio / middle))


def _vouched(pairs: HostPairs, uniform: Floats, standing: Floats) -> Floats:
    """Share of the uniform rank flowing into each host that comes from hosts of standing; 1 where none flows."""
    n = len(uniform)
    out = np.bincount(pairs.src, weights=pairs.links, minlength=n)
    flow = uniform[pairs.src] * pairs.links / out[pairs.src]
    total = np.bincount(pairs.dst, weights=flow, minlength=n)
    good = np.bincount(pairs.dst, weights=flow * standing[pairs.src], minlength=n)
    share: Floats = np.divide(good, total, out=np.ones(n), where=total > 0)
    return share


class Strangers(NamedTuple):
    """One value per host: linking hosts that set no link to it themselves, and `excess`, how many standard deviations
    these are more than is usual."""

    hosts: Ints
    excess: Floats


def set_by_strangers(src: Ints, dst: Ints, own: Flags, n: int) -> Strangers:
    """Hosts whose links strangers set, in comments or marked as not answered for. Who can write into others' pages does
    so where he can: few such links look as if the site's owner had set them, and those few come with many that don't.

    `src`, `dst`: distinct pairs of hosts that are trusted or proven; `own`: the linking host has set a link itself.
    """
    linking = np.bincount(dst, minlength=n)
    hosts = np.bincount(dst, weights=~own, minlength=n).astype(np.int64)
    usual = max(LEAST_STRANGERS, float(np.mean(~own))) if len(own) else LEAST_STRANGERS
    deviation = np.sqrt(np.maximum(linking, 1) * usual * (1.0 - usual)) if usual < 1.0 else np.ones(n)
    return Strangers(hosts, (hosts - linking * usual) / deviation)
