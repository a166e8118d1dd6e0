"""The DNS cache against a real name server on loopback: lives, pins, refusals, one question at a time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from crawl_platform.clock import ManualClock
from crawl_platform.errors import SiteError
from crawl_platform.fetch.dns import DnsCache
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch
from crawl_platform.simulation.dns import Nameserver, Zone


@dataclass(frozen=True)
class Broken:
    """A host that is in the zone and does not resolve."""

    name: str
    address: str
    fault: str


class CountingZone(Zone):
    """Counts questions, A and AAAA.

    Its time to live is 0 so that c-ares, which has a cache of its own by real time, keeps nothing; our floor
    of 60 s then is the life of an answer.
    """

    def __init__(self, overrides: dict[str, list[str]], ttl: int = 0, **broken: str) -> None:
        hosts = {f"{name}.test": Broken(f"{name}.test", "", fault) for name, fault in broken.items()}
        super().__init__(hosts, ttl, overrides)
        self.asked: Counter[str] = Counter()

    def answer(self, query: bytes) -> bytes | None:
        answer = super().answer(query)
        length, labels = query[12], []
        at = 12
        while length:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
            length = query[at]
        self.asked[".".join(labels)] += 1
        return answer


@pytest_asyncio.fixture
async def zone() -> AsyncIterator[CountingZone]:
    zone = CountingZone(
        {"a.test": ["127.0.0.5"], "b.test": ["127.0.0.6", "127.0.0.7"]}, sick="servfail", mute="mute"
    )
    server = Nameserver(zone)
    await server.start()
    zone.address = server.address  # type: ignore[attr-defined]
    yield zone
    server.close()


@pytest_asyncio.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def dns(zone: CountingZone, clock: ManualClock) -> AsyncIterator[DnsCache]:
    settings = Fetch(
        nameservers=(zone.address,),  # type: ignore[attr-defined]
        dns_ttl_floor=60.0,
        dns_ttl_ceiling=3_600.0,
        dns_negative_ttl=100.0,
        dns_timeout=0.5,
    )
    cache = DnsCache(settings, AddressGuard(("127.0.0.0/8",)), clock)
    yield cache
    await cache.close()


async def outcome(dns: DnsCache, host: str) -> str:
    with pytest.raises(SiteError) as error:
        await dns.address(host)
    return error.value.outcome


async def test_a_name_resolves_and_is_asked_for_once_in_its_life(
    dns: DnsCache, zone: CountingZone, clock: ManualClock
) -> None:
    assert [await dns.address("a.test") for _ in range(3)] == ["127.0.0.5"] * 3
    assert zone.asked["a.test"] == 1

    clock.advance(59.0)
    assert dns.pinned("a.test") == "127.0.0.5"
    clock.advance(1.0)
    assert dns.pinned("a.test") is None
    await dns.address("a.test")
    assert zone.asked["a.test"] == 2


@pytest.mark.parametrize(
    ("ttl", "life"), [(0, 60.0), (59, 60.0), (61, 61.0), (3_601, 3_600.0), (2**31 - 1, 3_600.0)]
)
async def test_a_life_has_a_floor_and_a_ceiling(
    dns: DnsCache, zone: CountingZone, clock: ManualClock, ttl: int, life: float
) -> None:
    zone.ttl = ttl
    await dns.address("a.test")

    clock.advance(life - 0.001)
    assert dns.pinned("a.test") is not None
    clock.advance(0.001)
    assert dns.pinned("a.test") is None


async def test_a_stepped_wall_clock_ends_no_life(dns: DnsCache, clock: ManualClock) -> None:
    await dns.address("a.test")
    clock.step(1e6)

    assert dns.pinned("a.test") == "127.0.0.5"


async def test_many_who_ask_at_once_share_one_question(dns: DnsCache, zone: CountingZone) -> None:
    addresses = await asyncio.gather(*(dns.address("a.test") for _ in range(50)))

    assert set(addresses) == {"127.0.0.5"}
    assert zone.asked["a.test"] == 1


async def test_one_who_gives_up_does_not_spoil_it_for_the_others(dns: DnsCache, zone: CountingZone) -> None:
    first, second = (asyncio.create_task(dns.address("a.test")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == "127.0.0.5"
    assert zone.asked["a.test"] == 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("nowhere.test", Outcome.NO_SUCH_HOST),
        ("sick.test", Outcome.DNS_FAILURE),
        ("mute.test", Outcome.DNS_TIMEOUT),
    ],
)
async def test_a_failure_is_an_outcome_and_remembered_for_a_while(
    dns: DnsCache, zone: CountingZone, clock: ManualClock, host: str, expected: Outcome
) -> None:
    assert await outcome(dns, host) == expected
    asked = zone.asked[host]
    assert await outcome(dns, host) == expected
    assert zone.asked[host] == asked

    clock.advance(100.0)
    zone.overrides[host] = ("127.0.0.8",)
    assert await dns.address(host) == "127.0.0.8"


async def test_the_first_of_several_addresses_is_pinned_and_kept_as_long_as_it_is_offered(
    dns: DnsCache, zone: CountingZone, clock: ManualClock
) -> None:
    pinned = await dns.address("b.test")
    other = {"127.0.0.6": "127.0.0.7", "127.0.0.7": "127.0.0.6"}[pinned]

    zone.overrides["b.test"] = (other, pinned)
    clock.advance(61.0)
    assert await dns.address("b.test") == pinned

    zone.overrides["b.test"] = (other,)
    clock.advance(61.0)
    assert await dns.address("b.test") == other


@pytest.mark.parametrize("addresses", [("10.0.0.1",), ("127.0.0.5", "10.0.0.1"), ("10.0.0.1", "127.0.0.5")])
async def test_one_unsafe_address_among_safe_ones_is_enough_to_refuse(
    dns: DnsCache, zone: CountingZone, addresses: tuple[str, ...]
) -> None:
    zone.overrides["rebinding.test"] = addresses

    assert await outcome(dns, "rebinding.test") == Outcome.UNSAFE_ADDRESS


async def test_a_name_that_turns_to_a_private_address_is_refused_when_its_life_ends(
    dns: DnsCache, zone: CountingZone, clock: ManualClock
) -> None:
    await dns.address("a.test")
    zone.overrides["a.test"] = ("169.254.169.254",)

    assert await dns.address("a.test") == "127.0.0.5"  # still the address that was checked
    clock.advance(61.0)
    assert await outcome(dns, "a.test") == Outcome.UNSAFE_ADDRESS
    assert dns.pinned("a.test") is None


async def test_ablation_a_guard_that_permits_all_lets_the_same_name_in(
    zone: CountingZone, clock: ManualClock
) -> None:
    class Open(AddressGuard):
        def permits(self, address: str) -> bool:
            return True

    settings = Fetch(nameservers=(zone.address,))  # type: ignore[attr-defined]
    cache = DnsCache(settings, Open(), clock)
    zone.overrides["a.test"] = ("169.254.169.254",)

    assert await cache.address("a.test") == "169.254.169.254"
    await cache.close()


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.9", "127.0.0.9"), ("10.0.0.1", None), ("[::1]", None), ("[fe80::1]", None)],
)
async def test_a_literal_address_is_not_asked_for_but_is_guarded(
    dns: DnsCache, zone: CountingZone, host: str, address: str | None
) -> None:
    if address is None:
        assert await outcome(dns, host) == Outcome.UNSAFE_ADDRESS
    else:
        assert await dns.address(host) == address
    assert not zone.asked


async def test_the_cache_is_bounded(
    dns: DnsCache, zone: CountingZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_platform.fetch.dns.CACHE_SIZE", 3)
    for n in range(5):
        zone.overrides[f"h{n}.test"] = ("127.0.0.5",)
        await dns.address(f"h{n}.test")

    assert [dns.pinned(f"h{n}.test") is not None for n in range(5)] == [False, False, True, True, True]
