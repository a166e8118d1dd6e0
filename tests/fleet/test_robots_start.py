"""A start on thousands of new hosts: each needs its robots.txt first, some never answer, and known hosts go on.

The rule. A robots.txt is an ordinary turn of its host, so hosts take turns by the time from which they may be asked,
whatever for; but hosts that have not yet answered never get more than half of the slots. Those that find no room
wait in line and come as if due when there is room, behind whoever has been due before: a new host's first page is
never behind the robots.txt of hosts that are newer still.
"""

import heapq
from dataclasses import dataclass, field

import pytest

from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.testing.builders import FrontierRig

SLOTS, TOOK, TIMEOUT = 64, 0.1, 10.0
KNOWN = [f"known-{number}.test" for number in range(30)]
NEW = [f"new-{number}.test" for number in range(3_000)]
DEAD = frozenset(NEW[::60])
"""50 of the new hosts never answer: 500 s of slots."""
LONG = 30.0


@dataclass
class Start:
    """What was asked when, as seconds since the new hosts came."""

    robots: dict[str, float] = field(default_factory=dict)
    """Host → when its robots.txt had been read."""
    pages: dict[str, list[float]] = field(default_factory=dict)


def start(room_for: int, seconds: float = LONG) -> Start:
    rig = FrontierRig(*KNOWN, *NEW, open_robots=False)
    for host in KNOWN:
        rig.allow_all(host)
    rig.discover(*(f"https://{host}/{n}" for host in KNOWN for n in range(32)))
    for host in KNOWN:
        rig.frontier.hosts[host].unproven = False
    rig.clock.advance(5)
    rig.discover(*(f"https://{host}/{n}" for host in NEW for n in range(1)))
    seen, begun = Start(), rig.clock.boottime()
    flying: list[tuple[float, int, Lease | RobotsLease]] = []
    unproven: set[str] = set()
    while (now := rig.clock.boottime()) < begun + seconds:
        while flying and flying[0][0] <= now:
            lease = heapq.heappop(flying)[2]
            unproven.discard(lease.host)
            land(rig, lease, seen, now - begun)
        while len(flying) < SLOTS and (claimed := rig.frontier.claim(*rig.times(), room_for - len(unproven))):
            if rig.frontier.hosts[claimed.host].unproven:
                unproven.add(claimed.host)
            took = TIMEOUT if claimed.host in DEAD else TOOK
            heapq.heappush(flying, (now + took, id(claimed), claimed))
            if isinstance(claimed, Lease):
                seen.pages.setdefault(claimed.host, []).append(now - begun)
        rig.clock.advance(TOOK / 2)
    return seen


def land(rig: FrontierRig, lease: Lease | RobotsLease, seen: Start, at: float) -> None:
    dead = lease.host in DEAD
    rig.frontier.hosts[lease.host].unproven = dead
    if isinstance(lease, RobotsLease):
        rule = "disallow_all" if dead else "allow_all"
        rig.robots.store(lease.origin, rule, b"", rig.clock.now() + 300)
        seen.robots[lease.host] = at
    rig.land(lease)


def share_of_turns(seen: Start, seconds: float = LONG) -> float:
    """What known hosts got of the turns that their own delay allows."""
    turns = sum(len(seen.pages.get(host, ())) for host in KNOWN)
    return turns / (len(KNOWN) * seconds / (1.0 + TOOK))


@pytest.mark.long
def test_known_hosts_and_new_ones_are_both_served() -> None:
    seen = start(SLOTS // 2)

    assert share_of_turns(seen) > 0.9
    alive = [host for host in NEW if host not in DEAD]
    assert all(host in seen.robots for host in alive), "hosts that never answer hold up the others"
    waits = sorted(seen.pages[host][0] - seen.robots[host] for host in alive)
    assert waits[0] >= 1.0 - 1e-6, "the delay after robots.txt"
    assert waits[len(waits) * 9 // 10] <= 2.0, "the first page comes after about one delay"


@pytest.mark.long
def test_ablation_without_bounded_slots_for_new_hosts_known_ones_starve() -> None:
    assert share_of_turns(start(1 << 30, 15.0), 15.0) < 0.6


@pytest.mark.parametrize("host", ["known-0.test"])
def test_an_expired_robots_costs_a_known_host_one_turn(host: str) -> None:
    rig = FrontierRig(host, open_robots=False)
    rig.discover(*(f"https://{host}/{n}" for n in range(3)))
    rig.robots.store(f"https://{host}", "allow_all", b"", rig.clock.now() + 3)
    kinds = []
    for _ in range(4):
        lease = rig.next_claim()
        assert lease is not None
        kinds.append(type(lease))
        rig.land(lease)
        if isinstance(lease, RobotsLease):
            rig.robots.store(lease.origin, "allow_all", b"", float("inf"))

    assert kinds.count(RobotsLease) == 1
