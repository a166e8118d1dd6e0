"""Who asks: a pool of ways to say who we are, each with its health. Pure; no clock, no random number of its own.

A host is always asked by the same identity (rendezvous hashing: adding or losing one moves only its own hosts), but
for a small share of hosts that a draw of the day gives to any of the pool, so that the pool can be judged by what
was obtained: the draw is a hash of host and day, and its likelihood goes into the row of each fetch.

    in use ──bans and time-outs of several hosts──▶ set aside ──time──▶ on probation
       ▲                                               ▲ twice as long       │ one request at a time
       └───────────────────── answered ────────────────┼───────── failed ────┘

One host's refusal counts once. It never sends another identity to that host in its place: whoever bans us is left
alone, not tricked. Whom a host has refused is written down with the host (`HostRecord.refused`), and told here at each
choice. What moves a host is an identity that is unwell everywhere, as a dead proxy is.

An identity that is the only one for a host is never set aside for what hosts answer, since nobody could take its place.
But through a proxy that is dead nothing can be asked at all: its hosts wait, whether or not there are others.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import xxhash

from crawl_platform.admission.pace import Event, event_of
from crawl_platform.clock import DAY
from crawl_platform.fetch.outcome import BACKS_OFF, Outcome
from crawl_platform.settings import Identity, IdentityHealth, NamedIdentity, Settings
from crawl_platform.web.host import matches

DEFAULT = "default"
LATELY = 512
"""Hosts whose answers count little for a while, as they have been counted: the health of an identity is that of many
hosts, and not of the one that is asked most."""
AGAIN = 0.05
"""Weight of a further answer of such a host."""
PROBE_AGAIN = 5.0
"""Seconds until a host looks again that only an identity could ask whose probe is on its way."""


@dataclass(frozen=True, slots=True)
class Persona:
    """One way to ask. `proxy` is empty for the direct way."""

    name: str
    agent: str
    user_agent: str
    proxy: str = ""
    proxy_delay: float = 0.0
    hosts: tuple[str, ...] = ()

    def fits(self, host: str) -> bool:
        return not self.hosts or any(matches(pattern, host) for pattern in self.hosts)


class Choice(NamedTuple):
    """`how`: only, sticky, drawn, moved (its own identity is set aside), refused (it stays with the identity that it
    refused) or probe."""

    persona: Persona
    how: str
    propensity: float
    """Likelihood with which this identity was given this host today."""


@dataclass(slots=True)
class Health:
    """Decayed weights of how requests ended, as of `at` (boottime)."""

    success: float = 0.0
    ban: float = 0.0
    timeout: float = 0.0
    at: float = 0.0
    aside_until: float = 0.0
    """Boottime; 0: in use."""
    aside_for: float = 0.0
    probing: bool = False
    proxy_failures: int = 0
    """Requests in a row that got no further than the proxy."""
    lately: OrderedDict[str, None] = field(default_factory=OrderedDict)

    @property
    def weight(self) -> float:
        return self.success + self.ban + self.timeout

    @property
    def failing_share(self) -> float:
        return (self.ban + self.timeout) / self.weight if self.weight else 0.0


def pool_of(settings: Settings) -> tuple[Persona, ...]:
    """The personas of the settings; that of `[identity]` alone if there is no pool."""
    return tuple(_persona(one, settings.identity) for one in settings.identities) or (
        Persona(DEFAULT, settings.identity.agent, settings.identity.user_agent),
    )


def _persona(one: NamedIdentity, common: Identity) -> Persona:
    said = Identity(one.agent or common.agent, one.contact or common.contact)
    return Persona(one.name, said.agent, said.user_agent, one.proxy, one.proxy_delay, one.hosts)


def verdict_on(outcome: Outcome, status: int | None) -> str:
    """success, ban or timeout: what an outcome says about who asked; empty if nothing. A 429 is about the pace."""
    if status == 407:
        return "timeout"
    if outcome is Outcome.UNAUTHORIZED:
        return "ban"
    if event_of(outcome, True) in (Event.OVERLOADED, Event.UNREACHED):
        return ""
    if outcome in BACKS_OFF:
        return "timeout"
    return "success" if status is not None and status < 500 else ""


def refused_after(refused: str, name: str, verdict: str) -> str:
    """The identity that a host has refused, and that no other replaces there, after `name` was answered so."""
    return {"ban": name, "success": ""}.get(verdict, refused)


class Identities:
    def __init__(
        self,
        pool: Iterable[Persona],
        settings: IdentityHealth,
        news: Callable[[str, str], None] = lambda _name, _event: None,
    ) -> None:
        """`news` is told (name, event) when an identity is set aside, put on probation or in use again."""
        self.pool = tuple(pool)
        self.health = {one.name: Health() for one in self.pool}
        self._settings = settings
        self._news = news

    def choose(self, host: str, now: float, boot: float, refused: str = "") -> Choice | None:
        """Who asks `host`; None if all who may are set aside. `now` is UTC, for the day's draw. `refused`: the
        identity that the host has refused; one that is no more in the pool binds nobody."""
        ranked = self._may_ask(host, refused)
        own = ranked[0]
        if len(ranked) == 1:
            return self._alone(own, "refused" if own.name == refused else "only", boot)
        if self._may_probe(self.health[own.name], boot):
            return Choice(own, "probe", 1.0)
        able = [one for one in ranked if not self.health[one.name].aside_until]
        if able:
            return self._drawn(host, int(now // DAY), able, "sticky" if able[0] is own else "moved")
        others = (one for one in ranked if self._may_probe(self.health[one.name], boot))
        return next((Choice(one, "probe", 1.0) for one in others), None)

    def own(self, host: str, refused: str = "") -> Persona:
        """Who asks `host` as a rule."""
        return self._may_ask(host, refused)[0]

    def ask_again_at(self, host: str, boot: float, refused: str = "") -> float:
        """Boottime from which somebody may ask `host` again if nobody may now: that of the earliest probe."""
        ends = [self.health[one.name].aside_until for one in self._may_ask(host, refused)]
        return min(end if end > boot else boot + PROBE_AGAIN for end in ends)

    def _may_ask(self, host: str, refused: str) -> list[Persona]:
        """Those who may ask `host`, its own first; every host has an order of its own."""
        if len(self.pool) == 1:
            return [*self.pool]
        fitting = [one for one in self.pool if one.fits(host)]
        if refused:
            fitting = [one for one in fitting if one.name == refused] or fitting
        return sorted(fitting, key=lambda one: _hash(f"{one.name} {host}"), reverse=True)

    def _alone(self, persona: Persona, how: str, boot: float) -> Choice | None:
        health = self.health[persona.name]
        if not (health.aside_until and self._is_cut_off(health)):
            return Choice(persona, how, 1.0)
        return Choice(persona, "probe", 1.0) if self._may_probe(health, boot) else None

    def _is_cut_off(self, health: Health) -> bool:
        """Whether its proxy is dead, as far as can be seen from here."""
        return health.proxy_failures >= self._settings.least_hosts

    def _drawn(self, host: str, day: int, able: list[Persona], usual: str) -> Choice:
        share = self._settings.explore_share if len(able) > 1 else 0.0
        each = share / len(able)
        draw = _hash(f"draw {day} {host}") / 2**64
        if draw >= share:
            return Choice(able[0], usual, 1.0 - share + each)
        picked = able[min(int(draw / each), len(able) - 1)]
        return Choice(picked, "drawn", each + (1.0 - share if picked is able[0] else 0.0))

    def _may_probe(self, health: Health, boot: float) -> bool:
        return 0.0 < health.aside_until <= boot and not health.probing

    # what comes of it

    def begins(self, choice: Choice) -> None:
        """A request of this choice is on its way: a probe is the only one of its identity."""
        if choice.how == "probe":
            self.health[choice.persona.name].probing = True
            self._news(choice.persona.name, "probe")

    def returns(self, choice: Choice) -> None:
        """It was given back without a request."""
        if choice.how == "probe":
            self.health[choice.persona.name].probing = False

    def ended(self, choice: Choice, host: str, verdict: str, boot: float) -> None:
        """A request ended with `verdict` (`verdict_on`; or "proxy": it got no further than its proxy, which is about
        the identity whatever the host)."""
        health, name = self.health[choice.persona.name], choice.persona.name
        self.returns(choice)
        was_cut_off = self._is_cut_off(health)
        health.proxy_failures = health.proxy_failures + 1 if verdict == "proxy" else 0
        if choice.how == "probe":
            if verdict or was_cut_off:
                well = verdict == "success" or (was_cut_off and verdict != "proxy")
                self._probed(name, health, well, boot)
            return
        if len(self.pool) > 1 and verdict and not health.aside_until:
            self._weigh(health, host, verdict, boot)
            if health.weight >= self._settings.least_hosts:
                self._judge(name, health, boot)
        if self._is_cut_off(health) and health.aside_until <= boot:
            self._set_aside(name, health, max(self._settings.quarantine, health.aside_for), boot)

    def _weigh(self, health: Health, host: str, verdict: str, boot: float) -> None:
        kept = math.exp2(-(boot - health.at) / self._settings.half_life) if health.at else 1.0
        health.success, health.ban, health.timeout = (
            kept * weight for weight in (health.success, health.ban, health.timeout)
        )
        health.at = boot
        weight = AGAIN if host in health.lately and verdict != "proxy" else 1.0
        health.lately[host] = None
        health.lately.move_to_end(host)
        if len(health.lately) > LATELY:
            health.lately.popitem(last=False)
        kind = "timeout" if verdict == "proxy" else verdict
        setattr(health, kind, getattr(health, kind) + weight)

    def _judge(self, name: str, health: Health, boot: float) -> None:
        if health.failing_share >= self._settings.failing_share:
            self._set_aside(name, health, self._settings.quarantine, boot)

    def _probed(self, name: str, health: Health, well: bool, boot: float) -> None:
        if well:
            self.health[name] = Health()
            self._news(name, "in use")
        else:
            self._set_aside(name, health, min(2 * health.aside_for, self._settings.quarantine_cap), boot)

    def _set_aside(self, name: str, health: Health, seconds: float, boot: float) -> None:
        health.aside_for, health.aside_until = seconds, boot + seconds
        self._news(name, "set aside")


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())
