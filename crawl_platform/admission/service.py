"""May this claimed URL run now, and with which identity? One place that asks all the questions, in one order.

    1 seed      the host is in the seed and not excluded                     else it is not asked
    2 robots    its robots.txt is known and allows the URL to our agent      else that first, or the URL is dropped
    3 policy    what its site says about uses does not forbid it             else the URL is dropped
    4 host      it was reserved for this request, and its delay has run out  else at the time told
    5 identity  somebody of the pool may ask this host                       else when one may probe
    6 proxy     the identity's proxy is free, if it has one                  else in its line
    7 address   it has a free slot, and so has its domain if that has a cap  else in its line

What can't be put right by waiting comes first, so nothing waits that will be refused. `admit` answers all of it in
one step and reserves address, proxy and probe, so of two who ask only one is told yes. A claim asks 1, 4 and 7 as far
as they are known before it reads a queue (`turn`), and 5, 2 and 3 once it knows the URL (`page`; what robots.txt says
depends on who asks): slots are not spent on what would be turned away. Pure: times are passed in, UTC as `now` and
CLOCK_BOOTTIME as `boot`, in seconds.
"""

import math
from enum import StrEnum
from typing import NamedTuple, Protocol

from crawl_platform.admission.hosts import EXCLUDED, SEED, HostBook
from crawl_platform.admission.identities import Choice, Identities, verdict_on
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import RobotsCache, Verdict
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.web.url import origin_of_canonical


class Reason(StrEnum):
    """Why a URL may not run now; `ADMITTED`: it may. Those for which it is dropped stand in its record."""

    ADMITTED = "admitted"
    NOT_SEED = "not_seed"
    ROBOTS_FIRST = "robots_first"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    ROBOTS = "robots"
    ORIGIN_UNREACHABLE = "origin_unreachable"
    """Its origin has no robots.txt to be had, though its host has answered elsewhere."""
    ORIGIN_GIVEN_UP = "origin_given_up"
    POLICY = "use_refused"
    HOST = "host"
    IDENTITY = "identity"
    PROXY = "proxy"
    ADDRESS = "address"


class Answer(NamedTuple):
    """`retry_at`: boottime from which it is worth asking again; infinite where something else has to happen first.
    `gate`: the clock that is waited for."""

    reason: Reason
    retry_at: float = math.inf
    gate: str = ""


class Decision(NamedTuple):
    """The answer about one URL. If it was admitted, `gates` are reserved, the address first, and must be given back:
    by `ended` or `returned`. If proxy, address or domain is not free, `gates` names the one to wait for."""

    reason: Reason
    retry_at: float
    choice: Choice | None = None
    gates: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        return self.reason is Reason.ADMITTED


class Policy(Protocol):
    """What a site has said about being used, and what we do about it."""

    def refuses(self, host: str, url: str, agent: str) -> bool:
        """Whether `url` is not fetched, going by what is said to `agent`."""
        ...


YES = Answer(Reason.ADMITTED, 0.0)
_NOT_SEED, _POLICY = Answer(Reason.NOT_SEED), Answer(Reason.POLICY)
_TURNED_DOWN = {
    Verdict.DENIED: Answer(Reason.ROBOTS),
    Verdict.UNREACHABLE: Answer(Reason.ORIGIN_UNREACHABLE),
    Verdict.GIVEN_UP: Answer(Reason.ORIGIN_GIVEN_UP),
}
_ROBOTS_FIRST = Answer(Reason.ROBOTS_FIRST, 0.0)


