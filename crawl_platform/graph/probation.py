"""Probation: a promoted host is read a little before it counts, and goes back to the horizon if that was in vain.

    horizon ──promoted──▶ on probation ──passed──▶ seed
       ▲                       │
       └──rests, then may ◀──demoted

Ranks can't tell a farm with ten links on trusted pages from an honest host with ten; its pages can. A page is useless
if it can't be read, says what another page says, says next to nothing, or holds little but links to other hosts.
Everything here follows from its arguments: the same reading gives the same verdict.
"""

from typing import NamedTuple

DAY = 86_400.0
LONGEST_REST = 360.0
"""Days; after that a host that was demoted often may be tried again as well."""

LEAD = 3
"""With three useless pages and no other, more than half of a host's pages are useless with probability 15/16 if any
share was as likely before; with two it is 7/8."""


class Terms(NamedTuple):
    """A host may be read for `pages` pages while it is on probation. It is judged once `enough` of them were read, or
    after `days`. `rest`: days on the horizon after a first demotion; each further one doubles it."""

    pages: int = 20
    enough: int = 10
    days: float = 7.0
    rest: float = 30.0


class Trial(NamedTuple):
    """What was read of a host since it was promoted `days` ago: `tried` pages, of which `failed` could not be read,
    `copies` say what another page says, `thin` say next to nothing and `stuffed` hold little but links; each page
    counts once. `demotions`: how often it was demoted before."""

    host: str
    days: float
    tried: int
    failed: int
    copies: int
    thin: int
    stuffed: int
    demotions: int = 0

    @property
    def useless(self) -> int:
        return self.failed + self.copies + self.thin + self.stuffed


class Outcome(NamedTuple):
    """`verdict` is waiting, passed or demoted; `rest` is in days, 0 unless demoted."""

    verdict: str
    reason: str
    rest: float


def judge(trial: Trial, terms: Terms) -> Outcome:
    """Demoted if useless pages lead by `LEAD`, or if nothing could be tried in time; passed if they are no more than
    the others. In between the host stays on probation: a page or two prove nothing."""
    useful = trial.tried - trial.useless
    if trial.tried < terms.enough and trial.days < terms.days:
        return Outcome("waiting", f"{_pages(trial.tried)} read, judged at {terms.enough}", 0.0)
    if trial.tried and useful >= trial.useless:
        return Outcome("passed", f"{useful} of {_pages(trial.tried)} are of use", 0.0)
    if trial.tried and trial.useless - useful < LEAD:
        return Outcome("waiting", f"{_found(trial)}, which proves nothing yet", 0.0)
    rest = rest_after(trial.demotions + 1, terms)
    again = f"; was demoted {trial.demotions} times before" if trial.demotions else ""
    return Outcome("demoted", f"{_found(trial)}{again}; rests for {rest:.0f} days", rest)


def rest_after(demotions: int, terms: Terms) -> float:
    """Days on the horizon after the demotion of that number: doubled each time."""
    return float(min(LONGEST_REST, terms.rest * 2.0 ** min(demotions - 1, 16)))


def _found(trial: Trial) -> str:
    if not trial.tried:
        return "none of its pages could be tried"
    causes = {
        "can't be read": trial.failed,
        "say what other pages say": trial.copies,
        "say next to nothing": trial.thin,
        "hold little but links": trial.stuffed,
    }
    parts = ", ".join(f"{count} {cause}" for cause, count in causes.items() if count)
    return f"{trial.useless} of {_pages(trial.tried)} are useless ({parts})"


def _pages(number: int) -> str:
    return f"{number} page{'' if number == 1 else 's'}"
