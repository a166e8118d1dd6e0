"""What is promised of a declared type holds for the pages that a cell reads it from."""

from pathlib import Path

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import HostRule, Promises, Settings
from tests.fleet.worker_cell import Answer, Request, virtual_cell

NEWS = b'<script type="application/ld+json">{"@type": "NewsArticle"}</script><p>Something has happened today.</p>'


def script(request: Request) -> Answer:
    if request.url.endswith("/robots.txt"):
        return Answer(404)
    body = NEWS if request.url.endswith("/0") else b"<p>Always the same.</p>"
    return Answer(headers={"content-type": "text/html"}, body=body)


async def test_a_page_that_declares_the_type_is_fetched_within_the_promise(tmp_path: Path) -> None:
    promises = Promises(types={"NewsArticle": 60.0, "Offer": 5.0})
    async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}, script, pages=2, promises=promises) as cell:
        await cell.run(10)
        await cell.made._bulk.close()
        again = await cell.run(60)

    assert [request.url for request in again] == ["https://a.test/0"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf")])
def test_a_promise_of_no_time_is_refused(tmp_path: Path, seconds: float) -> None:
    rule = HostRule("a.test", promises={"types": {"NewsArticle": seconds}})

    with pytest.raises(ConfigurationError, match=r"promises\.types\.NewsArticle"):
        Settings(str(tmp_path), hosts=(rule,)).with_rules([rule])
