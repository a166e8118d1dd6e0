"""Which horizon hosts become seed: rules over ranks, each verdict with its cause in words.

Hosts are taken in order of trust. A host is held if an operator excluded or vetoed it, its trust lies below the
floor, too few independent seed hosts link to it, it was demoted lately, or it looks like a link farm; the
rest are promoted until the quota is used up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

FLOOR_SHARE = 0.001
"""A host's least trust as a share of the median trusted host's: two votes from hosts that link to fewer
than 1,700 others each pass; a mention among tens of thousands doesn't."""

MOST_HELD = 50
"""Held hosts that one decision reports: those that would have come before the last one promoted."""


class Candidate(NamedTuple):
    """A horizon host as ranked; `position` 1 has the most trust. The last four are the spam evidence (`graph/spam.py`):
    links per supporter, the share of its rank that hosts of standing pass to it, linking hosts where strangers set the
    links, and whether these are too many."""

    host: str
    position: int
    trust: float
    uniform: float
    spam_mass: float
    eligible: bool
    support: int
    independent_support: int
    per_supporter: float = 1.0
    vouched: float = 1.0
    strangers: int = 0
    by_strangers: bool = False


class Rules(NamedTuple):
    """`quota` hosts at most, each with `min_support` independent supporters and `floor` trust at least."""

    quota: int
    min_support: int
    floor: float


class Verdict(NamedTuple):
    """`cause` is one word: promoted, excluded, veto, floor, support, rest or spam. `said`: of a veto or a rest, why."""

    candidate: Candidate
    cause: str
    said: str = ""

    @property
    def promoted(self) -> bool:
        return self.cause == "promoted"


NOBODY: Mapping[str, str] = {}


class Bars(NamedTuple):
    """What keeps hosts out whatever their rank is. `vetoed`: by an operator → who and why; `resting`: they were demoted
    lately → why, and until when."""

    excluded: Callable[[str], bool] = lambda _: False
    vetoed: Mapping[str, str] = NOBODY
    resting: Mapping[str, str] = NOBODY


def decide(candidates: Iterable[Candidate], rules: Rules, bars: Bars) -> list[Verdict]:
    """Verdicts in order of position, until the quota is used up or the floor reached."""
    verdicts: list[Verdict] = []
    promoted = held = 0
    for candidate in sorted(candidates, key=lambda c: c.position):
        if promoted >= rules.quota or candidate.trust <= 0:
            break
        verdict = judge(candidate, rules, bars)
        promoted += verdict.promoted
        held += not verdict.promoted
        if verdict.promoted or held <= MOST_HELD:
            verdicts.append(verdict)
        if verdict.cause == "floor":
            break
    return verdicts


def judge(candidate: Candidate, rules: Rules, bars: Bars) -> Verdict:
    """The verdict on one host, whatever the quota is."""
    if bars.excluded(candidate.host):
        return Verdict(candidate, "excluded")
    if veto := bars.vetoed.get(candidate.host):
        return Verdict(candidate, "veto", veto)
    if candidate.trust < rules.floor:
        return Verdict(candidate, "floor")
    if candidate.independent_support < rules.min_support:
        return Verdict(candidate, "support")
    if demotion := bars.resting.get(candidate.host):
        return Verdict(candidate, "rest", demotion)
    return Verdict(candidate, "promoted" if candidate.eligible else "spam")


def explain(verdict: Verdict, rules: Rules, supporters: Sequence[str], horizon: int) -> str:
    """The verdict in a sentence that needs no knowledge of graphs. `supporters` are seed hosts that link to the
    host, `horizon` is the number of horizon hosts ranked."""
    candidate, cause, said = verdict
    place = f"rank {candidate.position} of {horizon} horizon hosts"
    linked = f"linked by {_count(candidate.independent_support, 'independent seed host')}{_named(supporters)}"
    if cause == "promoted":
        return f"{linked}; {place} by trust; passes the spam gate"
    if cause == "excluded":
        return f"excluded by an operator, although {linked}; {place}"
    if cause == "floor":
        return f"too little trust: {candidate.trust:.1e}, the floor is {rules.floor:.1e}; {place}"
    if cause == "support":
        linking = f"linked by {_count(candidate.support, 'seed host')}{_named(supporters)}"
        counted = f"{candidate.independent_support} independent and proven, {rules.min_support} needed"
        return f"{linking}; {counted}; {place}"
    if cause in ("veto", "rest"):
        return f"{said}, although {linked}; {place}"
    return f"looks like a link farm: {_doubt(candidate)}, although {linked}"


def _doubt(candidate: Candidate) -> str:
    if candidate.by_strangers:
        links = "only in comments or in links that they don't answer for"
        return (
            f"{_count(candidate.strangers, 'more host')} link{'s' * (candidate.strangers == 1)} to it {links}"
        )
    bulk = f"{candidate.per_supporter:.3g} links from each host that links to it"
    unvouched = f"{1 - candidate.vouched:.0%} of its rank comes from hosts that nobody trusted vouches for"
    return f"{bulk}, and {unvouched} (spam mass {candidate.spam_mass:.2f})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _named(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:3])
    more = ", …" if len(hosts) > 3 else ""
    return f" ({shown}{more})" if shown else ""
