import gzip
import time
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.settings import Frontier, TrapName
from crawl_platform.web import traps
from crawl_platform.web.traps import FILTERS, is_harmless, series_of, trap_reason
from tests.web.cases import shared_path

LIMITS = Frontier()
TRAPS = {
    "http://a.example/" + "x" * 2_100: "url-too-long",
    "http://a.example:25/": "bad-port",
    "https://[2001:db8::1]:6667/x": "bad-port",
    "http://a.example:0/": "bad-port",
    "http://a.example/list?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9": "too-many-parameters",
    "http://a.example/a/b/a/b/a/b/a/b/": "repeated-segments",
    "http://a.example/img/img/img/img/x.png": "repeated-segments",
    "http://a.example/calendar/2199/03": "calendar-run",
    "http://a.example/events?month=2099-03": "calendar-run",
    "http://a.example/agenda?date=17010203": "calendar-run",
    "http://a.example/session/0f1e2d3c4b5a69788796a5b4c3d2e1f0/cart": "session-segment",
    "http://a.example/sid=0f1e2d3c4b5a69788796a5b4c3d2e1f0/cart": "session-segment",
}
PAGES = [
    "http://a.example/",
    "http://a.example:8080/x:25/",
    "http://[2001:db8::25]/",
    "http://a.example/" + "x" * 2_000,
    "http://a.example/list?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8",
    "http://a.example/a/b/a/b/a/b/",
    "http://a.example/calendar/2031/03",
    "http://a.example/archive/1987/12/24/",
    "http://a.example/product/9999/12",
    "http://a.example/events/12345678",
    "http://a.example/blob/0f1e2d3c4b5a69788796a5b4c3d2e1f0/readme",
    "http://a.example/internationalization-of-things/x",
]


@pytest.mark.parametrize(("url", "reason"), TRAPS.items(), ids=lambda value: str(value)[:60])
def test_traps_are_named(url: str, reason: str) -> None:
    assert trap_reason(url, LIMITS) == reason


@pytest.mark.parametrize("url", PAGES, ids=lambda url: str(url)[:60])
def test_ordinary_pages_are_no_traps(url: str) -> None:
    assert trap_reason(url, LIMITS) is None


def test_limits_come_from_the_settings() -> None:
    assert trap_reason("http://a.example/a?b=1&c=2", Frontier(max_parameters=1)) == "too-many-parameters"
    assert trap_reason("http://a.example/abc", Frontier(max_url_length=10)) == "url-too-long"
    assert trap_reason("http://a.example/a/a", Frontier(max_repeated_segments=1)) == "repeated-segments"


def test_every_name_in_the_settings_is_a_filters() -> None:
    counted = {series.name for url in ("http://a.example/2024/03?a=1",) for series in series_of(url, LIMITS)}

    assert {filter_.name for filter_ in FILTERS} | counted == set(get_args(TrapName))


def test_a_filter_that_is_off_does_not_hide_another() -> None:
    url = "http://a.example:25/a/a/a/a/a"

    assert trap_reason(url, LIMITS) == "bad-port"
    assert trap_reason(url, LIMITS, ("bad-port",)) == "repeated-segments"
    assert trap_reason(url, LIMITS, ("bad-port", "repeated-segments")) is None


CALENDARS = [
    "/2024/03",
    "/2024/03/",
    "/2024/3/7",
    "/events/2031-03-31/",
    "/events/2031/march/",
    "/calendar/2024/03/12/day",
    "/cal?month=2024-03",
    "/cal?date=20240312&view=day",
    "/cal?year=2024&month=3",
    "/cal?month=mar&x=1&year=2024",
]
NO_CALENDARS = [
    "/2024/03/12/a-story",
    "/2024/03/report.html",
    "/list?start=40",
    "/list?from=2024",
    "/p?year=2024",
    "/1234/05",
    "/rfc/2119/3",
    "/search?q=2024-03-12",
    "/v/2024/",
    "/2024/13/",
]


