"""The heads of queues in memory: in step with the store, and bounded by settings."""

import tracemalloc
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.hosts import HEAD, PREFETCH, HostState, Move
from crawl_platform.frontier.kv import Batch, MemoryKV
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.overlay import Overlay
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    LANES,
    HostRecord,
    UrlRecord,
    Waiting,
    decode,
    encode,
    queue_key,
    waiting,
    waiting_found,
)
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, known, url

DATA = encode(Waiting())
moves = st.lists(
    st.builds(
        Move,
        st.sampled_from([1, 3, 4]),
        st.integers(0, 60),
        st.sampled_from(["u1", "u2"]),
        st.sampled_from([DATA, DATA, None]),
    ),
    max_size=40,
)


def apply(kv: MemoryKV, state: HostState, changes: list[Move]) -> None:
    batch = Batch()
    for lane, rank, name, data in changes:
        key = queue_key(0, A, lane, rank, name)
        batch.put(key, data) if data is not None else batch.delete(key)
    kv.write(batch)
    state.follow(changes)


def drained(kv: MemoryKV, state: HostState, lane: int) -> list[tuple[int, str]]:
    """The lane in the order in which it would be claimed."""
    order = []
    while (head := state.head(kv, lane)) is not None:
        order.append((head.rank, head.url))
        apply(kv, state, [Move(lane, head.rank, head.url, None)])
    return order


@given(st.lists(moves, max_size=6), st.lists(st.integers(0, 60), min_size=30, max_size=60, unique=True))
@settings(deadline=None, max_examples=60)
def test_heads_that_follow_the_store_are_those_that_a_fresh_look_finds(
    epochs: list[list[Move]], ranks: list[int]
) -> None:
    kv, state = MemoryKV(), HostState(A, 0, HostRecord())
    apply(kv, state, [Move(3, rank, "u1", DATA) for rank in ranks])
    state.head(kv, 3)

    for epoch in epochs:
        apply(kv, state, epoch)
        fresh = HostState(A, 0, HostRecord())
        for lane in range(len(LANES)):
            assert state.head(kv, lane) == fresh.head(kv, lane)

    stored = sorted((key[len(b"q00a.test0l") :] for key, _ in kv.scan(b"q", b"r")))
    order = [entry for lane in range(len(LANES)) for entry in drained(kv, state, lane)]
    assert len(order) == len(stored)
    assert list(kv.scan(b"q", b"r")) == []


def test_ablation_heads_that_do_not_follow_name_what_is_no_longer_there() -> None:
    kv, state = MemoryKV(), HostState(A, 0, HostRecord())
    apply(kv, state, [Move(3, 1, "u1", DATA), Move(3, 2, "u2", DATA)])
    state.head(kv, 3)
    gone = Batch()
    gone.delete(queue_key(0, A, 3, 1, "u1"))
    kv.write(gone)

    head = state.head(kv, 3)

    assert head is not None
    assert head.url == "u1"


