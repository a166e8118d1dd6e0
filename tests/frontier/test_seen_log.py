"""The seen set survives restarts without a look at every URL, and never at the price of a page."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier import met, seen_log
from crawl_platform.frontier.kv import Batch, MemoryKV, OrderedKV
from crawl_platform.frontier.purge import Dropped, drop
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.frontier.seen import SeenSet, digest_of
from crawl_platform.frontier.seen_log import BITS, LOG, NAMED, Checkpoint, SeenLog
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, url


class NoURLs(MemoryKV):
    """Says when the known URLs themselves are read."""

    reads = 0

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.reads += start[:1] == b"u"
        return super().scan(start, stop)


def write_checkpoint(rig: FrontierRig, parts: int | None = None) -> None:
    """A checkpoint, or its first `parts` batches: then the cell is killed."""
    for number, batch in enumerate(rig.frontier.log.checkpoint(rig.frontier.seen)):
        if number == parts:
            return
        rig.kv.write(batch, sync=True)


def rig_with(kv: OrderedKV, count: int = 40) -> FrontierRig:
    rig = FrontierRig(A, kv=kv)
    for n in range(count):
        rig.discover(url(f"{n}"))
    return rig


def all_seen(rig: FrontierRig, count: int) -> bool:
    plan = rig.discover(*(url(f"{n}") for n in range(count)))
    return plan.turned_away == {"seen": count} and rig.frontier.known == count


def test_a_start_takes_the_checkpoint_and_what_was_logged_since(store: OrderedKV) -> None:
    rig = rig_with(store, 40)
    write_checkpoint(rig)
    rig.discover(url("40"), url("41"))

    rig.restart()

    assert rig.frontier.log.waiting == 2
    assert all_seen(rig, 42)


def test_a_start_from_a_checkpoint_reads_no_url() -> None:
    rig = rig_with(kv := NoURLs())
    write_checkpoint(rig)
    rig.discover(url("40"))
    kv.reads = 0

    rig.restart()

    assert kv.reads == 0


def test_a_first_start_reads_the_urls_and_asks_for_a_checkpoint() -> None:
    rig = rig_with(kv := NoURLs())
    for key, _ in kv.scan(LOG, LOG + b"\xff"):
        rig.apply(lambda planner, key=key: planner.plan.batch.delete(key))
    kv.reads = 0

    rig.restart()

    assert kv.reads > 0
    assert rig.frontier.log.due(rig.frontier.known)
    assert all_seen(rig, 40)


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_a_checkpoint_that_was_cut_off_leaves_the_one_before_in_force(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_log, "PART", 10_000)
    rig = rig_with(kv := NoURLs(), 10)
    write_checkpoint(rig)
    for n in range(10, 20):
        rig.discover(url(f"{n}"))
    write_checkpoint(rig, parts)
    kv.reads = 0

    rig.restart()

    assert kv.reads == 0
    assert all_seen(rig, 20)
    write_checkpoint(rig)
    bits = {key[: len(BITS) + 8] for key, _ in kv.scan(BITS, BITS + b"\xff")}
    assert len(bits) == 1  # what was begun is swept with the next


def torn(kv: OrderedKV) -> None:
    key, part = list(kv.scan(BITS, BITS + b"\xff"))[-1]
    put(kv, key, part[:-1] + bytes((part[-1] ^ 1,)))


def missing(kv: OrderedKV) -> None:
    batch = Batch()
    batch.delete(next(iter(kv.scan(BITS, BITS + b"\xff")))[0])
    kv.write(batch)


def of_another_version(kv: OrderedKV) -> None:
    named = msgspec.msgpack.decode(kv.get(NAMED) or b"", type=Checkpoint)
    put(kv, NAMED, msgspec.msgpack.encode(msgspec.structs.replace(named, version=99)))


def unreadable(kv: OrderedKV) -> None:
    put(kv, NAMED, b"\xc1 no such thing")


def put(kv: OrderedKV, key: bytes, value: bytes) -> None:
    batch = Batch()
    batch.put(key, value)
    kv.write(batch)


@pytest.mark.parametrize("damage", [torn, missing, of_another_version, unreadable])
def test_a_checkpoint_that_is_not_what_was_written_is_made_anew_from_the_urls(damage) -> None:  # type: ignore[no-untyped-def]
    rig = rig_with(kv := NoURLs())
    write_checkpoint(rig)
    damage(kv)
    kv.reads = 0

    rig.restart()

    assert kv.reads > 0
    assert all_seen(rig, 40)
    write_checkpoint(rig)
    kv.reads = 0
    rig.restart()
    assert kv.reads == 0
    assert all_seen(rig, 40)


def test_ablation_without_the_check_a_torn_filter_lets_known_urls_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = rig_with(kv := NoURLs())
    write_checkpoint(rig)
    batch = Batch()
    for key, part in list(kv.scan(BITS, BITS + b"\xff")):
        batch.put(key, part[:8] + bytes(len(part) - 8))
    kv.write(batch)
    named = msgspec.msgpack.decode(kv.get(NAMED) or b"", type=Checkpoint)
    bits = b"".join(part for _, part in kv.scan(BITS, BITS + b"\xff"))
    forged = msgspec.structs.replace(named, check=seen_log.xxhash.xxh3_64_intdigest(bits))
    put(kv, NAMED, msgspec.msgpack.encode(forged))

    rig.restart()

    assert rig.discover(url("1")).new_urls == 1


def test_ablation_without_the_log_urls_since_the_checkpoint_enter_twice() -> None:
    rig = rig_with(kv := NoURLs())
    write_checkpoint(rig)
    rig.discover(url("40"))
    batch = Batch()
    for key, _ in kv.scan(LOG, LOG + b"\xff"):
        batch.delete(key)
    kv.write(batch)

    rig.restart()

    assert rig.discover(url("40")).new_urls == 1


def test_other_shards_than_those_of_the_checkpoint_are_read() -> None:
    kv = MemoryKV()
    rig = FrontierRig(A, kv=kv, n_shards=2)
    rig.discover(url("1"))
    write_checkpoint(rig)

    seen = SeenSet(100, 10, lambda key: True)

    assert SeenLog(kv, frozenset({0, 1})).recall(seen)
    assert not SeenLog(kv, frozenset({0})).recall(seen)


def test_the_log_goes_with_the_checkpoint_that_covers_it() -> None:
    rig = rig_with(kv := MemoryKV(), 5)
    checkpoint = rig.frontier.log.checkpoint(rig.frontier.seen)
    first = next(checkpoint)
    kv.write(first)
    rig.discover(url("5"))  # while it is being written
    for batch in checkpoint:
        kv.write(batch)

    assert len(list(kv.scan(LOG, LOG + b"\xff"))) == rig.frontier.log.waiting == 1
    rig.restart()
    assert all_seen(rig, 6)


@given(st.lists(st.sampled_from(["url", "checkpoint", "cut", "restart"]), max_size=40))
@settings(deadline=None, max_examples=40)
def test_whatever_happens_no_url_enters_twice(steps: list[str]) -> None:
    rig, count = FrontierRig(A), 0
    for step in steps:
        if step == "url":
            assert rig.discover(url(f"{count}")).new_urls == 1
            count += 1
        elif step == "restart":
            rig.restart()
        else:
            write_checkpoint(rig, None if step == "checkpoint" else 1)

    rig.restart()
    assert rig.discover(*(url(f"{n}") for n in range(count))).new_urls == 0


def test_a_checkpoint_of_a_real_store_is_there_after_it_is_opened_again(tmp_path: Path) -> None:
    rig = rig_with(RocksKV(tmp_path / "state"), 10)
    write_checkpoint(rig)
    rig.discover(url("10"))
    rig.kv.close()

    again = FrontierRig(A, kv=RocksKV(tmp_path / "state"))

    assert again.frontier.log.waiting == 1
    assert all_seen(again, 11)
    again.kv.close()


def test_a_start_from_a_checkpoint_needs_no_look_at_the_store_for_what_was_known_for_certain() -> None:
    rig = rig_with(MemoryKV(), 40)
    write_checkpoint(rig)

    rig.restart()

    assert all_seen(rig, 40)
    assert rig.frontier.seen.confirms == 0


def purge_and_crash(rig: FrontierRig) -> None:
    for batch in drop(rig.frontier, url(""), Dropped()):
        rig.kv.write(batch, sync=True)
    rig.restart()


def test_what_is_purged_after_a_checkpoint_is_let_in_again_after_a_crash() -> None:
    rig = rig_with(MemoryKV(), 5)
    write_checkpoint(rig)

    purge_and_crash(rig)

    assert rig.discover(*(url(f"{n}") for n in range(5))).new_urls == 5


def test_what_is_purged_while_a_checkpoint_is_written_is_let_in_again_after_a_crash() -> None:
    rig = rig_with(MemoryKV(), 5)
    checkpoint = rig.frontier.log.checkpoint(rig.frontier.seen)
    written = [next(checkpoint) for _ in range(2)]
    purge = list(drop(rig.frontier, url(""), Dropped()))
    for batch in (*written, *purge, *checkpoint):
        rig.kv.write(batch, sync=True)

    rig.restart()

    assert rig.discover(*(url(f"{n}") for n in range(5))).new_urls == 5


def test_ablation_a_checkpoint_that_outlives_a_purge_would_keep_pages_out_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SeenLog, "forgotten", lambda self, batch: None)
    rig = rig_with(MemoryKV(), 5)
    write_checkpoint(rig)

    purge_and_crash(rig)

    assert rig.discover(*(url(f"{n}") for n in range(5))).new_urls == 0


def test_a_smaller_setting_leaves_the_larger_tables_of_a_checkpoint_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(met, "FIRST", 64)
    known = met.MetSlots(1_024)
    digests = met.halves([digest_of(b"%d" % n) for n in range(600)])
    for start in range(0, 600, 20):
        known.add(digests[start : start + 20])
    smaller = met.MetSlots(256)

    smaller.restore([bytearray(table) for table in known.dump()])

    assert (known.slots, smaller.slots) == (64 + 256 + 1_024, 64 + 256)
    assert 0 < smaller.known(digests).mean() < 0.6
