"""Traps that show by their number: parameter explosions and calendars without end, counted per host."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier import series
from crawl_platform.frontier.records import HostRecord, encode
from crawl_platform.frontier.series import KEPT, Counts, counted, overlong
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.traps import Series, series_of
from tests.frontier.scenes import A, url

SMALL = FrontierSettings(max_parameter_variants=400, max_calendar_pages=30, bloom_capacity=10_000)


def chain(months: int) -> list[str]:
    """A calendar with a link to the next month, from 1990 on."""
    return [url(f"events/{1990 + n // 12}/{n % 12 + 1:02}/") for n in range(months)]


def test_a_path_whose_parameters_combine_without_end_is_stopped() -> None:
    rig = FrontierRig(A, settings=SMALL)
    combinations = [
        url(f"shop?colour={a}&size={b}&sort={c}") for a in range(10) for b in range(10) for c in range(10)
    ]

    plan = rig.discover(*combinations)

    assert plan.new_urls == 100
    assert plan.turned_away == {"parameter-explosion": 900}
    assert rig.discover(url("shop"), url("other?colour=1&size=2&sort=3")).new_urls == 2


def test_one_parameter_may_have_many_values_and_further_ones_take_three_quarters_each() -> None:
    limits = FrontierSettings()

    def most(query: str) -> int:
        return next(series_of(url(f"p?{query}"), limits)).most

    assert [most("a"), most("a=1&b=2"), most("a&b&c"), most("a&a&a"), most("a&b&c&d&e&f&g")] == [
        20_000,
        5_000,
        1_250,
        20_000,
        100,
    ]


def test_a_calendar_that_goes_on_for_ever_in_plausible_years_is_stopped() -> None:
    rig = FrontierRig(A, settings=SMALL)

    plan = rig.discover(*chain(100))

    assert (plan.new_urls, plan.turned_away) == (30, {"endless-calendar": 70})


def test_articles_below_a_date_are_no_calendar() -> None:
    rig = FrontierRig(A, settings=SMALL)

    assert (
        rig.discover(*(url(f"2019/03/{day:02}/story-{n}") for day in range(1, 29) for n in range(5))).new_urls
        == 140
    )


def test_the_count_outlives_a_restart() -> None:
    rig = FrontierRig(A, settings=SMALL)
    rig.discover(*chain(30))

    rig.restart()

    assert rig.discover(*chain(60)).turned_away == {"seen": 30, "endless-calendar": 30}


def test_filters_are_switched_off_and_limits_set_for_one_host() -> None:
    off = HostRule(A, urls={"traps_off": ["endless-calendar", "too-many-parameters"]})
    wide = HostRule(A, frontier={"max_parameter_variants": 8_000})
    many = [url(f"q?a={a}&b={b}") for a in range(30) for b in range(30)]

    rig = FrontierRig(A, settings=SMALL, host_rules=(off, wide))

    assert rig.discover(*chain(100), url("p?" + "&".join(f"k{n}=1" for n in range(20)))).new_urls == 101
    assert rig.discover(*many).new_urls == 900
    assert FrontierRig(A, settings=SMALL).discover(*many).new_urls == 100


def test_what_was_turned_away_is_counted_by_reason_in_the_hosts_record() -> None:
    rig = FrontierRig(A, settings=SMALL)

    first = rig.discover(*chain(40), url("a/a/a/a/a/a"))
    second = rig.discover(*chain(40))

    assert rig.frontier.hosts[A].record.turned_away == {"endless-calendar": 20, "repeated-segments": 1}
    assert [(host, reason) for host, reason, _ in first.first_traps] == [
        (A, "endless-calendar"),
        (A, "repeated-segments"),
    ]
    assert second.first_traps == []


def test_ablation_without_counting_a_calendar_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "overlong", lambda counts, of: None)

    assert FrontierRig(A, settings=SMALL).discover(*chain(300)).new_urls == 300


NAMES = st.lists(st.integers(0, 300).map(lambda n: f"s{min(n, 150)}"), max_size=600)


@given(NAMES)
@settings(max_examples=30, deadline=None)
def test_no_count_is_too_high_or_far_too_low_and_there_are_few(names: list[str]) -> None:
    counts: Counts = {}
    for name in names:
        counts = counted(counts, [Series("endless-calendar", name, 9)])

    assert len(counts) <= KEPT
    for name, truth in Counter(names).items():
        known = counts.get(series._key(Series("endless-calendar", name, 9)), 0)
        assert truth - len(names) / (KEPT + 1) <= known <= truth


def test_a_host_with_series_without_end_is_counted_in_a_small_record() -> None:
    counts: Counts = {}
    for n in range(5_000):
        counts = counted(counts, [Series("parameter-explosion", f"/{n}", 9)])

    assert len(encode(HostRecord(series=counts))) < 1_000
    assert overlong(counts, [Series("parameter-explosion", "/x", 9)]) is None
