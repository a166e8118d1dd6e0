from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.web.host import matches, registrable_domain, shard_of


def test_registrable_domain_is_suffix_plus_one_label() -> None:
    assert registrable_domain("www.shop.co.uk") == "shop.co.uk"
    assert registrable_domain("a.b.example.com") == "example.com"
    assert registrable_domain("me.github.io") == "me.github.io"


def test_hosts_without_one_stand_for_themselves() -> None:
    assert registrable_domain("co.uk") == "co.uk"
    assert registrable_domain("localhost") == "localhost"
    assert registrable_domain("192.0.2.7") == "192.0.2.7"
    assert registrable_domain("[2001:db8::1]") == "[2001:db8::1]"


def test_shards_are_fixed_for_ever() -> None:
    assert [shard_of(host, 64) for host in ("a.example", "b.example", "www.example.org")] == [8, 40, 18]
    assert shard_of("", 2**63) == 0x2D06800538D394C2 % 2**63  # XXH3's published value for no input


@given(st.text(), st.integers(1, 65_536))
def test_a_shard_lies_within_bounds(host: str, n_shards: int) -> None:
    assert 0 <= shard_of(host, n_shards) < n_shards


def test_patterns_name_a_host_or_a_domain_with_all_below() -> None:
    assert matches("a.example", "a.example")
    assert not matches("a.example", "b.a.example")
    assert matches("*.a.example", "a.example")
    assert matches("*.a.example", "c.b.a.example")
    assert not matches("*.a.example", "ba.example")
