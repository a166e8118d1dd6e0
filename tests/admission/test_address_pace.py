"""The pace of addresses: what several hosts of one address say together."""

import pytest

from crawl_platform.admission.address_pace import AddressPaces
from crawl_platform.admission.clocks import clock_of
from crawl_platform.admission.pace import STEADY, Event, Pace
from crawl_platform.settings import Politeness

ADDRESS = "192.0.2.1"
SETTINGS = Politeness(address_delay=1.0)


def told(*events: tuple[str, Event], most: int = 100) -> AddressPaces:
    paces = AddressPaces(SETTINGS, most)
    for host, event in events:
        paces.after(ADDRESS, host, event)
    return paces


@pytest.mark.parametrize(
    ("events", "delay"),
    [
        ([], 1.0),
        ([("a", Event.OVERLOADED)], 1.0),
        ([("a", Event.OVERLOADED)] * 50, 1.0),  # one tenant's trouble
        ([("a", Event.OVERLOADED), ("b", Event.OVERLOADED)], 2.0),
        ([("a", Event.SLOW), ("b", Event.SLOW)], 1.5),
        ([("a", Event.BROKEN), ("b", Event.OVERLOADED)], 2.0),
        ([("a", Event.OVERLOADED), ("a", Event.HEALTHY), ("b", Event.OVERLOADED)], 1.0),
        ([("a", Event.OVERLOADED), ("c", Event.HEALTHY), ("b", Event.OVERLOADED)], 2.0),
        ([("a", Event.OVERLOADED), ("b", Event.OVERLOADED)] * 2, 4.0),
        ([("a", Event.OVERLOADED), ("b", Event.OVERLOADED)] * 20, 30.0),
        ([("a", Event.FAILING), ("b", Event.FAILING), ("c", Event.UNREACHED)], 1.0),
    ],
)
def test_what_hosts_say_of_their_address(events: list[tuple[str, Event]], delay: float) -> None:
    assert told(*events).delay(ADDRESS) == delay


def test_it_recovers_like_a_host_and_is_then_forgotten() -> None:
    paces = told(("a", Event.OVERLOADED), ("b", Event.OVERLOADED))

    changes = [bool(paces.after(ADDRESS, "a", Event.HEALTHY)) for _ in range(400)]

    assert (paces.delay(ADDRESS), len(paces)) == (1.0, 0)
    assert 5 < sum(changes) < 60  # what has changed is to be written down, and nothing else


def test_what_a_store_remembers_is_adopted_unless_a_slower_pace_is_known() -> None:
    paces = told(("a", Event.OVERLOADED), ("b", Event.OVERLOADED))

    paces.recall(ADDRESS, Pace(delay=1.2))
    paces.recall("192.0.2.2", Pace(delay=9.0))
    paces.recall("192.0.2.3", STEADY)

    assert [paces.delay(f"192.0.2.{n}") for n in (1, 2, 3)] == [2.0, 9.0, 1.0]


def test_a_million_unwell_addresses_do_not_fill_the_memory_and_what_is_forgotten_is_told() -> None:
    paces = AddressPaces(SETTINGS, most=10)
    forgotten = []
    for n in range(500):
        paces.after(f"a{n}", "x", Event.OVERLOADED)
        told = paces.after(f"a{n}", "y", Event.OVERLOADED)
        assert told[0] == f"a{n}"
        forgotten += told[1:]
        paces.after(f"b{n}", "x", Event.OVERLOADED)

    assert len(paces) <= 20
    assert forgotten == [f"a{n}" for n in range(490)]


@pytest.mark.parametrize(
    ("address", "clock"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_the_addresses_of_one_ipv6_network_are_one_server(address: str, clock: str) -> None:
    assert clock_of(address) == clock
