"""What robots.txt says about uses, before a page is fetched."""

import math

import pytest

from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.wishes import Wishes
from crawl_platform.settings import Citizenship, HostRule, Politeness, Settings

STOP = Citizenship(on_refusal="stop")


def refused(
    robots: str,
    citizenship: Citizenship,
    url: str = "https://a.test/page",
    *rules: HostRule,
    agent: str = "bot",
) -> bool:
    cache = RobotsCache("bot", Politeness())
    cache.store("https://a.test", "rules", robots.encode(), math.inf)
    settings = Settings(home="x", citizenship=citizenship, hosts=rules)
    return Wishes(cache, HostRules(settings)).refuses("a.test", url, agent)


@pytest.mark.parametrize(
    ("robots", "citizenship", "stays_away"),
    [
        ("user-agent: *\nContent-Signal: search=no\n", STOP, True),
        ("user-agent: *\nContent-Signal: search=no\n", Citizenship(), False),
        ("user-agent: *\nContent-Signal: ai-train=no\n", STOP, False),
        (
            "user-agent: *\nContent-Signal: ai-train=no\n",
            Citizenship(("ai-train",), "stop"),
            True,
        ),
        ("user-agent: other\nContent-Signal: search=no\n", STOP, False),
        ("user-agent: *\nallow: /\n", Citizenship(on_refusal="stop", silence="refuse"), False),
        (
            "user-agent: *\nContent-Signal: search=no\n",
            Citizenship(on_refusal="stop", agreed=("search",)),
            False,
        ),
    ],
)
def test_a_page_that_its_robots_txt_does_not_want_used_is_not_fetched_where_that_is_the_policy(
    robots: str, citizenship: Citizenship, stays_away: bool
) -> None:
    assert refused(robots, citizenship) is stays_away


def test_the_policy_may_be_one_hosts() -> None:
    rule = HostRule("a.test", citizenship={"on_refusal": "stop"})

    assert refused("user-agent: *\nContent-Signal: search=no\n", Citizenship(), "https://a.test/", rule)


def test_an_origin_whose_robots_txt_is_unknown_has_said_nothing() -> None:
    assert refused("user-agent: *\nContent-Signal: search=no\n", STOP, "https://a.test:8443/") is False


def test_what_is_said_to_the_name_that_would_come_counts() -> None:
    robots = "user-agent: partner\nContent-Signal: search=no\n\nuser-agent: *\nContent-Signal: search=yes\n"

    assert refused(robots, STOP, agent="partner")
    assert not refused(robots, STOP, agent="bot")
