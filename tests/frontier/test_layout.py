"""A store of an older layout is brought up to date, and one of a newer release is refused."""

from pathlib import Path

import msgspec
import pytest

from crawl_platform.errors import StateError, StateTooNewError
from crawl_platform.frontier import layout
from crawl_platform.frontier.kv import Batch, MemoryKV, OrderedKV
from crawl_platform.frontier.layout import KEY, LAYOUT, bring_up_to_date
from crawl_platform.frontier.records import (
    DISCOVERY,
    FETCHED,
    QUEUED,
    REFRESH,
    VERSION,
    HostRecord,
    UrlRecord,
    Waiting,
    decode,
    encode,
    host_key,
    queue_key,
    url_key,
)
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, url

FIRST_URL_FIELDS, FIRST_HOST_FIELDS = 23, 11
"""Of the records of the first release (commit d2b0951), which had `UrlRecord` up to `manifest`, `HostRecord` up to
`admitted`, and places in queues without a value."""


def first_release(record: UrlRecord | HostRecord, fields: int) -> bytes:
    return VERSION + msgspec.msgpack.encode(list(msgspec.structs.astuple(record))[:fields])


def store_of_the_first_release(kv: OrderedKV, pages: int = 6) -> OrderedKV:
    """One host with pages that wait for their first visit or for the next."""
    batch = Batch()
    for n in range(pages):
        lane, state, seen = (DISCOVERY, QUEUED, 0.0) if n % 2 else (REFRESH, FETCHED, 5.0)
        record = UrlRecord(state=state, lane=lane, rank=n, value=0.5, group=7, last_success_at=seen)
        batch.put(url_key(0, A, url(str(n))), first_release(record, FIRST_URL_FIELDS))
        batch.put(queue_key(0, A, lane, n, url(str(n))), b"")
    host = HostRecord(trusted=True, known=pages, queued=pages, fetched=pages // 2, admitted=True)
    batch.put(host_key(0, A), first_release(host, FIRST_HOST_FIELDS))
    kv.write(batch)
    return kv


@pytest.mark.parametrize("store", ["memory", "rocks"])
def test_a_store_of_the_first_release_is_crawled_on(tmp_path: Path, store: str) -> None:
    kv = store_of_the_first_release(MemoryKV() if store == "memory" else RocksKV(tmp_path / "state"))

    assert bring_up_to_date(kv) == 6
    assert bring_up_to_date(kv) == 0

    assert kv.get(KEY) == str(LAYOUT).encode()
    rig = FrontierRig(A, kv=kv)
    assert (rig.frontier.known, rig.frontier.fetched, rig.frontier.hosts[A].record.queued) == (6, 3, 6)
    claimed = set()
    for _ in range(6):
        lease = rig.claim_page()
        assert lease.record.group == 7
        claimed.add(lease.url)
        rig.finish(lease, "gone")
    assert claimed == {url(str(n)) for n in range(6)}
    kv.close()


def test_ablation_without_the_migration_it_can_not_be_crawled() -> None:
    rig = FrontierRig(A, kv=store_of_the_first_release(MemoryKV()))

    with pytest.raises(StateError, match="damaged Waiting"):
        visit_all(rig)


def visit_all(rig: FrontierRig) -> None:
    for _ in range(6):
        rig.finish(rig.claim_page(), "gone")


def test_one_that_was_killed_on_the_way_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PORTION", 2)
    kv = store_of_the_first_release(MemoryKV())
    written = 0
    write = kv.write

    def dies_later(batch: Batch, *, sync: bool = False) -> None:
        nonlocal written
        written += 1
        if written == 3:
            raise KeyboardInterrupt
        write(batch, sync=sync)

    monkeypatch.setattr(kv, "write", dies_later)
    with pytest.raises(KeyboardInterrupt):
        bring_up_to_date(kv)
    assert kv.get(KEY) is None
    monkeypatch.setattr(kv, "write", write)

    assert bring_up_to_date(kv) == 2
    assert all(decode(value, Waiting).group == 7 for _, value in kv.scan(b"q", b"r"))


def test_a_place_in_a_queue_whose_url_is_not_known_goes() -> None:
    kv = store_of_the_first_release(MemoryKV())
    stray = Batch()
    stray.delete(url_key(0, A, url("3")))
    kv.write(stray)

    assert bring_up_to_date(kv) == 6
    assert len(list(kv.scan(b"q", b"r"))) == 5


def test_a_new_store_is_marked_and_one_of_the_present_layout_without_a_mark_is_left() -> None:
    fresh = MemoryKV()
    assert bring_up_to_date(fresh) == 0
    assert fresh.get(KEY) == str(LAYOUT).encode()

    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    before = list(rig.kv.scan(b"q", b"r"))
    assert bring_up_to_date(rig.kv) == 0
    assert list(rig.kv.scan(b"q", b"r")) == before


def test_a_layout_of_a_newer_release_is_refused_and_left_alone() -> None:
    kv = store_of_the_first_release(MemoryKV())
    mark = Batch()
    mark.put(KEY, str(LAYOUT + 1).encode())
    kv.write(mark)
    before = list(kv.scan(b"\0", b"\xff"))

    with pytest.raises(StateTooNewError, match=f"has layout {LAYOUT + 1}, this release knows {LAYOUT}"):
        bring_up_to_date(kv)

    assert list(kv.scan(b"\0", b"\xff")) == before


def test_a_record_of_a_newer_release_is_not_migrated_away() -> None:
    kv = store_of_the_first_release(MemoryKV())
    newer = Batch()
    newer.put(queue_key(0, A, REFRESH, 0, url("0")), bytes((VERSION[0] + 1,)) + encode(Waiting())[1:])
    kv.write(newer)

    with pytest.raises(StateTooNewError, match="run the newer release"):
        bring_up_to_date(kv)
