"""Links that one host makes up about another: they may cost it a few wasted requests, but not its pages."""

from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.overlay import Plan
from crawl_platform.frontier.ports import MAX_FROM_ABROAD
from crawl_platform.settings import Frontier
from crawl_platform.testing.builders import FrontierRig

SPAMMER, VICTIM = "spam.test", "victim.test"
BUDGET, SHARE = 40, 0.25


def crowded(share: float) -> FrontierRig:
    """A spammer says that the victim has 400 pages."""
    return spammed(
        Frontier(page_budget=BUDGET, surface_depth=1, abroad_share=share, bloom_capacity=1_000),
        *(f"https://{VICTIM}/made-up/{n}" for n in range(400)),
    )


def spammed(limits: Frontier, *urls: str) -> FrontierRig:
    """The spammer's root has been fetched, and links to `urls`."""
    rig = FrontierRig(SPAMMER, VICTIM, settings=limits)
    rig.discover(f"https://{SPAMMER}/")
    rig.allow_all(VICTIM)
    lease = rig.claim_page()
    rig.finish(lease, found=[Found(url, 1, 0.5) for url in urls])
    return rig


def own_pages(rig: FrontierRig, count: int, depth: int) -> Plan:
    return rig.discover(*(f"https://{VICTIM}/true/{n}" for n in range(count)), depth=depth)


def test_made_up_links_take_no_more_than_their_share_of_a_hosts_budget() -> None:
    rig = crowded(SHARE)

    assert rig.frontier.hosts[VICTIM].record.known == BUDGET * SHARE
    assert own_pages(rig, 30, depth=5).new_urls == 30


def test_without_the_share_a_spammer_crowds_a_host_out_of_its_own_budget() -> None:
    rig = crowded(share=100.0)

    assert own_pages(rig, 30, depth=5).turned_away == {"over_budget": 30}


def test_what_the_share_turned_away_enters_when_the_host_itself_links_to_it() -> None:
    rig = crowded(SHARE)
    url = f"https://{VICTIM}/made-up/399"

    assert rig.discover(url, depth=5).new_urls == 1


def test_the_count_of_links_from_abroad_outlives_a_restart() -> None:
    rig = crowded(SHARE)

    rig.restart()

    assert rig.frontier.hosts[VICTIM].record.from_abroad == BUDGET * SHARE


def test_made_up_ports_leave_room_for_those_of_the_host() -> None:
    rig = spammed(Frontier(), *(f"https://{VICTIM}:{port}/" for port in range(8_001, 8_100)))
    record = rig.frontier.hosts[VICTIM].record

    assert len(record.ports) == MAX_FROM_ABROAD
    assert rig.discover(f"https://{VICTIM}:9000/").new_urls == 1


def test_made_up_parameters_are_no_reason_to_take_a_hosts_own_for_a_trap() -> None:
    rig = spammed(Frontier(), *(f"https://{VICTIM}/product?id={n}&made=up" for n in range(500)))
    record = rig.frontier.hosts[VICTIM].record

    assert record.from_abroad == 500
    assert (record.series, record.shapes) == ({}, {})


def test_what_the_host_itself_shows_is_counted_and_learnt() -> None:
    rig = spammed(Frontier())

    rig.discover(*(f"https://{VICTIM}/product?id={n}&made=up" for n in range(50)), depth=1)

    record = rig.frontier.hosts[VICTIM].record
    assert list(record.series.values()) == [50]
