"""The ordered key-value contract, over both stores."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.errors import DamagedStateError, StateError
from crawl_platform.frontier.kv import Batch, MemoryKV, OrderedKV, prefix_end
from crawl_platform.frontier.rocks import RocksKV


def write(kv: OrderedKV, *pairs: tuple[bytes, bytes | None], sync: bool = False) -> None:
    batch = Batch()
    for key, value in pairs:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    kv.write(batch, sync=sync)


def test_what_was_put_is_found_and_what_was_deleted_is_not(store: OrderedKV) -> None:
    write(store, (b"a", b"1"), (b"b", b""))
    write(store, (b"a", None), (b"never there", None))

    assert store.get(b"a") is None
    assert store.get(b"b") == b""


def test_many_are_found_as_one_by_one(store: OrderedKV) -> None:
    write(store, (b"a", b"1"), (b"b", b""), (b"c", b"3"))

    assert store.get_many([b"c", b"x", b"b", b"a", b"a"]) == [b"3", None, b"", b"1", b"1"]
    assert store.get_many([]) == []


def test_a_scan_is_in_byte_order_and_leaves_out_its_stop(store: OrderedKV) -> None:
    write(store, (b"b\xff", b"4"), (b"a", b"1"), (b"b", b"2"), (b"b\x00", b"3"), (b"c", b"5"))

    assert [key for key, _ in store.scan(b"b", b"c")] == [b"b", b"b\x00", b"b\xff"]
    assert list(store.scan(b"x", b"z")) == []
    assert list(store.scan(b"c", b"b")) == []


def test_a_scan_shows_the_store_as_of_the_call(store: OrderedKV) -> None:
    write(store, (b"a", b"old"))

    pairs = store.scan(b"a", b"z")
    write(store, (b"a", b"new"), (b"b", b"later"))

    assert list(pairs) == [(b"a", b"old")]


def test_a_later_entry_of_a_batch_replaces_an_earlier_one(store: OrderedKV) -> None:
    write(store, (b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", None))

    assert store.get(b"a") == b"2"
    assert store.get(b"b") is None


def test_merged_batches_are_one_batch(store: OrderedKV) -> None:
    first, second = Batch(), Batch()
    first.put(b"a", b"1")
    first.put(b"b", b"1")
    second.delete(b"a")
    second.put(b"c", b"1")

    first.merge(second)
    store.write(first)

    assert len(first) == 3
    assert [key for key, _ in store.scan(b"a", b"z")] == [b"b", b"c"]


@pytest.mark.parametrize("prefix", [b"a", b"q\x00\x07host\x00\x03", b"\xff\xfe"])
def test_prefix_end_is_just_above_all_that_starts_with_the_prefix(store: OrderedKV, prefix: bytes) -> None:
    inside = [prefix, prefix + b"\x00", prefix + b"\xff\xff"]
    write(store, *((key, b"") for key in inside), (prefix_end(prefix), b""))

    assert [key for key, _ in store.scan(prefix, prefix_end(prefix))] == inside


def test_a_synced_batch_is_there_after_the_store_is_opened_again(open_rocks: Callable[[], RocksKV]) -> None:
    first = open_rocks()
    write(first, (b"a", b"1"), (b"b", b"2"), sync=True)
    write(first, (b"a", None), (b"c", b"3"), sync=True)
    first.close()

    second = open_rocks()
    found = list(second.scan(b"", b"\xff"))
    second.close()

    assert found == [(b"b", b"2"), (b"c", b"3")]


def test_a_store_that_is_opened_again_has_the_options_of_now(tmp_path: Path) -> None:
    RocksKV(tmp_path / "state", write_buffer=8 << 20).close()
    RocksKV(tmp_path / "state", write_buffer=16 << 20).close()

    latest = max((tmp_path / "state").glob("OPTIONS-*"), key=lambda file: file.name)
    assert f"write_buffer_size={16 << 20}" in latest.read_text()


def test_a_store_that_another_process_holds_is_refused_in_words(open_rocks: Callable[[], RocksKV]) -> None:
    held = open_rocks()

    with pytest.raises(StateError, match="can't open the cell's state"):
        open_rocks()

    held.close()


def damaged(path: Path, spoil: Callable[[Path], None], name: str) -> None:
    """A store of two files of 1,000 keys each, of which the first that is called so is spoiled."""
    kv = RocksKV(path)
    for start in (b"a", b"b"):
        write(kv, *((start + b"%03d" % number, bytes(range(100))) for number in range(1_000)))
        kv.compact([])
    kv.close()
    spoil(min(path.glob(name)))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def flip(file: Path) -> None:
    """One byte of the first half is another: what a disk does that loses a bit."""
    data = bytearray(file.read_bytes())
    data[len(data) // 4] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (cut, "*.sst"), (empty, "*.sst"), (Path.unlink, "*.sst"), (empty, "MANIFEST-*"), (Path.unlink, "MANIFEST-*"),
        (empty, "CURRENT"),
    ],
)  # fmt: skip
def test_a_store_with_a_file_that_is_cut_empty_or_lost_is_refused_in_words(
    tmp_path: Path, spoil: Callable[[Path], None], name: str
) -> None:
    damaged(tmp_path / "state", spoil, name)

    with pytest.raises(DamagedStateError, match="is damaged; put back a copy, or move it away"):
        RocksKV(tmp_path / "state")


def test_damage_in_the_middle_of_a_file_is_an_error_of_every_way_to_read(tmp_path: Path) -> None:
    damaged(tmp_path / "state", flip, "*.sst")
    kv = RocksKV(tmp_path / "state")

    with pytest.raises(DamagedStateError):
        list(kv.scan(b"a", b"c"))
    with pytest.raises(DamagedStateError):
        [kv.get(b"a%03d" % number) for number in range(1_000)]
    with pytest.raises(DamagedStateError):
        kv.get_many([b"a%03d" % number for number in range(1_000)])
    kv.close()


def test_ablation_a_scan_that_does_not_ask_how_it_ended_takes_damage_for_the_end(tmp_path: Path) -> None:
    damaged(tmp_path / "state", flip, "*.sst")
    kv = RocksKV(tmp_path / "state")
    cursor = kv._db.iter()
    cursor.seek(b"a")

    found = 0
    while cursor.valid():
        found += 1
        cursor.next()

    assert found < 1_000, "of 2,000, and nobody said a word"
    kv.close()


changes = st.lists(
    st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.none() | st.binary(max_size=3)), max_size=6),
    max_size=8,
)


@given(changes)
@settings(max_examples=40, deadline=None)
def test_both_stores_hold_the_same_after_any_batches(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[bytes, bytes | None]]]
) -> None:
    memory, rocks = MemoryKV(), RocksKV(Path(tmp_path_factory.mktemp("kv")) / "state")

    for batch in batches:
        write(memory, *batch)
        write(rocks, *batch)
    pairs = list(rocks.scan(b"", b"\xff\xff\xff\xff"))
    rocks.close()

    assert pairs == list(memory.scan(b"", b"\xff\xff\xff\xff"))
