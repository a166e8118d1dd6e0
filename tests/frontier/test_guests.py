"""Hosts outside the seed to which a robots.txt has redirected: when they have served, nothing of them is left."""

import pytest

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Hop
from crawl_platform.frontier.records import HostRecord, encode, guest_key
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, url

GUEST = "guest.test"


def invite(rig: FrontierRig, host: str = GUEST, patience: float = 300.0) -> None:
    hop = Hop(f"https://{A}", f"https://{host}/robots.txt", 1, rig.clock.now() + patience)
    assert rig.frontier.moved.errands.wait_at(host, hop, rig.clock.now())


def serve(rig: FrontierRig, host: str = GUEST) -> None:
    """One visit, as a worker carries it out."""
    lease = rig.next_claim()
    assert lease is not None
    assert lease.host == host
    rig.frontier.addresses[host] = "192.0.2.1"
    rig.gates.end(host, None, rig.clock.boottime(), 0.0)
    rig.frontier.landed(host, *rig.times())


def left_of(rig: FrontierRig) -> set[str]:
    """Hosts of which the frontier remembers anything but a clock."""
    frontier, errands = rig.frontier, rig.frontier.moved.errands
    kept = (
        frontier.moved.guests,
        frontier.addresses,
        frontier.agenda._served,
        frontier.agenda._at,
        errands.fresh,
    )
    return {host for names in kept for host in names}


def test_guests_that_have_served_leave_nothing_behind() -> None:
    rig = FrontierRig(A)
    for n in range(30):
        invite(rig, f"made-up-{n}.test")
        serve(rig, f"made-up-{n}.test")

    assert left_of(rig) == set()


def test_ablation_guests_that_nobody_parts_with_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frontier, "_part_with", lambda *_: None)

    with pytest.raises(AssertionError):
        test_guests_that_have_served_leave_nothing_behind()


def test_a_guest_whose_visitors_have_given_up_is_forgotten() -> None:
    rig = FrontierRig(A)
    invite(rig, patience=5.0)
    rig.gates.hold_host(GUEST, rig.clock.boottime() + 60)

    assert rig.next_claim() is None
    assert left_of(rig) == set()


def test_a_guest_that_is_excluded_meanwhile_is_forgotten() -> None:
    rig = FrontierRig(A)
    invite(rig)
    rig.gates.hold_host(GUEST, rig.clock.boottime() + 60)
    assert rig.claim() is None
    rig.exclude(GUEST)

    assert rig.next_claim() is None
    assert left_of(rig) == set()


def test_a_host_at_which_nobody_waits_any_more_does_not_become_a_guest() -> None:
    rig = FrontierRig(A)
    invite(rig)
    rig.frontier.moved.errands.drop(GUEST)

    assert rig.claim() is None
    assert left_of(rig) == set()


def test_a_guest_that_enters_the_seed_keeps_its_place() -> None:
    rig = FrontierRig(A)
    invite(rig)
    lease = rig.next_claim()
    assert lease is not None
    rig.apply(lambda planner: planner.admit(GUEST, [], trusted=True, decision_id="d"))
    rig.discover(url("1", GUEST))
    rig.frontier.addresses[GUEST] = "192.0.2.1"
    rig.land(lease)

    assert rig.frontier.moved.guests == {}
    assert rig.frontier.addresses == {GUEST: "192.0.2.1"}
    assert rig.claim_page().host == GUEST


def test_a_guests_back_off_is_dropped_once_it_has_run_out() -> None:
    rig = FrontierRig(A)
    over, lasts = (guest_key(0, name) for name in (GUEST, "other.test"))
    batch = Batch()
    batch.put(over, encode(HostRecord(not_before=rig.clock.now() + 10)))
    batch.put(lasts, encode(HostRecord(not_before=rig.clock.now() + 100)))
    rig.kv.write(batch)
    rig.clock.advance(50)

    rig.frontier.moved.forget_guests(*rig.times())

    assert rig.kv.get(over) is None
    assert rig.kv.get(lasts) is not None


def test_a_guests_back_off_outlives_restarts_and_a_step_of_the_wall_clock() -> None:
    rig = FrontierRig(A)
    now, boot = rig.times()
    batch, key = Batch(), guest_key(0, GUEST)
    batch.put(key, encode(HostRecord(not_before=now + 100, not_before_boot=boot + 100, left_alone=100.0)))
    rig.kv.write(batch)

    rig.clock.step(1e6)
    for _ in range(2):
        rig.restart()

    assert rig.kv.get(key) is not None
    assert rig.gates.host_ready_at(GUEST) >= boot + 100
