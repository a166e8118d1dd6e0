"""What robots.txt says about uses, before a page is fetched."""

import math

import pytest

from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.wishes import Wishes
from crawl_platform.settings import Citizenship, HostRule, Politeness, Settings

STOP = Citizenship(on_refusal="stop")


def refusal(robots: str, citizenship: Citizenship, url: str = "https://a.test/page", *rules: HostRule) -> str:
    cache = RobotsCache("bot", Politeness())
    cache.store("https://a.test", "rules", robots.encode(), math.inf)
    settings = Settings(home="x", citizenship=citizenship, hosts=rules)
    return Wishes(cache, HostRules(settings), "bot").refuses("a.test", url)


@pytest.mark.parametrize(
    ("robots", "citizenship", "refused"),
    [
        ("user-agent: *\nContent-Signal: search=no\n", STOP, "use refused: search"),
        ("user-agent: *\nContent-Signal: search=no\n", Citizenship(), ""),
        ("user-agent: *\nContent-Signal: ai-train=no\n", STOP, ""),
        (
            "user-agent: *\nContent-Signal: ai-train=no\n",
            Citizenship(("ai-train",), "stop"),
            "use refused: ai-train",
        ),
        ("user-agent: other\nContent-Signal: search=no\n", STOP, ""),
        ("user-agent: *\nallow: /\n", Citizenship(on_refusal="stop", silence="refuse"), ""),
        (
            "user-agent: *\nContent-Signal: search=no\n",
            Citizenship(on_refusal="stop", agreed=("search",)),
            "",
        ),
    ],
)
def test_a_page_that_its_robots_txt_does_not_want_used_is_not_fetched_where_that_is_the_policy(
    robots: str, citizenship: Citizenship, refused: str
) -> None:
    assert refusal(robots, citizenship) == refused


def test_the_policy_may_be_one_hosts() -> None:
    rule = HostRule("a.test", citizenship={"on_refusal": "stop"})

    assert refusal("user-agent: *\nContent-Signal: search=no\n", Citizenship(), "https://a.test/", rule)


def test_an_origin_whose_robots_txt_is_unknown_has_said_nothing() -> None:
    assert refusal("user-agent: *\nContent-Signal: search=no\n", STOP, "https://a.test:8443/") == ""
