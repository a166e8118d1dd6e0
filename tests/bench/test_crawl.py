"""`bench.crawl` on a small scale: every contender runs, and what it says holds together."""

import gzip
import itertools
import json
import subprocess
import sys
from typing import Any

import pytest

from bench.crawl import ratios
from bench.throughput.pages import FEW, LINKS, Pages, host_name, host_number, page_of, path_of
from crawl_platform.digest import digest
from crawl_platform.web.url import canonicalize


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(140_000, hosts=300, port=8443)


def links_of(pages: Pages, host: int, page: int) -> list[str]:
    url = f"https://{host_name(host)}:8443{path_of(page)}"
    found = digest(gzip.decompress(pages.body(host, page)), url, "text/html; charset=utf-8")
    return [link.url for link in found.links]


@pytest.mark.long
def test_a_page_is_as_large_as_it_is_asked_to_be_and_its_gzip_file_is_sound(pages: Pages) -> None:
    body = gzip.decompress(pages.body(7, 12))

    assert body == pages.plain(7, 12)
    assert len(body) == pytest.approx(140_000, rel=0.05)


def test_bodies_differ_and_more_than_a_tenth_of_the_links_are_new(pages: Pages) -> None:
    bodies = {pages.body(host, page) for host, page in itertools.product(range(4), range(40))}
    seen: set[str] = set()
    new = total = 0
    for page in range(40):
        links = links_of(pages, 0, page)
        own = {canonicalize(link) or "" for link in links if host_name(0) in link}
        new, total = new + (len(own - seen) if page > 2 else 0), total + len(links) * (page > 2)
        seen |= own

    assert len(bodies) == 160
    assert len(links_of(pages, 0, 9)) == LINKS
    assert new / total > 0.1


def test_every_path_leads_back_to_its_page() -> None:
    assert [page_of(path_of(page)) for page in (0, 1, 19, 20, 12_345)] == [0, 1, 19, 20, 12_345]
    assert [page_of(path) for path in ("/robots.txt", "/section-1/article-2.html", "/article-x.html")] == [
        None
    ] * 3
    assert host_number(f"{host_name(2_999)}:8443") == 2_999
    assert {FEW * 1 + 1 + n for n in range(FEW)}.isdisjoint({FEW * 2 + 1 + n for n in range(FEW)})


def test_ratios_are_of_pages_per_cpu_second_and_links_only_leaves_out_what_the_digest_adds() -> None:
    runs = {"cell": 250.0, "bare": 500.0, "bare_digest": 400.0, "scrapy": 50.0}
    found = {name: [{"pages_per_cpu_second": score}] for name, score in runs.items()}

    told = ratios(found)

    assert (told["to_bare"], told["to_bare_digest"], told["to_scrapy"]) == (0.5, 0.625, 5.0)
    # 4 ms a page, of which the digest adds 2.5 - 2: 3.5 ms beside 2 ms.
    assert told["to_bare_links_only"] == pytest.approx(2 / 3.5, abs=1e-3)


@pytest.mark.long
def test_all_contenders_run_and_every_page_served_to_the_cell_can_be_read() -> None:
    command = [sys.executable, "-m", "bench.crawl", "--json", "--hosts", "40", "--scrapy-hosts", "20"]
    output = subprocess.run([*command, "--seconds", "4"], capture_output=True, check=True, timeout=280).stdout
    told: dict[str, Any] = json.loads(output)

    assert set(told["contenders"]) == {"bare", "bare_tuned", "bare_digest", "scrapy", "cell"}
    assert set(told["lines"]) <= set(told["ratios"])
    for name, (run,) in told["contenders"].items():
        assert run["pages"] > 0, name
        assert run["repeated_pages"] == 0, name
        assert run["server_busy"] < 0.7, name
    (cell,) = told["contenders"]["cell"]
    assert cell["readable"]["pages"] == cell["pages_served"]
    assert cell["politeness"]["overlaps"] == cell["politeness"]["short_gaps"] == 0
    assert sum(cell["cpu_share_by_stage"].values()) == pytest.approx(1.0, abs=0.01)
    assert {"nats", "committer"} <= set(cell["cpu_per_1000_pages_of"])