class CountingKV(MemoryKV):
    """Counts what is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0
        self.gets = 0

    def scan(self, start, stop):  # type: ignore[no-untyped-def]
        self.scans += 1
        return super().scan(start, stop)

    def get(self, key: bytes) -> bytes | None:
        self.gets += 1
        return super().get(key)

    def get_many(self, keys):  # type: ignore[no-untyped-def]
        self.gets += len(keys)
        return super().get_many(keys)


def test_a_claim_and_its_result_look_nothing_up_while_the_heads_last() -> None:
    kv = CountingKV()
    rig = FrontierRig(A, kv=kv)
    rig.discover(*(url(f"{n}") for n in range(HEAD - 1)))
    rig.finish(rig.claim_page(), "gone")
    kv.scans = kv.gets = 0

    for _ in range(HEAD - 2):
        rig.finish(rig.claim_page(), "gone")

    assert (kv.scans, kv.gets) == (0, 0)


def test_a_record_that_changes_between_claim_and_result_is_read_again() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    lease = rig.claim_page()
    rig.apply(lambda planner: planner.appraise(url("1"), 0.125, "duplicate"))

    rig.finish(lease)

    assert (known(rig, url("1")).value, known(rig, url("1")).worth) == (0.125, "duplicate")


def test_a_record_that_changes_before_its_claim_is_claimed_as_it_is() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"), value=0.25)
    for one in (url("1"), url("2")):  # there is more to say of them than stands in the queue
        rig.apply(partial(Planner.appraise, url=one, value=0.5, reason="unique"))
    rig.finish(rig.claim_page(), "gone")  # the record of the other came along
    (other,) = rig.frontier.hosts[A].records
    rig.apply(lambda planner: planner.appraise(other, 0.125, "duplicate"))

    assert rig.claim_page().record.worth == "duplicate"


def test_ablation_without_the_note_an_old_record_would_be_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostState, "changed", lambda self, url: None)
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"), value=0.25)
    for one in (url("1"), url("2")):  # there is more to say of them than stands in the queue
        rig.apply(partial(Planner.appraise, url=one, value=0.5, reason="unique"))
    rig.finish(rig.claim_page(), "gone")
    (other,) = rig.frontier.hosts[A].records
    rig.apply(lambda planner: planner.appraise(other, 0.125, "duplicate"))

    assert rig.claim_page().record.worth == "unique"


# URLs of which there is nothing to say but that they were discovered

anything = {int: st.integers(0, 2**60), float: st.floats(0, 2e9), str: st.text(), bool: st.booleans(),
            tuple[str, ...]: st.lists(st.text(max_size=9), max_size=2).map(tuple)}  # fmt: skip
records = st.builds(
    UrlRecord,
    **{
        field.name: st.one_of(st.just(field.default), anything[field.type])
        for field in msgspec.structs.fields(UrlRecord)
        if field.name not in ("lane", "rank")
    },
    lane=st.just(DISCOVERY),
    rank=st.integers(0, 2**50),
)


@given(records)
@settings(deadline=None, max_examples=200)
def test_a_place_in_the_queue_that_says_it_all_tells_the_record_as_it_is(record: UrlRecord) -> None:
    place = decode(encode(waiting(record)), Waiting)

    assert not place.whole or place.record(record.rank) == record
    found = UrlRecord(lane=DISCOVERY, rank=3, depth=2, hops=1, value=0.5, group=9, discovered_at=7.0)
    assert waiting(found).whole
    assert decode(waiting_found(found), Waiting) == waiting(found)


def test_a_claim_of_a_url_that_was_just_discovered_looks_nothing_up() -> None:
    kv = CountingKV()
    rig = FrontierRig(A, kv=kv)
    rig.discover(url("1"), depth=3, hops=1)
    kv.gets = 0

    lease = rig.claim_page()

    assert kv.gets == 0
    assert lease.record == rig.record(A, url("1"))


LISTED = Found(url("1"), 1, 0.5, sitemap=url("map.xml"), lastmod=1.7e9)


def listed_before_its_claim() -> FrontierRig:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.apply(lambda planner: planner.discover(LISTED))
    return rig


def test_what_a_sitemap_says_of_a_queued_url_is_in_what_is_claimed() -> None:
    rig = listed_before_its_claim()

    assert rig.claim_page().record == rig.record(A, url("1"))
    assert known(rig, url("1")).lastmod == 1.7e9


def test_ablation_a_place_that_is_not_written_anew_tells_an_old_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Overlay, "requeue", lambda *_: None)
    rig = listed_before_its_claim()

    assert rig.claim_page().record != rig.record(A, url("1"))


def crowd(active_hosts: int) -> FrontierRig:
    hosts = [f"{n}.test" for n in range(30)]
    limits = FrontierSettings(bloom_capacity=10_000, active_hosts=active_hosts)
    rig = FrontierRig(*hosts, settings=limits)
    rig.discover(*(url(f"{n}", host) for host in hosts for n in range(3)))
    return rig


def kept(rig: FrontierRig) -> int:
    return sum(bool(state.heads) for state in rig.frontier.hosts.values())


def test_heads_are_kept_for_so_many_hosts_and_every_host_is_served_all_the_same() -> None:
    rig = crowd(active_hosts=4)
    assert kept(rig) <= 4

    fetched = set()
    while isinstance(lease := rig.next_claim(patience=1e4), Lease):
        rig.finish(lease, "gone")
        fetched.add(lease.url)
        assert kept(rig) <= 4

    assert len(fetched) == 90


def test_ablation_without_the_bound_the_heads_of_every_known_host_stay() -> None:
    assert kept(crowd(active_hosts=1_000)) == 30


def test_what_a_host_takes_of_memory_does_not_grow_with_its_queue() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(2_000)))
    for n in range(3):
        rig.finish(rig.claim_page(), "gone")
        rig.discover(*(url(f"more-{n}-{m}") for m in range(100)))

    state = rig.frontier.hosts[A]

    assert state.record.queued == 2_297
    assert max(len(entries) for entries in state.heads.values()) <= 2 * HEAD
    assert len(state.records) <= PREFETCH


@pytest.mark.long
def test_a_host_that_is_known_and_not_active_takes_a_few_kilobytes() -> None:
    """What grows with known hosts is a record, a time and an entry in the book: 4 KB with 8 sections learnt."""
    count = 5_000
    hosts = [f"www.host-{n}.test" for n in range(count)]
    limits = FrontierSettings(bloom_capacity=200_000, seen_cache=1_024, active_hosts=50)
    rig = FrontierRig(*hosts, settings=limits, open_robots=False)
    sections = ("news", "world", "science", "culture", "products", "reviews", "people", "archive")
    for host in hosts:
        rig.discover(*(url(f"{section}/a-page", host) for section in sections))

    tracemalloc.start()
    rig.restart()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept(rig) == 50
    assert taken / count < 6_000, taken / count
