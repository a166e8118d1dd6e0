"""Which addresses may be contacted. Every private way in is closed, also those wrapped in IPv6."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.errors import ConfigurationError
from crawl_platform.fetch.safety import AddressGuard

REFUSED = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "unspecified": ["0.0.0.0", "::"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1"],
    "shared (carrier NAT)": ["100.64.0.1"],
    "link-local (cloud metadata lives there)": ["169.254.169.254", "fe80::1", "fe80::1%eth0"],
    "site-local": ["fec0::1"],
    "multicast, broadcast, reserved": ["224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1"],
    "documentation, benchmarks": ["192.0.2.1", "198.18.0.1", "203.0.113.9", "2001:db8::1", "3fff::1"],
    "this network": ["0.1.2.3"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1"],
    "translated": ["::ffff:0:10.0.0.1", "::ffff:0:7f00:1"],
    "ISATAP": ["2a00:1450::5efe:10.0.0.1", "2a00:1450::200:5efe:127.0.0.1"],
    "segment routing, unassigned": ["5f00::1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"],
    "compatible": ["::127.0.0.1", "::10.0.0.1"],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:7f00:0:100::"],
    "6to4": ["2002:7f00:1::", "2002:0a00:0001::1", "2002:a9fe:a9fe::"],
}
PERMITTED = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "2606:4700:4700::1111"]


@pytest.mark.parametrize(("kind", "address"), [(kind, a) for kind, some in REFUSED.items() for a in some])
def test_an_address_that_is_not_public_is_refused(kind: str, address: str) -> None:
    assert not AddressGuard().permits(address)


@pytest.mark.parametrize("address", PERMITTED)
def test_a_public_address_is_permitted(address: str) -> None:
    assert AddressGuard().permits(address)


def test_a_network_named_by_a_setting_is_permitted_and_nothing_beside_it() -> None:
    guard = AddressGuard(("127.1.0.0/16", "fd00::/8"))

    assert guard.permits("127.1.2.3")
    assert guard.permits("fd00::1")
    assert not guard.permits("127.0.0.1")
    assert not guard.permits("10.0.0.1")


def test_allowing_loopback_does_not_open_the_wrapped_forms() -> None:
    guard = AddressGuard(("127.0.0.0/8",))

    for address in ("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:0a00:0001::1"):
        assert not guard.permits(address)


@pytest.mark.parametrize("network", ["nonsense", "127.0.0.1/8", "10.0.0.0/33"])
def test_a_wrong_network_is_a_configuration_error(network: str) -> None:
    with pytest.raises(ConfigurationError, match="allow_networks"):
        AddressGuard((network,))


@given(st.ip_addresses(v=4))
@settings(deadline=None)
def test_what_is_refused_plainly_is_refused_in_every_wrapping(address: object) -> None:
    guard, packed = AddressGuard(), int(address)  # type: ignore[call-overload]
    high, low = packed >> 16, packed & 0xFFFF

    if not guard.permits(str(address)):
        for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{high:x}:{low:x}::1"):
            assert not guard.permits(wrapped)


@pytest.mark.parametrize(
    ("host", "permitted"),
    [("site.test", True), ("8.8.8.8", True), ("[2606:4700:4700::1111]", True), ("127.0.0.1", False), ("[::1]", False),
     ("localhost", False), ("db.localhost", False), ("notlocalhost", True), ("10.0.0.1.test", True)],
)  # fmt: skip
def test_a_host_is_judged_by_its_spelling_as_far_as_that_tells(host: str, permitted: bool) -> None:
    assert AddressGuard().permits_host(host) == permitted
