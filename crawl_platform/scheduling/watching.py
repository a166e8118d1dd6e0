"""Which pages are watched for the links that they bring, and how often each is visited.

A page is visited twice in the mean time between two of its new links: a visit then brings half a link, and a link waits
a quarter of that time on average. Of pages that would take more than their host or the fleet can spare, those that
bring most come first.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from crawl_platform.clock import DAY

LEAST_RATE = 1.0
"""New links per day from which on a page is worth watching: an ordinary visit a day finds what comes less often."""
PER_HOST = 2
SHARE = 0.05
"""Part of the fleet's fetches that may be visits of watched pages."""
TURNS = 10
"""Of so many turns of a host, visits of one watched page take one at most."""
NEAR = 1.25
"""An interval is left as it is while the one that would be right differs by less than this factor."""


class Source(NamedTuple):
    """A page whose revisits keep bringing new links.

    `rate`: of those that turned out to be pages, per day. `least`: seconds that there have to be between two visits.
    `told`: seconds between two visits as they are now; None: it is not watched.
    """

    url: str
    host: str
    rate: float
    least: float
    told: float | None = None


class Choice(NamedTuple):
    """`every`: seconds between two visits; None: the page is not watched, and `why`."""

    every: float | None
    why: str


def least_interval(watch_min: float, delay: float) -> float:
    """Seconds that there have to be between two visits of a page, of a host asked every `delay` seconds at most."""
    return max(watch_min, TURNS * delay)


def interval(source: Source) -> float:
    """Seconds between two visits of a page that is watched, at most a day unless its host is slower than that."""
    right = max(min(DAY / (2 * source.rate), DAY), source.least)
    kept = source.told
    if kept is not None and kept >= source.least and abs(math.log(kept / right)) < math.log(NEAR):
        return kept
    return right


def choose(sources: Iterable[Source], fetch_rate: float) -> dict[str, Choice]:
    """What becomes of each source, by URL. `fetch_rate`: fetches per second that the fleet makes."""
    chosen: dict[str, Choice] = {}
    of_host: Counter[str] = Counter()
    room = SHARE * fetch_rate
    for source in sorted(sources, key=lambda s: (-s.rate, s.url)):
        every = interval(source)
        if source.rate < LEAST_RATE:
            chosen[source.url] = Choice(None, f"not watched: less than {LEAST_RATE:g} a day")
        elif of_host[source.host] >= PER_HOST:
            chosen[source.url] = Choice(None, f"not watched: {PER_HOST} pages of its host bring more")
        elif 1 / every > room:
            share = f"{SHARE:.0%} of {fetch_rate:.3g} fetches a second"
            chosen[source.url] = Choice(None, f"not watched: no room, watching gets {share}")
        else:
            of_host[source.host] += 1
            room -= 1 / every
            chosen[source.url] = Choice(every, f"watched every {every:.0f} s")
    return chosen
