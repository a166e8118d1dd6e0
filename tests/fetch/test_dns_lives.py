"""The lives of DNS answers: hosts that move, names that don't exist, name servers that are ill, second addresses."""

from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from dnslib import QTYPE, RCODE, RR, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.clock import ManualClock
from crawl_platform.errors import SiteError
from crawl_platform.fetch import dns as dns_module
from crawl_platform.fetch import resolver as resolver_module
from crawl_platform.fetch.dns import MOVING_LIVES, STALE_RETRY, Answer, DnsCache, _pin
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.settings import Fetch
from crawl_platform.simulation.dns import Nameserver, Zone

SETTINGS = Fetch(
    dns_ttl_floor=60.0, dns_ttl_ceiling=3_600.0, dns_moving_ceiling=100.0, dns_negative_ttl=200.0,
    dns_negative_floor=50.0, dns_negative_ceiling=900.0, dns_stale=1_000.0, dns_timeout=0.3,
)  # fmt: skip


class Script(Zone):
    """Answers with the records of a zone file's lines; `ill` says how a name fails."""

    def __init__(self) -> None:
        super().__init__({})
        self.records: list[RR] = []
        self.ill: dict[str, str] = {}
        self.asked: Counter[tuple[str, str]] = Counter()

    def add(self, *lines: str) -> None:
        self.records += [record for line in lines for record in RR.fromZone(line)]

    def remove(self, name: str) -> None:
        self.records = [record for record in self.records if str(record.rname) != name + "."]

    def answer(self, query: bytes) -> bytes | None:
        record = DNSRecord.parse(query)
        name, kind = str(record.q.qname), QTYPE[record.q.qtype]
        self.asked[name.rstrip("."), kind] += 1
        fault = self.ill.get(name.rstrip("."), self.ill.get("", ""))
        if fault == "mute":
            return None
        reply = record.reply()
        if fault:
            reply.header.rcode = getattr(RCODE, fault)
            return bytes(reply.pack())
        names = {str(r.rname) for r in self.records}
        alias = {str(r.rname): r for r in self.records if QTYPE[r.rtype] == "CNAME"}
        while name in alias and len(reply.rr) < 20:
            reply.add_answer(alias[name])
            name = str(alias[name].rdata.label)
        for found in self.records:
            if str(found.rname) == name and QTYPE[found.rtype] == kind:
                reply.add_answer(found)
        if not reply.rr and name not in names:
            reply.header.rcode = RCODE.NXDOMAIN
        return bytes(reply.pack())


@pytest_asyncio.fixture
async def zone() -> AsyncIterator[Script]:
    zone = Script()
    server = Nameserver(zone)
    await server.start()
    zone.address = server.address  # type: ignore[attr-defined]
    yield zone
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def dns(zone: Script, clock: ManualClock) -> AsyncIterator[DnsCache]:
    settings = msgspec.structs.replace(SETTINGS, nameservers=(zone.address,))  # type: ignore[attr-defined]
    cache = DnsCache(settings, AddressGuard(("127.0.0.0/8", "fd00::/8")), clock)
    yield cache
    await cache.close()


async def failure(dns: DnsCache, host: str) -> SiteError:
    with pytest.raises(SiteError) as error:
        await dns.address(host)
    return error.value


def life(dns: DnsCache, clock: ManualClock, host: str) -> float:
    """Seconds that the present answer still has."""
    return dns._answers[host].expires_at - clock.boottime()


# hosts that move


async def test_a_host_that_moves_is_looked_up_more_often_until_it_has_settled(
    dns: DnsCache, zone: Script, clock: ManualClock
) -> None:
    def lives_at(address: str) -> None:
        zone.remove("m.test")
        zone.add(f"m.test. 0 IN A {address}")  # c-ares keeps nothing of it: its clock is another one
        dns._settings = msgspec.structs.replace(dns._settings, dns_ttl_floor=300.0)

    lives: list[float] = []
    for address in ("127.0.0.1", "127.0.0.1", "127.0.0.2", *["127.0.0.2"] * MOVING_LIVES):
        lives_at(address)
        await dns.address("m.test")
        lives.append(life(dns, clock, "m.test"))
        clock.advance(lives[-1])

    assert lives == [300.0, 300.0, *[100.0] * MOVING_LIVES, 300.0]


# names that do not exist


