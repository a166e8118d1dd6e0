"""One who knows every rate, under the same bounds, capacity and politeness: the index of known rates.

It learns of a page as the product does, from a page that links to it, and knows then how often that changes.
"""

import numpy as np

from bench.simulation.score import Copies
from bench.simulation.web import Web
from crawl_platform.clock import DAY
from crawl_platform.scheduling.refresh import known_rate_index
from crawl_platform.settings import Refresh


def crawl(web: Web, refresh: Refresh, windows: tuple[tuple[float, float], ...]) -> Copies:
    """From day 0 to the end: at each turn the visit of most worth at a host that may be asked."""
    params, copies = web.params, Copies(web, windows)
    took, shortest, longest = params.took / DAY, refresh.interval_min / DAY, refresh.interval_max / DAY
    delay = web.delay / DAY
    longest = np.where(web.host < params.promised_hosts, min(params.promised, longest), longest)
    known = web.born == 0.0
    last = np.full(len(web.url), -np.inf)
    ready = np.zeros(params.hosts)
    now = 0.0
    while now < params.days:
        may = known & (ready[web.host] <= now) & (now - last >= shortest)
        age = np.minimum(now - last, longest)
        worth = np.where(may, known_rate_index(web.rate, age, web.importance), -1.0)
        overdue = may & (age >= longest) & np.isfinite(last)
        page = int(np.argmax(np.where(overdue, np.inf, worth)))
        if not may[page]:
            now += took / 10
            continue
        copies.visit(page, now)
        last[page] = now
        known[web.links(page, now)] = True
        now += took
        ready[web.host[page]] = now + delay[web.host[page]]
    return copies
