"""Robots verdicts per origin: what is known, what has expired, what could not be had."""

import pytest

from crawl_platform.admission.robots import RobotsCache, Verdict
from crawl_platform.settings import Politeness

ORIGIN = "https://a.test"
RULES = b"user-agent: *\ndisallow: /private\ncrawl-delay: 12\nsitemap: https://a.test/map.xml\n"


def cache(size: int = 10) -> RobotsCache:
    return RobotsCache("tester", Politeness(crawl_delay_cap=60.0), size)


@pytest.mark.parametrize(
    ("rule", "path", "verdict"),
    [
        ("allow_all", "/private/1", Verdict.ALLOWED),
        ("rules", "/public", Verdict.ALLOWED),
        ("rules", "/private/1", Verdict.DENIED),
        ("disallow_all", "/public", Verdict.UNREACHABLE),
    ],
)
def test_verdicts(rule: str, path: str, verdict: Verdict) -> None:
    robots = cache()
    robots.store(ORIGIN, rule, RULES, 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + path, 100.0)[0] is verdict


def test_an_unknown_origin_has_to_be_asked_first_and_so_has_each_port_of_a_host() -> None:
    robots = cache()
    robots.store(ORIGIN, "allow_all", b"", 200.0)

    assert robots.verdict("https://a.test:8443", "https://a.test:8443/", 100.0)[0] is Verdict.FETCH_FIRST
    assert robots.verdict("http://a.test", "http://a.test/", 100.0)[0] is Verdict.FETCH_FIRST


@pytest.mark.parametrize("rule", ["allow_all", "rules", "disallow_all"])
def test_every_answer_expires(rule: str) -> None:
    robots = cache()
    robots.store(ORIGIN, rule, RULES, 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + "/public", 199.9)[0] is not Verdict.FETCH_FIRST
    assert robots.verdict(ORIGIN, ORIGIN + "/public", 200.0)[0] is Verdict.FETCH_FIRST


def test_an_unreachable_robots_says_when_to_try_again() -> None:
    robots = cache()
    robots.store(ORIGIN, "disallow_all", b"", 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0) == (Verdict.UNREACHABLE, 200.0)


def test_a_file_that_disallows_everything_denies_and_does_not_wait() -> None:
    robots = cache()
    robots.store(ORIGIN, "rules", b"user-agent: *\ndisallow: /", 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0)[0] is Verdict.DENIED


def test_the_crawl_delay_for_us_is_told_and_capped() -> None:
    robots = cache()

    assert robots.store(ORIGIN, "rules", RULES, 200.0) == 12.0
    assert robots.store(ORIGIN, "rules", b"user-agent: *\ncrawl-delay: 9999", 200.0) == 60.0
    assert (
        robots.store(ORIGIN, "rules", b"user-agent: tester\ncrawl-delay: 3\ndisallow: /x\n" + RULES, 200.0)
        == 3.0
    )
    assert robots.store(ORIGIN, "allow_all", b"", 200.0) == 0.0


def test_the_crawl_delay_is_the_longest_of_the_hosts_origins() -> None:
    robots = cache()
    robots.store(ORIGIN, "rules", RULES, 200.0)

    assert robots.store("http://a.test", "allow_all", b"", 200.0) == 12.0
    assert robots.store("http://b.test", "allow_all", b"", 200.0) == 0.0
    assert robots.store(ORIGIN, "allow_all", b"", 200.0) == 0.0


def test_the_cache_is_bounded_and_what_fell_out_is_asked_again() -> None:
    robots = cache(size=3)
    for n in range(5):
        robots.store(f"https://h{n}.test", "allow_all", b"", 200.0)

    verdicts = [robots.verdict(f"https://h{n}.test", f"https://h{n}.test/", 100.0)[0] for n in range(5)]
    assert verdicts == [Verdict.FETCH_FIRST] * 2 + [Verdict.ALLOWED] * 3