@pytest.mark.parametrize("path", CALENDARS)
def test_a_position_in_a_calendar_belongs_to_the_series_of_that_calendar(path: str) -> None:
    assert "endless-calendar" in {series.name for series in series_of(f"http://a.example{path}", LIMITS)}


@pytest.mark.parametrize("path", NO_CALENDARS)
def test_what_only_holds_a_date_is_no_position_in_a_calendar(path: str) -> None:
    assert "endless-calendar" not in {series.name for series in series_of(f"http://a.example{path}", LIMITS)}


def test_all_positions_of_one_calendar_are_one_series() -> None:
    def key(path: str) -> str:
        return next(
            s.key for s in series_of(f"http://a.example{path}", LIMITS) if s.name == "endless-calendar"
        )

    assert key("/events/2024/03/") == key("/events/1999/12/") != key("/talks/2024/03/")
    assert key("/events/2031/march/") == key("/events/1999/may/")
    assert key("/cal?year=2024&month=3") == key("/cal?year=1999&month=12")


SITES = (
    "apache2-doc",
    "debian-handbook",
    "postgresql-doc-15",
    "python-django-doc",
    "python3.11-doc",
    "r-doc-html",
)


@pytest.mark.parametrize("site", SITES)
def test_no_page_of_a_real_manual_is_taken_for_a_trap(site: str) -> None:
    with gzip.open(shared_path(f"docs_sites/{site}.shared.edges.tsv.gz"), "rt") as lines:
        urls = {
            f"https://docs.example/{site}/{end}"
            for line in lines
            for end in line.rstrip("\n").split("\t")[:2]
        }
    counts = Counter((s.name, s.key, s.most) for url in urls for s in series_of(url, LIMITS))

    assert urls
    assert {url: reason for url in urls if (reason := trap_reason(url, LIMITS))} == {}
    assert [series for series, count in counts.items() if count > series[2]] == []


HOSTILE = [
    "a/",
    "a=1&",
    "x&year=2024&",
    "/2024",
    "session/",
    "?month=1&",
    "1999&month",
    "/s/",
    "/1900/jan",
    "/s/a1",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_for_a_look_grows_with_the_length_and_no_faster(piece: str) -> None:
    limits = Frontier(max_url_length=1_000_000, max_parameters=1_000_000, max_repeated_segments=1_000_000)

    def seconds(size: int) -> float:
        url = f"http://a.example/?{piece * (size // len(piece))}"
        begun = time.process_time()
        for one in (url, url.replace("?", "")):
            trap_reason(one, limits)
            list(series_of(one, limits))
        return time.process_time() - begun

    assert min(seconds(100_000) for _ in range(3)) < 40 * min(seconds(10_000) for _ in range(5)) + 0.002


@pytest.mark.parametrize("name", [filter_.name for filter_ in FILTERS])
def test_every_filter_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traps, "FILTERS", tuple(filter_ for filter_ in FILTERS if filter_.name != name))

    assert any(trap_reason(url, LIMITS) != reason for url, reason in TRAPS.items())


@given(
    st.lists(
        st.sampled_from(
            ["a", "s", "session", "2024", "05", "17", "12345", "x=2024", "b=2024-05", "k" * 30, "7a" * 14]
        ),
        max_size=9,
    ),
    st.sampled_from(["", ":81", ":6000"]),
    st.sampled_from(["", "?year=2024&month=5", "?a=1"]),
)
def test_what_cheap_looks_take_for_harmless_is_no_trap_and_of_no_series(
    segments: list[str], port: str, query: str
) -> None:
    url = f"http://a.example{port}/{'/'.join(segments)}{query}"

    if is_harmless(url, LIMITS):
        assert trap_reason(url, LIMITS) is None
        assert list(series_of(url, LIMITS)) == []


def test_most_pages_are_harmless_at_a_cheap_look() -> None:
    assert is_harmless("http://a.example/news/what-happened-on-day-1700-of-the-story-900.html", LIMITS)
