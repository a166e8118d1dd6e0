"""Durable records: what is written is read, old ones still are, newer ones are refused."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.pace import Pace
from crawl_platform.errors import StateError
from crawl_platform.frontier.parameter_order import OrderEvidence, Sample
from crawl_platform.frontier.records import (
    LANES,
    VERSION,
    HostRecord,
    RobotsRecord,
    SitemapRecord,
    UrlRecord,
    Waiting,
    decode,
    encode,
    host_key,
    lane_prefix,
    parse_queue_key,
    queue_key,
    shard_range,
    url_key,
    url_of_key,
)
from crawl_platform.scheduling.lastmod import Trust

Record = UrlRecord | HostRecord | RobotsRecord | Waiting | SitemapRecord

NAMES = st.from_regex(r"[a-z0-9-]{1,12}(\.[a-z]{2,5}){1,2}", fullmatch=True)
URLS = st.from_regex(r"https://[a-z]{1,8}\.test/[!-~]{0,20}", fullmatch=True)
U64 = st.integers(0, 2**64 - 1)


def _values(type_: type[msgspec.Struct]) -> st.SearchStrategy[Record]:
    kinds: dict[object, st.SearchStrategy[object]] = {
        int: U64,
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str: st.text(max_size=30),
        bytes: st.binary(max_size=30),
        tuple[int, ...]: st.lists(U64, max_size=3).map(tuple),
        dict[str, float]: st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False), max_size=3),
        Pace: st.builds(Pace, st.floats(0, 1e6), st.integers(0, 9), st.floats(0, 1e6)),
        OrderEvidence: st.builds(
            OrderEvidence,
            st.dictionaries(U64, st.builds(Sample, U64, U64, U64, st.booleans()), max_size=3),
            st.lists(U64, max_size=3).map(tuple),
            st.booleans(),
        ),
        dict[str, int]: st.dictionaries(st.text(max_size=9), U64, max_size=3),
        tuple[str, ...]: st.lists(st.text(max_size=30), max_size=3).map(tuple),
        Trust: st.builds(Trust, st.floats(allow_nan=False), st.floats(allow_nan=False)),
        tuple[tuple[str, bool], ...]: st.lists(
            st.tuples(st.text(max_size=30), st.booleans()), max_size=3
        ).map(tuple),
        dict[int, int]: st.dictionaries(U64, U64, max_size=3),
        dict[int, tuple[int, ...]]: st.dictionaries(U64, st.lists(U64, max_size=3).map(tuple), max_size=3),
    }
    return st.builds(type_, **{f.name: kinds[f.type] for f in msgspec.structs.fields(type_)})  # type: ignore[arg-type,return-value]


@given(
    _values(UrlRecord)
    | _values(HostRecord)
    | _values(RobotsRecord)
    | _values(Waiting)
    | _values(SitemapRecord)
)
@settings(deadline=None)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert decode(encode(record), type(record)) == record


@given(st.integers(0, len(UrlRecord.__struct_fields__)))
@settings(deadline=None)
def test_a_record_of_an_older_release_has_fewer_fields_and_reads_as_defaults(kept: int) -> None:
    record = UrlRecord(state=1, lane=2, rank=3, depth=4, value=0.5, etag="x", series="bulk", manifest=9)
    older = VERSION + msgspec.msgpack.encode(list(msgspec.structs.astuple(record))[:kept])

    read = decode(older, UrlRecord)

    fields = UrlRecord.__struct_fields__
    assert [getattr(read, f) for f in fields[:kept]] == [getattr(record, f) for f in fields[:kept]]
    assert [getattr(read, f) for f in fields[kept:]] == [getattr(UrlRecord(), f) for f in fields[kept:]]


def test_a_record_of_a_newer_version_is_refused_and_says_what_to_do() -> None:
    newer = bytes((VERSION[0] + 1,)) + encode(HostRecord())[1:]

    with pytest.raises(StateError, match="run the newer release"):
        decode(newer, HostRecord)


@pytest.mark.parametrize("data", [b"", VERSION, VERSION + b"\xc1", VERSION + b"\x91\xa1x", VERSION + b"\x80"])
def test_a_damaged_record_is_a_state_error(data: bytes) -> None:
    with pytest.raises(StateError):
        decode(data, UrlRecord)


@given(st.integers(0, 65_535), NAMES, URLS)
@settings(deadline=None)
def test_a_url_key_tells_its_host_and_url(shard: int, host: str, url: str) -> None:
    assert url_of_key(url_key(shard, host, url)) == (host, url)


@given(st.integers(0, 65_535), NAMES, URLS, st.sampled_from(range(len(LANES))), U64)
@settings(deadline=None)
def test_a_queue_key_tells_its_rank_and_url(shard: int, host: str, url: str, lane: int, rank: int) -> None:
    key = queue_key(shard, host, lane, rank, url)

    assert parse_queue_key(key, len(lane_prefix(shard, host, lane))) == (rank, url)


@given(st.lists(st.tuples(U64, URLS), min_size=2, max_size=10))
@settings(deadline=None)
def test_queue_keys_order_by_rank(entries: list[tuple[int, str]]) -> None:
    keys = sorted(queue_key(0, "a.test", 3, rank, url) for rank, url in entries)

    prefix = len(lane_prefix(0, "a.test", 3))
    assert [parse_queue_key(key, prefix)[0] for key in keys] == sorted(rank for rank, _ in entries)


@given(st.integers(0, 65_534), NAMES, NAMES)
@settings(deadline=None)
def test_a_shards_range_holds_its_keys_and_no_others(shard: int, host: str, other: str) -> None:
    low, high = shard_range(b"h", shard)

    assert low <= host_key(shard, host) < high
    assert not low <= host_key(shard + 1, other) < high


@given(NAMES, NAMES, URLS)
@settings(deadline=None)
def test_one_hosts_queue_never_shows_anothers(host: str, other: str, url: str) -> None:
    prefix = lane_prefix(0, host, 1)

    assert queue_key(0, other, 1, 5, url).startswith(prefix) == (host == other)
