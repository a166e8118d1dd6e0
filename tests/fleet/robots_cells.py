"""Cells without a wire: what claims ask is answered from a table, in virtual time, and every request is written down.

`Web` is the truth: URL → answer. Cells share one clock; letters between them pass the codec and the inbox.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from crawl_platform.clock import ManualClock
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome, of_status
from crawl_platform.fleet.epochs import Epoch
from crawl_platform.fleet.inbox import Inbox
from crawl_platform.fleet.messages import encode
from crawl_platform.fleet.parts import Parts
from crawl_platform.fleet.robots_answers import RobotsAnswers
from crawl_platform.fleet.rows import Origin
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import RobotsRecord
from crawl_platform.settings import Fetch, Politeness, Settings
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.url import canonicalize, resolve

TOOK = 0.1
"""Seconds that a request takes."""


@dataclass(frozen=True)
class Answer:
    status: int | None = 200
    body: bytes = b""
    location: str = ""
    outcome: Outcome | None = None
    truncated: bool = False

    def response(self, url: str, at: float) -> Response:
        """As the client would have put it."""
        outcome = self.outcome or (of_status(self.status) if self.status else Outcome.CONNECT_TIMEOUT)
        target = None
        if outcome is Outcome.REDIRECT:
            resolved = resolve(self.location, url) if self.location else None
            target = canonicalize(resolved) if resolved else None
            outcome = outcome if target else Outcome.BAD_REDIRECT
        return Response(
            outcome,
            status=self.status,
            body=self.body,
            truncated=self.truncated,
            started_at=at,
            redirect_to=target,
        )


def moved(to: str, status: int = 301) -> Answer:
    return Answer(status, location=to)


@dataclass(frozen=True)
class Request:
    """`start`, `end`: CLOCK_BOOTTIME seconds."""

    host: str
    url: str
    start: float
    end: float
    page: bool


class RobotsCell:
    """One cell: a rig, the real handling of robots answers, and the epochs that it fills."""

    def __init__(self, rig: FrontierRig, web: "Web", settings: Settings) -> None:
        self.rig = rig
        self.web = web
        self.bulk = SimpleNamespace(open=Epoch(), touch=lambda operations=1: None)
        self.fast = SimpleNamespace(open=Epoch(), touch=lambda operations=1: None)
        self.settings = settings
        self.answers: RobotsAnswers
        self.inbox: Inbox
        self.sequence = 0
        self.restart()

    def restart(self) -> None:
        """All memory is lost; what was committed is there."""
        self.bulk.open, self.fast.open = Epoch(), Epoch()
        if hasattr(self, "answers"):
            self.rig.restart()
        ids = iter(range(1 << 30))
        parts = SimpleNamespace(
            settings=self.settings,
            clock=self.rig.clock,
            frontier=self.rig.frontier,
            gates=self.rig.gates,
            bulk=self.bulk,
            fast=self.fast,
            origin=Origin("cell", "incarnation"),
            fetch_id=lambda: f"fetch-{next(ids)}",
        )
        parts.tell = lambda state, event, **facts: Parts.tell(cast(Any, parts), state, event, **facts)
        self.answers = RobotsAnswers(cast(Any, parts))
        self.inbox = Inbox(self.rig.kv, self.rig.frontier, "cell", "incarnation")

    def work(self) -> bool:
        """Carry out everything that can start now; whether there was anything."""
        self.answers.catch_up()
        began = False
        while (lease := self.rig.claim()) is not None:
            began = True
            self.web.begin(self, lease)
        self.commit()
        return began

    def land(self, lease: Lease | RobotsLease) -> None:
        rig = self.rig
        state = rig.frontier.state(lease.host)
        assert state is not None
        rig.gates.end(lease.host, None, rig.clock.boottime(), rig.frontier.delay(state.record, lease.host))
        if isinstance(lease, RobotsLease):
            answer = self.web.answers.get(lease.url, Answer(404))
            self.answers.take(lease, answer.response(lease.url, rig.clock.now()))
        else:
            self.bulk.open.pages.append(rig.result(lease, "gone"))
        rig.frontier.landed(lease.host, *rig.times())

    def commit(self) -> None:
        """Both epochs become durable; letters leave."""
        epochs = (self.bulk.open, self.fast.open)
        self.bulk.open, self.fast.open = Epoch(), Epoch()
        denied, self.rig.frontier.denied = self.rig.frontier.denied, []
        for epoch in epochs:
            self.rig.apply(lambda planner, epoch=epoch: self._plan(planner, epoch))
            for shard, letter in epoch.letters:
                self.web.post(shard, encode(letter))
            self.web.rows += list(epoch.rows.take().get("hosts", ()))
        if denied:
            self.rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))

    def _plan(self, planner: Planner, epoch: Epoch) -> None:
        for page in epoch.pages:
            planner.page(page)
        for result, delay in epoch.robots:
            planner.robots(result, delay)
        self.inbox.apply(planner, epoch.arrivals)

    def receive(self, shard: int, data: bytes) -> None:
        self.sequence += 1
        arrival = self.inbox.arrival(f"inbox.{shard}", self.sequence, data, self.rig.clock.now())
        if arrival is not None:
            self.fast.open.arrivals.append(arrival)

    def robots(self, origin: str) -> RobotsRecord | None:
        return self.rig.frontier.moved.record(origin)


@dataclass
class Web:
    """What every URL answers, and what was asked of whom."""

    clock: ManualClock
    answers: dict[str, Answer] = field(default_factory=dict)
    cells: list[RobotsCell] = field(default_factory=list)
    log: list[Request] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    lose: Callable[[bytes], bool] = lambda data: False
    """Whether a letter is lost on its way."""
    copies: int = 1
    """How often a letter arrives."""
    _landing: list[tuple[float, RobotsCell, Lease | RobotsLease]] = field(default_factory=list)

    def begin(self, cell: RobotsCell, lease: Lease | RobotsLease) -> None:
        start = self.clock.boottime()
        self.log.append(Request(lease.host, lease.url, start, start + TOOK, isinstance(lease, Lease)))
        self._landing.append((start + TOOK, cell, lease))

    def post(self, shard: int, data: bytes) -> None:
        if self.lose(data):
            return
        for cell in self.cells:
            if shard in cell.rig.shards:
                for _ in range(self.copies):
                    cell.receive(shard, data)

    def run(self, seconds: float, step: float = 0.1) -> "Web":
        """Let time pass. Steps are as long as nothing happens in them."""
        until = self.clock.boottime() + seconds
        while self.clock.boottime() < until:
            for at, cell, lease in [
                landing for landing in self._landing if landing[0] <= self.clock.boottime()
            ]:
                self._landing.remove((at, cell, lease))
                cell.land(lease)
            for cell in self.cells:
                cell.work()
            self.clock.advance(max(step, min(self._next_at(), until) - self.clock.boottime()))
        return self

    def _next_at(self) -> float:
        waking = [at for at, _, _ in self._landing]
        for cell in self.cells:
            frontier = cell.rig.frontier
            busy = (
                frontier.moved.errands.fresh or frontier.moved.errands.replies or frontier.moved.errands.lost
            )
            busy = busy or cell.fast.open or cell.bulk.open
            at = 0.0 if busy else frontier.agenda.next_at()
            waking += [] if at is None else [at]
        return min(waking, default=float("inf"))

    # what was seen

    def asked(self, host: str) -> list[str]:
        return [request.url for request in self.log if request.host == host]

    def impolite(self, delay: float) -> list[str]:
        """Requests that overlap or start sooner than `delay` after the end of the one before, by host."""
        found, last = [], dict[str, float]()
        for request in sorted(self.log, key=lambda request: request.start):
            if request.start < last.get(request.host, float("-inf")) + delay - 1e-6:
                found.append(f"{request.host}: {request.url}")
            last[request.host] = request.end
        return found


def web_of(
    *groups: tuple[str, ...],
    answers: dict[str, Answer],
    politeness: Politeness | None = None,
    horizon: int = 0,
) -> Web:
    """A web with one cell per group of seed hosts (each group's hosts must be of its shard when there are several).

    `horizon`: shards beyond the cells' own go to the first cell."""
    politeness = politeness or Politeness()
    clock = ManualClock()
    web = Web(clock, answers)
    n_shards = len(groups)
    settings = Settings(home="", politeness=politeness, fetch=Fetch())
    for number in range(n_shards):
        rig = FrontierRig(
            *(host for group in groups for host in group),
            clock=clock,
            n_shards=n_shards,
            shards=frozenset({number}),
            politeness=politeness,
            open_robots=False,
        )
        web.cells.append(RobotsCell(rig, web, settings))
        for host in groups[number]:
            rig.discover(f"https://{host}/1", f"https://{host}/2")
    return web
