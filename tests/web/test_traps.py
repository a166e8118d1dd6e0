import pytest

from crawl_platform.settings import Frontier
from crawl_platform.web import traps
from crawl_platform.web.traps import FILTERS, trap_reason

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


@pytest.mark.parametrize("name", [filter_.name for filter_ in FILTERS])
def test_every_filter_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traps, "FILTERS", tuple(filter_ for filter_ in FILTERS if filter_.name != name))

    assert any(trap_reason(url, LIMITS) != reason for url, reason in TRAPS.items())
