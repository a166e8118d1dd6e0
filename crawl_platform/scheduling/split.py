"""Discovery against refresh: a target share that slides with the backlog, realised exactly.

The share grows with the time that the discovery backlog would take to drain at the present rate, on a log
scale between `drain_short` and `drain_long`. A credit accumulator turns the share into single turns, so the
realised count never strays from the sum of the shares by more than one half.
"""

import math
from typing import Literal

Lane = Literal["discovery", "refresh"]


def target_share(
    backlog: float,
    emit_rate: float,
    *,
    floor: float = 0.10,
    ceiling: float = 0.90,
    drain_short: float = 3_600.0,
    drain_long: float = 7 * 86_400.0,
) -> float:
    """Share of turns that discovery should get, in [floor, ceiling].

    `backlog` is the discovery queue in URLs and `emit_rate` all fetches per second of the same cell; the
    drain times are in seconds. A rate of 0 with a backlog means a drain that never ends.
    """
    if backlog <= 0:
        return floor
    if emit_rate <= 0:
        return ceiling
    drain = backlog / emit_rate
    if drain <= drain_short:
        return floor
    slid = math.log(drain / drain_short) / math.log(drain_long / drain_short)
    return floor + (ceiling - floor) * min(1.0, slid)


class SplitCredit:
    """Deals turns to the two lanes so that |discovery turns − Σ shares| ≤ ½ at every step.

    Ask with `next_lane`, then `charge` only what was really emitted and only where both lanes had work. A
    turn that one lane took because the other was empty is `lend`-ed: charged to neither, since charging it
    would let the credit run away for as long as one lane stays empty.
    """

    __slots__ = ("credit", "discovery", "lent", "owed", "refresh")

    def __init__(self, credit: float = 0.0) -> None:
        if not -0.5 <= credit < 0.5:
            raise ValueError("credit lies in [-0.5, 0.5)")
        self.credit = credit
        self.owed = 0.0
        self.discovery = 0
        self.refresh = 0
        self.lent = 0

    def next_lane(self, share: float) -> Lane:
        """The lane whose turn it is at `share` (fraction of turns owed to discovery). Changes nothing."""
        return "discovery" if self.credit + share >= 0.5 else "refresh"

    def charge(self, share: float) -> Lane:
        """Settle one emitted fetch for which both lanes had work; returns the lane it was charged to."""
        lane = self.next_lane(share)
        self.credit += share
        self.owed += share
        if lane == "discovery":
            self.credit -= 1.0
            self.discovery += 1
        else:
            self.refresh += 1
        return lane

    def lend(self) -> None:
        """Count a turn taken by the only lane that had work."""
        self.lent += 1

    def take_back(self, lane: Lane, share: float | None) -> None:
        """A turn that was charged at `share` (None: lent) was not used after all: it counts for nothing.

        The credit is again what it would be without that turn, so the turns that follow make up for it.
        """
        if share is None:
            self.lent -= 1
            return
        self.credit -= share
        self.owed -= share
        if lane == "discovery":
            self.credit += 1.0
            self.discovery -= 1
        else:
            self.refresh -= 1
