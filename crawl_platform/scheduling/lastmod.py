"""Whether a host's `lastmod` is believed: what a site says of its own changes, against what visits found.

A lastmod later than a page's last visit claims a change. Each visit of such a page, whatever it was made for, shows
whether the claim was kept, so trust is learnt per host and can be lost and won again: a Beta belief about the chance
that a claim is kept, over the last `MEMORY` of them. A host whose lastmod always says "now" keeps as few claims as
its pages change, and after some `PROBES` visits its lastmod moves nothing any more.
"""

from typing import NamedTuple

from crawl_platform.clock import DAY

PRIOR_KEPT, PRIOR_BROKEN = 1.0, 1.0
"""Half of the claims of a host of which nothing is known are taken to be kept."""
MEMORY = 64.0
"""Claims after which older ones fade: sites change the software that writes their sitemaps."""
BELIEVED = 0.3
"""Chance of a change from which on a claim brings a visit forward. A visit that finds nothing costs as much as one
that finds a change brings, and without a claim some tenth of the visits find one."""
KNOWN = 8.0
"""Claims that have to be seen before more than `PROBES` are acted on at once."""
PROBES = 16
"""Claims acted on and not yet checked, of a host whose claims have not been seen much."""
MOST_PULLED = 1_000
"""The same of any host: some 17 minutes of visits at one a second, should it begin to lie."""
SKEW = 3_600.0
"""Seconds that a lastmod may lie ahead of our clock; one from further in the future says nothing."""
OLDEST = 7.0e8
"""Early 1992: before the web, a date is a default of somebody's software."""


class Trust(NamedTuple):
    """Claims that were kept and broken, older ones faded."""

    kept: float = 0.0
    broken: float = 0.0

    @property
    def chance(self) -> float:
        """Expected share of claims that are kept."""
        return (self.kept + PRIOR_KEPT) / (self.kept + self.broken + PRIOR_KEPT + PRIOR_BROKEN)

    @property
    def believed(self) -> bool:
        return self.chance >= BELIEVED

    @property
    def most_pulled(self) -> int:
        """Claims that may be acted on before the visits that they brought forward have been made."""
        if not self.believed:
            return 0
        return PROBES if self.kept + self.broken < KNOWN else MOST_PULLED


def learned(trust: Trust, kept: bool) -> Trust:
    """`trust` after one more visit of a page that was claimed to have changed."""
    fade = min(1.0, (MEMORY - 1.0) / (trust.kept + trust.broken or 1.0))
    return Trust(trust.kept * fade + kept, trust.broken * fade + (not kept))


def credible(lastmod: float, now: float) -> float:
    """`lastmod` (UTC seconds) if it can be one at all, else 0."""
    return lastmod if OLDEST < lastmod <= now + SKEW else 0.0


def claims_change(lastmod: float, heard: float, visited: float) -> bool:
    """Whether `lastmod` says that a page has changed since it was visited; `heard` is what was said before (0:
    nothing). All are UTC seconds.

    A lastmod that is a whole day may mean any moment of it: once it moves on, it counts until the day is over.
    """
    if lastmod <= heard:
        return False
    latest = lastmod + DAY if heard and lastmod % DAY == 0.0 else lastmod
    return latest > visited


def stale_index(index: float, oldest: float, chance: float) -> float:
    """Index (`scheduling.refresh`) of a page claimed to have changed: with probability `chance` it is as stale as
    one that was not visited for the longest time there is (`oldest`), else as by its own history."""
    return chance * max(oldest, index) + (1.0 - chance) * index
