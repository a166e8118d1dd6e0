"""Robots verdicts per origin: what is known, what has expired, what could not be had."""

import tracemalloc

import pytest

from crawl_platform.admission.robots import GIVEN_UP, Known, RobotsCache, Verdict
from crawl_platform.admission.rules import HostRules
from crawl_platform.settings import HostRule, Politeness, Settings

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


def test_the_crawl_delay_is_the_longest_of_those_that_are_asked_of_any_of_our_names() -> None:
    """Whoever of the pool comes next, the host has one clock."""
    asked = b"user-agent: two\ncrawl-delay: 30\n\nuser-agent: three\ncrawl-delay: 7\n\nuser-agent: *\ncrawl-delay: 2\n"
    robots = RobotsCache("one", Politeness(), agents=("one", "two", "three"))
    again = RobotsCache("one", Politeness(), agents=("one", "two", "three"))
    again.note(ORIGIN, "rules", asked)

    assert robots.store(ORIGIN, "rules", asked, 200.0) == 30.0
    assert again.store("http://a.test", "allow_all", b"", 200.0) == 30.0
    assert RobotsCache("one", Politeness()).store(ORIGIN, "rules", asked, 200.0) == 2.0


def test_the_cache_is_bounded_and_what_fell_out_is_asked_again() -> None:
    robots = cache(size=3)
    for n in range(5):
        robots.store(f"https://h{n}.test", "allow_all", b"", 200.0)

    verdicts = [robots.verdict(f"https://h{n}.test", f"https://h{n}.test/", 100.0)[0] for n in range(5)]
    assert verdicts == [Verdict.FETCH_FIRST] * 2 + [Verdict.ALLOWED] * 3


def test_the_cache_is_bounded_in_bytes_as_well() -> None:
    robots = RobotsCache("tester", Politeness(robots_cache_bytes=2_000_000))
    big = b"user-agent: *\n" + b"".join(b"disallow: /part-%d\n" % number for number in range(2_000))
    for n in range(20):
        robots.store(f"https://h{n}.test", "rules", big, 200.0)

    kept = [n for n in range(20) if robots.verdict(f"https://h{n}.test", "/", 100.0)[0] is Verdict.ALLOWED]
    assert robots.bytes <= 2_000_000
    assert kept == [19] or kept == list(range(kept[0], 20)), "the last ones"
    assert len(kept) < 10


def test_the_size_of_a_file_in_memory_is_not_understated() -> None:
    body = b"user-agent: *\n" + b"".join(b"disallow: /part-%d/*.pdf$\n" % number for number in range(3_000))
    tracemalloc.start()
    robots = RobotsCache("tester", Politeness())
    robots.store(ORIGIN, "rules", body, 200.0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken / 2 < robots.bytes
    assert robots.bytes < taken * 5


def test_what_fell_out_is_read_from_where_it_was_written_down() -> None:
    robots = cache(size=2)
    written = {f"https://h{n}.test": Known("rules", RULES, 200.0) for n in range(9)}
    robots.recall = written.get

    verdicts = [robots.verdict(origin, origin + "/private/1", 100.0)[0] for origin in written]

    assert verdicts == [Verdict.DENIED] * 9
    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0)[0] is Verdict.FETCH_FIRST, "nothing is written of it"
    assert robots.verdict("https://h1.test", "https://h1.test/", 200.0)[0] is Verdict.FETCH_FIRST, "expired"


def test_those_that_are_asked_for_stay() -> None:
    robots = cache(size=2)
    for n in range(5):
        robots.store(f"https://h{n}.test", "allow_all", b"", 200.0)
        robots.verdict("https://h0.test", "https://h0.test/", 100.0)

    assert robots.verdict("https://h0.test", "https://h0.test/", 100.0)[0] is Verdict.ALLOWED


def test_what_was_given_up_says_so_until_it_is_tried_again() -> None:
    robots = cache()
    robots.store(ORIGIN, GIVEN_UP, b"", 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0) == (Verdict.GIVEN_UP, 200.0)
    assert robots.verdict(ORIGIN, ORIGIN + "/", 200.0)[0] is Verdict.FETCH_FIRST
    assert not robots.reachable("a.test")


def test_a_written_answer_tells_of_its_host_without_being_kept() -> None:
    robots = cache()
    robots.note(ORIGIN, "rules", RULES)

    assert robots.reachable("a.test")
    assert robots.bytes == 0
    assert robots.store("http://a.test", "allow_all", b"", 200.0) == 12.0, "its delay holds for the host"


def test_another_agent_has_its_own_verdict() -> None:
    robots = cache()
    robots.store(ORIGIN, "rules", b"user-agent: other\ndisallow: /\n", 200.0)

    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0)[0] is Verdict.ALLOWED
    assert robots.verdict(ORIGIN, ORIGIN + "/", 100.0, "other")[0] is Verdict.DENIED


def test_the_cap_of_the_crawl_delay_may_differ_from_host_to_host() -> None:
    rule = HostRule("b.test", politeness={"crawl_delay_cap": 5.0})
    rules = HostRules(Settings(home="", politeness=Politeness(crawl_delay_cap=60.0), hosts=(rule,)))
    robots = RobotsCache("tester", Politeness(), rules=rules)

    assert robots.store("https://b.test", "rules", RULES, 200.0) == 5.0
    assert robots.store(ORIGIN, "rules", b"user-agent: *\ncrawl-delay: 900\n", 200.0) == 60.0


def test_sitemaps_and_preferences_of_an_origin_can_be_asked_for() -> None:
    robots = cache()
    robots.store(ORIGIN, "rules", RULES, 200.0)
    known = robots.rules_of(ORIGIN)

    assert known is not None
    assert known.sitemaps == ["https://a.test/map.xml"]
    assert robots.rules_of("https://b.test") is None