@pytest.mark.parametrize(
    ("soa", "expected"),
    [
        ("300", 300.0),  # the zone's minimum
        ("1", 50.0),  # floor
        ("99999", 900.0),  # ceiling
        (None, 200.0),  # the zone does not say
    ],
)
async def test_a_name_that_does_not_exist_is_forgotten_when_its_zone_says(
    dns: DnsCache, zone: Script, clock: ManualClock, soa: str | None, expected: float
) -> None:
    if soa is not None:
        zone.add(f"shop.test. 86400 IN SOA ns.shop.test. me.shop.test. 1 3600 600 86400 {soa}")

    error = await failure(dns, "gone.shop.test")

    assert error.outcome == Outcome.NO_SUCH_HOST
    assert life(dns, clock, "gone.shop.test") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fault", "outcome", "detail"),
    [
        ("NXDOMAIN", Outcome.NO_SUCH_HOST, "does not exist"),
        ("", Outcome.NO_SUCH_HOST, "no address"),
        ("SERVFAIL", Outcome.DNS_FAILURE, ""),
        ("REFUSED", Outcome.DNS_FAILURE, ""),
        ("mute", Outcome.DNS_TIMEOUT, "in time"),
    ],
)
async def test_the_ways_not_to_resolve_are_told_apart(
    dns: DnsCache, zone: Script, fault: str, outcome: Outcome, detail: str
) -> None:
    zone.ill["x.test"] = fault
    zone.add('x.test. 0 IN TXT "mail only"')

    error = await failure(dns, "x.test")

    assert (error.outcome, detail in error.detail) == (outcome, True), error.detail


# name servers that are ill


@pytest.mark.parametrize("fault", ["mute", "SERVFAIL", "REFUSED"])
async def test_a_host_that_resolved_a_minute_ago_outlives_its_name_server(
    dns: DnsCache, zone: Script, clock: ManualClock, fault: str
) -> None:
    zone.add("a.test. 0 IN A 127.0.0.5")
    await dns.address("a.test")
    zone.ill[""] = fault
    clock.advance(61.0)

    assert await dns.address("a.test") == "127.0.0.5"
    asked = zone.asked.total()
    clock.advance(STALE_RETRY - 1.0)
    await dns.address("a.test")
    assert zone.asked.total() == asked, "the ill server is asked at every turn"

    clock.advance(SETTINGS.dns_stale)
    assert (await failure(dns, "a.test")).outcome in (Outcome.DNS_TIMEOUT, Outcome.DNS_FAILURE)


async def test_a_name_that_is_gone_is_no_reason_to_go_on_with_its_old_address(
    dns: DnsCache, zone: Script, clock: ManualClock
) -> None:
    zone.add("a.test. 0 IN A 127.0.0.5")
    await dns.address("a.test")
    zone.remove("a.test")
    clock.advance(61.0)

    assert (await failure(dns, "a.test")).outcome == Outcome.NO_SUCH_HOST


# several addresses


async def test_an_address_that_fails_gives_way_to_the_next_and_comes_back_in_the_end(
    dns: DnsCache, zone: Script
) -> None:
    zone.add("b.test. 0 IN A 127.0.0.1", "b.test. 0 IN A 127.0.0.2", "b.test. 0 IN AAAA fd00::1")
    seen = []
    for _ in range(4):
        seen.append(await dns.address("b.test"))
        assert await dns.address("b.test") == seen[-1], "it stays pinned while it works"
        dns.failed("b.test", seen[-1])

    assert set(seen[:2]) == {"127.0.0.1", "127.0.0.2"}, "IPv4 first"
    assert seen[2] == "fd00::1"
    assert seen[3] == seen[0]


async def test_a_failure_of_an_address_that_is_not_pinned_any_more_changes_nothing(
    dns: DnsCache, zone: Script
) -> None:
    zone.add("b.test. 0 IN A 127.0.0.1", "b.test. 0 IN A 127.0.0.2")
    pinned = await dns.address("b.test")
    dns.failed("b.test", "127.0.0.3")
    dns.failed("never.test", pinned)

    assert await dns.address("b.test") == pinned


async def test_ipv6_that_was_needed_once_is_kept_over_the_next_life(
    dns: DnsCache, zone: Script, clock: ManualClock
) -> None:
    zone.add("b.test. 0 IN A 127.0.0.1", "b.test. 0 IN AAAA fd00::1")
    dns.failed("b.test", await dns.address("b.test"))
    assert await dns.address("b.test") == "fd00::1"
    clock.advance(61.0)

    assert await dns.address("b.test") == "fd00::1"


