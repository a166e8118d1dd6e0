"""What a sitemap listed last time, in 12 bytes per location."""

from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.frontier.listing import SIZE, Listing

LISTS = st.dictionaries(st.text("abc", max_size=4), st.integers(0, 5), max_size=12)


def listing(dates: dict[str, int]) -> Listing:
    return Listing.of(list(dates), [float(date) for date in dates.values()])


@given(LISTS, LISTS)
def test_the_difference_is_that_of_the_lists(before: dict[str, int], now: dict[str, int]) -> None:
    found = listing(now).since(Listing.decode(listing(before).encode()))

    names = list(now)
    assert {names[place] for place in found.new} == now.keys() - before.keys()
    assert {names[place] for place in found.moved} == {
        name for name in now.keys() & before.keys() if now[name] > before[name]
    }
    assert found.gone == len(before.keys() - now.keys())


@given(LISTS)
def test_the_order_makes_no_difference(dates: dict[str, int]) -> None:
    turned = dict(reversed(dates.items()))

    assert listing(turned).digest() == listing(dates).digest()
    assert len(listing(dates).encode()) == SIZE * len(dates)


def test_of_a_location_that_is_listed_twice_the_first_counts() -> None:
    found = Listing.of(["a", "b", "a"], [3.0, 1.0, 9.0])

    assert len(found) == 2
    assert found.since(Listing.decode(None)).new == [0, 1]
    assert found.since(listing({"a": 3, "b": 1})) == ([], [], 0)


def test_before_anything_was_listed_all_is_new() -> None:
    assert listing({"a": 1}).since(Listing.decode(None)) == ([0], [], 0)
