"""Which pages are watched for the links that they bring, and how often."""

import pytest

from crawl_platform.clock import DAY
from crawl_platform.scheduling import watching
from crawl_platform.scheduling.watching import Choice, Source, choose, least_interval


def source(name: str, rate: float, least: float = 60.0, told: float | None = None) -> Source:
    return Source(f"https://{name}", name.split("/")[0], rate, least, told)


def every(choices: dict[str, Choice]) -> dict[str, float | None]:
    return {url.removeprefix("https://"): choice.every for url, choice in choices.items()}


@pytest.mark.parametrize(
    ("rate", "least", "expected"),
    [(24.0, 60.0, 1_800.0), (1.0, 60.0, DAY / 2), (10_000.0, 60.0, 60.0), (10_000.0, 300.0, 300.0)],
)
def test_a_page_is_visited_twice_in_the_mean_time_between_new_links_but_not_too_often(rate, least, expected):
    assert every(choose([source("a/", rate, least)], 1e6)) == {"a/": expected}


def test_a_slow_hosts_watched_page_takes_a_tenth_of_its_turns_at_most():
    assert least_interval(60.0, delay=1.0) == 60.0
    assert least_interval(60.0, delay=30.0) == 300.0


def test_an_interval_that_is_nearly_right_is_left_as_it_is():
    near, far, too_short = (
        source("a/", 24.0, told=told) if told > 60 else source("a/", 9_999.0, told=told)
        for told in (1_700.0, 1_200.0, 50.0)
    )

    assert every(choose([near], 1e6)) == {"a/": 1_700.0}
    assert every(choose([far], 1e6)) == {"a/": 1_800.0}
    assert every(choose([too_short], 1e6)) == {"a/": 60.0}


def test_what_comes_less_than_once_a_day_is_left_to_ordinary_visits():
    (choice,) = choose([source("a/", 0.9)], 1e6).values()

    assert choice == (None, "not watched: less than 1 a day")


def test_of_one_host_the_two_pages_that_bring_most_are_watched():
    found = choose([source(f"a/{n}", 10.0 + n) for n in range(4)] + [source("b/", 5.0)], 1e6)

    assert {name for name, seconds in every(found).items() if seconds} == {"a/2", "a/3", "b/"}


def test_visits_take_a_twentieth_of_the_fleets_fetches_at_most():
    many = [source(f"h{n}/", 1_000.0 + n) for n in range(50)]

    found = every(choose(many, fetch_rate=2.0))
    watched = [seconds for seconds in found.values() if seconds]
    assert 0.09 < sum(1 / seconds for seconds in watched) <= 0.1
    assert found["h49/"] is not None, "those that bring most come first"
    assert every(choose(many, fetch_rate=0.0)) == dict.fromkeys(found), "nothing before the first report"


def test_ablation_without_bounds_one_host_and_all_fetches_go_to_watching(monkeypatch):
    many = [source(f"a/{n}", 1_000.0) for n in range(50)]
    monkeypatch.setattr(watching, "PER_HOST", 1_000)
    monkeypatch.setattr(watching, "SHARE", 1_000.0)

    assert all(every(choose(many, fetch_rate=0.1)).values())
