"""What is claimed next: whose turn, which lane, under which verdict. No network, no sleep."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.hosts import SEED
from crawl_platform.admission.politeness import ImpoliteError
from crawl_platform.admission.preferences import dropped_by_page
from crawl_platform.admission.rules import HostRules
from crawl_platform.frontier.frontier import DROPS
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import DROPPED, FASTLANE, LANES, REFRESH
from crawl_platform.frontier.refusals import Refusals
from crawl_platform.settings import Citizenship, Settings
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, hand_back, known, move, url


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
        move(rig, url(name), lane)

    assert claims(rig)[:3] == [url("fast"), url("fresh"), url("deadline")]


@pytest.mark.parametrize("lane", range(len(LANES)))
def test_an_entry_is_never_claimed_before_it_is_due(lane: int) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    move(rig, url("1"), lane, due_in=500.0)

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


def test_a_denied_url_waits_for_the_next_robots_without_a_fetch() -> None:
    rig = FrontierRig(A)
    rig.discover(url("private/1"), url("private/2"), url("public"))
    rig.robots.store("https://a.test", "rules", b"user-agent: *\ndisallow: /private/\n", float("inf"))

    rig_lease = rig.claim_page()
    assert rig_lease.url == url("public")
    denied, rig.frontier.denied = rig.frontier.denied, []
    rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))

    for path in ("private/1", "private/2"):
        record = rig.record(A, url(path))
        assert record is not None
        assert (record.state, record.reason, record.last_success_at) == (3, "robots", 0.0)
    rig.finish(rig_lease, "gone")
    rig.allow_all(A)
    assert rig.claim() is None
    rig.clock.advance(86_400.0)
    assert rig.claim_page().url in (url("private/1"), url("private/2"))


class Refuses:
    """The policy about uses, as a site's word on them would make it."""

    def __init__(self) -> None:
        self.word = True

    def refuses(self, host: str, url: str, agent: str) -> bool:
        return self.word


def test_what_is_dropped_for_its_use_is_looked_at_again_and_comes_back_when_the_site_allows_it() -> None:
    rig = FrontierRig(A)
    rig.admission._policy = policy = Refuses()
    rig.discover(url("1"))

    rig.clock.advance(10)

    def look() -> Lease | RobotsLease | None:
        lease = rig.claim()
        denied, rig.frontier.denied = rig.frontier.denied, []
        rig.apply(*((lambda planner, lease=lease: planner.denied(lease)) for lease in denied))
        return lease

    assert look() is None
    assert (known(rig, url("1")).state, known(rig, url("1")).reason) == (DROPPED, "use_refused")
    for _ in range(3):
        rig.clock.advance(7 * 86_400.0 - 60)
        assert look() is None
        assert rig.frontier.denied == []
        rig.clock.advance(60)
        assert look() is None  # it still says no: as long again
    policy.word = False
    rig.clock.advance(7 * 86_400.0)
    lease = look()
    assert isinstance(lease, Lease)
    assert lease.url == url("1")


def test_a_page_that_refused_its_use_is_asked_for_again_only_under_another_policy() -> None:
    stop = Citizenship(on_refusal="stop")
    rig = FrontierRig(A)
    rig.frontier.refusals = Refusals(rig.book, HostRules(Settings(home="", citizenship=stop)))
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), "refused", reason=dropped_by_page(stop))
    for _ in range(3):
        rig.clock.advance(7 * 86_400.0)
        rig.allow_all(A)
        assert rig.claim() is None
        (denied,), rig.frontier.denied = rig.frontier.denied, []
        rig.apply(lambda planner, lease=denied: planner.denied(lease))
        assert known(rig, url("1")).reason == dropped_by_page(stop)

    record = Settings(home="", citizenship=Citizenship(on_refusal="record"))
    rig.frontier.refusals = Refusals(rig.book, HostRules(record))
    rig.clock.advance(7 * 86_400.0)

    assert rig.claim_page().url == url("1")


def test_nobody_who_could_ask_a_host_means_that_it_is_not_claimed() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    identities = rig.admission.identities
    for _ in range(5):
        identities.ended(identities.choose(A, *rig.times()), A, "proxy", rig.clock.boottime())  # type: ignore[arg-type]
    first_probe = identities.ask_again_at(A, rig.clock.boottime())

    rig.clock.advance(10)
    assert rig.claim() is None
    assert rig.frontier.agenda.next_at() == first_probe
    rig.clock.advance(first_probe - rig.clock.boottime())
    assert rig.claim_page().url == url("1")


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


def test_unproven_hosts_wait_while_others_are_served() -> None:
    rig = FrontierRig(A, B)
    rig.discover(url("1"), url("1", B))
    rig.frontier.hosts[B].unproven = False
    rig.clock.advance(60.0)

    served = [rig.frontier.claim(*rig.times(), room) for room in (0, 0, 1)]

    hosts = [lease.host if lease is not None else None for lease in served]
    assert hosts == [B, None, A], "without room the unproven one waits, and is not lost"
