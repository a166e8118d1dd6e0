"""A server whose answers take longer the busier it is, and that refuses what is more than it can do. In virtual time.

`capacity` is in requests per second. An answer takes `service` seconds from an idle server and six times that at
capacity (it has other visitors, so ours do not saturate it by themselves). What is above the capacity, by the
requests of the last `WINDOW` seconds, is answered with 429.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from crawl_platform.admission.pace import STEADY, Event, Pace, after, event_of, has_slowed, in_force, observed
from crawl_platform.admission.politeness import next_backoff
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Politeness

WINDOW = 10.0


@dataclass
class LoadedServer:
    capacity: Callable[[float], float]
    service: float
    times: deque[float] = field(default_factory=deque)
    asked: int = 0
    refused: int = 0

    def ask(self, now: float) -> tuple[Outcome, float]:
        """One request: its outcome and how long the answer takes."""
        while self.times and self.times[0] <= now - WINDOW:
            self.times.popleft()
        self.times.append(now)
        self.asked += 1
        load = len(self.times) / WINDOW / self.capacity(now)
        if load > 1.0:
            self.refused += 1
            return Outcome.RATE_LIMITED, self.service
        return Outcome.OK, self.service * (1.0 + 5.0 * load**4)


@dataclass
class Crawler:
    """A cell's way with one host: the pace and the pauses of the product, nothing else."""

    settings: Politeness
    server: LoadedServer
    pace: Pace = STEADY
    backoff: float = 0.0
    now: float = 0.0
    adaptive: bool = True

    def run(self, until: float) -> None:
        floor = self.settings.host_delay
        while self.now < until:
            outcome, latency = self.server.ask(self.now)
            self.now += latency
            event = event_of(outcome, sent=True)
            assert event is not None
            wait = self._pause(event)
            if self.adaptive:
                if event is Event.HEALTHY:
                    if has_slowed(self.pace, latency, floor, self.settings):
                        event = Event.SLOW
                    self.pace = observed(self.pace, latency)
                self.pace = after(self.pace, event, floor, self.settings)
            self.now += max(wait, in_force(self.pace, floor, self.settings))

    def _pause(self, event: Event) -> float:
        if event is Event.OVERLOADED:
            self.backoff, wait = next_backoff(self.backoff, None, self.settings)
            return wait
        self.backoff = self.backoff / 2 if self.backoff > self.settings.backoff_first else 0.0
        return 0.0
