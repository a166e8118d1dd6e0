"""Page by page: what a link is worth by where it stands, where readers start, and what makes a page important.

Readers start at the front pages of hosts, by the hosts' trust, and follow links: one in main content more likely than
one in a menu (the "reasonable surfer" of Dean, Anderson and Battle, US patent 7,716,225). How deep a page lies counts
by itself: each click on the way to it costs.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from crawl_platform.graph.link_kernels import Flags, Nodes, Places

STRENGTHS: Mapping[str, int] = {"main": 8, "other": 4, "header": 4, "aside": 4, "nav": 2, "footer": 1}
"""How likely a link is followed beside the others of its page. Chosen, not measured. Of several to one page the
strongest counts; links in comments, and those marked nofollow, ugc or sponsored, aren't followed at all."""
MAIN = STRENGTHS["main"]

Floats = NDArray[np.float64]


def starts(front: Flags, host: Nodes, trust: Floats) -> Floats:
    """How likely readers start at each of P pages, shape (P,), not normalised: a host's trust is shared by its front
    pages, by all its pages where none is known. `trust` (H,) by host; where it is all 0, hosts are equals."""
    hosts = len(trust)
    fronts = np.bincount(host[front], minlength=hosts)
    chosen = front | (fronts[host] == 0)
    sharing = np.bincount(host[chosen], minlength=hosts)
    given = trust if np.any(trust[host] > 0) else np.ones(hosts)
    likely: Floats = np.where(chosen, given[host] / np.maximum(sharing[host], 1), 0.0)
    return likely


def importance(ranks: Floats) -> Floats:
    """The part of all pages that rank below each, shape (N,), from 0 to 1; of equals half of them count as below."""
    ordered = np.sort(ranks)
    below = np.searchsorted(ordered, ranks, "left") + np.searchsorted(ordered, ranks, "right")
    share: Floats = below / (2.0 * max(len(ranks), 1))
    return share


def linking(target: Nodes, n: int, chosen: Flags | None = None) -> Places:
    """Pages that link to each of n pages, shape (n,)."""
    return np.bincount(target if chosen is None else target[chosen], minlength=n)
