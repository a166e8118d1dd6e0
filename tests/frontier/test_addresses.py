"""Hosts that share an address: one at a time, in turns, and nobody waits for ever."""

import itertools

import pytest

from crawl_platform.admission import politeness
from crawl_platform.admission.politeness import Gates
from crawl_platform.frontier.lease import Lease
from crawl_platform.settings import Politeness
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, url

# addresses


def shared(rig: FrontierRig, *hosts: str) -> str:
    for host in hosts:
        rig.frontier.addresses[host] = "127.0.0.9"
    return "127.0.0.9"


def fetch_at(rig: FrontierRig, lease: Lease, address: str) -> None:
    """One fetch at `address`, from reservation to landing, as a worker does it."""
    assert rig.gates.take_address(address, rig.clock.boottime())
    rig.gates.check_write(lease.host, address, rig.clock.boottime())
    turn = rig.gates.end(lease.host, address, rig.clock.boottime(), 0.0)
    if turn is not None:
        rig.frontier.reschedule(turn, *rig.times())
    rig.frontier.landed(lease.host, *rig.times())
    result = rig.result(lease, "gone")
    rig.apply(lambda planner: planner.page(result))


def test_hosts_at_one_address_are_fetched_one_after_the_other_with_its_delay() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"{n}", host) for n in range(5) for host in (A, B)))
    address = shared(rig, A, B)
    starts = []

    while isinstance(lease := rig.next_claim(), Lease):
        starts.append(rig.clock.boottime())
        fetch_at(rig, lease, address)

    assert len(starts) == 10
    delay = rig.politeness.address_delay
    assert all(later - earlier >= delay for earlier, later in itertools.pairwise(starts))


def test_a_host_waits_in_line_while_another_is_in_flight_at_its_address() -> None:
    rig = FrontierRig(A, B)
    rig.discover(url("1"), url("1", B))
    address = shared(rig, A, B)
    rig.clock.advance(10)
    rig.gates.take_address(address, rig.clock.boottime())

    assert rig.claim() is None
    turn = rig.gates.release_address(address)

    assert turn in (A, B)


def test_no_host_at_a_shared_address_starves() -> None:
    hosts = [f"h{n}.test" for n in range(5)]
    rig = FrontierRig(*hosts)
    rig.discover(*(url(f"{n}", host) for n in range(20) for host in hosts))
    address = shared(rig, *hosts)
    served: list[str] = []

    for _ in range(25):
        lease = rig.claim_page()
        served.append(lease.host)
        fetch_at(rig, lease, address)

    assert {host: served.count(host) for host in hosts} == dict.fromkeys(hosts, 5)


def test_hosts_claimed_in_one_breath_and_handed_back_do_not_starve_either() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"{n}", host) for n in range(20) for host in (A, B)))
    address = shared(rig, A, B)
    served: list[str] = []

    while len(served) < 20:
        winner = rig.claim_page()
        too_late = rig.claim()  # the winner's worker has not reserved the address yet
        fetched_first = rig.gates.take_address(address, rig.clock.boottime())
        assert fetched_first
        if too_late is not None:
            rig.gates.release_host(too_late.host)
            rig.frontier.hand_back(too_late)
            rig.frontier.hosts[too_late.host].in_flight = False
            rig.frontier.await_address(address, too_late.host, rig.clock.boottime())
        turn = rig.gates.end(winner.host, address, rig.clock.boottime(), 0.0)
        if turn is not None:
            rig.frontier.reschedule(turn, *rig.times())
        rig.frontier.landed(winner.host, *rig.times())
        rig.apply(lambda planner, lease=winner: planner.page(rig.result(lease, "gone")))
        served.append(winner.host)

    assert served.count(A) == served.count(B) == 10


