"""How long a host, or an address, is left alone between two requests: a controller, event by event.

Pure: a state and what an answer said in, the next state out. All times in seconds. The delay in force is never
below its floor (what the settings or the host's robots.txt ask for) nor above `slowdown_cap` times the floor.

    event        when                                         delay        pause            run of good answers
    ───────────  ───────────────────────────────────────────  ───────────  ───────────────  ───────────────────
    HEALTHY      an answer, as fast as usual                  recovers     halves           goes on
    SLOW         an answer; they have become slow             × 1.5 *      halves           ends
    FAILING      an answer that is the server's failure       stays        stays            ends
    BROKEN       refused, reset, timed out                    × 1.5        doubles          ends
    OVERLOADED   429 or 503                                   × 2          doubles **       ends
    UNREACHED    its name can't be resolved                   stays        doubles          ends

    *  up to `SLOW_SHARE` times what an answer takes, so that a slow host is busy with us a fifth of the time
    ** at least as long as Retry-After asks, up to its cap (`politeness.next_backoff`)

Recovery is additive in rate (requests per second): after a run of `recovery_run` healthy answers one step of
`recovery_step` times the rate at the floor; near the rate at which the host was last overloaded, a tenth of that.
"""

from enum import Enum, StrEnum
from typing import NamedTuple

import msgspec

from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS, Outcome
from crawl_platform.settings import Politeness


class Event(StrEnum):
    HEALTHY = "healthy"
    SLOW = "slow"
    FAILING = "failing"
    BROKEN = "broken"
    OVERLOADED = "overloaded"
    UNREACHED = "unreached"


class Pause(Enum):
    """What becomes of the time for which the whole host is left alone."""

    HALVES = "halves"
    STAYS = "stays"
    DOUBLES = "doubles"


class Transition(NamedTuple):
    """`slower`: factor on the delay in force; 1 leaves it alone."""

    slower: float
    pause: Pause


TRANSITIONS: dict[Event, Transition] = {
    Event.HEALTHY: Transition(1.0, Pause.HALVES),
    Event.SLOW: Transition(1.5, Pause.HALVES),
    Event.FAILING: Transition(1.0, Pause.STAYS),
    Event.BROKEN: Transition(1.5, Pause.DOUBLES),
    Event.OVERLOADED: Transition(2.0, Pause.DOUBLES),
    Event.UNREACHED: Transition(1.0, Pause.DOUBLES),
}

_OVERLOADED = frozenset({Outcome.RATE_LIMITED, Outcome.UNAVAILABLE})
_UNREACHED = frozenset({Outcome.NO_SUCH_HOST, Outcome.DNS_FAILURE, Outcome.DNS_TIMEOUT})
_OURS = frozenset({Outcome.INTERNAL_ERROR, Outcome.CONNECTION_STALE})
"""Our bug, and our kept connection that the server was free to close: neither says how it is."""

LATELY, RISES, FALLS = 0.3, 0.001, 0.2
"""Weights of the last answer: in what answers take lately (about the last 3), and in what is usual for the host.
The usual follows a rise over some 1,000 answers, so an incident is seen as one, and a fall over 5."""
SLOW_SHARE = 4.0
SETTLES = 3
"""Answers that a slower pace is given to show in the latency before the next step."""
NEAR = 1.25
"""Recovery takes small steps from this many times the delay at which the host was last overloaded down to that part
of it; what is faster still has shown that the host has recovered as well."""
SMALL, SMALLEST = 0.1, 0.01
"""A tenth of a step; where the host can do much less than its floor allows, this share of its present rate."""


class Pace(msgspec.Struct, array_like=True, frozen=True):
    """The state. `delay` 0: the floor is in force. `latency` and `usual` (seconds) 0: nothing was answered yet."""

    delay: float = 0.0
    run: int = 0
    """Answers since the last change of pace or the last bad one."""
    limit: float = 0.0
    """Delay in force when the host was last overloaded; 0: it was not since it last stood at its floor."""
    latency: float = 0.0
    usual: float = 0.0


STEADY = Pace()


def event_of(outcome: Outcome, sent: bool) -> Event | None:
    """What an ended fetch says about its host; None if it says nothing (it was never sent, and not for want of
    the host). An outcome that this table does not name is judged by its disposition."""
    if outcome in _OVERLOADED:
        return Event.OVERLOADED
    if outcome in _UNREACHED:
        return Event.UNREACHED
    if outcome in BACKS_OFF:
        return Event.BROKEN
    if outcome in _OURS or not sent:
        return None
    return Event.FAILING if DISPOSITIONS[outcome] == "retry" else Event.HEALTHY


def in_force(pace: Pace, floor: float, settings: Politeness) -> float:
    """Seconds from the end of a request to the start of the next."""
    return max(floor, min(pace.delay, floor * settings.slowdown_cap))


def observed(pace: Pace, latency: float) -> Pace:
    """The state after an answer that took `latency` from the write of its request to its end."""
    if not pace.usual:
        return msgspec.structs.replace(pace, latency=latency, usual=latency)
    lately = pace.latency + LATELY * (latency - pace.latency)
    weight = RISES if latency > pace.usual else FALLS
    return msgspec.structs.replace(pace, latency=lately, usual=pace.usual + weight * (latency - pace.usual))


def has_slowed(pace: Pace, latency: float, floor: float, settings: Politeness) -> bool:
    """Whether answers have become slow beside the host's own usual, and the pace had time to show: one that takes
    `latency` now, and those before it (`pace` is the state after them). A single slow answer means nothing."""
    slow = max(settings.latency_rise * pace.usual, pace.usual + settings.latency_noise)
    if not pace.usual or min(latency, pace.latency) < slow:
        return False
    return pace.run >= SETTLES or in_force(pace, floor, settings) <= floor


def after(pace: Pace, event: Event, floor: float, settings: Politeness) -> Pace:
    """The state after `event`; see the table above."""
    slower = TRANSITIONS[event].slower
    if slower > 1.0:
        return _slowed(pace, event, slower, floor, settings)
    if event is not Event.HEALTHY:
        return pace if pace.run == 0 else msgspec.structs.replace(pace, run=0)
    return _recovering(pace, floor, settings)


def _slowed(pace: Pace, event: Event, slower: float, floor: float, settings: Politeness) -> Pace:
    now = in_force(pace, floor, settings)
    delay = min(now * slower, floor * settings.slowdown_cap)
    if event is Event.SLOW and pace.latency:
        delay = max(now, min(delay, SLOW_SHARE * pace.latency))
    limit = now if event is Event.OVERLOADED else pace.limit
    return msgspec.structs.replace(pace, delay=delay if delay > floor else 0.0, run=0, limit=limit)


def _recovering(pace: Pace, floor: float, settings: Politeness) -> Pace:
    now = in_force(pace, floor, settings)
    if now <= floor:
        if pace.delay or pace.run or pace.limit:
            return msgspec.structs.replace(pace, delay=0.0, run=0, limit=0.0)
        return pace
    if pace.run + 1 < settings.recovery_run:
        return msgspec.structs.replace(pace, run=pace.run + 1)
    step = settings.recovery_step / floor
    if pace.limit / NEAR < now <= NEAR * pace.limit:
        step = min(SMALL * step, SMALLEST / now)
    delay = 1.0 / (1.0 / now + step)
    if delay <= floor:
        return msgspec.structs.replace(pace, delay=0.0, run=0, limit=0.0)
    return msgspec.structs.replace(pace, delay=delay, run=0)