async def test_a_host_with_ipv6_only_resolves_and_one_with_ipv4_is_not_asked_for_it(
    dns: DnsCache, zone: Script
) -> None:
    zone.add("six.test. 0 IN AAAA fd00::6", "four.test. 0 IN A 127.0.0.4", "four.test. 0 IN AAAA fd00::4")

    assert await dns.address("six.test") == "fd00::6"
    assert await dns.address("four.test") == "127.0.0.4"
    assert zone.asked["four.test", "AAAA"] == 0


ADDRESSES = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, unique=True)


@given(ADDRESSES, st.frozensets(st.sampled_from("abcd")), st.sampled_from(["", "a", "b", "x"]))
def test_whatever_has_failed_one_address_of_the_answer_is_pinned(
    addresses: list[str], failed: frozenset[str], before: str
) -> None:
    pinned = _pin(Answer(0.0, address=before, addresses=tuple(addresses), failed=failed & {*addresses}))

    assert pinned.address in addresses
    assert pinned.address not in pinned.failed
    if before in addresses and before not in failed:
        assert pinned.address == before


# names


async def test_aliases_are_followed_and_the_shortest_life_of_the_chain_counts(
    dns: DnsCache, zone: Script, clock: ManualClock
) -> None:
    zone.add(
        "www.test. 90 IN CNAME cdn.test.",
        "cdn.test. 70 IN CNAME edge.test.",
        "edge.test. 3000 IN A 127.0.0.7",
    )

    assert await dns.address("www.test") == "127.0.0.7"
    assert life(dns, clock, "www.test") == 70.0


async def test_aliases_that_a_server_leaves_to_us_are_followed_too(
    dns: DnsCache, zone: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone.add("www.test. 90 IN CNAME cdn.test.", "cdn.test. 70 IN A 127.0.0.7")
    whole = Script.answer

    def first_step_only(self: Script, query: bytes) -> bytes | None:
        record = DNSRecord.parse(query)
        if str(record.q.qname) != "www.test.":
            return whole(self, query)
        reply = record.reply()
        reply.add_answer(*RR.fromZone("www.test. 90 IN CNAME cdn.test."))
        return bytes(reply.pack())

    monkeypatch.setattr(Script, "answer", first_step_only)

    assert await dns.address("www.test") == "127.0.0.7"


async def test_aliases_in_a_circle_fail(dns: DnsCache, zone: Script) -> None:
    zone.add("x.test. 9 IN CNAME y.test.", "y.test. 9 IN CNAME x.test.")

    assert (await failure(dns, "x.test")).outcome in (Outcome.DNS_FAILURE, Outcome.NO_SUCH_HOST)


@pytest.mark.parametrize(
    "host", ["a_b.host", "xn--i-7iq.ws", "_dmarc.a_b.test", "1.a.test", "a--b.test", "x" * 63 + ".test"]
)
async def test_names_that_are_no_hostnames_by_the_book_resolve(
    dns: DnsCache, zone: Script, host: str
) -> None:
    zone.add(f"{host}. 0 IN A 127.0.0.8")

    assert await dns.address(host) == "127.0.0.8"


@pytest.mark.parametrize(
    "host",
    [
        "x" * 64 + ".test",
        "a..test",
        ".test",
        "",
        "a." * 130 + "test",
        "a b.test",
        "\udcff.test",
        "ü.test",
        "\0.test",
    ],
)
async def test_names_that_no_name_server_could_hold_fail_cleanly(dns: DnsCache, host: str) -> None:
    assert (await failure(dns, host)).outcome in (Outcome.NO_SUCH_HOST, Outcome.DNS_FAILURE)


# bounds


async def test_the_cache_of_the_resolver_below_is_thrown_away_now_and_then(
    dns: DnsCache, zone: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "RENEWED_AFTER", 5)
    channels = {id(dns._resolver._channel): dns._resolver._channel}
    for n in range(12):
        zone.add(f"h{n}.test. 3000 IN A 127.0.0.5")
        assert await dns.address(f"h{n}.test") == "127.0.0.5"
        channels[id(dns._resolver._channel)] = dns._resolver._channel

    assert len(channels) == 3
    assert len(dns._resolver._retired) == 2


async def test_a_million_hosts_leave_no_more_than_the_cache_holds(
    dns: DnsCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolved(host: str) -> Answer:
        return Answer(1e9, "127.0.0.5")

    monkeypatch.setattr(dns_module, "CACHE_SIZE", 100)
    monkeypatch.setattr(dns, "_resolve", resolved)
    for n in range(5_000):  # of each million the same: an entry goes for each that comes
        await dns.address(f"h{n}.test")

    assert len(dns._answers) == 100
    assert not dns._pending
    assert dns.pinned("h4999.test") is not None
