"""The index above which a host's pages are visited: held where its visits are just used up.

"Fetch when V ≥ θ" gives the best order only with the right θ: the value of the last visit that there is room
for. Nobody knows it, so it is felt for. A page fetched well after its time shows what visits are really worth:
θ moves towards the index that page has reached. A spare turn, for which nothing was due, shows that there is
room: θ falls, by a factor of e in as many spare turns as the host has pages. Up fast and no further than seen,
down slowly.
"""

import math

RISE = 0.1
"""Part of the way, in logarithms, towards the index of a page that came a whole interval late or more."""
LATE = 0.1
"""Part of its interval by which a page may be late without telling anything."""
LATE_TURNS = 3.0
"""Nor do so many turns of the host: others were before it."""
LEAST_VALUE = 0.01
"""Value of a page below which it doesn't matter that θ has a floor."""


def floor_of(interval_min: float, least_change: float) -> float:
    """θ (days) that no page of at least `LEAST_VALUE` waits for: the other bounds hold it longer.

    It may be visited once it is `interval_min` days old and has changed with probability `least_change`. By
    V ≈ P·t/2 its index is then about half their product. (Not so for a page that changes many times within
    `interval_min`: no visit keeps that one fresh, and only spare turns go to it.)
    """
    return LEAST_VALUE * least_change * interval_min / 2


def raised(threshold: float, index: float, late: float, planned: float, turn: float) -> float:
    """θ after a page of index `index` was fetched `late` after its time; `planned` is the age it was due at. What
    the first late page shows is believed as it is (θ 0: nothing is known yet).

    `late`, `planned` and `turn` (from one turn of the host to the next) in the same unit.
    """
    if late <= LATE * planned + LATE_TURNS * turn or index <= threshold:
        return threshold
    if threshold <= 0.0:
        return index
    share = min(1.0, late / planned) if planned > 0 else 1.0
    return threshold * math.exp(RISE * share * math.log(index / threshold))


def lowered(threshold: float, pages: int) -> float:
    """θ after a turn of a host of so many pages was spare: it went to a page that θ would have kept waiting."""
    return threshold * math.exp(-1.0 / max(pages, 1))
