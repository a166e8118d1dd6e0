"""Which horizon hosts become seed: rules over ranks, each verdict with its cause in words.

Hosts are taken in order of trust. A host is held if an operator excluded it, its trust lies below the
floor, too few independent seed hosts link to it, or it fails the spam-mass gate; the rest are promoted
until the quota is used up.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

FLOOR_SHARE = 0.001
"""A host's least trust as a share of the median trusted host's: two votes from hosts that link to fewer
than 1,700 others each pass; a mention among tens of thousands doesn't."""

MOST_HELD = 50
"""Held hosts that one decision reports: those that would have come before the last one promoted."""


class Candidate(NamedTuple):
    """A horizon host as ranked; `position` 1 has the most trust."""

    host: str
    position: int
    trust: float
    uniform: float
    spam_mass: float
    eligible: bool
    support: int
    independent_support: int


class Rules(NamedTuple):
    """`quota` hosts at most, each with `min_support` independent supporters and `floor` trust at least."""

    quota: int
    min_support: int
    floor: float


class Verdict(NamedTuple):
    """`cause` is one word: promoted, excluded, floor, support or spam; `reason` is for people."""

    candidate: Candidate
    cause: str
    reason: str

    @property
    def promoted(self) -> bool:
        return self.cause == "promoted"


def decide(
    candidates: Iterable[Candidate],
    rules: Rules,
    excluded: Callable[[str], bool],
    supporters: Callable[[str], Sequence[str]],
    horizon: int,
) -> list[Verdict]:
    """Verdicts in order of position, until the quota is used up or the floor reached.

    `horizon` is the number of horizon hosts ranked and `supporters` names the seed hosts that link to a
    host; both only go into the words.
    """
    verdicts: list[Verdict] = []
    promoted = held = 0
    for candidate in sorted(candidates, key=lambda c: c.position):
        if promoted >= rules.quota or candidate.trust <= 0:
            break
        cause = _cause(candidate, rules, excluded)
        reason = explain(candidate, cause, rules, supporters(candidate.host), horizon)
        if cause == "promoted":
            promoted += 1
        else:
            held += 1
        if cause == "promoted" or held <= MOST_HELD:
            verdicts.append(Verdict(candidate, cause, reason))
        if cause == "floor":
            break
    return verdicts


def _cause(candidate: Candidate, rules: Rules, excluded: Callable[[str], bool]) -> str:
    if excluded(candidate.host):
        return "excluded"
    if candidate.trust < rules.floor:
        return "floor"
    if candidate.independent_support < rules.min_support:
        return "support"
    return "promoted" if candidate.eligible else "spam"


def explain(candidate: Candidate, cause: str, rules: Rules, supporters: Sequence[str], horizon: int) -> str:
    """The verdict in a sentence that needs no knowledge of graphs."""
    place = f"rank {candidate.position} of {horizon} horizon hosts"
    linked = f"linked by {_count(candidate.independent_support, 'independent seed host')}{_named(supporters)}"
    if cause == "promoted":
        return f"{linked}; {place} by trust; passes the spam gate"
    if cause == "excluded":
        return f"excluded by an operator, although {linked}; {place}"
    if cause == "floor":
        return f"too little trust: {candidate.trust:.1e}, the floor is {rules.floor:.1e}; {place}"
    if cause == "support":
        return f"{linked}, {rules.min_support} are needed; {place}"
    doubt = f"little of its rank comes from trusted hosts (spam mass {candidate.spam_mass:.2f})"
    return f"looks like a link farm: {doubt}, although {linked}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _named(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:3])
    more = ", …" if len(hosts) > 3 else ""
    return f" ({shown}{more})" if shown else ""
