"""The seen set: the store has the last word, so a Bloom filter that errs costs lookups and never pages."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.seen import FALSE_POSITIVES, Confirm, SeenSet, _number, digest_of


def having(known: Collection[bytes]) -> Confirm:
    """A store of these keys."""
    return lambda keys: [key in known for key in keys]


def yes(keys: Sequence[bytes]) -> list[bool]:
    return [True] * len(keys)


def no(keys: Sequence[bytes]) -> list[bool]:
    return [False] * len(keys)


@given(st.lists(st.binary(min_size=1, max_size=8), unique=True, max_size=60), st.integers(1, 20))
@settings(deadline=None)
def test_every_key_added_is_seen_and_no_other_is(keys: list[bytes], capacity: int) -> None:
    known, strangers = set(keys[::2]), keys[1::2]
    seen = SeenSet(capacity, recent=2, confirm=having(known))
    for key in known:
        seen.add(key)

    assert all(key in seen for key in known)
    assert not any(key in seen for key in strangers)


def test_a_key_that_was_never_added_costs_no_lookup() -> None:
    def no_lookup(keys: Sequence[bytes]) -> list[bool]:
        raise AssertionError("the filter was asked in vain")

    seen = SeenSet(1_000, 10, no_lookup)

    assert b"new" not in seen


def test_a_recent_key_costs_no_lookup() -> None:
    seen = SeenSet(1_000, 10, yes)
    seen.add(b"a")

    assert b"a" in seen
    assert seen.confirms == 0


def test_a_false_positive_costs_one_lookup_and_is_counted() -> None:
    known = {b"%d" % n for n in range(5_000)}
    seen = SeenSet(100, 1, having(known))
    seen._filters[0] = type(seen._filters[0])(1, 0.5, _number)  # a filter far too small
    for n in range(100):
        seen._filters[0].add(digest_of(b"%d" % n))

    strangers = [b"stranger %d" % n for n in range(100)]

    assert not any(key in seen for key in strangers)
    assert seen.false_positives == seen.confirms > 0


def test_ablation_without_the_confirm_a_small_filter_would_turn_pages_away() -> None:
    seen = SeenSet(100, 1, confirm=yes)  # takes the filter's word
    seen._filters[0] = type(seen._filters[0])(1, 0.5, _number)
    for n in range(100):
        seen._filters[0].add(digest_of(b"%d" % n))

    assert any(b"stranger %d" % n in seen for n in range(100))


def test_the_filter_rolls_onto_larger_ones_before_its_error_rate_leaves_budget() -> None:
    seen = SeenSet(50, 10, confirm=no)
    seen.add(*(b"key %d" % n for n in range(1_000)))

    assert len(seen._filters) > 1
    assert not any(seen.look([b"stranger %d" % n for n in range(20_000)]).known)
    assert seen.false_positives / 20_000 == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("capacity", [50, 500])
def test_the_measured_error_rate_stays_within_budget_over_all_generations(capacity: int) -> None:
    seen = SeenSet(capacity, 10, confirm=no)
    seen.add(*(b"key %d" % n for n in range(60_000)))
    assert not any(seen.look([b"stranger %d" % n for n in range(100_000)]).known)

    assert seen.generations > 4
    assert 0 < seen.false_positive_rate < 1.25 * FALSE_POSITIVES


def test_ablation_without_rolling_the_same_keys_break_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenSet(500, 10, confirm=no)
    seen._capacities[0] = 10**9  # it believes that there is room
    seen.add(*(b"key %d" % n for n in range(2_000)))
    assert not any(seen.look([b"stranger %d" % n for n in range(10_000)]).known)

    assert seen.generations == 1
    assert seen.false_positive_rate > 10 * FALSE_POSITIVES


def test_a_key_that_lost_its_slot_to_another_is_confirmed() -> None:
    keys = [b"key %d" % n for n in range(100)]
    seen = SeenSet(1_000, 16, confirm=yes)
    for key in keys:
        seen.add(key)

    assert all(key in seen for key in keys)
    assert seen.confirms >= 84


def test_keys_of_all_generations_are_still_seen() -> None:
    keys = [b"key %d" % n for n in range(500)]
    seen = SeenSet(10, 3, confirm=yes)
    for key in keys:
        seen.add(key)

    assert all(key in seen for key in keys)
