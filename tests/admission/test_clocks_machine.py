"""Whatever happens in whatever order, restarts included: starts are never closer than the delay in force.

A model of a cell's way with three hosts at two addresses: what it writes down is what the store has (`saved`), a
restart forgets everything else.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from crawl_platform.admission.pace import STEADY, TRANSITIONS, Event, Pace, Pause, after, observed
from crawl_platform.admission.politeness import Gates, next_backoff
from crawl_platform.settings import Politeness

ADDRESS_OF = {"a": "1", "b": "1", "c": "2"}
CRAWL_DELAY = {"a": 0.0, "b": 0.0, "c": 3.0}
SETTINGS = Politeness(
    host_delay=1.0, address_delay=0.5, backoff_first=2.0, backoff_cap=16.0, retry_after_cap=30.0
)
SLACK = 1e-6


class Clocks(RuleBasedStateMachine):
    gates_of: Callable[[float], Gates] = staticmethod(lambda boot: Gates(SETTINGS, boot))

    @initialize()
    def start(self) -> None:
        self.now = 1_000.0
        self.saved: dict[str, tuple[Pace, float, float]] = dict.fromkeys(ADDRESS_OF, (STEADY, 0.0, 0.0))
        self.saved_addresses: dict[str, Pace] = {}
        self.free_at: dict[str, float] = {}
        """By host and by address: until when the model, which forgets nothing, leaves it alone."""
        self.trouble: list[str] = []
        self.restart()

    @rule()
    def restart(self) -> None:
        """kill -9: the sockets close, the store is what it was."""
        self.gates = self.gates_of(self.now)
        for address, pace in self.saved_addresses.items():
            self.gates.paces.recall(address, pace)
        self.record = dict(self.saved)
        self.in_flight: dict[str, float] = {}
        for host, (pace, _, not_before) in self.record.items():
            delay = self.gates.delay(host, CRAWL_DELAY[host], pace)
            self.gates.hold_host(host, max(not_before, self.now + delay))
            self.owes(host, delay)
            self.owes(ADDRESS_OF[host], SETTINGS.address_delay)

    def owes(self, name: str, delay: float) -> None:
        self.free_at[name] = max(self.free_at.get(name, 0.0), self.now + delay)

    @rule(seconds=st.floats(0.01, 5))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(host=st.sampled_from(sorted(ADDRESS_OF)))
    def claims(self, host: str) -> None:
        address = ADDRESS_OF[host]
        if self.gates.host_ready_at(host) > self.now or not self.gates.take_address(address, self.now):
            return
        self.gates.take_host(host, self.now)
        self.gates.check_write(host, address, self.now)
        busy = {name for other in self.in_flight for name in (other, ADDRESS_OF[other])}
        self.trouble += [f"{n} twice at a time" for n in (host, address) if n in busy]
        for name in (host, address):
            early = self.free_at.get(name, 0.0) - self.now
            if early > SLACK:
                self.trouble.append(f"{name} {early:.3f} s too early")
        self.in_flight[host] = self.now

    @rule(
        host=st.sampled_from(sorted(ADDRESS_OF)),
        event=st.sampled_from(list(Event)),
        asked=st.none() | st.floats(0, 100),
    )
    def ends(self, host: str, event: Event, asked: float | None) -> None:
        if host not in self.in_flight:
            return
        took = self.now - self.in_flight.pop(host)
        pace, backoff, not_before = self.record[host]
        pace = after(observed(pace, took), event, self.gates.floor(host, CRAWL_DELAY[host]), SETTINGS)
        if TRANSITIONS[event].pause is Pause.DOUBLES:
            backoff, wait = next_backoff(backoff, asked, SETTINGS)
            not_before = self.now + wait
            self.gates.hold_host(host, not_before)
            self.owes(host, max(wait, min(asked or 0.0, SETTINGS.retry_after_cap)))
        self.record[host] = (pace, backoff, not_before)
        if TRANSITIONS[event].pause is Pause.DOUBLES or event is Event.SLOW:
            self.saved[host] = self.record[host]
        for address in self.gates.paces.after(ADDRESS_OF[host], host, event):
            self.saved_addresses[address] = self.gates.paces.of(address)
        delay = self.gates.delay(host, CRAWL_DELAY[host], pace)
        self.gates.end(host, ADDRESS_OF[host], self.now, delay)
        self.owes(host, max(delay, SETTINGS.host_delay, CRAWL_DELAY[host]))
        self.owes(ADDRESS_OF[host], self.gates.paces.delay(ADDRESS_OF[host]))

    @rule()
    def an_epoch_commits(self) -> None:
        self.saved = dict(self.record)

    @invariant()
    def nobody_is_asked_too_early(self) -> None:
        assert not getattr(self, "trouble", None), self.trouble


def run(machine: type[Clocks]) -> None:
    run_state_machine_as_test(
        machine,
        settings=examples(
            max_examples=30,
            stateful_step_count=40,
            phases=(Phase.generate,),  # shrinking takes a minute, and the seed is fixed
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_starts_are_never_closer_than_the_delay_in_force_whatever_happens() -> None:
    run(Clocks)


class Forgetful(Gates):
    """A restart owes nothing."""

    def __init__(self, boot: float) -> None:
        super().__init__(SETTINGS, boot - 1_000.0)

    def hold_host(self, host: str, until: float) -> None:
        return


class Impatient(Gates):
    """The pace that was worked out is not what is waited for."""

    def end(
        self, host: str, address: str | None, now: float, delay: float, address_delay: float = 0.0
    ) -> str | None:
        return super().end(host, address, now, 0.0, address_delay)


def scripted(machine: type[Clocks]) -> list[str]:
    """Slow answers at one host, then a kill."""
    played = machine()
    played.start()
    for event in (Event.HEALTHY, Event.SLOW, Event.SLOW):
        played.time_passes(4.0)
        played.claims("a")
        played.time_passes(2.0)
        played.ends("a", event, None)
    played.time_passes(1.2)
    played.claims("a")
    played.restart()
    played.time_passes(0.1)
    played.claims("b")
    return played.trouble


@pytest.mark.parametrize(
    ("gates_of", "seen"),
    [(Forgetful, "b 0.900 s"), (lambda boot: Impatient(SETTINGS, boot), "a 1.050 s")],
    ids=["forgets", "runs ahead"],
)
def test_ablation_clocks_that_forget_or_run_ahead_are_seen(
    gates_of: Callable[[float], Gates], seen: str
) -> None:
    broken = type("Broken", (Clocks,), {"gates_of": staticmethod(gates_of)})

    assert scripted(Clocks) == []
    assert f"{seen} too early" in scripted(broken)