class Admission:
    def __init__(
        self,
        book: HostBook,
        robots: RobotsCache,
        gates: Gates,
        identities: Identities,
        policy: Policy | None = None,
    ) -> None:
        self._book = book
        self._robots = robots
        self._gates = gates
        self._policy = policy
        self.identities = identities

    # before a claim reserves anything

    def turn(self, host: str, address: str | None, boot: float, guest: bool = False) -> Answer:
        """Whether `host` may be served at all now; `address` is where it was last found. `guest`: a host outside the
        seed that is asked for a robots.txt which one of the seed has redirected to."""
        if not self._may_be_asked(host, guest):
            return _NOT_SEED
        ready = self._gates.host_ready_at(host)
        if ready > boot:
            return Answer(Reason.HOST, ready)
        for gate in (address, self._gates.clocks.domain(host)):
            if gate and (
                self._gates.address_ready_at(gate) > boot or self._gates.is_spoken_for(gate, host, boot)
            ):
                return Answer(Reason.ADDRESS, gate=gate)
        return YES

    def _may_be_asked(self, host: str, for_robots: bool) -> bool:
        state = self._book.state(host)
        return state == SEED or (for_robots and state != EXCLUDED)

    def page(self, origin: str, host: str, url: str, now: float, boot: float, refused: str = "") -> Answer:
        """Whether `url` may be fetched as far as its site is concerned, and somebody is there to do it. `refused`:
        the identity that the host has refused, if any."""
        choice = self.identities.choose(host, now, boot, refused)
        if choice is None:
            return Answer(Reason.IDENTITY, self.identities.ask_again_at(host, boot, refused))
        return self._page(origin, host, url, now, boot, choice.persona.agent)

    def _page(self, origin: str, host: str, url: str, now: float, boot: float, agent: str) -> Answer:
        verdict, retry_at = self._robots.verdict(origin, url, now, agent)
        if verdict is Verdict.FETCH_FIRST:
            return _ROBOTS_FIRST
        if verdict is Verdict.UNREACHABLE and not self._robots.reachable(host):
            return Answer(Reason.ROBOTS_UNREACHABLE, boot + max(retry_at - now, 0.001))
        if verdict is not Verdict.ALLOWED:
            return _TURNED_DOWN[verdict]
        refuses = self._policy is not None and self._policy.refuses(host, url, agent)
        return _POLICY if refuses else YES

    # the decision

    def admit(
        self,
        url: str,
        host: str,
        address: str,
        now: float,
        boot: float,
        *,
        robots: bool = False,
        refused: str = "",
    ) -> Decision:
        """Decide about a claimed, canonical URL whose host lives at `address`. `robots`: it is a robots.txt itself,
        about which no robots.txt and no policy is asked. `refused`: the identity that the host has refused, if any."""
        if not self._may_be_asked(host, robots):
            return Decision(Reason.NOT_SEED, math.inf)
        choice = self.identities.choose(host, now, boot, refused)
        if not robots:
            agent = (choice.persona if choice is not None else self.identities.own(host, refused)).agent
            answer = self._page(origin_of_canonical(url), host, url, now, boot, agent)
            if answer.reason is not Reason.ADMITTED:
                return Decision(answer.reason, answer.retry_at)
        if not self._gates.host_reserved(host, boot):
            return Decision(Reason.HOST, self._gates.host_clock(host))
        if choice is None:
            return Decision(Reason.IDENTITY, self.identities.ask_again_at(host, boot, refused))
        return self._reserve(choice, host, address, boot)

    def _reserve(self, choice: Choice, host: str, address: str, boot: float) -> Decision:
        """All that the request needs, or nothing."""
        proxy, domain = proxy_gate(choice), self._gates.clocks.domain(host)
        wanted = [(proxy, Reason.PROXY), (address, Reason.ADDRESS), (domain, Reason.ADDRESS)]
        for gate, reason in wanted:
            if gate and self._gates.address_ready_at(gate) > boot:
                return Decision(reason, math.inf, None, (gate,))
        taken = tuple(gate for gate in (address, proxy, domain) if gate)
        for gate in taken:
            self._gates.take_address(gate, boot, host)
        self.identities.begins(choice)
        return Decision(Reason.ADMITTED, boot, choice, taken)

    # what came of it

    def ended(
        self, decision: Decision, host: str, outcome: Outcome, status: int | None, boot: float, delay: float
    ) -> list[str]:
        """The request of an admitted decision has ended: its clocks run, its identity learns. `delay` (seconds) is
        the host's in force. Returns the hosts whose turn it is at the address, the proxy and the domain."""
        assert decision.choice is not None
        address, *others = decision.gates
        called = [self._gates.end(host, address, boot, delay)]
        called += [self._rest(gate, decision.choice, boot) for gate in others]
        self.identities.ended(decision.choice, host, verdict_on(outcome, status), boot)
        return [host for host in called if host]

    def _rest(self, gate: str, choice: Choice, boot: float) -> str | None:
        """A slot that was used, of the proxy or the domain."""
        rest = choice.persona.proxy_delay if gate == proxy_gate(choice) else self._gates.paces.delay(gate)
        return self._gates.rest_address(gate, boot, rest)

    def proxy_failed(self, decision: Decision, host: str, boot: float) -> list[str]:
        """An admitted request got no further than its proxy, whose clock runs all the same. Returns the hosts whose
        turn it is instead."""
        assert decision.choice is not None
        choice = decision.choice
        self.identities.ended(choice, host, "proxy", boot)
        called = [
            self._rest(gate, choice, boot)
            if gate == proxy_gate(choice)
            else self._gates.release_address(gate)
            for gate in decision.gates
        ]
        return [host for host in called if host]

    def returned(self, decision: Decision) -> list[str]:
        """An admitted request was not sent. Returns the hosts whose turn it is instead."""
        assert decision.choice is not None
        self.identities.returns(decision.choice)
        called = [self._gates.release_address(gate) for gate in decision.gates]
        return [host for host in called if host]


def proxy_gate(choice: Choice) -> str:
    """Name of the clock of the identity's proxy, beside those of addresses; empty if it has none."""
    return f"proxy {choice.persona.name}" if choice.persona.proxy else ""
