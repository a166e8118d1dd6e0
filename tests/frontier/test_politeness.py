"""Frontier and gates together, over random schedules with kills: no server ever sees two requests too close."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.rules import HostRules
from crawl_platform.frontier.lease import Lease
from crawl_platform.settings import Politeness
from crawl_platform.testing.builders import FrontierRig

ADDRESS_OF = {"a.test": "1", "b.test": "1", "c.test": "2"}
SLOW = "c.test"
"""Asks for a crawl-delay of 5 s."""
DELAYS = {"a.test": 1.0, "b.test": 1.0, SLOW: 5.0}
SETTINGS = Politeness(host_delay=1.0, address_delay=0.75)

Step = tuple[str, float, float]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["claim", "claim", "claim", "kill"]), st.floats(0, 3), st.floats(0, 4)),
    max_size=50,
)


@dataclass
class Request:
    host: str
    start: float
    end: float | None = None
    lease: Lease | None = None
    due: float = 0.0


@dataclass
class Server:
    """What the servers saw: requests with start and end, whoever sent them."""

    seen: list[Request] = field(default_factory=list)

    def complaints(self) -> list[str]:
        found = []
        for by, delays in ((lambda h: h, DELAYS), (ADDRESS_OF.__getitem__, dict.fromkeys("12", 0.75))):
            last: dict[str, float] = {}
            for request in sorted(self.seen, key=lambda r: r.start):
                key = by(request.host)
                if key in last and request.start < last[key] + delays[key] - 1e-6:
                    found.append(f"{key}: {request.start - last[key]:.3f} s after the last one's end")
                last[key] = request.end if request.end is not None else float("inf")
        return found


def play(rig: FrontierRig, steps: list[Step]) -> Server:
    """A cell under a random schedule: it claims what it can, requests take their time, it may be killed."""
    server = Server()
    in_flight: list[Request] = []
    rig.discover(*(f"https://{host}/{n}" for host in ADDRESS_OF for n in range(40)))
    rig.frontier.addresses.update(ADDRESS_OF)
    slow_robots(rig)
    for what, pause, took in steps:
        rig.clock.advance(pause)
        now = rig.clock.boottime()
        for request in [r for r in in_flight if r.due <= now]:
            in_flight.remove(request)
            land(rig, request)
        if what == "kill":
            for request in in_flight:  # the kernel closes the sockets of the dead process
                request.end = now
            in_flight = []
            rig.restart()
            rig.frontier.addresses.update(ADDRESS_OF)
            slow_robots(rig)
            continue
        while isinstance(lease := rig.claim(), Lease):
            if rig.gates.take_address(ADDRESS_OF[lease.host], now):
                rig.gates.check_write(lease.host, ADDRESS_OF[lease.host], now)
                request = Request(lease.host, now, None, lease, now + took)
                in_flight.append(request)
                server.seen.append(request)
            else:
                rig.gates.release_host(lease.host)
                rig.frontier.hand_back(lease)
                rig.frontier.hosts[lease.host].in_flight = False
                rig.frontier.await_address(ADDRESS_OF[lease.host], lease.host, now)
    return server


def slow_robots(rig: FrontierRig) -> None:
    """The slow host's robots.txt is known (as if it had been read and committed before)."""
    rig.robots.store(
        f"https://{SLOW}", "rules", b"user-agent: *\ncrawl-delay: 5\ndisallow: /no\n", float("inf")
    )
    record = rig.frontier.hosts[SLOW].record
    if record.crawl_delay != 5.0:
        record.crawl_delay = 5.0
        rig.apply(lambda planner: planner.admit(SLOW, (), trusted=True, decision_id=""))


def land(rig: FrontierRig, request: Request) -> None:
    lease = request.lease
    assert lease is not None
    now = request.end = rig.clock.boottime()
    turn = rig.gates.end(lease.host, ADDRESS_OF[lease.host], now, DELAYS[lease.host])
    if turn is not None:
        rig.frontier.reschedule(turn, *rig.times())
    rig.frontier.landed(lease.host, *rig.times())
    result = rig.result(lease, "gone")
    rig.apply(lambda planner: planner.page(result))


@given(STEPS)
@settings(deadline=None, max_examples=80)
def test_no_server_sees_requests_overlap_or_start_too_close_whatever_is_killed(steps: list[Step]) -> None:
    assert play(FrontierRig(*ADDRESS_OF, politeness=SETTINGS), steps).complaints() == []


KILLED: list[Step] = [("claim", 6.0, 0.5), ("claim", 0.6, 0.5), ("kill", 0.1, 0.0), ("claim", 0.2, 0.5)]


class NoMemory(Gates):
    """After a restart every clock counts as run out."""

    def __init__(self, settings: Politeness, taken_over: float, rules: HostRules) -> None:
        super().__init__(settings, taken_over - 1_000.0, rules)

    def hold_host(self, host: str, until: float) -> None:
        return


def test_ablation_a_restart_that_owes_no_delay_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(FrontierRig(*ADDRESS_OF, politeness=SETTINGS), KILLED).complaints() == []

    monkeypatch.setattr("crawl_platform.testing.builders.Gates", NoMemory)

    assert play(FrontierRig(*ADDRESS_OF, politeness=SETTINGS), KILLED).complaints() != []
