"""Clocks with several slots: front ends, registrable domains, and what each cell has of them."""

from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.clocks import Clocks
from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.rules import HostRules
from crawl_platform.errors import ConfigurationError
from crawl_platform.networks import Networks, read_networks
from crawl_platform.settings import HostRule, Politeness, Settings

CDN = (ip_network("203.0.113.0/24"), ip_network("2001:db8:cd::/48"))
FRONT = "203.0.113.9"


def clocks(cell: int = 0, cells: int = 1, **values: float) -> Clocks:
    return Clocks(Politeness(**values), None, CDN, cell, cells)  # type: ignore[arg-type]


# names


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("203.0.113.9", "front 203.0.113.9"),
        ("::ffff:203.0.113.9", "front 203.0.113.9"),
        ("2001:db8:cd::1", "front 2001:db8:cd::/64"),
        ("2001:db8:ce::1", "2001:db8:ce::/64"),
    ],
)
def test_an_address_of_a_front_end_has_a_clock_of_another_kind(address: str, name: str) -> None:
    assert clocks().address(address) == name


@given(
    st.ip_addresses(v=4),
    st.lists(st.ip_addresses(v=4, network="10.0.0.0/12"), max_size=4),
    st.integers(8, 32),
)
@settings(max_examples=25)
def test_an_address_is_in_a_set_of_networks_if_it_is_in_one_of_them(
    address: object, bases: list[object], length: int
) -> None:
    networks = [ip_network(f"{base}/{length}", strict=False) for base in bases]

    for one in (address, *bases):
        assert (str(one) in Networks(networks)) == any(one in network for network in networks)


def test_a_domain_has_a_clock_where_it_has_a_cap() -> None:
    capped = Settings(home="", hosts=(HostRule("*.big.co.uk", politeness={"domain_rate": 2.0}),))

    named = Clocks(capped.politeness, HostRules(capped))

    assert named.domain("shop.big.co.uk") == "domain big.co.uk"
    assert named.domain("big.co.uk") == "domain big.co.uk"
    assert named.domain("small.co.uk") == ""
    assert clocks(domain_rate=1.0).domain("a.b.github.io") == "domain b.github.io", "a suffix of its own"


# limits


def test_many_slots_keep_the_rate_together() -> None:
    limit = clocks().limit(f"front {FRONT}")

    assert (limit.slots, limit.slots / limit.rest, limit.from_start) == (16, 10.0, True)


def test_a_low_rate_has_no_more_slots_than_two_seconds_of_it() -> None:
    limit = clocks(domain_rate=0.5).limit("domain big.test")

    assert (limit.slots, limit.rest) == (1, 2.0)


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 16, 40])
def test_what_the_cells_have_of_a_clock_is_what_there_is(cells: int) -> None:
    parts: dict[str, int] = {}
    for cell in range(cells):
        own = clocks(cell, cells)
        name = own.address(FRONT)
        limit = own.limit(name)
        assert limit.shared == (cells > 16)
        assert parts.setdefault(name, limit.slots) == limit.slots, "whoever shares a part sees the same"

    assert sum(parts.values()) == 16


def starts(gates: Gates, name: str, took: list[float]) -> list[tuple[float, float]]:
    """(start, end) of requests that are sent as soon as the clock allows."""
    now, found, flying = 100.0, [], []
    for seconds in took:
        while not gates.take_address(name, now):
            ends = min((end for end, _ in flying), default=float("inf"))
            now = min(gates.address_ready_at(name), ends)
            for flight in [flight for flight in flying if flight[0] <= now]:
                flying.remove(flight)
                gates.rest_address(name, now, gates.paces.delay(name))
        flying.append((now + seconds, now))
        found.append((now, now + seconds))
    return found


@given(st.lists(st.floats(0.0, 5.0), min_size=20, max_size=60))
@settings(max_examples=25, deadline=None)
def test_a_front_end_sees_no_more_than_its_rate_and_never_too_many_at_once(took: list[float]) -> None:
    gates = Gates(Politeness(), 0.0, clocks=clocks())
    seen = starts(gates, f"front {FRONT}", took)

    begun = [start for start, _ in seen]
    assert all(later - earlier >= 1.6 - 1e-6 for earlier, later in zip(begun, begun[16:], strict=False))
    assert max(sum(s <= at < e for s, e in seen) for at in begun) <= 16


def test_a_front_end_is_asked_at_its_rate() -> None:
    seen = starts(Gates(Politeness(), 0.0, clocks=clocks()), f"front {FRONT}", [0.2] * 200)

    assert len(seen) / (seen[-1][0] - seen[0][0]) == pytest.approx(10.0, rel=0.1)


def test_ablation_slots_without_a_rest_are_faster_than_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    gates = Gates(Politeness(), 0.0, clocks=clocks())
    monkeypatch.setattr(gates.paces, "delay", lambda _: 0.0)

    seen = starts(gates, f"front {FRONT}", [0.2] * 200)

    assert len(seen) / (seen[-1][0] - seen[0][0]) > 20.0


def test_each_slot_that_comes_free_calls_one_of_the_line() -> None:
    gates = Gates(Politeness(), 0.0, clocks=clocks(front_end_in_flight=2))
    name = f"front {FRONT}"
    assert gates.take_address(name, 100.0)
    assert gates.take_address(name, 100.0)
    assert not gates.take_address(name, 100.0)
    for host in "abc":
        gates.wait_for_address(name, host)

    called = [gates.rest_address(name, 101.0 + n, gates.paces.delay(name)) for n in range(2)]

    assert called == ["a", "b"]
    assert gates.stands_in_line(name, "c")
    assert not gates.stands_in_line(name, "a")
    assert gates.pass_on(name, "a") == "c"


def test_a_line_keeps_its_order_while_another_cell_has_the_address() -> None:
    gates = Gates(Politeness(), 0.0)
    assert gates.take_address("192.0.2.1", 100.0)
    for host in "abc":
        gates.wait_for_address("192.0.2.1", host)
    assert gates.end("x", "192.0.2.1", 101.0, 0.0) == "a"

    gates.close("192.0.2.1")

    assert gates.address_ready_at("192.0.2.1") == float("inf")
    assert not gates.take_address("192.0.2.1", 200.0)
    assert gates.reopen("192.0.2.1") == ["a"]
    assert gates.line("192.0.2.1") == 3


# the file


def test_a_file_of_front_ends_has_one_network_a_line(tmp_path: Path) -> None:
    file = tmp_path / "cdn.txt"
    file.write_text("# a CDN\n203.0.113.0/24\n\n2001:db8::/32  # v6\n")

    assert [str(network) for network in read_networks(file)] == ["203.0.113.0/24", "2001:db8::/32"]


@pytest.mark.parametrize("line", ["203.0.113.0/33", "cdn.example", "203.0.113.5/24", "203.0.113.0-255"])
def test_a_malformed_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "cdn.txt").write_text(f"192.0.2.0/24\n{line}\n")
    made = Settings(home=str(tmp_path), politeness=Politeness(front_ends="cdn.txt"))

    with pytest.raises(ConfigurationError, match=r"cdn\.txt, line 2: "):
        made.validate()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    made = Settings(home=str(tmp_path), politeness=Politeness(front_ends="none.txt"))

    with pytest.raises(ConfigurationError, match=r"none\.txt can't be read"):
        made.validate()


def test_front_ends_are_no_single_hosts(tmp_path: Path) -> None:
    rule = HostRule("a.test", politeness={"front_end_rate": 50.0})

    with pytest.raises(ConfigurationError, match="front ends are the crawl's"):
        Settings(home=str(tmp_path), hosts=(rule,)).validate()
