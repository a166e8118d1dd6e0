"""Robots verdicts of the synthetic web, and that its text says what they mean."""

from urllib.robotparser import RobotFileParser

import pytest

from crawl_platform.simulation.robots import Group, Robots
from crawl_platform.simulation.web import SyntheticWeb
from crawl_platform.web.robots import parse

WEB = SyntheticWeb(1, 1_800_000_000.0, scale=0.2)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://restricted-1.test/", True),
        ("http://restricted-1.test/links", False),
        ("http://restricted-1.test/some-topic/4.html", False),
        ("http://restricted-1.test/some-topic/4.html?x=1", True),
        ("http://restricted-1.test/some-topic/3.html", True),
        ("http://restricted-1.test/some-topic/3.html?x=1", False),
        ("http://shop-1.test/category/1?color=red", True),
        ("http://shop-1.test/category/1?color=red&sort=name", False),
        ("http://wiki-1.test/w/index.php?title=3&action=history&rev=1", False),
        ("http://norobots-1.test/links", True),
        ("http://robots5xx-1.test/", False),
        ("http://robots5xx-1.test/robots.txt", True),
        ("http://dead-1.test/", False),
    ],
)
def test_verdicts(url: str, allowed: bool) -> None:
    assert WEB.allowed(url, "crawl-platform/0.1") is allowed


def test_a_named_group_replaces_the_general_one() -> None:
    assert not WEB.allowed("http://restricted-1.test/", "BadBot/2.0")


def test_crawl_delay_is_on_the_host() -> None:
    assert WEB.hosts["restricted-1.test"].crawl_delay == 2.0
    assert WEB.hosts["manual-1.test"].crawl_delay is None


def test_the_text_means_the_same_to_a_parser_of_others() -> None:
    robots = Robots((Group(("nosy",), ("/",)), Group(("*",), ("/private", "/tmp/"), crawl_delay=3.0)))
    parser = RobotFileParser()
    parser.parse(robots.text("http://x.test/sitemap.xml").splitlines())

    for agent in ("nosy", "kind"):
        for path in ("/", "/private/x", "/tmp", "/tmp/a"):
            assert parser.can_fetch(agent, path) == robots.allows(path, agent)
    assert parser.crawl_delay("kind") == 3.0


def test_the_crawlers_own_parser_reaches_the_same_verdicts_as_the_web() -> None:
    judged = 0
    for host in WEB.hosts.values():
        rules = parse(host.robots.text(host.url("/sitemap.xml")).encode())
        assert rules.crawl_delay("crawl-platform") == host.crawl_delay
        for link in (x for u in WEB.urls(host.name)[:20] for x in WEB.links(u, 1_800_000_000.0)):
            if host.robots.status == 200 and host.reachable and link.url.startswith(host.root):
                for agent in ("crawl-platform/0.1 (+https://example.test)", "badbot"):
                    assert rules.allows(link.url, agent) == WEB.allowed(link.url, agent), link.url
                judged += 1

    assert judged > 3_000
