"""Scrapy on the same pages: `python -m bench.throughput.scrapy_peer --hosts N --port P --delay S`. Until SIGTERM.

Robots on, one request per host at a time with a fixed delay, links by its own LinkExtractor, all of them followed that
lie on the hosts given. Memory queues and no pipeline: what is left is what a crawl needs at least.
"""

import argparse
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import dnscache

from bench.throughput.pages import host_address, host_name


class Pages(scrapy.Spider):
    name = "pages"

    def __init__(self, hosts: int, port: int, **options: Any) -> None:
        super().__init__(**options)
        self._hosts, self._port = hosts, port
        self.allowed_domains = [host_name(number) for number in range(hosts)]
        self._links = LinkExtractor()

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(self._hosts):
            yield scrapy.Request(f"https://{host_name(number)}:{self._port}/")

    def parse(self, response: Any) -> Iterator[scrapy.Request]:
        for link in self._links.extract_links(response):
            yield scrapy.Request(link.url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay", type=float, required=True)
    asked = parser.parse_args()
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "ROBOTSTXT_OBEY": True,
            "USER_AGENT": "bench (+crawler@example.org)",
            "DOWNLOAD_DELAY": asked.delay,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "CONCURRENT_REQUESTS": 256,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    for number in range(asked.hosts):
        dnscache[host_name(number)] = host_address(number)
    process.crawl(Pages, hosts=asked.hosts, port=asked.port)
    process.start()


if __name__ == "__main__":
    main()
