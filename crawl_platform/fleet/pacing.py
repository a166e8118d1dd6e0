"""What the end of a request means for the clocks of its host and address: how long both are left alone.

The decisions are `admission.pace`'s; here they are carried out, written down at once where they slow something, and
told: a row of `hosts` whenever the delay in force changes.
"""

from crawl_platform.admission.identities import refused_after, verdict_on
from crawl_platform.admission.pace import TRANSITIONS, Event, Pause, after, event_of, has_slowed, observed
from crawl_platform.admission.politeness import next_backoff, retry_after
from crawl_platform.admission.service import Decision
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import BACKS_OFF, UNREACHED
from crawl_platform.fleet.parts import Parts
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import address_key, encode

SLOW = 5.0
"""Seconds of a request after which its host counts as unproven: it holds slots that others could use."""
LEAST_NEWS = 0.01
"""Relative change of a delay that is worth a row."""


class Pacing:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    def ended(self, lease: Lease | RobotsLease, decision: Decision | None, response: Response) -> None:
        """The request of `lease` is over: its clocks run from now on, at the pace that the answer asks for.

        `decision`: how it was admitted; None if it never came to that, because its host has no address.
        """
        p = self._p
        boot = p.clock.boottime()
        state = p.frontier.state(lease.host)
        if state is None:
            self._free(lease.host, decision, response, boot, 0.0)
            return
        state.unproven = response.outcome in BACKS_OFF or response.duration > SLOW
        event = None if self._is_origins_own(lease, response) else event_of(response.outcome, response.sent)
        batch = Batch()
        if decision is not None:
            self._note_refusal(state, isinstance(lease, Lease), decision, response, batch)
        if event is not None:
            event = self._paced(state, event, response)
            self._pause(state, event, response, batch)
            if decision is not None:
                self._pace_address(decision.gates[0], lease.host, event, batch)
        self._free(lease.host, decision, response, boot, p.frontier.delay(state.record, lease.host))
        if batch:
            p.frontier.kv.write(batch)

    def _note_refusal(
        self, state: HostState, page: bool, decision: Decision, response: Response, batch: Batch
    ) -> None:
        """Whom the host refuses. Where there are others who could ask it, that is written down at once; that it
        answers again has time until the next epoch. Who is let read robots.txt is not yet let in."""
        assert decision.choice is not None
        before, name = state.record.refused, decision.choice.persona.name
        verdict = verdict_on(response.outcome, response.status)
        if page or verdict == "ban":
            state.record.refused = refused_after(before, name, verdict)
        if state.record.refused not in (before, "") and len(self._p.frontier.admission.identities.pool) > 1:
            batch.put(state.key, encode(state.record))

    def _is_origins_own(self, lease: Lease | RobotsLease, response: Response) -> bool:
        """Nobody listens at this origin, but the host answers at another: a wrong port is no reason to leave the
        whole host alone."""
        nobody = response.outcome in UNREACHED and isinstance(lease, RobotsLease)
        return nobody and self._p.frontier.robots.reachable(lease.host)

    def _paced(self, state: HostState, event: Event, response: Response) -> Event:
        """Let the host's pace follow; returns the event, which is another one if answers have become slow."""
        p, record = self._p, state.record
        floor = p.gates.floor(state.host, record.crawl_delay)
        settings = p.gates.settings_of(state.host)
        before = p.frontier.delay(record, state.host)
        pace = record.pace
        if event is Event.HEALTHY:
            # To the first byte, where it is known: how long a body takes is a question of its size.
            latency = response.duration if response.first_byte is None else response.first_byte
            if has_slowed(pace, latency, floor, settings):
                event = Event.SLOW
            pace = observed(pace, latency)
        record.pace = after(pace, event, floor, settings)
        delay = p.frontier.delay(record, state.host)
        if abs(delay - before) > LEAST_NEWS * before:
            why = "recovers" if delay < before else f"{event}: {response.outcome}"
            p.tell(state, "paced", detail=why, delay=delay)
        return event

    def _pause(self, state: HostState, event: Event, response: Response, batch: Batch) -> None:
        """Leave the whole host alone for a while, if the event says so. Written down at once: a kill forgets
        nothing of it."""
        p, record = self._p, state.record
        settings = p.gates.settings_of(state.host)
        pause = TRANSITIONS[event].pause
        if pause is Pause.HALVES and record.backoff:
            record.backoff = record.backoff / 2 if record.backoff > settings.backoff_first else 0.0
        elif pause is Pause.DOUBLES:
            now, boot = p.clock.now(), p.clock.boottime()
            news = not record.backoff
            asked = retry_after(response.header("retry-after"), now)
            record.backoff, wait = next_backoff(record.backoff, asked, settings)
            record.not_before, record.not_before_boot, record.left_alone = now + wait, boot + wait, wait
            p.gates.hold_host(state.host, boot + wait)
            if news:
                why = f"{response.outcome}: left alone for {wait:g} s"
                p.tell(state, "backoff", detail=why, delay=p.frontier.delay(record, state.host))
        if pause is Pause.DOUBLES or event is Event.SLOW:
            batch.put(state.key, encode(record))

    def _pace_address(self, address: str, host: str, event: Event, batch: Batch) -> None:
        paces = self._p.gates.paces
        for changed in paces.after(address, host, event):
            pace = paces.of(changed)
            if pace.delay:
                batch.put(address_key(changed), encode(pace))
            else:
                batch.delete(address_key(changed))

    def _free(
        self, host: str, decision: Decision | None, response: Response, boot: float, delay: float
    ) -> None:
        p = self._p
        if decision is None:
            p.gates.end(host, None, boot, delay)
            called: list[str] = []
        else:
            called = p.frontier.admission.ended(
                decision, host, response.outcome, response.status, boot, delay
            )
        p.telemetry.fetched(response)
        self.next_in_line(called)

    def next_in_line(self, hosts: list[str]) -> None:
        for host in hosts:
            self._p.frontier.reschedule(host, self._p.clock.now(), self._p.clock.boottime())