def test_whoever_waits_for_an_address_is_served_although_the_one_before_it_in_line_left() -> None:
    hosts = ["first.test", "gone.test", "last.test"]
    rig = FrontierRig(*hosts, politeness=Politeness())
    rig.discover(*(url("1", host) for host in hosts))
    address = shared(rig, *hosts)
    rig.frontier.reschedule("first.test", *rig.times())
    rig.clock.advance(10)
    lease = rig.claim()
    assert isinstance(lease, Lease)
    assert rig.gates.take_address(address, rig.clock.boottime())
    assert rig.claim() is None  # the two others are in line now
    others = [host for host in hosts if host != lease.host]
    rig.exclude(others[0])

    turn = rig.gates.end(lease.host, address, rig.clock.boottime(), 0.0)
    if turn is not None:
        rig.frontier.reschedule(turn, *rig.times())
    rig.frontier.landed(lease.host, *rig.times())
    result = rig.result(lease, "gone")
    rig.apply(lambda planner: planner.page(result))

    last = rig.next_claim(600)
    assert isinstance(last, Lease)
    assert last.host == others[1]


# who jumps the line, and who lets a turn pass


def line_of_three(rig: FrontierRig) -> tuple[str, str]:
    """A request at the address is in flight, two hosts stand in its line; returns the address and who is first."""
    address = shared(rig, "a.test", "b.test", "c.test")
    rig.clock.advance(10)
    lease = rig.claim_page()
    assert rig.gates.take_address(address, rig.clock.boottime(), lease.host)
    assert rig.claim() is None
    first = next(iter(rig.gates._address(address).waiting))
    turn = rig.gates.end(lease.host, address, rig.clock.boottime(), 0.0)
    assert turn == first
    rig.frontier.reschedule(turn, *rig.times())
    return address, first


def three() -> FrontierRig:
    hosts = ["a.test", "b.test", "c.test"]
    rig = FrontierRig(*hosts, politeness=Politeness())
    rig.discover(*(url(f"{n}", host) for n in range(3) for host in hosts))
    return rig


def who_is_served_after_all_look_for_themselves(rig: FrontierRig) -> tuple[str, str]:
    """(whose turn it was, who was served): everybody looks, last in line first, once the address is free."""
    address, first = line_of_three(rig)
    rig.clock.advance(1.0)
    rig.frontier.agenda.drop(first)
    for host in reversed(rig.gates._address(address).waiting):
        rig.frontier.agenda.put(host, rig.clock.boottime())
    lease = rig.claim()
    if lease is None:
        rig.frontier.agenda.put(first, rig.clock.boottime())
        lease = rig.claim()
    assert lease is not None
    return first, lease.host


def test_who_looks_for_itself_does_not_jump_the_line() -> None:
    first, served = who_is_served_after_all_look_for_themselves(three())

    assert served == first


def test_ablation_without_precedence_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(politeness, "PRECEDENCE", 0.0)

    first, served = who_is_served_after_all_look_for_themselves(three())

    assert served != first


def test_who_does_not_come_in_time_loses_its_precedence() -> None:
    rig = three()
    address, first = line_of_three(rig)
    rig.frontier.agenda.drop(first)
    second = next(iter(rig.gates._address(address).waiting))
    rig.clock.advance(2.5)
    rig.frontier.agenda.put(second, rig.clock.boottime())

    lease = rig.claim()

    assert lease is not None
    assert lease.host == second


def test_who_has_nothing_to_do_calls_the_next_in_line() -> None:
    rig = three()
    address, first = line_of_three(rig)
    second = next(iter(rig.gates._address(address).waiting))
    rig.exclude(first)
    rig.clock.advance(1.0)

    lease = rig.claim()

    assert lease is not None
    assert lease.host == second


def test_ablation_a_turn_that_is_not_passed_on_leaves_the_address_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Gates, "pass_on", lambda *_: None)
    rig = three()
    _, first = line_of_three(rig)
    rig.exclude(first)
    rig.clock.advance(1.0)

    assert rig.claim() is None
