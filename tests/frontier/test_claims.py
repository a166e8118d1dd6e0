"""What is claimed next: whose turn, which lane, under which verdict. No network, no sleep."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.hosts import SEED
from crawl_platform.admission.politeness import ImpoliteError
from crawl_platform.frontier.frontier import DROPS, Window
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import DISCOVERY, FASTLANE, LANES, REFRESH
from crawl_platform.settings import Politeness, Refresh
from crawl_platform.testing.builders import FrontierRig

A, B = "a.test", "b.test"


def url(path: str, host: str = A) -> str:
    return f"https://{host}/{path}"


def claims(rig: FrontierRig, patience: float = 1e9) -> list[str]:
    """URLs in the order in which they are claimed and fetched, until nothing is left."""
    found = []
    while isinstance(lease := rig.next_claim(patience), Lease):
        found.append(lease.url)
        rig.finish(lease, "gone")
    return found


# turns of hosts


def test_nothing_is_claimed_before_the_delay_that_a_fresh_start_owes() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    assert rig.claim() is None
    rig.clock.advance(rig.politeness.host_delay)
    assert isinstance(rig.claim(), Lease)


def test_a_host_in_flight_is_not_claimed_again_however_much_it_has_queued() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    lease = rig.claim_page()

    rig.clock.advance(3_600)
    assert rig.claim() is None

    rig.land(lease)
    assert rig.claim() is None
    rig.clock.advance(rig.politeness.host_delay)
    assert isinstance(rig.claim(), Lease)


def test_hosts_take_turns_so_that_no_slot_waits_for_one_of_them() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"{n}", host) for n in range(5) for host in (A, B)))
    rig.clock.advance(60)

    first, second = rig.claim(), rig.claim()

    assert isinstance(first, Lease)
    assert isinstance(second, Lease)
    assert {first.host, second.host} == {A, B}
    assert rig.claim() is None


def test_a_claim_reserves_the_host_so_that_a_second_taker_is_a_bug_found_at_once() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.claim_page()

    with pytest.raises(ImpoliteError):
        rig.gates.take_host(A, rig.clock.boottime() + 100)


def test_a_lease_that_was_handed_back_is_claimable_again() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    lease = rig.claim_page()

    hand_back(rig, lease)

    assert rig.claim_page().url == lease.url


def test_a_crawl_delay_is_owed_in_full_by_whoever_takes_the_host_over() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"), url("2"))
    robots = rig.next_claim()
    assert isinstance(robots, RobotsLease)
    rig.finish_robots(robots, "rules", b"user-agent: *\ncrawl-delay: 30\n")
    rig.land(rig.claim_page())

    rig.restart()

    begun = rig.clock.boottime()
    rig.claim_page()
    assert rig.clock.boottime() - begun == pytest.approx(30, abs=0.01)


def test_a_back_off_survives_a_restart() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    held = rig.frontier.hosts[A]
    plan = rig.plan(lambda planner: planner.discover)
    plan.hosts[A] = held.record
    held.record.not_before = rig.clock.now() + 600
    rig.apply(lambda planner: planner.admit(A, (), trusted=True, decision_id=""))

    rig.restart()

    begun = rig.clock.boottime()
    rig.claim_page()
    assert rig.clock.boottime() - begun == pytest.approx(600, abs=0.01)


# lanes


def test_lanes_go_by_rank_fastlane_first() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(name) for name in ("old", "new", "deadline", "fresh", "fast")))
    for name, lane in (("old", REFRESH), ("deadline", 2), ("fresh", 1), ("fast", FASTLANE)):
        _move(rig, url(name), lane)

    assert claims(rig)[:3] == [url("fast"), url("fresh"), url("deadline")]


def _move(rig: FrontierRig, target: str, lane: int, due_in: float = 0.0) -> None:
    def step(planner: object) -> None:
        record = planner._load(A, target)  # type: ignore[attr-defined]
        planner._unqueue(A, target, record)  # type: ignore[attr-defined]
        planner._enqueue(A, target, record, lane, int((rig.clock.now() + due_in) * 1000))  # type: ignore[attr-defined]
        planner._store(A, target, record)  # type: ignore[attr-defined]

    rig.apply(step)


@pytest.mark.parametrize("lane", range(len(LANES)))
def test_an_entry_is_never_claimed_before_it_is_due(lane: int) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    _move(rig, url("1"), lane, due_in=500.0)

    rig.clock.advance(499.0)
    assert rig.claim() is None
    rig.clock.advance(1.01)
    assert isinstance(rig.claim(), Lease)


def test_discovery_goes_by_value() -> None:
    rig = FrontierRig(A)
    rig.discover(url("dull"), value=0.1)
    rig.discover(url("dear"), value=0.9)

    assert claims(rig) == [url("dear"), url("dull")]


def test_age_outweighs_value_after_an_hour_so_that_nothing_starves() -> None:
    rig = FrontierRig(A)
    rig.discover(url("old-and-worthless"), value=0.0)
    rig.clock.advance(3_601)
    rig.discover(*(url(f"dear-{n}") for n in range(50)), value=1.0)

    assert claims(rig)[0] == url("old-and-worthless")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
@settings(deadline=None, max_examples=30)
def test_a_worthless_url_waits_an_hour_of_newcomers_at_most(values: list[float]) -> None:
    rig = FrontierRig(A)
    rig.discover(url("worthless"), value=0.0)
    for n, value in enumerate(values):
        rig.clock.advance(3_600 / len(values) + 0.1)
        rig.discover(url(f"{n}"), value=value)
    rig.discover(url("last"), value=1.0)

    order = claims(rig)

    assert order.index(url("worthless")) < order.index(url("last"))


# the split


def both_lanes(rig: FrontierRig, count: int) -> None:
    """`count` pages in each of discovery and refresh, all due."""
    rig.discover(*(url(f"old{n}") for n in range(count)))
    for n in range(count):
        _move(rig, url(f"old{n}"), REFRESH)
    rig.discover(*(url(f"new{n}") for n in range(count)))


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 2)), min_size=1, max_size=60),
    st.floats(0.05, 0.5),
    st.floats(0.5, 0.95),
)
@settings(deadline=None, max_examples=25)
def test_at_every_step_discovery_has_its_share_within_one(
    turns: list[tuple[float, int]], floor: float, ceiling: float
) -> None:
    rig = FrontierRig(A, refresh=Refresh(split_floor=floor, split_ceiling=ceiling, drain_short=1.0))
    both_lanes(rig, len(turns) + 1)
    taken, owed = 0, 0.0

    for rate, handed_back in turns:
        rig.frontier.emit_rate = rate
        for _ in range(handed_back):  # claimed, but no request was sent
            hand_back(rig, rig.claim_page())
        share = rig.frontier.share()
        lease = rig.claim_page()
        taken += lease.lane == DISCOVERY
        owed += share
        rig.finish(lease, "gone")

        assert abs(taken - owed) < 1
    assert rig.frontier.split.discovery == taken
    assert rig.frontier.split.lent == 0


def hand_back(rig: FrontierRig, lease: Lease) -> None:
    rig.gates.release_host(lease.host)
    rig.frontier.hand_back(lease)
    rig.frontier.hosts[lease.host].in_flight = False
    rig.frontier.reschedule(lease.host, *rig.times())


@pytest.mark.parametrize("both", [True, False])
def test_a_turn_that_was_handed_back_counts_for_nothing(both: bool) -> None:
    rig = FrontierRig(A)
    both_lanes(rig, 3) if both else rig.discover(url("1"))
    rig.frontier.open_window(Window("w1", rig.clock.now() + 1e6, {A: 2}), *rig.times())
    split = rig.frontier.split
    before = (split.credit, split.owed, split.discovery, split.refresh, split.lent)

    for _ in range(50):
        hand_back(rig, rig.claim_page())

    assert (split.credit, split.owed, split.discovery, split.refresh, split.lent) == pytest.approx(before)
    assert rig.frontier.hosts[A].window_used == 0


def test_turns_that_only_one_lane_wanted_are_lent_and_owed_to_nobody() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(20)))
    for _ in range(20):
        rig.finish(rig.claim_page(), "gone")

    split = rig.frontier.split
    assert (split.lent, split.discovery, split.refresh, split.credit) == (20, 0, 0, 0.0)


def test_urgent_turns_are_charged_to_neither_lane() -> None:
    rig = FrontierRig(A)
    both_lanes(rig, 2)
    rig.apply(lambda planner: planner.recrawl(url("old0"), "r1"))

    lease = rig.claim_page()

    assert lease.lane == FASTLANE
    assert (rig.frontier.split.discovery, rig.frontier.split.refresh, rig.frontier.split.lent) == (0, 0, 0)


# windows


def test_a_host_gets_what_its_window_allots_and_no_more_until_the_window_ends() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"{n}", host) for n in range(6) for host in (A, B)))
    ends_at = rig.clock.now() + 3_600
    rig.frontier.open_window(Window("w1", ends_at, {A: 2}), *rig.times())

    fetched: list[tuple[str, bool]] = []
    while isinstance(lease := rig.next_claim(), Lease):
        fetched.append((lease.host, rig.clock.now() < ends_at))
        rig.finish(lease, "gone")

    assert fetched.count((A, True)) == 2
    assert fetched.count((A, False)) == 4
    assert fetched.count((B, True)) == 6  # not named: shares what is left


def test_a_new_window_forgets_what_the_last_one_was_used_for() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(4)))
    for name in ("w1", "w2"):
        rig.frontier.open_window(Window(name, rig.clock.now() + 1e6, {A: 1}), *rig.times())
        rig.finish(rig.claim_page(), "gone")
        rig.clock.advance(10)
        assert rig.claim() is None


def test_the_fastlane_is_outside_every_window() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"), url("3"))
    rig.frontier.open_window(Window("w1", rig.clock.now() + 1e6, {A: 0}), *rig.times())
    rig.clock.advance(10)
    assert rig.claim() is None

    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    assert rig.claim_page().lane == FASTLANE


def test_a_fastlane_fetch_uses_up_nothing_of_the_window() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    rig.frontier.open_window(Window("w1", rig.clock.now() + 1e6, {A: 1}), *rig.times())
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))
    rig.finish(rig.claim_page(), "gone")

    rig.clock.advance(10)

    assert isinstance(rig.claim(), Lease)


def test_an_urgent_entry_that_ripens_later_does_not_wait_for_the_spent_windows_end() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    _move(rig, url("2"), FASTLANE, due_in=60)
    rig.frontier.open_window(Window("w1", rig.clock.now() + 1e6, {A: 0}), *rig.times())

    begun = rig.clock.now()
    lease = rig.claim_page()

    assert lease.url == url("2")
    assert rig.clock.now() - begun == pytest.approx(60, abs=1.1)


# robots


def test_robots_is_fetched_before_any_page_of_an_origin() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))

    lease = rig.next_claim()

    assert isinstance(lease, RobotsLease)
    assert lease.url == "https://a.test/robots.txt"
    rig.finish_robots(lease)
    assert rig.claim_page().url == url("1")


def test_each_origin_of_a_host_has_a_robots_of_its_own() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover("https://a.test/1", "http://a.test:8080/1")
    asked = set()
    for _ in range(4):
        lease = rig.next_claim()
        if isinstance(lease, RobotsLease):
            asked.add(lease.url)
            rig.finish_robots(lease)
        elif lease is not None:
            rig.finish(lease, "gone")

    assert asked == {"https://a.test/robots.txt", "http://a.test:8080/robots.txt"}


def test_an_expired_verdict_is_renewed_before_the_next_page() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"), url("2"))
    robots = rig.next_claim()
    assert isinstance(robots, RobotsLease)
    rig.finish_robots(robots, life=100)
    rig.finish(rig.claim_page(), "gone")

    rig.clock.advance(101)

    assert isinstance(rig.next_claim(), RobotsLease)


def test_a_verdict_survives_a_restart() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("private/1"), url("2"))
    robots = rig.next_claim()
    assert isinstance(robots, RobotsLease)
    rig.finish_robots(robots, "rules", b"user-agent: *\ndisallow: /private/\n")

    rig.restart()

    assert rig.claim_page().url == url("2")
    assert [lease.url for lease in rig.frontier.denied] in ([], [url("private/1")])


def test_a_denied_url_is_dropped_without_a_fetch() -> None:
    rig = FrontierRig(A)
    rig.discover(url("private/1"), url("private/2"), url("public"))
    rig.robots.store("https://a.test", "rules", b"user-agent: *\ndisallow: /private/\n", float("inf"))

    assert rig.claim_page().url == url("public")
    denied, rig.frontier.denied = rig.frontier.denied, []
    rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))

    for path in ("private/1", "private/2"):
        record = rig.record(A, url(path))
        assert record is not None
        assert (record.state, record.reason, record.lane, record.last_success_at) == (3, "robots", -1, 0.0)


def test_a_site_that_forbids_thousands_of_its_urls_does_not_hold_up_the_others() -> None:
    rig = FrontierRig(A, B)
    rig.discover(*(url(f"private/{n}") for n in range(3 * DROPS)))
    rig.discover(url("public"), value=0.0)
    rig.discover(url("1", B))
    rig.robots.store("https://a.test", "rules", b"user-agent: *\ndisallow: /private/\n", float("inf"))
    rig.clock.advance(10)

    first = rig.claim()
    assert isinstance(first, Lease)
    assert first.host == B
    assert len(rig.frontier.denied) == DROPS

    epochs = 0
    while (lease := rig.claim()) is None:
        denied, rig.frontier.denied = rig.frontier.denied, []
        rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))
        epochs += 1
    assert isinstance(lease, Lease)
    assert (lease.url, epochs) == (url("public"), 3)


def test_an_unreachable_robots_stops_the_host_until_it_is_tried_again() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))
    robots = rig.next_claim()
    assert isinstance(robots, RobotsLease)
    rig.finish_robots(robots, "disallow_all", life=300)
    begun = rig.clock.now()

    lease = rig.next_claim()

    assert isinstance(lease, RobotsLease)
    assert rig.clock.now() - begun == pytest.approx(300, abs=0.1)


def test_a_robots_redirect_on_the_same_host_is_followed_one_hop_per_turn() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))
    lease = rig.next_claim()
    assert isinstance(lease, RobotsLease)

    assert rig.frontier.follow_robots(lease, "https://a.test/r2", 5)
    rig.land(lease)
    second = rig.next_claim()

    assert isinstance(second, RobotsLease)
    assert (second.url, second.hops, second.origin) == ("https://a.test/r2", 1, "https://a.test")


@pytest.mark.parametrize("target", [None, "https://b.test/robots.txt"])
def test_a_robots_redirect_to_another_host_or_nowhere_is_not_followed(target: str | None) -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))
    lease = rig.next_claim()
    assert isinstance(lease, RobotsLease)

    assert not rig.frontier.follow_robots(lease, target, 5)


def test_robots_redirects_end_at_the_limit() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))
    for _ in range(3):
        lease = rig.next_claim()
        assert isinstance(lease, RobotsLease)
        followed = rig.frontier.follow_robots(lease, "https://a.test/again", 2)
        rig.land(lease)

    assert not followed


# the boundary


@pytest.mark.parametrize("name", [A, "*.a.test", "*.test"])
def test_an_excluded_host_is_never_claimed(name: str) -> None:
    rig = FrontierRig(A, B)
    rig.discover(url("1"), "https://b.example.test/1")
    rig.exclude(name)
    rig.clock.advance(100)

    assert rig.claim() is None


def test_an_exclusion_counts_after_a_restart_too() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.exclude("*.test")

    rig.restart()
    rig.clock.advance(100)

    assert rig.claim() is None


def test_a_host_whose_exclusion_is_lifted_is_claimed_again() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.exclude(A)
    rig.clock.advance(100)
    assert rig.claim() is None

    rig.book.set(A, SEED)
    rig.frontier.reschedule(A, *rig.times())

    assert isinstance(rig.claim(), Lease)


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
