"""URLs known for certain: none is taken for another, and what they take of memory is bounded."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier import met
from crawl_platform.frontier.met import MetSlots, halves
from crawl_platform.frontier.seen import digest_of


def digests(count: int, first: int = 0) -> list[bytes]:
    return [digest_of(b"%d" % n) for n in range(first, first + count)]


@given(st.lists(st.integers(0, 300), max_size=200), st.integers(1, 64), st.integers(1, 50))
@settings(deadline=None)
def test_nothing_is_known_but_what_was_added(numbers: list[int], slots: int, batch: int) -> None:
    known = MetSlots(slots)
    for start in range(0, len(numbers), batch):
        known.add(halves([digest_of(b"%d" % n) for n in numbers[start : start + batch]]))

    found = known.known(halves(digests(300))).tolist()

    assert {n for n in range(300) if found[n]} <= set(numbers)


def test_nearly_all_of_a_batch_finds_room_though_many_choose_the_same_slot() -> None:
    known = MetSlots(1 << 14)

    known.add(halves(digests(8_000)))

    assert known.known(halves(digests(8_000))).mean() > 0.99


def test_tables_grow_by_four_until_one_is_as_large_as_allowed(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(met, "FIRST", 256)
    known, sizes = MetSlots(4_096), set[int]()
    for start in range(0, 50_000, 50):
        known.add(halves(digests(50, start)))
        sizes.add(known.slots)

    assert sizes == {256, 256 + 1_024, 256 + 1_024 + 4_096}
    assert known.known(halves(digests(100))).mean() > 0.9, "what came first stays"
    assert known.known(halves(digests(50, 49_950))).all(), "what comes last takes the place of others"


def test_what_is_discarded_is_known_no_more_in_any_table(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(met, "FIRST", 64)
    known = MetSlots(1_024)
    for start in range(0, 600, 20):
        known.add(halves(digests(20, start)))

    known.discard(halves(digests(300)))

    assert not known.known(halves(digests(300))).any()
    assert known.known(halves(digests(300, 300))).mean() > 0.9
