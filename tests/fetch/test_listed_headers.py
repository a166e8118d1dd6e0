"""Headers that come several times, where the lines between them mean something."""

from crawl_platform.fetch.client import HttpClient
from crawl_platform.web.preferences import content_usage
from crawl_platform.web.signals import x_robots_tag
from tests.fetch.asking import get
from tests.fetch.servers import answers, reply, serving


async def test_an_agent_named_in_one_x_robots_tag_is_not_meant_by_the_next(client: HttpClient) -> None:
    tags = ("X-Robots-Tag: otherbot: noindex", "X-Robots-Tag: noai, noarchive")
    async with serving(answers(reply("200 OK", b"hello", *tags))) as server:
        response = await get(client, server.url())

    assert x_robots_tag(response.header("x-robots-tag"), "tester") == {"noai", "noarchive"}


async def test_a_dictionary_may_come_in_pieces(client: HttpClient) -> None:
    pieces = ("Content-Usage: train-ai=n", "Content-Usage: search=y")
    async with serving(answers(reply("200 OK", b"hello", *pieces))) as server:
        response = await get(client, server.url())

    assert content_usage(response.header("content-usage")) == {"ai-train": False, "search": True}
